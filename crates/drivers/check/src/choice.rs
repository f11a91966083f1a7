//! Which frames of a state are looked at first, and all else later: what [`Independence`](crate::independence::Independence)
//! knows of each node, put together.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::independence::{Answers, FrameSet, Question};
use crate::input::LATE;
use crate::interned::Id;
use crate::system::NodeId;
use crate::world::Way;

/// Frames that are taken together at most, and first frames of channels at one node that are considered for that, or alone.
const MOST_FRAMES: usize = 3;
const MOST_HEADS: usize = 6;
const MOST_ALONE: usize = 15;

/// What is enough to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// What may become of the frames at these indices.
    Only(FrameSet),
    /// All steps.
    All,
    /// That is not known yet.
    Unknown,
}

/// What is enough to look at as far as one node goes.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// How many of the first frames of channels; none if a late frame is ignored.
    size: u8,
    /// Which of these, by bit, or which of the late frames, by number; if it is known.
    which: Option<u16>,
}

/// No frames to the node are enough.
const NOTHING: Offer = Offer { size: u8::MAX, which: None };

/// Makes choices, and remembers them by what is the case at a node.
pub(crate) struct Chooser {
    answers: Arc<Answers>,
    revision: u64,
    /// By the node's state, the first frames of the channels to it and the late ones.
    offers: HashMap<SmallVec<[u32; 8]>, Offer, FixedState>,
    /// Those that are not known yet, and whether they have been asked for.
    unknown: HashMap<SmallVec<[u32; 8]>, (Offer, bool), FixedState>,
    key: SmallVec<[u32; 8]>,
    seen: Seen,
    /// Of the last choice.
    frames: Vec<OrderedFrame>,
}

/// What is on its way to one node: the first frames of channels, and late ones.
struct Arriving<'s> {
    node_state: Id,
    frames: &'s [OrderedFrame],
}

impl Arriving<'_> {
    fn heads(&self) -> impl Iterator<Item = u32> {
        self.frames.iter().map(|ordered| ordered.frame).filter(|frame| frame & LATE == 0)
    }

    fn late(&self) -> impl Iterator<Item = u32> {
        self.frames.iter().map(|ordered| ordered.frame).filter(|frame| frame & LATE != 0)
    }

    fn index(&self, frame: usize) -> u32 {
        self.frames[frame].index()
    }
}

impl Chooser {
    pub(crate) fn new() -> Self {
        Self {
            answers: Arc::default(),
            revision: 0,
            offers: HashMap::with_hasher(FixedState::with_seed(5)),
            unknown: HashMap::with_hasher(FixedState::with_seed(5)),
            key: SmallVec::new(),
            seen: Seen::default(),
            frames: Vec::new(),
        }
    }

    /// Takes in what is known now; with another revision forgets what may not hold any more.
    pub(crate) fn learn(&mut self, answers: Arc<Answers>, revision: u64) {
        self.answers = answers;
        self.unknown.clear();
        if core::mem::replace(&mut self.revision, revision) != revision {
            self.offers.clear();
        }
    }

    /// Lets go of what is known, so that it can be added to.
    pub(crate) fn forget(&mut self) {
        self.answers = Arc::default();
    }

    /// What is enough to look at, where nodes are in these states and `flights` are on their way: a late frame that is ignored, or
    /// frames to one node, as few as are enough. With `questions`, what is not known is put there.
    pub(crate) fn choose(
        &mut self,
        nodes: &[Id],
        flights: &[u32],
        ways: &[Way],
        mut questions: Option<&mut BTreeSet<Question>>,
    ) -> Choice {
        let mut frames = core::mem::take(&mut self.frames);
        arriving(flights, ways, &mut self.seen, &mut frames);
        let any_late = flights.last().is_some_and(|flight| flight & LATE != 0);
        let (mut best, mut choice) = (NOTHING, Choice::All);
        for frames in frames.chunk_by(|a, b| a.node() == b.node()) {
            let arriving = Arriving { node_state: nodes[frames[0].node()], frames };
            let offer = self.offer(&arriving, ways, questions.as_deref_mut().filter(|_| best.size > 0));
            if offer.size < best.size {
                best = offer;
                choice = match offer.which {
                    None => Choice::Unknown,
                    Some(which) if offer.size == 0 => {
                        let heads = arriving.heads().count();
                        Choice::Only(FrameSet::from_slice(&[arriving.index(heads + usize::from(which))]))
                    }
                    Some(which) => {
                        let chosen = (0..arriving.heads().count()).filter(|bit| which & 1 << bit != 0);
                        Choice::Only(chosen.map(|bit| arriving.index(bit)).collect())
                    }
                };
            }
            if best.size == 0 || best.size == 1 && !any_late {
                break;
            }
        }
        self.frames = frames;
        choice
    }

