//! One peer: the slots that its messages arrive in, and how far we are in what we take from it and send to it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_engine::verbs::{QpIndex, RegionId, Slice, WorkId};

/// Where in the plan one direction of a connection stands: the stages that use it, in order, and the next piece.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Cursor {
    stages: Vec<usize>,
    at: usize,
    piece: usize,
}

impl Cursor {
    pub(crate) fn clear(&mut self) {
        self.stages.clear();
        (self.at, self.piece) = (0, 0);
    }

    pub(crate) fn push(&mut self, stage: usize) {
        self.stages.push(stage);
    }

    /// The next stage and piece.
    pub(crate) fn head(&self) -> Option<(usize, usize)> {
        Some((*self.stages.get(self.at)?, self.piece))
    }

    /// How far it has come: stages that are over, and pieces of the next.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.at, self.piece)
    }

    /// Goes past the head, whose stage has `pieces`.
    pub(crate) fn advance(&mut self, pieces: usize) {
        self.piece += 1;
        if self.piece == pieces {
            (self.at, self.piece) = (self.at + 1, 0);
        }
    }
}

/// A receive slot of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SlotId {
    pub(crate) connection: usize,
    pub(crate) slot: usize,
}

/// What a slot is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Slot {
    /// Waiting for a message.
    Posted,
    /// Holding one that is not combined yet.
    Arrived {
        /// Its bytes.
        length: usize,
        /// What its sender takes part in.
        digest: u32,
    },
    /// Holding a partial result that is to be sent, or is being sent.
    Held,
}

/// A peer's queue pair and everything that is in flight on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PeerConnection {
    pub(crate) qp: QpIndex,
    /// Registered memory of the slots, one chunk each; none before the first collective.
    pub(crate) region: Option<RegionId>,
    pub(crate) slots: Vec<Slot>,
    /// Slots with messages, oldest first.
    pub(crate) arrived: VecDeque<usize>,
    pub(crate) incoming: Cursor,
    pub(crate) outgoing: Cursor,
    /// Partial results that this connection is to send, in order.
    pub(crate) held: VecDeque<SlotId>,
    /// Sends of pieces that are not complete.
    pub(crate) outstanding: usize,
    /// Those that are, of the collective that runs.
    pub(crate) acknowledged: usize,
    pub(crate) credit: Credit,
}

/// Who may send how much on a connection. Each side counts the pieces whose slots it has freed, and tells the other in the
/// immediate of every message; when it has none to send, in a message of its own. So no piece is sent that would
/// find no receive request. Counts have as many bits as the window, and wrap; the others say what the piece's sender takes part in.
///
/// ```text
///       31      |  30 .. bits  | bits - 1 .. 0
///  only credits |    digest    |     freed
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Credit {
    window: u32,
    /// Bits of a count: more numbers than a window has pieces.
    bits: u32,
    /// Pieces that we have sent, and those of them whose slots the peer has freed.
    sent: u32,
    granted: u32,
    /// Pieces of the peer whose slots we have freed, and how many of them it has been told of.
    freed: u32,
    announced: u32,
    /// Whether a message that only tells is on its way; there is never a second, so the slots need no more room
    /// for them than [`Credit::SPARE_SLOTS`].
    telling: bool,
}

/// What an immediate comes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// A piece of a collective with this digest.
    Piece { digest: u32 },
    /// Nothing but credits.
    Credits,
}

impl Credit {
    /// Slots beyond the window: one for a message that only tells, one until that is posted again.
    pub(crate) const SPARE_SLOTS: usize = 2;
    const ONLY_TELLS: u32 = 1 << 31;

    fn new(window: u32) -> Self {
        let bits = u32::BITS - window.leading_zeros();
        Self { window, bits, sent: 0, granted: 0, freed: 0, announced: 0, telling: false }
    }

    const fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Bits that are left for the digest of what ranks must agree on.
    pub(crate) const fn digest_bits(window: u32) -> u32 {
        window.leading_zeros() - 1
    }

    /// Freed slots of which a peer may not have been told.
    fn threshold(window: u32) -> u32 {
        (window / 4).max(1)
    }

    /// Slots that a peer with a window of that size can count on.
    pub(crate) fn slots(window: u32) -> u32 {
        window - Self::threshold(window) + 1
    }

    /// Pieces of ours whose slots are not freed, as far as we know.
    pub(crate) fn waiting(&self) -> u32 {
        self.sent.wrapping_sub(self.granted) & self.mask()
    }

    /// The immediate of the next piece, if it may be sent, of a collective with this digest.
    pub(crate) fn send(&mut self, digest: u32) -> Option<u32> {
        if self.waiting() >= self.window {
            return None;
        }
        self.sent = (self.sent + 1) & self.mask();
        self.announced = self.freed;
        Some(digest << self.bits | self.freed)
    }

    /// The immediate of a message that only tells, if the peer should hear from us.
    pub(crate) fn tell(&mut self) -> Option<u32> {
        let untold = self.freed.wrapping_sub(self.announced) & self.mask();
        if self.telling || untold < Self::threshold(self.window) {
            return None;
        }
        (self.telling, self.announced) = (true, self.freed);
        Some(self.freed | Self::ONLY_TELLS)
    }

