//! A path once more, by a driver that shares no code with the explorer: step `k` happens at `k` microseconds. What becomes of each frame
//! and when timers fire is prescribed by the [list of faults](faults_of) that the path is; that the nodes do the same then is not, and
//! is compared step by step.
//!
//! [`replay`] runs it in virtual time, where frames stay what they are. [`replay_as_bytes`] runs it on nodes of the network driver,
//! which write each frame as bytes and read it back.

use std::collections::BTreeMap;

use quincunx_collective::Payload;
use quincunx_driver_check::{Action, End, Fault, Member, NodeId, Path, Step, catch_panic};
use quincunx_driver_des::{
    Departure, Direction, Limits, LinkConfig, Medium, NodeIndex, Observer, Simulation, Stopped,
};
use quincunx_driver_net::{Codec, Interposed};
use quincunx_engine::{Engine, Frame};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

use crate::codec::{Wired, link_end};
use crate::describe::{CommandOf, Describe, EngineOf, EventOf, HeaderOf, PayloadOf};
use crate::flights::{Times, faults_of};

type Sent<S> = (End, HeaderOf<S>, PayloadOf<S>);

/// The places of frames by the end that sent them, those of one end in their order. Sorting is long, and compiled once.
fn in_order(ends: &[End]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by_key(|&place| ends[place]);
    order
}

/// A frame that is not in the path comes in the next step.
const LATENCY: Duration = Duration::from_micros(1);

/// How a run departs from the path that it replays. Steps are counted from 1.
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
    /// A link marks a frame, which no list of faults prescribes.
    #[error("expected a path that a list of faults can say, found a frame that is marked in step {step}")]
    Marked {
        /// When.
        step: usize,
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
    run(network, path, VirtualTime::new(network, path))
}

/// Runs `path` as [`replay`] does, on nodes of the network driver in one process: every frame travels as bytes.
///
/// # Errors
/// If the run departs from the path.
///
/// # Panics
/// If the process has no file descriptor left, or a codec cannot read what one has written.
pub fn replay_as_bytes<S: Wired>(network: &S, path: &Path<S>) -> Result<Option<Fault>, Divergence> {
    run(network, path, AsBytes::new(network, path))
}

fn run<S: Describe>(
    network: &S,
    path: &Path<S>,
    driver: impl Driver<S>,
) -> Result<Option<Fault>, Divergence> {
    let times = Times::new(path);
    let owners = network.members().into_iter().map(|member| member.owner).collect();
    let mut run = ReplayRun { network, driver, owners };
    for (step, taken) in path.0.iter().enumerate().map(|(index, taken)| (index + 1, taken)) {
        if let Action::Mark { .. } = taken.action {
            return Err(Divergence::Marked { step });
        }
        let node = taken.node;
        let owner = run.owners[node.index()].clone();
        let result = catch_panic(|| run.step(times.of(step), taken));
        let mut result = result.unwrap_or_else(|message| Err(Fault::Panic { node, message }));
        if result.is_ok() {
            let sent = run.driver.take_sent();
            let check = |(_, header, _): &(_, _, _)| network.check_sent(node, &owner, header).err();
            let carried =
                |(_, header, payload): &(_, _, _)| network.check_carried(node, header, payload).err();
            let wrong = sent.iter().filter_map(check).min();
            let wrong = wrong.or_else(|| sent.iter().filter_map(carried).min());
            result = wrong.map_or(Ok(()), |message| Err(Fault::Wrong { node, message }));
            // Where that is wrong the path ends, and with it what the node sends.
            if result.is_ok() {
                run.compare(step, taken, sent)?;
            }
        }
        match result {
            Err(fault) if step == path.0.len() => return Ok(Some(fault)),
            Err(fault) => return Err(Divergence::Early { steps: path.0.len(), step, fault }),
            Ok(()) => {}
        }
    }
    Ok(None)
}

/// Who runs the nodes.
trait Driver<S: Describe> {
    /// Does what is due until `now`, until a node tells something: who, and what.
    fn run(&mut self, now: Instant) -> Option<(NodeId, EventOf<S>)>;

    /// Gives a node an order at `now`; its refusal is told in words.
    fn command(&mut self, now: Instant, node: NodeId, command: CommandOf<S>) -> Result<(), String>;

    /// What has been sent since the last call.
    fn take_sent(&mut self) -> Vec<Sent<S>>;
}

struct ReplayRun<'a, S: Describe, D> {
    network: &'a S,
    driver: D,
    owners: Vec<S::Owner>,
}

