//! A path once more, in virtual time: step `k` happens at `k` microseconds. What becomes of each frame and when timers fire
//! is prescribed; that the nodes do the same then is not, and is compared step by step.

use std::collections::BTreeMap;

use quincunx_collective::Payload;
use quincunx_driver_check::{Action, End, Fault, Member, NodeId, Path, Step, catch_panic};
use quincunx_driver_des::{
    Departure, Direction, Limits, LinkConfig, LinkIndex, Medium, NodeIndex, Observer, Simulation, Stopped,
};
use quincunx_engine::{Engine, Frame};
use quincunx_network::{Delay, FaultPlan, Firing};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

use crate::describe::{Describe, EngineOf, HeaderOf, PayloadOf};
use crate::flights::{Fate, flights};

type Sent<S> = (End, HeaderOf<S>, PayloadOf<S>);

/// How a run in virtual time departs from a path. Steps are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Divergence {
    /// Other frames are sent.
    #[error(
        "expected {expected} to be sent in step {step}, found {found}; a node depends on more than its state and inputs"
    )]
    Sent {
        /// When.
        step: usize,
        /// Frames of the path.
        expected: String,
        /// Frames of the run.
        found: String,
    },
    /// An owner has got what it wanted, and should not have; or the other way round.
    #[error(
        "expected {name} to be done after step {step}: {expected}, found {found}; it is told something else"
    )]
    Done {
        /// When.
        step: usize,
        /// Whose owner.
        name: String,
        /// In the path.
        expected: bool,
        /// In the run.
        found: bool,
    },
    /// Something is wrong before the path ends.
    #[error("expected {steps} steps until something is wrong, found a fault in step {step}: {fault}")]
    Early {
        /// Of the path.
        steps: usize,
        /// When.
        step: usize,
        /// What is wrong.
        fault: Fault,
    },
}

/// Runs `path`, which was explored [at once](crate::Exploration::at_once), in virtual time: the fault that it ends with, if that is something
/// that is seen when it happens. That a run is stuck or cannot end any more is not: then it is the same run, and nothing; of a fault
/// that every run has from the beginning, a path of no steps, that says nothing at all.
///
/// # Errors
/// If the run departs from the path.
pub fn replay<S: Describe>(network: &S, path: &Path<S>) -> Result<Option<Fault>, Divergence> {
    let mut run = Run::new(network, path);
    for (step, taken) in path.0.iter().enumerate().map(|(index, taken)| (index + 1, taken)) {
        let result = catch_panic(|| run.step(time_of(step), taken));
        let node = taken.node;
        match result.unwrap_or_else(|message| Err(Fault::Panic { node, message })) {
            Err(fault) if step == path.0.len() => return Ok(Some(fault)),
            Err(fault) => return Err(Divergence::Early { steps: path.0.len(), step, fault }),
            Ok(()) => run.compare(step, taken)?,
        }
    }
    Ok(None)
}

fn time_of(step: usize) -> Instant {
    Instant::ZERO + Duration::from_micros(step as u64)
}

/// Frames weigh nothing: the path says when they arrive.
struct Weightless;

impl<E: Engine> Medium<E> for Weightless {
    fn wire_length(&self, _: &E::Header, _: usize) -> ByteCount {
        ByteCount::new(0)
    }
}

/// The frames of a step, as they are sent.
struct Recorder<E: Engine>(Vec<(Direction, E::Header, E::Payload)>);

impl<E: Engine> Observer<E> for Recorder<E> {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, E::Header, E::Payload>) {
        let payload = E::Payload::from_view(frame.payload);
        self.0.push((departure.direction, frame.header.clone(), payload));
    }
}

struct Run<'a, S: Describe> {
    network: &'a S,
    simulation: Simulation<EngineOf<S>, Weightless, Recorder<EngineOf<S>>>,
    owners: Vec<S::Owner>,
    ends: BTreeMap<Direction, End>,
}

impl<'a, S: Describe> Run<'a, S> {
    fn new(network: &'a S, path: &Path<S>) -> Self {
        let mut simulation = Simulation::with_observer(Weightless, 0, Recorder(Vec::new()));
        let mut owners = Vec::new();
        for Member { engine, owner } in network.members() {
            simulation.add_node(engine);
            owners.push(owner);
        }
        // Nothing takes any time at any rate. A frame that is not in the path comes in the next step.
        let rate = BitRate::new(1).expect("not zero");
        let config = LinkConfig { rate, latency: Duration::from_micros(1) };
        let mut ends = BTreeMap::new();
        for [a, b] in network.links() {
            let end = |end: End| NodeIndex(u32::from(end.node.0));
            let link: LinkIndex = simulation.connect((end(a), &[a.port]), (end(b), &[b.port]), config);
            ends.extend([(link.forward(), a), (link.backward(), b)]);
        }
        for (&direction, &end) in &ends {
            simulation.set_faults(direction, faults(path, end));
        }
        let firings: Vec<_> = path.0.iter().enumerate().filter_map(firing).collect();
        simulation.prescribe_timers(&firings);
        Self { network, simulation, owners, ends }
    }

