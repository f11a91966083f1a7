//! Messages between ranks of a group, cut into pieces that are written to slots of the receivers'; they match them by who sent
//! them and by tag, in the order in which they were sent.

use crate::CommError;
use crate::buffers::{Sink, Source};
use crate::handle::Promise;
use quincunx_collective::{GroupId, Numbers, Rank as RankNumber};
use quincunx_engine::verbs::WorkId;
use quincunx_engine::writes::Target;
use quincunx_runtime::{CallSite, Delivered, PendingMessage, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Slots that each rank keeps for each other one, and what one holds.
pub(crate) const SLOTS: u32 = 8;
pub(crate) const SLOT: usize = 32 << 10;

/// Before the data of a piece: the tag, the bytes of the whole message, and where the piece begins, 8 bytes each.
const HEADER: usize = 24;
const PIECE: usize = SLOT - HEADER;

/// Whom a message is for, and by which of the ways to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    /// Several ranks share each write, as far as they share their next hop.
    pub(crate) to: Vec<u16>,
    /// 0 is the direct one.
    pub(crate) way: usize,
}

impl Path {
    /// Straight to one rank.
    pub(crate) fn direct(to: u16) -> Self {
        Self { to: vec![to], way: 0 }
    }

    /// Whether what goes by the other path after this one also comes after it, wherever both lead.
    fn keeps_order(&self, after: &Self) -> bool {
        self.way == 0 && after.way == 0 || self == after
    }
}

/// A message to other ranks.
pub(crate) struct Send {
    pub(crate) source: Box<dyn Source>,
    pub(crate) promise: Promise,
    pub(crate) path: Path,
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
    /// What was called, where and when.
    pub(crate) operation: &'static str,
    pub(crate) site: Option<CallSite>,
    pub(crate) called: Instant,
    /// Who has sent it.
    pub(crate) sender: std::sync::Arc<std::sync::atomic::AtomicU16>,
}

impl Send {
    pub(crate) fn new(
        source: Box<dyn Source>,
        promise: Promise,
        path: Path,
        tag: u64,
        deadline: Instant,
    ) -> Self {
        Self { source, promise, path, tag, deadline, next: 0, is_begun: false, missing: 0 }
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
        if send.path.to == [self.me] {
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

    /// What is waited for longest.
    pub(crate) fn oldest_receive(&self) -> Option<PendingMessage> {
        let oldest = self.receives.iter().min_by_key(|receive| receive.called)?;
        let Receive { operation, from, tag, site, called, .. } = oldest;
        let (operation, from, site, called) = (*operation, *from, site.clone(), *called);
        // Tags of what a collective sends lie above an application's.
        Some(PendingMessage { operation, from, tag: u32::try_from(*tag).ok(), site, called })
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

    /// The messages whose turn it may be, by their first rank: the oldest to each of theirs.
    ///
    /// A message follows the one before when all of that is written; by another path when all of that has come, for pieces that take
    /// different ways do not wait for each other.
    fn oldest(&self) -> BTreeMap<u16, u64> {
        let mut oldest = BTreeMap::new();
        let mut before: BTreeMap<u16, &Send> = BTreeMap::new();
        for (&serial, send) in &self.sends {
            let follows = |earlier: &&Send| earlier.is_written() && earlier.path.keeps_order(&send.path);
            let is_next = send.path.to.iter().all(|to| before.get(to).is_none_or(follows));
            if is_next && !send.is_written() {
                oldest.insert(send.path.to[0], serial);
            }
            // The last one to a rank is what the next one waits for, and it has waited for those before.
            before.extend(send.path.to.iter().map(|to| (*to, send)));
        }
        oldest
    }

    /// Writes as many pieces as there are free slots: the oldest message to each rank, by turns.
    pub(crate) fn progress(&mut self, rank: &mut Rank) -> Result<(), CommError> {
        while let Some(slot) = self.free.pop() {
            let oldest = self.oldest();
            let turn = oldest.range(self.served + 1..).next().or_else(|| oldest.iter().next());
            let Some((&first, &serial)) = turn else {
                self.free.push(slot);
                return Ok(());
            };
            self.served = first;
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
            let targets = send.path.to.iter().map(|to| Target { rank: RankNumber(*to), slot }).collect();
            let id = rank.begin_write(self.id, send.path.way, targets, Numbers::from(piece))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::pair;
    use std::time::Duration;

    /// Rank 0 with messages of `pieces` pieces each by these paths.
    fn peers(paths: &[(&[u16], usize)], pieces: usize) -> Peers {
        let mut peers = Peers::new(GroupId(1), 0);
        for (to, way) in paths {
            let path = Path { to: to.to_vec(), way: *way };
            let deadline = Instant::now() + Duration::from_secs(60);
            peers.send(Send::new(Box::new(vec![0; pieces * PIECE]), pair().0, path, 0, deadline));
        }
        peers
    }

    /// What may be written next, in the order of being asked for.
    fn next(peers: &Peers) -> Vec<u64> {
        let mut next: Vec<u64> = peers.oldest().into_values().collect();
        next.sort_unstable();
        next
    }

    /// All pieces of a message are on their way.
    fn write_all(peers: &mut Peers, serial: u64) {
        let send = peers.sends.get_mut(&serial).unwrap();
        (send.is_begun, send.next) = (true, send.source.length());
    }

    #[test]
    fn messages_to_several_ranks_take_turns_and_to_one_follow_each_other() {
        let mut peers = peers(&[(&[1], 0), (&[1], 0), (&[2], 0), (&[2, 3], 0)], 1);
        assert_eq!(next(&peers), [0, 2]);
        write_all(&mut peers, 0);
        assert_eq!(next(&peers), [1, 2]);
        write_all(&mut peers, 2);
        assert_eq!(next(&peers), [1, 3]);
    }

    #[test]
    fn by_another_path_a_message_waits_until_the_one_before_has_come() {
        let mut peers = peers(&[(&[2], 0), (&[2, 3], 1), (&[3], 1), (&[3], 0)], 1);
        for serial in 0..3 {
            assert_eq!(next(&peers), [serial]);
            write_all(&mut peers, serial);
            assert_eq!(next(&peers), Vec::<u64>::new());
            peers.sends.remove(&serial);
        }
        assert_eq!(next(&peers), [3]);
    }

    #[test]
    fn by_the_same_relay_messages_to_the_same_ranks_follow_each_other() {
        let mut peers = peers(&[(&[2, 3], 1), (&[2, 3], 1)], 1);
        write_all(&mut peers, 0);
        assert_eq!(next(&peers), [1]);
    }
}
