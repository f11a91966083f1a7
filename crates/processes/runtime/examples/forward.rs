//! A switch that takes part in nothing: the one between hosts that EPIC's collectives are held beside (EPIC J.1). With `--icrc` it computes the
//! invariant CRC of each RoCE frame anew and writes it, as a switch must that has changed a header, so that what the CRC costs can be told from
//! what adding up costs.
//!
//!     forward [--icrc] INTERFACE INTERFACE...
//!
//! It passes on what is for somebody behind another of the interfaces, which it learns from frames, and leaves the rest to others. It needs
//! root, and ends when its standard input does: then it says what it has passed on, in a line of JSON. `tools/rxe-guest/forward.sh` puts it
//! between guests.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
};
use quincunx_wire::ip::IpRepr;
use quincunx_wire::ipv4::{self, Ipv4Repr, Ipv4View};
use quincunx_wire::udp::{self, UdpRepr, UdpView};
use quincunx_wire::{bth, ethernet, icrc};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::ExitCode;

/// Room for a frame of 9000 bytes.
const ROOM: usize = 9216;

/// What may wait for this program, by interface.
const QUEUE: usize = 8 << 20;

/// Frames of one interface before the next has its turn.
const BATCH: usize = 32;

type Fault = Box<dyn Error>;

/// What has passed.
#[derive(Default)]
struct Counts {
    frames: u64,
    /// RoCE frames whose CRC was computed, and those of them that had another before.
    computed: u64,
    wrong: u64,
    /// Frames that an interface did not take.
    lost: u64,
}

/// A socket that has all frames of one interface, and sends by it.
fn open(interface: &str) -> Result<OwnedFd, Fault> {
    let found = nix::ifaddrs::getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address.and_then(|address| address.as_link_addr().copied()));
    let address =
        found.ok_or_else(|| format!("expected an interface {interface}, found none; see `ip link`"))?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    bind(socket.as_raw_fd(), &address)?;
    setsockopt(&socket, RcvBufForce, &QUEUE)?;
    Ok(socket)
}

/// Writes the invariant CRC of a RoCE frame over IPv4; whether it is one, and whether it had that CRC.
fn renew(frame: &mut [u8]) -> Option<bool> {
    let (head, ip) = frame.split_at_checked(ethernet::LENGTH)?;
    if head[12..14] != ethernet::ETHERTYPE_IPV4.to_be_bytes() {
        return None;
    }
    let (view, datagram) = Ipv4View::split(ip).ok()?;
    if view.protocol() != ipv4::PROTOCOL_UDP {
        return None;
    }
    let header = Ipv4Repr::parse(&view).ok()?;
    let (view, _) = UdpView::split(datagram).ok()?;
    if view.destination_port() != udp::ROCE_PORT {
        return None;
    }
    let header = (IpRepr::V4(header), UdpRepr::parse(&view).ok()?);
    let length = usize::from(view.length());
    let start = ethernet::LENGTH + ipv4::LENGTH + udp::LENGTH;
    let end = ethernet::LENGTH + ipv4::LENGTH + length;
    let (bth, after) =
        frame.get(start..end.checked_sub(icrc::LENGTH)?)?.split_first_chunk::<{ bth::LENGTH }>()?;
    let crc = icrc::compute(&header.0, &header.1, bth, after).to_le_bytes();
    let place = frame.get_mut(end - icrc::LENGTH..end)?;
    let was_right = *place == crc;
    place.copy_from_slice(&crc);
    Some(was_right)
}

fn forward(interfaces: &[String], renews: bool) -> Result<Counts, Fault> {
    let sockets: Vec<OwnedFd> = interfaces.iter().map(|name| open(name)).collect::<Result<_, _>>()?;
    let input = std::io::stdin();
    let (mut known, mut counts) = (BTreeMap::<[u8; 6], usize>::new(), Counts::default());
    let mut room = vec![0; ROOM];
    loop {
        let all = sockets.iter().map(|socket| socket.as_fd()).chain([input.as_fd()]);
        let mut files: Vec<PollFd<'_>> = all.map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
        poll(&mut files, PollTimeout::NONE)?;
        let ready: Vec<bool> = files.iter().map(|file| file.any().unwrap_or(false)).collect();
        if ready[sockets.len()] && input.lock().read(&mut [0; 64])? == 0 {
            return Ok(counts);
        }
        for (from, socket) in sockets.iter().enumerate().filter(|(from, _)| ready[*from]) {
            for _ in 0..BATCH {
                let Ok(length) = recv(socket.as_raw_fd(), &mut room, MsgFlags::empty()) else { break };
                let frame = &mut room[..length];
                let (Some(to), Some(of)) = (address(frame, 0), address(frame, 6)) else { continue };
                known.insert(of, from);
                let Some(&way) = known.get(&to).filter(|way| **way != from) else { continue };
                if renews && let Some(was_right) = renew(frame) {
                    counts.computed += 1;
                    counts.wrong += u64::from(!was_right);
                }
                counts.frames += 1;
                let sent = send(sockets[way].as_raw_fd(), frame, MsgFlags::empty());
                counts.lost += u64::from(sent.is_err());
            }
        }
    }
}

/// One of the two addresses at the beginning of a frame.
fn address(frame: &[u8], at: usize) -> Option<[u8; 6]> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Processor time of this program until now, the kernel's on its behalf included; 0 where the kernel does not say.
fn processor_us() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) / 1000
}

fn main() -> ExitCode {
    let mut interfaces: Vec<String> = std::env::args().skip(1).collect();
    let before = interfaces.len();
    interfaces.retain(|word| word != "--icrc");
    if interfaces.len() < 2 {
        eprintln!("expected two interfaces at least, found {}; forward [--icrc] tap1 tap2", interfaces.len());
        return ExitCode::from(2);
    }
    match forward(&interfaces, interfaces.len() < before) {
        Ok(Counts { frames, computed, wrong, lost }) => {
            let processor = processor_us();
            println!(
                "{{\"frames\": {frames}, \"computed\": {computed}, \"wrong\": {wrong}, \"lost\": {lost}, \"processor_us\": {processor}}}"
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
