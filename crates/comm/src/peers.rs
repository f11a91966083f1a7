//! Messages between two ranks of a group, cut into pieces that are written to slots of the receiver's; it matches them by who sent
//! them and by tag, in the order in which they were sent.

use crate::CommError;
use crate::buffers::{Sink, Source};
use crate::handle::Promise;
use quincunx_collective::{GroupId, Numbers, Rank as RankNumber};
use quincunx_engine::verbs::WorkId;
use quincunx_engine::writes::Target;
use quincunx_runtime::{Delivered, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Slots that each rank keeps for each other one, and what one holds.
pub(crate) const SLOTS: u32 = 8;
pub(crate) const SLOT: usize = 32 << 10;

/// Before the data of a piece: the tag, the bytes of the whole message, and where the piece begins, 8 bytes each.
const HEADER: usize = 24;
const PIECE: usize = SLOT - HEADER;

/// A message to another rank.
pub(crate) struct Send {
    pub(crate) source: Box<dyn Source>,
    pub(crate) promise: Promise,
    pub(crate) to: u16,
    pub(crate) tag: u64,
    pub(crate) deadline: Instant,
    next: usize,
    is_begun: bool,
    missing: usize,
}

/// A message that is waited for.
pub(crate) struct Receive {
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) promise: Promise,
    /// From one rank, or from anybody.
    pub(crate) from: Option<u16>,
    pub(crate) tag: u64,
    pub(crate) deadline: Instant,
    /// Who has sent it.
    pub(crate) sender: std::sync::Arc<std::sync::atomic::AtomicU16>,
}

impl Send {
    pub(crate) fn new(
        source: Box<dyn Source>,
        promise: Promise,
        to: u16,
        tag: u64,
        deadline: Instant,
    ) -> Self {
        Self { source, promise, to, tag, deadline, next: 0, is_begun: false, missing: 0 }
    }

    fn is_written(&self) -> bool {
        self.is_begun && self.next >= self.source.length()
    }
}

/// A message of which pieces have come.
struct Coming {
    tag: u64,
    total: usize,
    data: Vec<u8>,
}

/// All messages of this rank in a group.
pub(crate) struct Peers {
    pub(crate) id: GroupId,
    me: u16,
    /// By serial number, so that the oldest to each rank is found.
    sends: BTreeMap<u64, Send>,
    next_send: u64,
    /// Which slot a write uses, and whose it is.
    under_way: BTreeMap<WorkId, (usize, u64)>,
    free: Vec<usize>,
    /// The last one served: another has its turn next.
    served: u16,
    coming: BTreeMap<u16, Coming>,
    /// Whole, and nobody has asked for them.
    arrived: VecDeque<(u16, u64, Vec<u8>)>,
    receives: VecDeque<Receive>,
}

