//! A way from the beginning to a fault, step by step, in terms that a reader or another driver understands.

use std::collections::BTreeMap;

use quincunx_engine::{Engine, PortId};

use crate::choice::Choice;
use crate::fault::Fault;
use crate::input::{Input, LATE};
use crate::nodes::Engines;
use crate::state::{MOST_STEPS, Move, Part, View};
use crate::system::{End, NodeId, System};
use crate::visited::{Shard, StateId, ancestry};

/// What happens in a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<E: Engine> {
    /// A frame arrives.
    Arrival {
        /// Where it left.
        from: End,
        /// Its header.
        header: E::Header,
        /// What it carries.
        payload: E::Payload,
        /// It was overtaken, or is a copy.
        late: bool,
    },
    /// A frame arrives, and a copy of it will arrive later.
    Duplicate {
        /// Where it left.
        from: End,
        /// Its header.
        header: E::Header,
        /// What it carries.
        payload: E::Payload,
    },
    /// A frame is held up, and will arrive later.
    Delay {
        /// Where it left.
        from: End,
        /// Its header.
        header: E::Header,
        /// What it carries.
        payload: E::Payload,
    },
    /// A frame is lost.
    Loss {
        /// Where it left.
        from: End,
        /// Its header.
        header: E::Header,
        /// What it carries.
        payload: E::Payload,
    },
    /// A congested link marks a frame, which stays on its way.
    Mark {
        /// Where it left.
        from: End,
        /// Its header without the mark.
        header: E::Header,
        /// What it carries.
        payload: E::Payload,
        /// Its header from now on.
        marked: E::Header,
    },
    /// The clock of all nodes moves on by [`JUMP`](crate::JUMP).
    Clock,
    /// A timer fires.
    Timer {
        /// Which.
        timer: E::Timer,
        /// Though frames are on their way.
        early: bool,
    },
    /// A port takes a frame.
    Slot(PortId),
    /// The node's owner asks for something.
    Command,
    /// The node's owner gets a notice of the control plane.
    Notice(u8),
}

/// A step, and what it leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step<E: Engine> {
    /// Where it happens; for a loss, where the frame does not arrive. The first node if the clock moves on.
    pub node: NodeId,
    /// What happens.
    pub action: Action<E>,
    /// Frames that the node sends.
    pub sent: Vec<(End, E::Header, E::Payload)>,
    /// Why it drops what arrived, if it does.
    pub drops: Vec<E::DropReason>,
    /// Whether the node's owner has all that it wanted then.
    pub done: bool,
}

/// Steps, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path<S: System>(pub Vec<Step<S::Engine>>);

/// Stands for no step.
pub(crate) const NO_STEP: u64 = u64::MAX;

/// A number for a step, the same whoever finds it.
pub(crate) fn code(step: Move) -> u64 {
    let pack = |kind: u64, node: usize, input: u32| kind << 56 | (node as u64) << 32 | u64::from(input);
    match step {
        Move::Deliver(flight) => pack(0, 0, flight),
        Move::Duplicate(flight) => pack(1, 0, flight),
        Move::Lose(flight) => pack(2, 0, flight),
        Move::Delay(flight) => pack(5, 0, flight),
        Move::Mark(flight) => pack(6, 0, flight),
        Move::Clock => pack(7, 0, 0),
        Move::Act { node, input } => pack(3, node, input.encode()),
        Move::FireEarly { node, input } => pack(4, node, input.encode()),
    }
}

/// A way, and where it leads.
pub(crate) struct Way {
    pub(crate) steps: Vec<Move>,
    /// The states that it passes, the first one before its first step. The step to a fault leads to none.
    pub(crate) states: Vec<Vec<u32>>,
    /// What its last step leads to, if that is a fault.
    pub(crate) fault: Option<Fault>,
}

/// The way to `state`, and one step on: the one with the code `last`, and the fault that it leads to. The way may come to a state
/// that is symmetric to the one that was expanded; then it is a step that is symmetric to that one.
pub(crate) fn to(
    view: &mut View<'_, '_>,
    shards: &[Shard],
    root: StateId,
    state: StateId,
    last: Option<u64>,
) -> Way {
    let way = ancestry(shards, root, state);
    let mut fingerprints: BTreeMap<StateId, u64> = way.iter().map(|&id| (id, 0)).collect();
    for (fingerprint, id) in shards.iter().flat_map(Shard::entries) {
        if let Some(place) = fingerprints.get_mut(&id) {
            *place = fingerprint;
        }
    }
    let mut state = view.initial();
    let mut steps = Vec::new();
    let mut states = vec![state.clone()];
    let way: Vec<u64> = way[1..].iter().map(|id| fingerprints[id]).collect();
    let mut legs = Vec::new();
    let is_found = follow(view, &state, &way, &mut legs);
    assert!(is_found, "a state follows the one it was reached from");
    for leg in legs.into_iter().rev() {
        for (step, next) in leg {
            steps.push(step);
            states.push(next.clone());
            state = next;
        }
    }
    let mut fault = None;
    if let Some(last) = last.filter(|&last| last != NO_STEP) {
        let mut found = Vec::new();
        view.each_step(&state, Part::All, &mut |_, step, next| {
            found.extend(next.err().map(|fault| (step, fault)));
        });
        let place = found.iter().position(|(step, _)| code(*step) == last).unwrap_or(0);
        let (step, found) = found.into_iter().nth(place).expect("a step from the state leads to a fault");
        steps.push(step);
        fault = Some(found);
    }
    Way { steps, states, fault }
}