    /// A message that only tells has arrived.
    pub(crate) fn told(&mut self) {
        assert!(self.telling, "a message completed that was not sent");
        self.telling = false;
    }

    /// A piece has left its slot.
    pub(crate) fn free(&mut self) {
        self.freed = (self.freed + 1) & self.mask();
    }

    /// Takes the peer's immediate, or `None` if no peer of ours can have sent it.
    pub(crate) fn hear(&mut self, immediate: u32) -> Option<Heard> {
        let freed = immediate & self.mask();
        if freed.wrapping_sub(self.granted) & self.mask() > self.waiting() {
            return None;
        }
        self.granted = freed;
        Some(match immediate & Self::ONLY_TELLS {
            0 => Heard::Piece { digest: immediate >> self.bits },
            _ => Heard::Credits,
        })
    }
}

impl PeerConnection {
    pub(crate) fn new(qp: QpIndex, window: usize) -> Self {
        Self {
            qp,
            region: None,
            slots: alloc::vec![Slot::Posted; window + Credit::SPARE_SLOTS],
            arrived: VecDeque::with_capacity(window),
            incoming: Cursor::default(),
            outgoing: Cursor::default(),
            held: VecDeque::with_capacity(window),
            outstanding: 0,
            acknowledged: 0,
            credit: Credit::new(window as u32),
        }
    }

    /// The first `length` bytes of a slot.
    pub(crate) fn slice(&self, slot: usize, chunk: usize, length: usize) -> Slice {
        let region = self.region.expect("slots are registered before they are used");
        Slice { region, offset: slot * chunk, length }
    }
}

/// Names of work requests: a receive is its slot; a send says what to do after it.
pub(crate) mod work {
    use super::{SlotId, WorkId};

    const NOTHING: u64 = u64::MAX;
    const TOLD: u64 = u64::MAX - 1;

    /// What the completion of a send means.
    pub(crate) enum Sent {
        /// A piece from one of the caller's buffers.
        Piece,
        /// A piece from a slot, which is free now.
        Held(SlotId),
        /// A message that only tells of free slots.
        Telling,
    }

    pub(crate) fn receive(slot: usize) -> WorkId {
        WorkId(slot as u64)
    }

    pub(crate) fn received(id: WorkId) -> usize {
        id.0 as usize
    }

    pub(crate) fn send(after: Sent) -> WorkId {
        WorkId(match after {
            Sent::Piece => NOTHING,
            Sent::Held(id) => (id.connection as u64) << 32 | id.slot as u64,
            Sent::Telling => TOLD,
        })
    }

    pub(crate) fn sent(id: WorkId) -> Sent {
        match id.0 {
            NOTHING => Sent::Piece,
            TOLD => Sent::Telling,
            held => Sent::Held(SlotId { connection: (held >> 32) as usize, slot: held as u32 as usize }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Credit, Heard};

    const PIECE: Option<Heard> = Some(Heard::Piece { digest: 0 });

    #[test]
    fn no_more_than_a_window_is_sent_before_the_peer_frees_slots() {
        let mut credit = Credit::new(2);
        assert_eq!([credit.send(0), credit.send(0), credit.send(0)], [Some(0), Some(0), None]);
        assert_eq!(credit.hear(1), PIECE);
        assert_eq!([credit.send(0), credit.send(0)], [Some(0), None]);
    }

    #[test]
    fn counts_wrap_around() {
        let mut credit = Credit::new(2);
        (credit.sent, credit.granted, credit.freed, credit.announced) = (3, 3, 2, 2);
        assert_eq!([credit.send(0), credit.send(0), credit.send(0)], [Some(2), Some(2), None]);
        assert_eq!(credit.hear(1 | Credit::ONLY_TELLS), Some(Heard::Credits));
        assert_eq!(credit.waiting(), 0);
    }

    #[test]
    fn a_peer_cannot_free_what_it_did_not_get() {
        let mut credit = Credit::new(2);
        assert_eq!(credit.send(0), Some(0));
        assert_eq!(credit.hear(2), None);
    }

    #[test]
    fn a_piece_says_what_its_sender_takes_part_in() {
        for window in [2, 16, u32::from(u16::MAX)] {
            let (mut credit, mut peer) = (Credit::new(window), Credit::new(window));
            let digest = (1 << Credit::digest_bits(window)) - 1;
            peer.free();
            credit.sent = 1;
            let immediate = peer.send(digest).unwrap();
            assert_eq!(credit.hear(immediate), Some(Heard::Piece { digest }));
            assert_eq!(credit.waiting(), 0);
        }
    }

    #[test]
    fn a_quarter_of_a_window_is_told_in_one_message_at_a_time() {
        let mut credit = Credit::new(8);
        credit.free();
        assert_eq!(credit.tell(), None);
        credit.free();
        assert_eq!(credit.tell(), Some(2 | Credit::ONLY_TELLS));
        credit.free();
        credit.free();
        assert_eq!(credit.tell(), None);
        credit.told();
        assert_eq!(credit.tell(), Some(4 | Credit::ONLY_TELLS));
    }
}
