//! Our end of `ibv_rc_pingpong`: messages go to and fro on one queue pair, whose numbers the two ends tell each other
//! over TCP first.
//!
//! The program sends from the buffer that it receives into, so it says back whatever it was told last; and all our
//! messages differ. What comes back right has crossed the kernel in both directions, each in its turn.

use crate::guest::{GUEST, Guest, OUR_PLACE};
use crate::peer::{EXCHANGE_PORT, LIMIT, MTU, OurNode, Tally, open, register, retry};
use quincunx_collective::{Numbers, Payload as _};
use quincunx_engine::verbs::{Completion, ReceiveRequest, SendRequest, Slice, Verb, WorkId};
use quincunx_roce::{RoceCommand, RoceEvent};
use quincunx_units::Duration;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// The program fills its buffer with this before it begins ...
const FILL: u8 = 0x7b;

/// ... but for the first byte of each page, which is 0, and the same at the end or it complains (`-c`).
const PAGE: usize = 4096;

/// Who speaks first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    /// The kernel's end.
    Client,
    /// Our end.
    Server,
}

/// One run of the program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PingPongRun {
    /// The kernel's part.
    pub(crate) kernel: Kernel,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Messages each way.
    pub(crate) count: usize,
    /// Lose 2% of the frames each way.
    pub(crate) loss: bool,
}

impl PingPongRun {
    /// The program's command line.
    pub(crate) fn command(&self) -> String {
        let Self { size, count, .. } = self;
        let server = match self.kernel {
            Kernel::Client => OUR_PLACE.address().to_string(),
            Kernel::Server => String::new(),
        };
        format!("ibv_rc_pingpong -d rxe0 -g \"$gid\" -m {MTU} -c -s {size} -n {count} {server}")
    }

    /// Our `index`-th message. The first bytes of its pages are what the program wants to see.
    fn message(&self, index: usize) -> Vec<u8> {
        (0..self.size)
            .map(|at| if at.is_multiple_of(PAGE) { 0 } else { (index * 31 + at * 7 + at / 251) as u8 })
            .collect()
    }

    /// All our messages in a row.
    fn source(&self) -> Vec<u8> {
        (0..self.count).flat_map(|index| self.message(index)).collect()
    }