    /// Does what happens at `now`.
    fn step(&mut self, now: Instant, step: &Step<EngineOf<S>>) -> Result<(), Fault> {
        self.simulation.observer_mut().0.clear();
        if step.action == Action::Command {
            self.simulation.pass(now);
            self.command(step.node)?;
        }
        self.run(now)?;
        // Owners ask as soon as they want to, once anything has happened to their node.
        let happens = !matches!(step.action, Action::Loss { .. } | Action::Delay { .. });
        while happens && self.network.wants_command(step.node, &self.owners[step.node.index()]) {
            self.command(step.node)?;
            self.run(now)?;
        }
        Ok(())
    }

    /// Does what is due until `now`, and tells the owners.
    fn run(&mut self, now: Instant) -> Result<(), Fault> {
        while let Stopped::Event(emitted) = self.simulation.run(Limits::until(now)) {
            let node = NodeId(emitted.node.0 as u16);
            let observed = self.network.observe(node, &mut self.owners[node.index()], emitted.event);
            observed.map_err(|message| Fault::Wrong { node, message })?;
        }
        Ok(())
    }

    fn command(&mut self, node: NodeId) -> Result<(), Fault> {
        let command = self.network.command(node, &mut self.owners[node.index()]);
        let done = self.simulation.command(NodeIndex(u32::from(node.0)), command);
        done.map_err(|refused| Fault::Refused { node, message: refused.to_string() })
    }

    /// Holds what a step has led to against the path. In what order a node uses several ports is the driver's affair.
    fn compare(&self, step: usize, taken: &Step<EngineOf<S>>) -> Result<(), Divergence> {
        let sent = self.simulation.observer().0.iter();
        let mut found: Vec<Sent<S>> = sent
            .map(|(direction, header, payload)| (self.ends[direction], header.clone(), payload.clone()))
            .collect();
        let mut expected = taken.sent.clone();
        found.sort_by_key(|(end, ..)| *end);
        expected.sort_by_key(|(end, ..)| *end);
        if found != expected {
            let (expected, found) = (self.words(&expected), self.words(&found));
            return Err(Divergence::Sent { step, expected, found });
        }
        let (name, expected) = (self.network.name(taken.node), taken.done);
        let found = self.network.is_done(taken.node, &self.owners[taken.node.index()]);
        if found != expected {
            return Err(Divergence::Done { step, name, expected, found });
        }
        Ok(())
    }

    fn words(&self, sent: &[Sent<S>]) -> String {
        let words = sent.iter().map(|(end, header, payload)| {
            let to = self.network.name(self.network.across(*end).node);
            format!("{} from {} to {to}", self.network.frame(header, payload), self.network.name(end.node))
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// When a step's timer fires, and whose.
fn firing<E: Engine>((index, step): (usize, &Step<E>)) -> Option<Firing<NodeIndex, E::Timer>> {
    match step.action {
        Action::Timer { timer, .. } => {
            Some(Firing { at: time_of(index + 1), node: NodeIndex(u32::from(step.node.0)), timer })
        }
        _ => None,
    }
}

/// What becomes of the frames that leave at an end. What is still on its way in the end comes after it.
fn faults<S: Describe>(path: &Path<S>, end: End) -> FaultPlan {
    use quincunx_network::Fate::{Doubled, Late, Lost};
    let until = |step: Option<usize>| Delay::Until(time_of(step.unwrap_or(path.0.len() + 1)));
    let own = flights(path).into_iter().filter(|flight| flight.from == end);
    FaultPlan::listed(own.map(|flight| {
        let fate = match flight.fate {
            Fate::InOrder { arrival } | Fate::Late { arrival } => Late(until(arrival)),
            Fate::Twice { arrival, copy } => {
                Doubled { first: Some(until(Some(arrival))), copy: Some(until(copy)) }
            }
            Fate::Lost { .. } => Lost,
        };
        (flight.number, fate)
    }))
}
