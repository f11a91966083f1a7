//! The frame status buffer of one port, found by PSN: four floating pointers, each with a column of places (IV.C.2, figure 13).

use crate::bits::Bits;
use crate::config::Shape;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_wire::{Psn, QpNumber};

use crate::mutation::Mutation;

/// Where a frame belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameSlot {
    /// It is in its turn, and belongs here.
    New(usize),
    /// It was here before.
    Repeated(usize),
    /// A frame before it is missing.
    Gap,
    /// It is too far into its message.
    TooLong,
    /// Its column is another message's by now.
    Forgotten,
}

/// A port's columns.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flows {
    frames: u16,
    /// The aggregation QP (table VI).
    queue_pair: Option<QpNumber>,
    /// The PSN that is in its turn.
    expected: Psn,
    /// The first PSN of each column.
    bases: Vec<Option<Psn>>,
    /// The column that is opened next: pnext.
    next: usize,
    /// By place: a frame of the column's message has been here.
    status: Bits,
    /// By place: the sum is there.
    done: Bits,
}

impl Flows {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            frames: shape.frames,
            queue_pair: None,
            expected: Psn::new(0),
            bases: vec![None; usize::from(shape.flows)],
            next: 0,
            status: Bits::new(shape.places()),
            done: Bits::new(shape.places()),
        }
    }

    pub(crate) fn queue_pair(&self) -> Option<QpNumber> {
        self.queue_pair
    }

    pub(crate) fn is_done(&self, place: usize) -> bool {
        self.done.get(place)
    }

    pub(crate) fn finish(&mut self, place: usize) {
        self.done.set(place);
    }

    /// A place whose frame has not been added up yet.
    pub(crate) fn is_pending(&self, place: usize) -> bool {
        self.status.get(place) && !self.done.get(place)
    }

    /// Finds a frame's place, and takes it if the frame is new.
    pub(crate) fn place(
        &mut self,
        (is_first, begins): (bool, bool),
        queue_pair: QpNumber,
        psn: Psn,
        mutation: Option<Mutation>,
    ) -> FrameSlot {
        let breaks = |rule| mutation == Some(rule);
        if is_first && self.queue_pair != Some(queue_pair) {
            if !begins && !breaks(Mutation::AnyBegins) {
                return FrameSlot::Gap;
            }
            self.queue_pair = Some(queue_pair);
            self.bases.fill(None);
            self.expected = psn;
        }
        let ahead = psn.distance_from(self.expected);
        if breaks(Mutation::AnyOrder) {
            return self.place_in_any_order(is_first, psn, mutation);
        }
        if ahead > 0 {
            return FrameSlot::Gap;
        }
        if ahead < 0 {
            if is_first && breaks(Mutation::FirstReopens) {
                return FrameSlot::New(self.open(psn, mutation));
            }
            return self.find(psn, mutation).map_or(FrameSlot::Forgotten, FrameSlot::Repeated);
        }
        let place = if is_first {
            self.open(psn, mutation)
        } else {
            match self.in_newest(psn) {
                Some(place) => place,
                None => return FrameSlot::TooLong,
            }
        };
        self.status.set(place);
        self.expected = psn.plus(1);
        FrameSlot::New(place)
    }

    /// As printed (IV.C.2): a First opens a column, any other frame goes where its PSN fits, whatever is missing before it.
    fn place_in_any_order(&mut self, is_first: bool, psn: Psn, mutation: Option<Mutation>) -> FrameSlot {
        let place = if is_first { Some(self.open(psn, mutation)) } else { self.find(psn, mutation) };
        let Some(place) = place else { return FrameSlot::Forgotten };
        if self.status.get(place) {
            return FrameSlot::Repeated(place);
        }
        self.status.set(place);
        FrameSlot::New(place)
    }

    /// A message begins: the next column is its. Returns its first place.
    fn open(&mut self, psn: Psn, mutation: Option<Mutation>) -> usize {
        let (column, frames) = (self.next, usize::from(self.frames));
        self.bases[column] = Some(psn);
        self.next = (column + 1) % self.bases.len();
        let first = column * frames;
        if mutation != Some(Mutation::StatusKept) {
            self.status.clear(first..first + frames);
            self.done.clear(first..first + frames);
        }
        first
    }

    /// The place of a PSN in the column that was opened last.
    fn in_newest(&self, psn: Psn) -> Option<usize> {
        let flows = self.bases.len();
        self.in_column((self.next + flows - 1) % flows, psn)
    }

    /// The place of a PSN, looked for in the newest column first.
    fn find(&self, psn: Psn, mutation: Option<Mutation>) -> Option<usize> {
        let flows = self.bases.len();
        let column = |age| match mutation {
            Some(Mutation::OldestFirst) => (self.next + age - 1) % flows,
            _ => (self.next + flows - age) % flows,
        };
        (1..=flows).find_map(|age| self.in_column(column(age), psn))
    }

    fn in_column(&self, column: usize, psn: Psn) -> Option<usize> {
        let offset = psn.minus(self.bases[column]?.value()).value();
        (offset < u32::from(self.frames)).then(|| column * usize::from(self.frames) + offset as usize)
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.next < self.bases.len(), "the next column is one");
        assert!(self.done.is_within(&self.status), "every place with a sum has a frame");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows() -> Flows {
        Flows::new(&Shape::of_ports(8))
    }

    const QP: QpNumber = QpNumber::new(0x11);
    const FIRST: (bool, bool) = (true, true);
    const LATER_FIRST: (bool, bool) = (true, false);
    const FOLLOWER: (bool, bool) = (false, false);

    #[test]
    fn a_later_message_does_not_take_the_place_of_the_first_one() {
        let mut flows = flows();
        assert_eq!(flows.place(LATER_FIRST, QP, Psn::new(2), None), FrameSlot::Gap);
        assert_eq!(flows.queue_pair(), None);
        assert_eq!(flows.place(FIRST, QP, Psn::new(0), None), FrameSlot::New(0));
    }

    #[test]
    fn the_worked_example_of_section_iv_finds_index_257() {
        let mut flows = flows();
        for base in [0xff_ffe0, 0xff_fff0, 0xff_ffff] {
            flows.queue_pair = Some(QP);
            flows.expected = Psn::new(base);
            assert!(matches!(flows.place(FIRST, QP, Psn::new(base), None), FrameSlot::New(_)));
        }
        assert_eq!(flows.next * 128, 384);
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(0), None), FrameSlot::New(257));
    }

    #[test]
    fn a_psn_behind_a_wrap_keeps_its_place_when_a_later_flow_has_begun() {
        let mut flows = flows();
        assert_eq!(flows.place(FIRST, QP, Psn::new(0xff_ffff), None), FrameSlot::New(0));
        for offset in 1..0x11 {
            assert_eq!(
                flows.place(FOLLOWER, QP, Psn::new(0xff_ffff + offset), None),
                FrameSlot::New(offset as usize)
            );
        }
        assert_eq!(flows.place(FIRST, QP, Psn::new(0x10), None), FrameSlot::New(128));
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(5), None), FrameSlot::Repeated(6));
    }

    #[test]
    fn a_frame_that_fits_two_columns_belongs_to_the_newer_one() {
        let mut flows = flows();
        for (message, place) in [0, 128].into_iter().enumerate() {
            let psn = Psn::new(2 * message as u32);
            assert_eq!(flows.place(FIRST, QP, psn, None), FrameSlot::New(place));
            assert_eq!(flows.place(FOLLOWER, QP, psn.plus(1), None), FrameSlot::New(place + 1));
        }
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(3), None), FrameSlot::Repeated(129));
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(1), None), FrameSlot::Repeated(1));
    }

    #[test]
    fn a_repeated_first_opens_nothing() {
        let mut flows = flows();
        assert_eq!(flows.place(FIRST, QP, Psn::new(7), None), FrameSlot::New(0));
        assert_eq!(flows.place(FIRST, QP, Psn::new(7), None), FrameSlot::Repeated(0));
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(8), None), FrameSlot::New(1));
    }

    #[test]
    fn followers_of_a_lost_first_enter_no_older_flow() {
        let mut flows = flows();
        flows.place(FIRST, QP, Psn::new(0), None);
        flows.place(FOLLOWER, QP, Psn::new(1), None);
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(3), None), FrameSlot::Gap);
        assert_eq!(flows.place(FIRST, QP, Psn::new(2), None), FrameSlot::New(128));
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(3), None), FrameSlot::New(129));
    }

    #[test]
    fn the_fifth_message_takes_the_first_ones_column() {
        let mut flows = flows();
        for (message, place) in [0, 128, 256, 384, 0].into_iter().enumerate() {
            let psn = Psn::new(2 * message as u32);
            assert_eq!(flows.place(FIRST, QP, psn, None), FrameSlot::New(place));
            assert_eq!(flows.place(FOLLOWER, QP, psn.plus(1), None), FrameSlot::New(place + 1));
        }
        assert_eq!(flows.place(FIRST, QP, Psn::new(0), None), FrameSlot::Forgotten);
    }

    #[test]
    fn a_message_of_more_frames_than_a_column_has_is_cut_off() {
        let mut flows = flows();
        flows.place(FIRST, QP, Psn::new(0), None);
        for psn in 1..128 {
            assert_eq!(flows.place(FOLLOWER, QP, Psn::new(psn), None), FrameSlot::New(psn as usize));
        }
        assert_eq!(flows.place(FOLLOWER, QP, Psn::new(128), None), FrameSlot::TooLong);
    }

    #[test]
    fn another_connection_begins_anew() {
        let mut flows = flows();
        flows.place(FIRST, QP, Psn::new(0), None);
        assert_eq!(flows.place(FIRST, QpNumber::new(0x12), Psn::new(900), None), FrameSlot::New(128));
        assert_eq!(flows.place(FOLLOWER, QpNumber::new(0x12), Psn::new(901), None), FrameSlot::New(129));
        assert_eq!(flows.place(FOLLOWER, QpNumber::new(0x12), Psn::new(1), None), FrameSlot::Forgotten);
    }
}