    /// All the kernel's messages in a row.
    fn echo(&self) -> Vec<u8> {
        let mut echo = self.source();
        if self.kernel == Kernel::Client {
            // It speaks first, and then says what we said.
            let fill = (0..self.size).map(|at| if at.is_multiple_of(PAGE) { 0 } else { FILL });
            echo.truncate(self.size * (self.count - 1));
            echo.splice(0..0, fill);
        }
        echo
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Report {
    /// What the kernel said, in a row, as it should have.
    pub(crate) echo_is_right: bool,
    /// Messages received whole.
    pub(crate) received: usize,
    /// Messages sent and acknowledged.
    pub(crate) sent: usize,
    /// How the program ended.
    pub(crate) status: i32,
    /// The program found wrong data.
    pub(crate) complaint: bool,
    /// The frames.
    pub(crate) tally: Tally,
}

/// Plays our part of `run`, the `index`-th of the guest's job.
pub(crate) fn play(guest: &mut Guest, listener: &TcpListener, index: usize, run: &PingPongRun) -> Report {
    let end = Instant::now() + LIMIT;
    // Another number in each run: what is late for one is not for the next.
    let local = Endpoint { ip: OUR_PLACE.address().into(), qp: QpNumber::new(0x100 + index as u32) };
    // The numbers wrap on the way.
    let psn = Psn::new(0x00ff_fff0);
    let mut node = match run.kernel {
        Kernel::Client => {
            let mut stream = retry(guest, end, || listener.accept().map(|(stream, _)| stream));
            stream.set_nonblocking(false).expect("a socket");
            let (remote, expected) = read_numbers(&mut stream);
            let node = open(run.loss, local, psn, remote, expected);
            write_numbers(&mut stream, local, psn);
            let mut done = [0; 5];
            stream.read_exact(&mut done).expect("the program is ready");
            assert_eq!(&done, b"done\0");
            node
        }
        Kernel::Server => {
            let server = SocketAddr::from((GUEST, EXCHANGE_PORT));
            let patience = std::time::Duration::from_millis(500);
            let mut stream = retry(guest, end, || TcpStream::connect_timeout(&server, patience));
            write_numbers(&mut stream, local, psn);
            let (remote, expected) = read_numbers(&mut stream);
            let node = open(run.loss, local, psn, remote, expected);
            stream.write_all(b"done\0").expect("the program waits");
            node
        }
    };
    let source = register(&mut node, Numbers::from(run.source()));
    let sink = register(&mut node, Numbers::zeroed(run.size * run.count));
    let slice = |region, index: usize| Slice { region, offset: index * run.size, length: run.size };
    for index in 0..run.count {
        let request = ReceiveRequest { id: WorkId(index as u64), sink: slice(sink, index) };
        node.command(RoceCommand::PostReceive(request)).expect("a region");
    }
    let send = |node: &mut OurNode, index| {
        let id = WorkId(index as u64);
        let request = SendRequest { id, verb: Verb::Send, source: slice(source, index), immediate: None };
        node.command(RoceCommand::PostSend(request)).expect("a region");
    };
    if run.kernel == Kernel::Server {
        send(&mut node, 0);
    }
    let (mut received, mut sent) = (0, 0);
    // To the end of the program, which may want an acknowledge again after we have all that we want.
    let status = loop {
        node.turn(Duration::from_millis(20)).expect("the network is there");
        let ended = guest.ended().get(index).copied();
        while let Some(event) = node.next_event() {
            match event {
                RoceEvent::Completion(Completion::Received { id, length, .. }) => {
                    assert_eq!((id, length), (WorkId(received as u64), run.size));
                    received += 1;
                    match run.kernel {
                        Kernel::Client => send(&mut node, received - 1),
                        Kernel::Server if received < run.count => send(&mut node, received),
                        Kernel::Server => {}
                    }
                }
                RoceEvent::Completion(Completion::Sent { id }) => {
                    assert_eq!(id, WorkId(sent as u64));
                    sent += 1;
                }
                // When the program has all that it wants it goes, and leaves the last of ours unanswered.
                RoceEvent::Completion(Completion::Failed { id, .. })
                    if received == run.count && id == WorkId(run.count as u64 - 1) => {}
                other => panic!(
                    "{run:?}: {other:?} after {received} received, {sent} sent: {:#?}",
                    guest.console()
                ),
            }
        }
        if let Some(status) = ended {
            break status;
        }
        assert!(Instant::now() < end, "{run:?}: {received} received, {sent} sent: {:#?}", guest.console());
    };
    let echo = node.engine().memory().view(Slice { region: sink, offset: 0, length: run.size * run.count });
    Report {
        echo_is_right: echo == run.echo(),
        received,
        sent,
        status,
        complaint: guest.console().iter().any(|line| line.contains("invalid data")),
        tally: Tally::of(&mut node),
    }
}

/// Local identifier (of no use here), queue pair, PSN, and the address as an IPv6 address, in hexadecimal; and a zero.
const NUMBERS: usize = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1;

fn write_numbers(stream: &mut TcpStream, local: Endpoint, psn: Psn) {
    let address = local.ip.to_bits();
    let text = format!("0000:{:06x}:{:06x}:{address:032x}\0", local.qp.value(), psn.value());
    assert_eq!(text.len(), NUMBERS);
    stream.write_all(text.as_bytes()).expect("the program listens");
}

fn read_numbers(stream: &mut TcpStream) -> (Endpoint, Psn) {
    let mut bytes = [0; NUMBERS];
    stream.read_exact(&mut bytes).expect("the program speaks");
    let text = std::str::from_utf8(&bytes[..NUMBERS - 1]).expect("text");
    let fields: Vec<u128> =
        text.split(':').map(|field| u128::from_str_radix(field, 16).expect("hexadecimal")).collect();
    let [_, qp, psn, address] = fields[..] else { panic!("{text}") };
    assert_eq!(address as u64 >> 32, 0xffff, "an IPv4 address: {text}");
    let remote = Endpoint { ip: Gid::from((address as u32).to_be_bytes()), qp: QpNumber::new(qp as u32) };
    (remote, Psn::new(psn as u32))
}
