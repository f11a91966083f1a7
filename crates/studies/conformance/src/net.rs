//! A trial on UDP sockets: each node is a thread with a loopback address of its own. RoCE v1 frames are what sockets carry, and hosts
//! send all of them to their switch.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant as RealInstant;

use quincunx_cluster::{Cluster, NodeIndex, Ports};
use quincunx_collective::{Numbers, Rank};
use quincunx_driver_net::{Direction, NodeOptions, Observer};
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::{HostEvent, NodeCommand, NodeEvent, NodeKind};
use quincunx_runtime::RoceCodec;
use quincunx_sockets::{Datagram, UdpOptions, UdpTransport};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Framing, UdpPath, parse_datagram, v1};

use crate::des::{Cast, StandIn, ours};
use crate::run::Sent;
use crate::steps::{set_up, steps};
use crate::trial::ends;
use crate::{Run, RunError, Trial};

/// UDP port of RoCEv2 (InfiniBand Architecture annex A17).
const ROCE_PORT: u16 = 4791;

/// After this long a run counts as hung.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// A node's addresses serve one run at a time.
static ADDRESSES: Mutex<()> = Mutex::new(());

type SocketNode<E> = quincunx_driver_net::Node<E, RoceCodec, UdpTransport>;
type Log = Arc<Mutex<Vec<Sent>>>;

/// What a node is asked for, one after the other.
type Orders = Vec<Vec<NodeCommand<Numbers>>>;

/// Keeps every frame that a node sends; what a switch sends on has been kept where it was sent.
struct Witness {
    framing: Framing,
    log: Log,
}

impl Observer for Witness {
    fn observe(&mut self, _: Instant, direction: Direction, datagram: &Datagram, bytes: &[u8]) {
        if direction == Direction::Sent {
            let path = UdpPath {
                source: datagram.source.ip().into(),
                destination: datagram.destination.ip().into(),
                source_port: datagram.source.port(),
                traffic_class: datagram.tos,
            };
            let read = match self.framing {
                Framing::RoceV2 => parse_datagram(&path, bytes),
                Framing::RoceV1 => v1::parse_packet(bytes),
            };
            let (header, payload) = read.expect("what the codec writes can be read");
            if header.source == path.source {
                let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push(Sent { header, payload: payload.to_vec() });
            }
        }
    }
}

/// Runs a trial until all ranks have ended.
///
/// # Errors
/// If not all of them end well.
pub(crate) fn run(trial: &Trial) -> Result<Run, RunError> {
    run_on_sockets(trial, &ours)
}

