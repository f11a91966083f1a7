//! A trial in virtual time, on links.

use std::collections::BTreeMap;

use quincunx_cluster::{Cluster, NodeIndex as ClusterNode, Ports};
use quincunx_collective::{Numbers, Payload, Provenance, Rank};
use quincunx_driver_des::{
    Departure, Direction, Limits, LinkConfig, LinkIndex, Medium, NodeIndex, Observer, Simulation, Stopped,
};
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::{Fate, FaultPlan};
use quincunx_nodes::{HostEvent, Node, NodeCommand, NodeDrop, NodeEvent, NodeRejected, NodeTimer};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Operation, RoceHeader, frame_length};

use crate::run::Sent;
use crate::steps::{Data, set_up, steps};
use crate::trial::ends;
use crate::{Run, RunError, Trial};

/// More than any run takes whose time-outs are not reached, and enough for many of those that are.
const LIMIT: Duration = Duration::from_secs(100);

/// Longer than any collective takes here, and enough for some time-outs.
const PATIENCE: Duration = Duration::from_millis(200);

/// Frames as long as they are; answers go before requests, as on the wire.
struct Wire;

impl<E: Engine<Header = RoceHeader>> Medium<E> for Wire {
    fn wire_length(&self, header: &RoceHeader, payload: usize) -> ByteCount {
        ByteCount::new(frame_length(&header.operation, payload) as u64)
    }

    fn is_urgent(&self, header: &RoceHeader) -> bool {
        matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification)
            || header.is_expedited()
    }
}

/// Keeps every frame that is sent.
#[derive(Default)]
struct Witness {
    sent: Vec<(Direction, Sent)>,
}

impl<E: Engine<Header = RoceHeader>> Observer<E> for Witness {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, E::Payload>) {
        let payload = E::Payload::contents(frame.payload).map(<[u8]>::to_vec).unwrap_or_default();
        self.sent.push((departure.direction, Sent { header: *frame.header, payload }));
    }
}

/// What all ranks get, and every frame in the order in which they are sent.
type Simulated<P> = (Vec<P>, Vec<(Direction, Sent)>);

/// What becomes of frames, by direction of a link and by number there.
type Fates = BTreeMap<Direction, BTreeMap<u64, Fate>>;

/// What becomes of a frame on the way between two nodes.
#[derive(Clone, Copy)]
struct Fault {
    ends: [ClusterNode; 2],
    frame: u64,
    fate: Fate,
}

/// What stands where a node of a cluster is, and takes its frames and commands: a [`Node`], or what does as one, such as hardware.
pub trait StandIn<P: Payload>:
    Engine<
        Header = RoceHeader,
        Payload = P,
        Timer = NodeTimer,
        DropReason = NodeDrop,
        Command = NodeCommand<P>,
        Rejected = NodeRejected,
        Event = NodeEvent<P>,
    >
{
}

impl<P: Payload, E> StandIn<P> for E where
    E: Engine<
            Header = RoceHeader,
            Payload = P,
            Timer = NodeTimer,
            DropReason = NodeDrop,
            Command = NodeCommand<P>,
            Rejected = NodeRejected,
            Event = NodeEvent<P>,
        >
{
}

/// What stands at a node of a cluster.
pub(crate) type Cast<'a, E> = &'a dyn Fn(&Cluster, ClusterNode) -> E;

/// Ours, everywhere.
pub(crate) fn ours<P: Payload>(cluster: &Cluster, node: ClusterNode) -> Node<P> {
    let Ok(node) = Node::new(cluster.kind(node));
    node
}

/// Runs a trial until all is quiet.
///
/// # Errors
/// If not all ranks end well.
pub(crate) fn run(trial: &Trial) -> Result<Run, RunError> {
    run_in_virtual_time(trial, &ours)
}

