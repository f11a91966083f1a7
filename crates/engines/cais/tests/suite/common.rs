//! A merge unit by itself, four accelerators around it, and what it says.

use quincunx_cais::*;
use quincunx_collective::{DataType, Numbers, ReduceOp, Reduction};
use quincunx_design::{Buffer, UnitOutput};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::*;

pub(crate) const NODE: NodeId = NodeId(9);
pub(crate) const HOME: NodeId = NodeId(0);
pub(crate) const TIMEOUT: Duration = Duration::from_micros(1);

/// A packet that has left: by which port, its header, its bytes.
pub(crate) type Sent = (u16, FlitHeader, Vec<u8>);

pub(crate) struct Bench {
    pub(crate) unit: Merge<Numbers>,
    pub(crate) now: Instant,
    /// Buffers that are held.
    pub(crate) held: usize,
    /// When the timer fires.
    alarm: Option<Instant>,
}

pub(crate) fn config() -> MergeConfig {
    MergeConfig {
        node: NODE,
        accelerators: 4,
        participants: 3,
        entries: 2,
        groups: 2,
        streams: 1,
        timeout: TIMEOUT,
        group_timeout: TIMEOUT,
        latency: Duration::ZERO,
        format: FlitFormat::DGX,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
        levels: false,
        mutation: None,
    }
}

impl Bench {
    pub(crate) fn new(change: impl Fn(&mut MergeConfig)) -> Self {
        let mut config = config();
        change(&mut config);
        Self {
            unit: Merge::new(config).expect("a set-up that makes sense"),
            now: Instant::ZERO,
            held: 0,
            alarm: None,
        }
    }

    /// Packets that the unit holds in buffers of a port's channel.
    pub(crate) fn held_at(&self, port: PortId, channel: Channel) -> usize {
        let mut count = 0;
        self.unit.each_held(&mut |at, of| count += usize::from((at, of) == (port, channel)));
        count
    }

    pub(crate) fn try_give(&mut self, header: &FlitHeader, payload: &[u8]) -> Result<Vec<Sent>, MergeDrop> {
        let buffer = self.unit.handle_packet(self.now, PortId(header.source.0), header, payload)?;
        self.held += usize::from(buffer == Buffer::Held);
        Ok(self.sent())
    }

    pub(crate) fn give(&mut self, header: &FlitHeader, payload: &[u8]) -> Vec<Sent> {
        self.try_give(header, payload).expect("a packet that makes sense")
    }

    /// All that the unit sends now.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(output) = self.unit.next_output() {
            match output {
                UnitOutput::Packet(port, header, payload) => {
                    sent.push((port.0, header, payload.into_bytes()))
                }
                UnitOutput::Forward { to, header, payload, .. } => {
                    self.held -= 1;
                    sent.push((to.0, header, payload.into_bytes()));
                }
                UnitOutput::Release(..) => panic!("the unit releases with what it forwards"),
            }
        }
        for port in (0..4).map(PortId) {
            for channel in Channel::ALL {
                while self.unit.ready(port).contains(channel) {
                    let (header, payload) = self.unit.next_packet(port, channel);
                    assert_eq!(header.channel(), Some(channel), "a packet in its channel");
                    sent.push((port.0, header, payload.to_vec()));
                }
            }
        }
        if let Some(after) = self.unit.arm(self.now) {
            self.alarm = Some(self.now + after);
        }
        self.unit.assert_invariants();
        sent
    }

    /// Lets time pass, and the timer fire when it is due.
    pub(crate) fn pass(&mut self, after: Duration) -> Vec<Sent> {
        let (end, mut sent) = (self.now + after, Vec::new());
        while let Some(due) = self.alarm.filter(|&due| due <= end) {
            (self.now, self.alarm) = (due, None);
            self.unit.handle_timer(due);
            sent.extend(self.sent());
        }
        self.now = end;
        sent
    }

    /// Lets the timer fire as a driver without a clock does.
    pub(crate) fn fire(&mut self) -> Vec<Sent> {
        self.alarm.take().expect("a timer that is armed");
        self.unit.handle_timer(self.now);
        self.sent()
    }

    pub(crate) fn load(&mut self, from: u16, address: u64, tag: u32) -> Vec<Sent> {
        self.give(&load(from, address, tag), &[])
    }

    pub(crate) fn reduce(&mut self, from: u16, address: u64, value: u8) -> Vec<Sent> {
        self.give(&reduction(from, address, 1), &[value, 0, 0, 0])
    }

    /// Answers a read of the unit's, as the home does.
    pub(crate) fn fill(&mut self, read: &Sent, value: u8) -> Vec<Sent> {
        self.give(&read.1.response(Transaction::ReadResponse), &[value, 0, 0, 0])
    }

    pub(crate) fn sync(&mut self, from: u16, group: u64, point: u32) -> Vec<Sent> {
        self.give(&FlitHeader::new(NodeId(from), NODE, true, group, point, Transaction::Sync), &[])
    }
}

pub(crate) fn load(from: u16, address: u64, tag: u32) -> FlitHeader {
    FlitHeader::new(NodeId(from), HOME, true, address, tag, Transaction::Read { length: 4 })
}

pub(crate) fn reduction(from: u16, address: u64, contributions: u32) -> FlitHeader {
    FlitHeader::new(NodeId(from), HOME, true, address, contributions, Transaction::Reduce)
}

/// The answer that a load gets.
pub(crate) fn answer(to: u16, address: u64, tag: u32, value: u8) -> Sent {
    let header = load(to, address, tag).response(Transaction::ReadResponse);
    (to, header, vec![value, 0, 0, 0])
}

/// What goes home of a sum.
pub(crate) fn sum(address: u64, contributions: u32, value: u8) -> Sent {
    let header = FlitHeader::new(NODE, HOME, false, address, contributions, Transaction::Reduce);
    (HOME.0, header, vec![value, 0, 0, 0])
}

/// A request that went past the unit.
pub(crate) fn past(header: FlitHeader, payload: &[u8]) -> Sent {
    (HOME.0, FlitHeader { inc: false, ..header }, payload.to_vec())
}