/// Steps from one state that is kept to the next, each with the state that follows.
type Leg = Vec<(Move, Vec<u32>)>;

/// Finds the legs from `state` to the states with the fingerprints `way`, last leg first. Of several that lead to states that
/// are symmetric only one may lead on: what is passed between them depends on the order of nodes.
fn follow(view: &mut View<'_, '_>, state: &[u32], way: &[u64], legs: &mut Vec<Leg>) -> bool {
    let Some((&fingerprint, rest)) = way.split_first() else { return true };
    let mut found: Vec<Leg> = Vec::new();
    // In the order in which they are expanded.
    let choice = view.choose(state, None);
    let parts = match &choice {
        Choice::Only(frames) => vec![Part::Only(frames), Part::AllBut(frames)],
        Choice::All | Choice::Unknown => vec![Part::All],
    };
    for part in parts {
        view.each_step(state, part, &mut |view, step, next| {
            let Ok(next) = next else { return };
            let mut leg = vec![(step, next.to_vec())];
            while leg.len() <= MOST_STEPS + 1 {
                let (_, last) = leg.last().expect("at least one");
                if view.fingerprint(last).max(1) == fingerprint {
                    found.push(leg.clone());
                }
                match view.only_step(last) {
                    Some(next) => leg.push(next),
                    None => return,
                }
            }
        });
    }
    found.into_iter().any(|leg| {
        let (_, last) = leg.last().expect("at least one");
        let leads_on = follow(view, last, rest, legs);
        if leads_on {
            legs.push(leg);
        }
        leads_on
    })
}

/// A way in the reader's terms.
pub(crate) fn describe_all<S: System>(
    engines: &Engines<'_, S>,
    steps: &[Move],
    states: &[Vec<u32>],
) -> Path<S> {
    Path(steps.iter().zip(states).map(|(step, state)| describe(engines, state, *step)).collect())
}

/// A step in the reader's terms: runs the engine once more.
fn describe<S: System>(engines: &Engines<'_, S>, state: &[u32], step: Move) -> Step<S::Engine> {
    let (node, input) = match step {
        Move::Deliver(flight)
        | Move::Duplicate(flight)
        | Move::Delay(flight)
        | Move::Lose(flight)
        | Move::Mark(flight) => (engines.flight(flight & !LATE).to.node, Input::Frame(flight & !LATE)),
        Move::Act { node, input } | Move::FireEarly { node, input } => (NodeId(node as u16), input),
        Move::Clock => (NodeId(0), Input::Clock),
    };
    let action = match input {
        Input::Frame(flight) | Input::Late(flight) => {
            let flight = engines.flight(flight);
            let (from, header, payload) = (flight.from, flight.header.clone(), flight.payload.clone());
            match step {
                Move::Lose(_) => Action::Loss { from, header, payload },
                Move::Delay(_) => Action::Delay { from, header, payload },
                Move::Mark(_) => {
                    let marked = engines.marked_header(&header).expect("it has been marked");
                    Action::Mark { from, header, payload, marked }
                }
                Move::Deliver(flight) => Action::Arrival { from, header, payload, late: flight & LATE != 0 },
                _ => Action::Duplicate { from, header, payload },
            }
        }
        Input::Timer(timer) => {
            Action::Timer { timer: engines.timer(timer), early: matches!(step, Move::FireEarly { .. }) }
        }
        Input::Slot(port) => Action::Slot(port),
        Input::Command => Action::Command,
        Input::Notice(notice) => Action::Notice(notice),
        Input::Clock => Action::Clock,
    };
    let before = engines.node_state(state[1 + node.index()]);
    if let Move::Lose(_) | Move::Delay(_) | Move::Mark(_) | Move::Clock = step {
        return Step { node, action, sent: Vec::new(), drops: Vec::new(), done: engines.is_done(before) };
    }
    let answer = engines.run(before, input);
    let sent = answer.sends.into_iter().map(|flight| (flight.from, flight.header, flight.payload)).collect();
    Step { node, action, sent, drops: answer.drops, done: engines.is_done(&answer.next) }
}