/// Runs a trial in virtual time until all is quiet, with whatever `cast` puts where its nodes are.
///
/// # Errors
/// If not all ranks end well.
pub fn run_in_virtual_time<E: StandIn<Numbers>>(trial: &Trial, cast: Cast<'_, E>) -> Result<Run, RunError> {
    let cluster = trial.cluster()?;
    let (outputs, sent) = simulate(trial, &cluster, cast)?;
    let mut flows: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
    for (direction, frame) in sent {
        let [from, to] = endpoints(&cluster, &frame);
        // What a switch forwards has been counted where it was sent.
        if sender(&cluster, direction) == from {
            let name = |node: ClusterNode| cluster.wiring().nodes()[node].name.clone();
            flows.entry((name(from), name(to))).or_default().push(frame);
        }
    }
    Ok(Run { outputs, sent: flows })
}

/// What ranks get if each element says who has contributed to it.
///
/// # Errors
/// If not all ranks end well.
pub(crate) fn contributions(trial: &Trial) -> Result<Vec<Provenance>, RunError> {
    Ok(simulate(trial, &trial.cluster()?, &ours)?.0)
}

/// The nodes that a frame is from and for.
fn endpoints(cluster: &Cluster, frame: &Sent) -> [ClusterNode; 2] {
    [frame.header.source, frame.header.destination]
        .map(|address| cluster.node_at(address).expect("frames go from node to node"))
}

/// The node that sends in a direction of a link. Links have the numbers of the wiring.
fn sender(cluster: &Cluster, direction: Direction) -> ClusterNode {
    let [a, b] = cluster.wiring().links()[direction.link.0 as usize].ends;
    if direction.backward { b.node } else { a.node }
}

/// The direction of a link in which a node sends what is for another one.
fn way(cluster: &Cluster, [from, to]: [ClusterNode; 2]) -> Direction {
    let port = cluster.port(from, to).expect("there is a way between nodes that are connected");
    let is_near = |end: &quincunx_cluster::WiringEnd| (end.node, end.port) == (from, port);
    let mut links = cluster.wiring().links().iter().enumerate();
    let found = links.find_map(|(link, wired)| wired.ends.iter().position(is_near).map(|end| (link, end)));
    let (link, end) = found.expect("ports have links");
    let link = LinkIndex(link as u32);
    if end == 0 { link.forward() } else { link.backward() }
}

/// Runs a trial with its faults. A frame's number on a link is its number between two nodes where no others use the link. Elsewhere a
/// run without the fault tells it: up to the fault all runs are the same. A frame that is never sent meets no fault.
fn simulate<P: Data, E: StandIn<P>>(
    trial: &Trial,
    cluster: &Cluster,
    cast: Cast<'_, E>,
) -> Result<Simulated<P>, RunError> {
    let mut fates = Fates::new();
    let mut pending: Vec<Fault> = Vec::new();
    for (direction, listed) in &trial.faults.fates {
        let ends = ends(cluster, direction)?;
        let is_far = cluster.wiring().neighbours(ends[0]).all(|(_, far)| far.node != ends[1]);
        for (&frame, &fate) in listed {
            if is_far {
                pending.push(Fault { ends, frame, fate });
            } else {
                fates.entry(way(cluster, ends)).or_default().insert(frame, fate);
            }
        }
    }
    loop {
        let found = simulate_once(trial, cluster, cast, &fates)?;
        let places = pending.iter().enumerate().filter_map(|(index, fault)| {
            let place = place(cluster, &found.1, fault)?;
            Some((place, index))
        });
        // The first one: what comes after it may change.
        let Some(((_, direction, number), index)) = places.min() else { return Ok(found) };
        let fault = pending.remove(index);
        fates.entry(direction).or_default().insert(number, fault.fate);
    }
}

/// Which of all frames a fault names, in which direction of a link, and the frame's number there.
fn place(cluster: &Cluster, sent: &[(Direction, Sent)], fault: &Fault) -> Option<(usize, Direction, u64)> {
    let direction = way(cluster, fault.ends);
    let there = sent.iter().enumerate().filter(|(_, (other, _))| *other == direction);
    let there = (0..).zip(there);
    let mut between = there.filter(|(_, (_, (_, frame)))| endpoints(cluster, frame) == fault.ends);
    between.nth(fault.frame as usize).map(|(number, (at, _))| (at, direction, number))
}

