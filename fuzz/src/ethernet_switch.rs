//! Frames at an AllReduce-Switch of four ports: no panic, invariants after each, at most one frame out of each port for every frame in,
//! none for aggregation back where it came from, and a right invariant CRC on every result.
//!
//! Hosts promise a switch to begin a group with a write, and to have no more messages under way than it has columns (rtl/allreduce_switch/README.md):
//! only where these do, a sum is of all that take part. Where they do not, a port may count twice.
//!
//! An event is five bytes: port and kind; rank; PSN, relative to where the port stands; message; what to spoil.

use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_netreduce::{
    EthernetDrop, EthernetHeader, EthernetSwitch, EthernetSwitchConfig, PortConfig, Shape, Way,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::netreduce::{LENGTH, NetReduceHeader, PAYLOAD};
use quincunx_wire::{EthernetRepr, Gid, MacAddress, Operation, Psn, QpNumber, Reth, RoceHeader, v1};
use std::collections::BTreeSet;

const PORTS: u16 = 4;

/// Counts what comes out.
#[derive(Default)]
struct Out {
    by_port: [usize; PORTS as usize],
    results: usize,
}

impl Sink<EthernetSwitch<Numbers>> for Out {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, EthernetHeader, Numbers>) {
        let mut bytes = vec![0; frame.header.frame_length(frame.payload.len())];
        frame.header.emit(frame.payload, &mut bytes);
        self.by_port[usize::from(port.0)] += 1;
        self.results += usize::from(v1::has_right_icrc(&bytes));
    }
    fn set_timer(&mut self, (): (), _: Duration) {}
    fn cancel_timer(&mut self, (): ()) {}
    fn emit(&mut self, event: std::convert::Infallible) {
        match event {}
    }
    fn drop_frame(&mut self, _: PortId, _: EthernetDrop) {}
}

/// What each port has begun since the registers were written.
#[derive(Clone, Default)]
struct Begun {
    connections: BTreeSet<QpNumber>,
    firsts: usize,
}

impl Begun {
    /// Whether no column was opened twice.
    fn is_as_promised(&self, shape: &Shape) -> bool {
        self.connections.len() <= 1 && self.firsts <= usize::from(shape.flows)
    }
}

const fn sum(data_type: DataType) -> Reduction {
    Reduction { op: ReduceOp::Sum, data_type }
}

/// Of the frames of a port, by rank.
fn queue_pair(rank: u8) -> QpNumber {
    QpNumber::new(0x20 + u32::from(rank & 0x80))
}

fn operation(kind: u8) -> Operation {
    match kind % 4 {
        0 => Operation::WriteFirst(Reth { virtual_address: 0, remote_key: 0, dma_length: 2048 }),
        1 => Operation::WriteMiddle,
        2 => Operation::WriteLast,
        _ => Operation::WriteLastImmediate(9),
    }
}

fn mac(rank: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, rank])
}

/// The frame of an event; `psn` is where its port stands.
fn frame(port: u8, event: [u8; 5], psn: u32) -> Vec<u8> {
    let [kind, rank, ahead, message, spoil] = event;
    let to = (port + 1 + rank % 3) % 4;
    let ip = |host| Gid::from([10, 0, 0, host]);
    let psn = Psn::new(psn).plus(u32::from(ahead)).minus(128);
    let header = RoceHeader::new(ip(port), ip(to), queue_pair(rank), psn, operation(kind >> 2));
    let mut payload = vec![port; PAYLOAD];
    if matches!(header.operation, Operation::WriteFirst(_)) {
        let header = NetReduceHeader {
            message: message.into(),
            rank: port.into(),
            frames: 2,
            elements: 507,
            collective: 0,
        };
        payload[..LENGTH].copy_from_slice(&header.to_bytes());
    }
    let addresses = EthernetRepr { destination: mac(to), source: mac(port) };
    let mut bytes = vec![0; v1::frame_length(&header.operation, payload.len())];
    v1::emit_frame(&addresses, &header, &payload, &mut bytes);
    match spoil % 16 {
        1 => bytes[usize::from(spoil) * 4] ^= 1,
        2 => bytes.truncate(14 + usize::from(spoil)),
        3 => bytes[15..18].fill(0),
        _ => {}
    }
    bytes
}

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let shape = Shape::of_ports(PORTS);
    let config = EthernetSwitchConfig { shape, reduction: sum(DataType::I32), ports: PortConfig::all(PORTS) };
    let mut switch = EthernetSwitch::<Numbers>::new(config).expect("a switch of four ports");
    let mut psns = [0xff_fff0_u32; PORTS as usize];
    let mut now_in_part = PortConfig::all(PORTS);
    let mut begun: [Begun; PORTS as usize] = Default::default();
    for event in bytes.chunks_exact(5) {
        let event: [u8; 5] = event.try_into().expect("five bytes");
        let port = event[0] % 4;
        if event[4] == 0xff {
            // A register is written; what makes no sense is refused.
            let value = u32::from(event[1]) << 27 | u32::from(event[2]);
            if let Ok(ports) = PortConfig::from_bits(value, PORTS) {
                let data_type = if event[3] & 1 == 1 { DataType::F32 } else { DataType::I32 };
                let Ok(()) =
                    switch.handle_command(Instant::ZERO, (ports, sum(data_type)), &mut Out::default());
                now_in_part = ports;
                begun = Default::default();
            }
            continue;
        }
        if matches!(operation(event[0] >> 2), Operation::WriteFirst(_)) {
            let port = &mut begun[usize::from(port)];
            port.connections.insert(queue_pair(event[1]));
            port.firsts += 1;
        }
        let bytes = frame(port, event, psns[usize::from(port)]);
        if event[2] == 128 {
            psns[usize::from(port)] += 1;
        }
        let Some((header, range)) = EthernetHeader::parse(&bytes, PAYLOAD) else { continue };
        let payload = Numbers::from(bytes[range].to_vec());
        let view = payload.view(0..payload.length());
        let mut out = Out::default();
        let way = switch.way(port.into(), &header);
        switch.handle_frame(
            Instant::ZERO,
            PortId(port.into()),
            Frame { header: &header, payload: view },
            &mut out,
        );
        switch.assert_invariants();
        let frames: usize = out.by_port.iter().sum();
        assert!(frames <= usize::from(PORTS), "{frames} frames for one");
        let number = usize::from(now_in_part.number());
        let is_flood = way == Way::Flooded && frames == usize::from(PORTS) - 1;
        assert!(frames <= number || is_flood, "{frames} frames, and {number} take part");
        if frames > 1 && out.results == frames && begun.iter().all(|port| port.is_as_promised(&shape)) {
            assert!(frames == number || is_flood, "a sum for all that take part, or a flood");
        }
    }
}
