//! Our end of `ib_write_bw`: the program writes to our memory, message after message, and the processor here hears
//! nothing of it.
//!
//! Before the program begins we write to the memory that it writes from. So what we find in ours has been to the kernel's
//! memory, and back, by RDMA Writes alone.
//!
//! Over TCP the program tells its version and settings, and expects the like: it gets its own words back. Only when it
//! tells its queue pair and memory it is told ours.

use crate::guest::{Guest, OUR_PLACE};
use crate::peer::{LIMIT, MTU, OurNode, Tally, open, register, retry};
use quincunx_collective::{Numbers, Payload as _};
use quincunx_engine::verbs::{Completion, SendRequest, Slice, Verb, WorkId};
use quincunx_roce::{RoceCommand, RoceEvent};
use quincunx_units::Duration;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// Bytes of each message, four packets. The program has a buffer of so many to write from, and behind it another, whose
/// address it tells.
const SIZE: usize = 4096;

/// One run of the program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WriteRun {
    /// Messages.
    pub(crate) count: usize,
    /// Lose 2% of the frames each way.
    pub(crate) loss: bool,
}

impl WriteRun {
    /// The program's command line.
    pub(crate) fn command(&self) -> String {
        let server = OUR_PLACE.address();
        format!("ib_write_bw -d rxe0 -x \"$gid\" -m {MTU} -s {SIZE} -n {} -F {server}", self.count)
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Report {
    /// How the program ended.
    pub(crate) status: i32,
    /// Our memory holds what we wrote to the kernel's.
    pub(crate) is_right: bool,
    /// Packets of the kernel's that were executed.
    pub(crate) executed: u32,
    /// The frames.
    pub(crate) tally: Tally,
}

/// A queue pair and its memory, as the program tells of them.
struct Keys {
    qp: QpNumber,
    psn: Psn,
    remote_key: u32,
    address: u64,
    ip: Gid,
}

impl Keys {
    /// Bytes of the text, with a zero behind it.
    const LENGTH: usize = 108;

    /// Local identifier, outstanding reads, queue pair, PSN, key, address, the bytes of the IP address as IPv6, and a
    /// shared receive queue, all in hexadecimal.
    fn write(&self) -> String {
        let Self { qp, psn, remote_key, address, ip } = self;
        let ip: String = ip.octets().map(|byte| format!("{byte:02x}:")).concat();
        let (qp, psn) = (qp.value(), psn.value());
        format!("0000:0001:{qp:06x}:{psn:06x}:{remote_key:08x}:{address:016x}:{ip}00000000:\0")
    }

    fn read(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes).expect("text");
        let fields: Vec<u64> =
            text.split(':').map_while(|field| u64::from_str_radix(field, 16).ok()).collect();
        assert_eq!(fields.len(), 6 + 16 + 1, "{text}");
        Self {
            qp: QpNumber::new(fields[2] as u32),
            psn: Psn::new(fields[3] as u32),
            remote_key: fields[4] as u32,
            address: fields[5],
            ip: Gid::from([18, 19, 20, 21].map(|at| fields[at] as u8)),
        }
    }
}

/// Our side once the program has told its numbers.
struct Connection {
    node: OurNode,
    theirs: Keys,
    /// What the program is to know of us.
    ours: String,
    sink: Slice,
    source: Slice,
}

/// Plays our part of `run`, the `index`-th of the guest's job.
pub(crate) fn play(guest: &mut Guest, listener: &TcpListener, index: usize, run: &WriteRun) -> Report {
    let end = Instant::now() + LIMIT;
    let mut stream = retry(guest, end, || listener.accept().map(|(stream, _)| stream));
    stream.set_nonblocking(true).expect("a socket");
    let mut connection: Option<Connection> = None;
    let mut has_written = false;
    let status = loop {
        if let Some(words) = hear(&mut stream) {
            match &mut connection {
                _ if words.len() != Keys::LENGTH => say(&mut stream, &words),
                None => {
                    let opened = connect(run, index, Keys::read(&words));
                    say(&mut stream, opened.ours.as_bytes());
                    connection = Some(opened);
                }
                // It says the same again to keep in step, first when its queue pair is ready: answered below.
                Some(connection) if !has_written => {
                    has_written = true;
                    connection.post();
                }
                Some(connection) => say(&mut stream, connection.ours.as_bytes()),
            }
        }
        match &mut connection {
            Some(connection) => {
                connection.node.turn(Duration::from_millis(2)).expect("the network is there");
                match connection.node.next_event() {
                    Some(RoceEvent::Completion(Completion::Sent { .. })) => {
                        say(&mut stream, connection.ours.as_bytes());
                    }
                    Some(other) => panic!("{run:?}: {other:?}: {:#?}", guest.console()),
                    None => {}
                }
            }
            None => std::thread::sleep(std::time::Duration::from_millis(2)),
        }
        if let Some(&status) = guest.ended().get(index) {
            break status;
        }
        assert!(Instant::now() < end, "{run:?}: {:#?}", guest.console());
    };
    let Connection { mut node, theirs, sink, source, .. } = connection.expect("the program told its numbers");
    let memory = node.engine().memory();
    Report {
        status,
        is_right: memory.view(sink) == memory.view(source),
        executed: node.engine().queue_pair().expected_psn().minus(theirs.psn.value()).value(),
        tally: Tally::of(&mut node),
    }
}

fn connect(run: &WriteRun, index: usize, theirs: Keys) -> Connection {
    let local = Endpoint { ip: OUR_PLACE.address().into(), qp: QpNumber::new(0x200 + index as u32) };
    let psn = Psn::new(0x00ff_fffe);
    let mut node = open(run.loss, local, psn, Endpoint { ip: theirs.ip, qp: theirs.qp }, theirs.psn);
    let pattern: Vec<u8> = (0..SIZE).map(|at| (index + at * 7 + at / 251) as u8).collect();
    let slice = |region| Slice { region, offset: 0, length: SIZE };
    let source = slice(register(&mut node, Numbers::from(pattern)));
    let sink = slice(register(&mut node, Numbers::zeroed(SIZE)));
    let ours = Keys { qp: local.qp, psn, remote_key: sink.region.0, address: 0, ip: local.ip };
    Connection { node, theirs, ours: ours.write(), sink, source }
}

impl Connection {
    /// Writes our pattern to the memory that the program writes from.
    fn post(&mut self) {
        let verb = Verb::Write {
            remote_address: self.theirs.address - SIZE as u64,
            remote_key: self.theirs.remote_key,
        };
        let request = SendRequest { id: WorkId(0), verb, source: self.source, immediate: None };
        self.node.command(RoceCommand::PostSend(request)).expect("a region");
    }
}

/// What the program has said since, if anything. It waits for an answer each time.
fn hear(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut words = vec![0; 4096];
    match stream.read(&mut words) {
        Ok(0) => None,
        Ok(length) => {
            words.truncate(length);
            Some(words)
        }
        // It has gone: how it ended is seen elsewhere.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset) => None,
        Err(error) => panic!("{error}"),
    }
}

fn say(stream: &mut TcpStream, words: &[u8]) {
    // It may go without waiting for the last answer.
    let _ = stream.write_all(words);
}
