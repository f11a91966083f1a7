//! A scenario on UDP sockets: each node is a thread with a loopback address of its own.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant as RealInstant;

use quincunx_collective::Numbers;
use quincunx_driver_net::{Datagram, Direction, Node, NodeOptions, Observer, UdpOptions, UdpTransport};
use quincunx_engine::Engine;
use quincunx_engine::verbs::Outcome;
use quincunx_network::FaultPlan;
use quincunx_nodes::{HostEvent, Station, StationEvent};
use quincunx_runtime::RoceCodec;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{UdpPath, parse_datagram};

use crate::cluster::{Cluster, Member, Wiring};
use crate::run::Sent;
use crate::{Run, RunError, Scenario};

/// UDP port of RoCEv2 (InfiniBand Architecture annex A17).
const ROCE_PORT: u16 = 4791;

/// After this long a run counts as hung.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// A node's addresses serve one run at a time.
static ADDRESSES: Mutex<()> = Mutex::new(());

type SocketNode = Node<Station<Numbers>, RoceCodec, UdpTransport>;
type Log = Arc<Mutex<Vec<Sent>>>;

/// Keeps every frame that a node sends.
struct Witness(Log);

impl Observer for Witness {
    fn observe(&mut self, _: Instant, direction: Direction, datagram: &Datagram, bytes: &[u8]) {
        if direction == Direction::Sent {
            let path = UdpPath {
                source: *datagram.source.ip(),
                destination: *datagram.destination.ip(),
                source_port: datagram.source.port(),
                traffic_class: datagram.tos,
            };
            let (header, payload) = parse_datagram(&path, bytes).expect("what the codec writes can be read");
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Sent { header, payload: payload.to_vec() });
        }
    }
}

/// Runs a scenario until all ranks have ended.
///
/// # Errors
/// If not all of them end well.
pub(crate) fn run(scenario: &Scenario) -> Result<Run, RunError> {
    let _alone = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::new(scenario, Wiring::Socket)?;
    // All are bound, and all have their orders, before the first one sends.
    let mut nodes = Vec::new();
    for member in &cluster.members {
        nodes.push(open(scenario, &cluster, member)?);
    }
    let unfinished = &AtomicUsize::new(usize::from(scenario.shape.ranks()));
    let ended: Vec<Result<Option<Numbers>, RunError>> = thread::scope(|scope| {
        let threads: Vec<_> = nodes
            .iter_mut()
            .zip(&cluster.members)
            .map(|((node, _), member)| scope.spawn(move || serve(node, member, unfinished)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no node panics")).collect()
    });
    drain(&mut nodes)?;
    let mut outputs: Vec<Option<Numbers>> = vec![None; usize::from(scenario.shape.ranks())];
    for (output, member) in ended.into_iter().zip(&cluster.members) {
        if let (Some(output), Some(rank)) = (output?, member.rank) {
            outputs[rank.index()] = Some(output);
        }
    }
    let mut sent: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
    for (_, log) in &nodes {
        for frame in log.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let ends = [frame.header.source, frame.header.destination];
            let [from, to] = ends.map(|address| cluster.name_of(address).to_owned());
            sent.entry((from, to)).or_default().push(frame);
        }
    }
    Run::new(outputs, sent)
}

fn open(scenario: &Scenario, cluster: &Cluster, member: &Member) -> Result<(SocketNode, Log), RunError> {
    let socket = |member: &Member| SocketAddrV4::new(member.address, ROCE_PORT);
    let transport = UdpTransport::open(socket(member), UdpOptions::default())?;
    let Ok(engine) = Station::new(member.kind);
    // Threads share few processors: whoever has nothing to do sleeps.
    let options = NodeOptions { spin: Duration::ZERO, ..NodeOptions::default() };
    let mut node = Node::new(engine, 1, RoceCodec, transport, options)?;
    let log = Log::default();
    node.set_observer(Some(Box::new(Witness(log.clone()))));
    for losses in &scenario.losses {
        let [from, to] = cluster.direction(losses.from, losses.to)?;
        if cluster.members[from].address == member.address {
            let plan = FaultPlan::losing_frames(losses.frames.iter().copied());
            node.set_faults(socket(&cluster.members[to]), plan, 0);
        }
    }
    for order in &member.orders {
        node.command(order.clone())?;
    }
    Ok((node, log))
}

/// Turns the nodes until every frame that was sent has been handled, and nobody has answered: what ranks owed to each other
/// when the last of them ended is part of the run.
fn drain(nodes: &mut [(SocketNode, Log)]) -> Result<(), RunError> {
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

/// Turns a node until all ranks have ended; the result of a rank.
fn serve(
    node: &mut SocketNode,
    member: &Member,
    unfinished: &AtomicUsize,
) -> Result<Option<Numbers>, RunError> {
    let end = RealInstant::now() + LIMIT;
    let mut result = None;
    while unfinished.load(Ordering::SeqCst) > 0 && RealInstant::now() < end {
        node.turn(Duration::from_millis(1))?;
        while let Some(event) = node.next_event() {
            if let StationEvent::Host(HostEvent::Finished { outcome, output, .. }) = event {
                unfinished.fetch_sub(1, Ordering::SeqCst);
                if outcome != Outcome::Done {
                    return Err(RunError::Failed { rank: member.name.clone(), outcome });
                }
                result = Some(output);
            }
        }
    }
    Ok(result)
}