/// Runs a trial on sockets until all ranks have ended, with whatever `cast` puts where its nodes are.
///
/// # Errors
/// If not all of them end well.
pub fn run_on_sockets<E: StandIn<Numbers> + Send>(trial: &Trial, cast: Cast<'_, E>) -> Result<Run, RunError> {
    let _alone = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = trial.cluster()?;
    let mut orders = orders(trial, &cluster);
    // All are bound, and all have their orders, before the first one sends.
    let mut nodes = Vec::new();
    for (node, commands) in set_up(&cluster, Ports::Socket)?.into_iter().enumerate() {
        let (mut opened, log) = open(trial, &cluster, cast, node)?;
        let first = if orders[node].is_empty() { Vec::new() } else { orders[node].remove(0) };
        for command in commands.into_iter().chain(first) {
            opened.command(command)?;
        }
        nodes.push((opened, log));
    }
    let unfinished = &AtomicUsize::new(cluster.wiring().hosts().len());
    let ended: Vec<Result<Vec<Numbers>, RunError>> = thread::scope(|scope| {
        let threads: Vec<_> = nodes
            .iter_mut()
            .zip(orders)
            .zip(cluster.wiring().nodes())
            .map(|(((node, _), orders), wired)| {
                scope.spawn(move || serve(node, &wired.name, orders, unfinished))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no node panics")).collect()
    });
    drain(&mut nodes)?;
    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    let of_step = |step: usize| {
        let hosts = cluster.wiring().hosts().iter();
        hosts.map(move |&host| (host, step))
    };
    let outputs = (0..steps::<Numbers>(trial).len()).flat_map(of_step);
    let outputs = outputs.map(|(host, step)| ended[host].get(step).cloned());
    let mut sent: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
    for (_, log) in &nodes {
        for frame in log.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let name = |address| {
                let node = cluster.node_at(address).expect("frames go from node to node");
                cluster.wiring().nodes()[node].name.clone()
            };
            let flow = (name(frame.header.source), name(frame.header.destination));
            sent.entry(flow).or_default().push(frame);
        }
    }
    Ok(Run { outputs: crate::run::whole(outputs)?, sent })
}

/// By node: what it is asked for, step by step; a switch for nothing.
fn orders(trial: &Trial, cluster: &Cluster) -> Vec<Orders> {
    let steps = steps(trial);
    let of = |rank: Rank| steps.iter().map(|step| step.commands(trial, rank)).collect();
    let nodes = 0..cluster.wiring().nodes().len();
    nodes.map(|node| cluster.wiring().rank_at(node).map(of).unwrap_or_default()).collect()
}

fn open<E: StandIn<Numbers>>(
    trial: &Trial,
    cluster: &Cluster,
    cast: Cast<'_, E>,
    node: NodeIndex,
) -> Result<(SocketNode<E>, Log), RunError> {
    let socket = |node| SocketAddr::new(cluster.address(node).address(), ROCE_PORT);
    let framing = trial.design.about().framing;
    let is_cabled = framing == Framing::RoceV1 && cluster.kind(node) == NodeKind::Host;
    let next = cluster.wiring().neighbours(node).next().filter(|_| is_cabled);
    let via = next.map(|(_, switch)| socket(switch.node));
    let transport = UdpTransport::open(socket(node), UdpOptions { via, ..UdpOptions::default() })?;
    // Threads share few processors: whoever has nothing to do sleeps.
    let options = NodeOptions { spin: Duration::ZERO, ..NodeOptions::default() };
    let mut opened = SocketNode::new(cast(cluster, node), 1, RoceCodec::new(framing), transport, options)?;
    let log = Log::default();
    opened.set_observer(Some(Box::new(Witness { framing, log: log.clone() })));
    for (direction, plan) in trial.faults.plans() {
        let [from, to] = ends(cluster, direction)?;
        if from == node {
            opened.set_faults(socket(to), plan, 0);
        }
    }
    Ok((opened, log))
}

/// Turns the nodes until every frame that was sent has been handled, and nobody has answered: what ranks owed to each other
/// when the last of them ended is part of the run.
fn drain<E: StandIn<Numbers>>(nodes: &mut [(SocketNode<E>, Log)]) -> Result<(), RunError> {
    let end = RealInstant::now() + LIMIT;
    let mut before = None;
    loop {
        for (node, _) in &mut *nodes {
            node.turn(Duration::ZERO)?;
        }
        let sent: u64 = nodes.iter().map(|(node, _)| node.statistics().sent.frames).sum();
        let received: u64 = nodes.iter().map(|(node, _)| node.statistics().received.frames).sum();
        let is_quiet = sent == received && before == Some(sent);
        if is_quiet || RealInstant::now() >= end {
            return Ok(());
        }
        before = Some(sent);
    }
}

/// Turns a node until all ranks have ended; the results of a rank.
fn serve<E: StandIn<Numbers>>(
    node: &mut SocketNode<E>,
    name: &str,
    orders: Orders,
    unfinished: &AtomicUsize,
) -> Result<Vec<Numbers>, RunError> {
    let end = RealInstant::now() + LIMIT;
    let mut orders = orders.into_iter();
    let mut results = Vec::new();
    while unfinished.load(Ordering::SeqCst) > 0 && RealInstant::now() < end {
        node.turn(Duration::from_millis(1))?;
        while let Some(event) = node.next_event() {
            if let NodeEvent::Host(HostEvent::Finished { outcome, output, .. }) = event {
                let next = orders.next();
                if next.is_none() || outcome != Outcome::Done {
                    unfinished.fetch_sub(1, Ordering::SeqCst);
                }
                if outcome != Outcome::Done {
                    return Err(RunError::Failed { rank: name.to_owned(), outcome });
                }
                results.push(output);
                for command in next.into_iter().flatten() {
                    node.command(command)?;
                }
            }
        }
    }
    Ok(results)
}