impl<S: Describe, D: Driver<S>> ReplayRun<'_, S, D> {
    /// Does what happens at `now`.
    fn step(&mut self, now: Instant, step: &Step<EngineOf<S>>) -> Result<(), Fault> {
        match step.action {
            Action::Command => self.command(now, step.node)?,
            Action::Notice(notice) => {
                let owner = &mut self.owners[step.node.index()];
                if let Some(command) = self.network.take_notice(step.node, owner, notice) {
                    self.give(now, step.node, command)?;
                }
            }
            _ => {}
        }
        self.run(now)?;
        // Owners ask as soon as they want to, once anything has happened to their node.
        let happens = !matches!(
            step.action,
            Action::Loss { .. } | Action::Delay { .. } | Action::Mark { .. } | Action::Clock
        );
        while happens && self.network.wants_command(step.node, &self.owners[step.node.index()]) {
            self.command(now, step.node)?;
            self.run(now)?;
        }
        Ok(())
    }

    /// Does what is due until `now`, and tells the owners.
    fn run(&mut self, now: Instant) -> Result<(), Fault> {
        while let Some((node, event)) = self.driver.run(now) {
            let observed = self.network.observe(node, &mut self.owners[node.index()], event);
            observed.map_err(|message| Fault::Wrong { node, message })?;
        }
        Ok(())
    }

    fn command(&mut self, now: Instant, node: NodeId) -> Result<(), Fault> {
        let command = self.network.command(node, &mut self.owners[node.index()]);
        self.give(now, node, command)
    }

    fn give(&mut self, now: Instant, node: NodeId, command: CommandOf<S>) -> Result<(), Fault> {
        self.driver.command(now, node, command).map_err(|message| Fault::Refused { node, message })
    }

    /// Holds what a step has led to against the path. In what order a node uses several ports is the driver's affair.
    fn compare(
        &mut self,
        step: usize,
        taken: &Step<EngineOf<S>>,
        found: Vec<Sent<S>>,
    ) -> Result<(), Divergence> {
        let sorted = |sent: &[Sent<S>]| -> Vec<Sent<S>> {
            let order = in_order(&sent.iter().map(|(end, ..)| *end).collect::<Vec<_>>());
            order.into_iter().map(|place| sent[place].clone()).collect()
        };
        let (found, expected) = (sorted(&found), sorted(&taken.sent));
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

/// Nodes in virtual time.
struct VirtualTime<S: Describe> {
    simulation: Simulation<EngineOf<S>, Weightless, Recorder<EngineOf<S>>>,
    ends: BTreeMap<Direction, End>,
}

impl<S: Describe> VirtualTime<S> {
    fn new(network: &S, path: &Path<S>) -> Self {
        let mut simulation = Simulation::with_observer(Weightless, 0, Recorder(Vec::new()));
        let index = |node: NodeId| NodeIndex(u32::from(node.0));
        for Member { engine, .. } in network.members() {
            simulation.add_node(engine);
        }
        // Nothing takes any time at any rate.
        let config = LinkConfig { rate: BitRate::new(1).expect("not zero"), latency: LATENCY };
        let mut ends = BTreeMap::new();
        for [a, b] in network.links() {
            let link = simulation.connect((index(a.node), &[a.port]), (index(b.node), &[b.port]), config);
            ends.extend([(link.forward(), a), (link.backward(), b)]);
        }
        simulation.prescribe(&faults_of(path).renamed(index));
        Self { simulation, ends }
    }
}

impl<S: Describe> Driver<S> for VirtualTime<S> {
    fn run(&mut self, now: Instant) -> Option<(NodeId, EventOf<S>)> {
        match self.simulation.run(Limits::until(now)) {
            Stopped::Event(emitted) => Some((NodeId(emitted.node.0 as u16), emitted.event)),
            _ => None,
        }
    }

    fn command(&mut self, now: Instant, node: NodeId, command: CommandOf<S>) -> Result<(), String> {
        self.simulation.pass(now);
        let done = self.simulation.command(NodeIndex(u32::from(node.0)), command);
        done.map_err(|refused| refused.to_string())
    }

    fn take_sent(&mut self) -> Vec<Sent<S>> {
        let sent = std::mem::take(&mut self.simulation.observer_mut().0);
        sent.into_iter()
            .map(|(direction, header, payload)| (self.ends[&direction], header, payload))
            .collect()
    }
}

/// Nodes of the network driver, with their codecs.
struct AsBytes<S: Wired> {
    network: Interposed<EngineOf<S>, S::Codec>,
    /// One of each node, to read what is sent there.
    codecs: Vec<S::Codec>,
    links: BTreeMap<End, End>,
}

impl<S: Wired> AsBytes<S> {
    fn new(network: &S, path: &Path<S>) -> Self {
        let links = network.links();
        let ends = links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let links_by_end: BTreeMap<End, End> = ends.collect();
        let members = || (0..).map(NodeId).zip(network.members());
        let nodes = members().map(|(node, Member { engine, .. })| {
            let own = links_by_end.keys().filter(|end| end.node == node);
            let ports = own.map(|end| end.port.0 + 1).max().unwrap_or(1);
            (engine, ports, network.codec(node))
        });
        let links: Vec<_> = links.iter().map(|ends| ends.map(link_end)).collect();
        let faults = faults_of(path).renamed(NodeId::index);
        let nodes = Interposed::new(nodes, &links, LATENCY, faults);
        Self {
            network: nodes.expect("a file descriptor for each node"),
            codecs: members().map(|(node, _)| network.codec(node)).collect(),
            links: links_by_end,
        }
    }
}

impl<S: Wired> Driver<S> for AsBytes<S> {
    fn run(&mut self, now: Instant) -> Option<(NodeId, EventOf<S>)> {
        self.network.run(now).expect("nothing fails between nodes of one process");
        let (node, event) = self.network.next_event()?;
        Some((NodeId(node as u16), event))
    }

    fn command(&mut self, now: Instant, node: NodeId, command: CommandOf<S>) -> Result<(), String> {
        self.network.run(now).expect("nothing fails between nodes of one process");
        self.network.command(node.index(), command).map_err(|refused| refused.to_string())
    }

    fn take_sent(&mut self) -> Vec<Sent<S>> {
        let sent = self.network.take_sent().into_iter().map(|frame| {
            let from = End { node: NodeId(frame.from.0 as u16), port: frame.from.1 };
            let codec = &mut self.codecs[self.links[&from].node.index()];
            let parsed = codec.parse(&frame.datagram, &frame.bytes);
            let (header, payload) = parsed.expect("what one codec writes another reads");
            (from, header, PayloadOf::<S>::from_view(payload))
        });
        sent.collect()
    }
}