/// What ranks are told of a collective of which `dissenter` is asked for what `other` says: by rank, nothing where nothing has ended. The
/// cluster is that of the trial with the longer vectors.
///
/// # Errors
/// If a design refuses any of it.
pub(crate) fn disagree(
    trial: &Trial,
    other: &Trial,
    dissenter: Rank,
) -> Result<Vec<Option<Outcome>>, RunError> {
    let cluster = if trial.length < other.length { other.cluster()? } else { trial.cluster()? };
    let wiring = cluster.wiring();
    let mut simulation = simulation_of(&cluster, trial.seed, &ours::<Numbers>, ())?;
    let (own, others) = (steps::<Numbers>(trial), steps::<Numbers>(other));
    for rank in (0..wiring.ranks()).map(Rank) {
        let (trial, steps) = if rank == dissenter { (other, &others) } else { (trial, &own) };
        for command in steps[0].commands(trial, rank) {
            simulation.command(NodeIndex(wiring.host(rank) as u32), command)?;
        }
    }
    let mut told = vec![None; usize::from(wiring.ranks())];
    while let Stopped::Event(emitted) = simulation.run(Limits::until(Instant::ZERO + PATIENCE)) {
        if let NodeEvent::Host(HostEvent::Finished { outcome, .. }) = emitted.event {
            let rank = wiring.rank_at(emitted.node.0 as usize).expect("hosts are ranks");
            told[rank.index()] = Some(outcome);
        }
    }
    Ok(told)
}

/// The nodes of a cluster on links, set up.
fn simulation_of<P: Data, E: StandIn<P>, O: Observer<E>>(
    cluster: &Cluster,
    seed: u64,
    cast: Cast<'_, E>,
    observer: O,
) -> Result<Simulation<E, Wire, O>, RunError> {
    let mut simulation = Simulation::with_observer(Wire, seed, observer);
    let wiring = cluster.wiring();
    for node in 0..wiring.nodes().len() {
        simulation.add_node(cast(cluster, node));
    }
    for link in wiring.links() {
        let config = LinkConfig { rate: link.properties.rate, latency: link.properties.latency };
        let [a, b] = link.ends.map(|end| (NodeIndex(end.node as u32), [PortId(end.port)]));
        simulation.connect((a.0, &a.1), (b.0, &b.1), config);
    }
    let commands = set_up(cluster, Ports::Links)?;
    for (node, commands) in commands.into_iter().enumerate() {
        for command in commands {
            simulation.command(NodeIndex(node as u32), command)?;
        }
    }
    Ok(simulation)
}

fn simulate_once<P: Data, E: StandIn<P>>(
    trial: &Trial,
    cluster: &Cluster,
    cast: Cast<'_, E>,
    fates: &Fates,
) -> Result<Simulated<P>, RunError> {
    let wiring = cluster.wiring();
    let mut simulation = simulation_of(cluster, trial.seed, cast, Witness::default())?;
    for (direction, listed) in fates {
        let fates = listed.iter().map(|(&frame, &fate)| (frame, fate));
        simulation.set_faults(*direction, FaultPlan::listed(fates));
    }

    let steps = steps::<P>(trial);
    let mut outputs: Vec<Vec<Option<P>>> = steps.iter().map(|step| vec![None; step.inputs.len()]).collect();
    let mut next = vec![0; usize::from(wiring.ranks())];
    for rank in (0..wiring.ranks()).map(Rank) {
        for command in steps[0].commands(trial, rank) {
            simulation.command(NodeIndex(wiring.host(rank) as u32), command)?;
        }
    }
    while let Stopped::Event(emitted) = simulation.run(Limits::until(Instant::ZERO + LIMIT)) {
        let node = emitted.node.0 as usize;
        if let NodeEvent::Host(HostEvent::Finished { outcome, output, .. }) = emitted.event {
            if outcome != Outcome::Done {
                return Err(RunError::Failed { rank: wiring.nodes()[node].name.clone(), outcome });
            }
            let rank = wiring.rank_at(node).expect("hosts are ranks");
            let step = &mut next[rank.index()];
            outputs[*step][rank.index()] = Some(output);
            *step += 1;
            for command in steps.get(*step).into_iter().flat_map(|step| step.commands(trial, rank)) {
                simulation.command(emitted.node, command)?;
            }
        }
    }
    let outputs = crate::run::whole(outputs.into_iter().flatten())?;
    Ok((outputs, simulation.into_observer().sent))
}