    fn offer(
        &mut self,
        arriving: &Arriving<'_>,
        ways: &[Way],
        questions: Option<&mut BTreeSet<Question>>,
    ) -> Offer {
        self.key.clear();
        self.key.push(arriving.node_state);
        self.key.extend(arriving.frames.iter().map(|ordered| ordered.frame));
        if let Some(offer) = self.offers.get(self.key.as_slice()) {
            return *offer;
        }
        if let Some((offer, is_asked)) = self.unknown.get(self.key.as_slice())
            && (*is_asked || questions.is_none())
        {
            return *offer;
        }
        let is_asked = questions.is_some();
        let offer = self.evaluate(arriving, ways, questions);
        if offer.which.is_some() || offer.size == NOTHING.size {
            self.offers.insert(self.key.clone(), offer);
        } else {
            self.unknown.insert(self.key.clone(), (offer, is_asked));
        }
        offer
    }

    /// Finds the fewest frames that are enough. What must be known first for that is put into `questions`.
    fn evaluate(
        &self,
        arriving: &Arriving<'_>,
        ways: &[Way],
        mut questions: Option<&mut BTreeSet<Question>>,
    ) -> Offer {
        let node_state = arriving.node_state;
        let is_known = Cell::new(true);
        let mut accept = |question: Question| {
            let answer = self.answers.get(&question).copied();
            is_known.set(is_known.get() && answer.is_some());
            if let (None, Some(questions)) = (answer, &mut questions) {
                questions.insert(question);
            }
            answer == Some(true)
        };
        for (number, late) in arriving.late().enumerate() {
            let alone =
                Question { flights: FrameSet::from_slice(&[late]), late: FrameSet::new(), node_state };
            if accept(alone) {
                return Offer { size: 0, which: is_known.get().then_some(number as u16) };
            }
        }
        if !is_known.get() {
            return Offer { size: 0, which: None };
        }
        let heads: FrameSet = arriving.heads().collect();
        for size in 1..=heads.len().min(MOST_FRAMES) {
            let most = if size == 1 { MOST_ALONE } else { MOST_HEADS };
            let choices =
                (1_u16..1 << heads.len().min(most)).filter(|choice| choice.count_ones() as usize == size);
            for choice in choices {
                let chosen = heads.iter().enumerate().filter(|(bit, _)| choice & 1 << bit != 0);
                if accept(question(arriving, chosen.map(|(_, &frame)| frame).collect(), ways)) {
                    return Offer { size: size as u8, which: is_known.get().then_some(choice) };
                }
            }
            if !is_known.get() {
                return Offer { size: size as u8, which: None };
            }
        }
        NOTHING
    }
}

/// What must be known if frames are to be enough.
fn question(arriving: &Arriving<'_>, mut flights: FrameSet, ways: &[Way]) -> Question {
    flights.sort_unstable();
    let channel = |frame: u32| ways[(frame & !LATE) as usize].channel;
    let is_same = |late: &u32| flights.iter().any(|&flight| channel(flight) == channel(*late));
    let mut late: FrameSet = arriving.late().filter(is_same).collect();
    late.sort_unstable();
    Question { flights, late, node_state: arriving.node_state }
}

/// A frame on its way: first by its node, the last one first, then by its index.
#[derive(Clone, Copy)]
struct OrderedFrame {
    /// The node's number, inverted, above the frame's index.
    order: u32,
    frame: u32,
}

impl OrderedFrame {
    fn new(to: NodeId, index: usize, frame: u32) -> Self {
        Self { order: u32::from(!to.0) << 16 | index as u32, frame }
    }

    fn node(self) -> usize {
        usize::from(!((self.order >> 16) as u16))
    }

    fn index(self) -> u32 {
        self.order & u32::from(u16::MAX)
    }
}

/// Which channels have been seen in a state.
#[derive(Default)]
struct Seen {
    /// By channel: the state in which it was seen last.
    states: Vec<u32>,
    state: u32,
}

impl Seen {
    fn begin_state(&mut self) {
        self.state = self.state.wrapping_add(1);
        if self.state == 0 {
            self.states.fill(0);
            self.state = 1;
        }
    }

    /// Whether a channel is seen for the first time in this state.
    fn insert(&mut self, channel: u16) -> bool {
        let place = usize::from(channel);
        if place >= self.states.len() {
            self.states.resize(place + 1, 0);
        }
        core::mem::replace(&mut self.states[place], self.state) != self.state
    }
}

/// Puts the first frames of channels and the late frames into `frames`: those to one node together, late ones last and once each.
fn arriving(flights: &[u32], ways: &[Way], seen: &mut Seen, frames: &mut Vec<OrderedFrame>) {
    seen.begin_state();
    frames.clear();
    for (index, &flight) in flights.iter().enumerate() {
        let Way { channel, to } = ways[(flight & !LATE) as usize];
        let is_first = match flight & LATE {
            0 => seen.insert(channel),
            _ => index == 0 || flights[index - 1] != flight,
        };
        if is_first {
            frames.push(OrderedFrame::new(to, index, flight));
        }
    }
    frames.sort_unstable_by_key(|ordered| ordered.order);
}
