//! The tests of this room, as one program.

mod ends;
mod hostile;

use quincunx_lldp::{Lldp, Neighbour};
use quincunx_units::{Duration, Instant};
use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{LONGEST_FRAME, LldpFrame, LldpId};

const MACS: [MacAddress; 2] = [MacAddress([2; 6]), MacAddress([4; 6])];

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A machine with two ports, both up.
fn machine(name: &str) -> Lldp {
    let mut lldp = Lldp::new(name, &["eth1".into(), "eth2".into()]).expect("good names");
    (0..2).for_each(|port| lldp.set_up(at(0), port, true));
    lldp
}

/// Who is heard at a port, as `leaf1 eth1`.
fn heard(lldp: &Lldp, port: usize) -> Vec<String> {
    let plain = |text: &str| text.split(' ').next_back().unwrap_or_default().to_owned();
    let name = |neighbour: &Neighbour| format!("{} {}", plain(&neighbour.chassis), plain(&neighbour.port));
    lldp.ports()[port].neighbours().map(name).collect()
}

/// All that is due.
fn due(lldp: &mut Lldp, millis: u64) -> Vec<(usize, Vec<u8>)> {
    std::iter::from_fn(|| lldp.next_frame(at(millis), &MACS)).collect()
}

/// A frame that anybody may send.
fn frame(chassis: &str, port: &str, time_to_live: u16) -> Vec<u8> {
    let (chassis, port) = (LldpId::local(chassis), LldpId::interface(port));
    let frame = LldpFrame { chassis, port, time_to_live, system_name: b"" };
    let mut bytes = vec![0; LONGEST_FRAME];
    let length = frame.emit(MacAddress([8; 6]), &mut bytes);
    bytes.truncate(length);
    bytes
}