impl Peers {
    pub(crate) fn new(id: GroupId, me: u16) -> Self {
        Self {
            id,
            me,
            sends: BTreeMap::new(),
            next_send: 0,
            under_way: BTreeMap::new(),
            free: (0..SLOTS as usize).rev().collect(),
            served: 0,
            coming: BTreeMap::new(),
            arrived: VecDeque::new(),
            receives: VecDeque::new(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty()
    }

    pub(crate) fn send(&mut self, mut send: Send) {
        if send.to == self.me {
            let mut data = vec![0; send.source.length()];
            send.source.read(0, &mut data);
            self.arrived.push_back((self.me, send.tag, data));
            let Send { source, promise, .. } = send;
            drop(source);
            promise.end(Ok(()));
            self.match_all();
            return;
        }
        self.sends.insert(self.next_send, send);
        self.next_send += 1;
    }

    pub(crate) fn receive(&mut self, receive: Receive) {
        self.receives.push_back(receive);
        self.match_all();
    }

    /// Whether somebody has waited too long.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.sends.values().any(|send| send.deadline <= now)
            || self.receives.iter().any(|receive| receive.deadline <= now)
    }

    /// Ends everything with an error.
    pub(crate) fn fail(&mut self, error: &CommError) {
        for (_, Send { source, promise, .. }) in std::mem::take(&mut self.sends) {
            drop(source);
            promise.end(Err(error.clone()));
        }
        for Receive { sink, promise, .. } in std::mem::take(&mut self.receives) {
            drop(sink);
            promise.end(Err(error.clone()));
        }
    }

    /// Writes as many pieces as there are free slots: the oldest message to each rank, by turns.
    pub(crate) fn progress(&mut self, rank: &mut Rank) -> Result<(), CommError> {
        while let Some(slot) = self.free.pop() {
            let mut oldest: BTreeMap<u16, u64> = BTreeMap::new();
            for (serial, send) in &self.sends {
                // A message follows the one before when all of that is written.
                if !send.is_written() {
                    oldest.entry(send.to).or_insert(*serial);
                }
            }
            let turn = oldest.range(self.served + 1..).next().or_else(|| oldest.iter().next());
            let Some((&to, &serial)) = turn else {
                self.free.push(slot);
                return Ok(());
            };
            self.served = to;
            let send = self.sends.get_mut(&serial).expect("found above");
            let total = send.source.length();
            let length = PIECE.min(total - send.next);
            let mut piece = vec![0; HEADER + length];
            for (place, number) in [send.tag, total as u64, send.next as u64].into_iter().enumerate() {
                piece[8 * place..][..8].copy_from_slice(&number.to_le_bytes());
            }
            send.source.read(send.next, &mut piece[HEADER..]);
            send.next += length;
            send.is_begun = true;
            send.missing += 1;
            let target = Target { rank: RankNumber(to), slot };
            let id = rank.begin_write(self.id, vec![target], Numbers::from(piece))?;
            self.under_way.insert(id, (slot, serial));
        }
        Ok(())
    }

    /// A write has ended.
    pub(crate) fn written(&mut self, id: WorkId) -> bool {
        let Some((slot, serial)) = self.under_way.remove(&id) else { return false };
        self.free.push(slot);
        let Some(send) = self.sends.get_mut(&serial) else { return false };
        send.missing -= 1;
        if send.missing > 0 || !send.is_written() {
            return false;
        }
        let Send { source, promise, .. } = self.sends.remove(&serial).expect("found above");
        drop(source);
        promise.end(Ok(()));
        true
    }

    /// A piece has come. What makes no sense ends the group: the sender runs another program.
    pub(crate) fn delivered(&mut self, piece: &Delivered) -> Result<(), CommError> {
        let from = piece.source.0;
        let wrong = |what: &str| {
            CommError::Group(format!(
                "expected a piece of a message of rank {from}, found {what}; run the same version everywhere"
            ))
        };
        let bytes = piece.data.bytes();
        let Some((header, data)) = bytes.split_at_checked(HEADER) else {
            return Err(wrong("one without a header"));
        };
        let [tag, total, offset] =
            [0, 8, 16].map(|at| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes")));
        let [total, offset] = [total, offset].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let coming = self.coming.entry(from).or_insert_with(|| Coming { tag, total, data: Vec::new() });
        if coming.tag != tag || coming.total != total || coming.data.len() != offset {
            return Err(wrong("one out of order"));
        }
        if offset.checked_add(data.len()).is_none_or(|end| end > total) {
            return Err(wrong("one beyond its end"));
        }
        coming.data.extend_from_slice(data);
        if coming.data.len() == total {
            let Coming { tag, data, .. } = self.coming.remove(&from).expect("entered above");
            self.arrived.push_back((from, tag, data));
            self.match_all();
        }
        Ok(())
    }

    fn match_all(&mut self) {
        let mut index = 0;
        while index < self.receives.len() {
            let wanted = &self.receives[index];
            let fits = |(from, tag, _): &(u16, u64, Vec<u8>)| {
                *tag == wanted.tag && wanted.from.is_none_or(|one| one == *from)
            };
            let Some(found) = self.arrived.iter().position(fits) else {
                index += 1;
                continue;
            };
            let (from, _, data) = self.arrived.remove(found).expect("found above");
            let Receive { mut sink, promise, sender, .. } = self.receives.remove(index).expect("in range");
            sender.store(from, std::sync::atomic::Ordering::Relaxed);
            let outcome = if data.len() == sink.length() {
                sink.write(0, &data);
                Ok(())
            } else {
                Err(CommError::misuse(
                    format!("a message of {} bytes from rank {from}", sink.length()),
                    format!("one of {}", data.len()),
                    "give both ends the same length",
                ))
            };
            drop(sink);
            promise.end(outcome);
        }
    }
}
