//! A scenario in virtual time, on links.

use std::collections::BTreeMap;

use quincunx_collective::Numbers;
use quincunx_driver_des::{
    Departure, Limits, LinkConfig, LinkIndex, NodeIndex, Observer, Simulation, Stopped,
};
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::FaultPlan;
use quincunx_nodes::{HostEvent, Station, StationEvent};
use quincunx_sim::packet_fabric::{Framing, RoceMedium};
use quincunx_units::{BitRate, Duration, Instant};
use quincunx_wire::RoceHeader;

use crate::cluster::{Cluster, Wiring};
use crate::run::Sent;
use crate::{Run, RunError, Scenario};

/// More than any run takes whose time-outs are not reached, and enough for many of those that are.
const LIMIT: Duration = Duration::from_secs(100);

/// Keeps every frame that is sent, by link and direction.
#[derive(Default)]
struct Witness {
    sent: BTreeMap<quincunx_driver_des::Direction, Vec<Sent>>,
}

impl Observer<Station<Numbers>> for Witness {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, Numbers>) {
        let sent = Sent { header: *frame.header, payload: frame.payload.to_vec() };
        self.sent.entry(departure.direction).or_default().push(sent);
    }
}

/// Runs a scenario until all is quiet.
///
/// # Errors
/// If not all ranks end well.
pub(crate) fn run(scenario: &Scenario) -> Result<Run, RunError> {
    let cluster = Cluster::new(scenario, Wiring::Links)?;
    let medium = RoceMedium { framing: Framing::Ethernet };
    let mut simulation = Simulation::with_observer(medium, scenario.seed, Witness::default());
    for member in &cluster.members {
        let Ok(station) = Station::new(member.kind);
        simulation.add_node(station);
    }
    let links = connect(&cluster, &mut simulation);
    for losses in &scenario.losses {
        let [from, to] = cluster.direction(losses.from, losses.to)?;
        let direction = match links.get(&[from, to]) {
            Some(link) => link.forward(),
            None => links[&[to, from]].backward(),
        };
        simulation.set_faults(direction, FaultPlan::losing_frames(losses.frames.iter().copied()));
    }
    for (index, member) in cluster.members.iter().enumerate() {
        for order in &member.orders {
            simulation.command(NodeIndex(index as u32), order.clone())?;
        }
    }

    let mut outputs: Vec<Option<Numbers>> = vec![None; usize::from(scenario.shape.ranks())];
    while let Stopped::Event(emitted) = simulation.run(Limits::until(Instant::ZERO + LIMIT)) {
        let member = &cluster.members[emitted.node.0 as usize];
        if let StationEvent::Host(HostEvent::Finished { outcome, output, .. }) = emitted.event {
            if outcome != Outcome::Done {
                return Err(RunError::Failed { rank: member.name.clone(), outcome });
            }
            outputs[member.rank.expect("hosts are ranks").index()] = Some(output);
        }
    }
    let sent = simulation.into_observer().sent.into_iter().map(|(direction, frames)| {
        let (ends, _) = links.iter().find(|(_, link)| **link == direction.link).expect("links are known");
        let [near, far] = ends.map(|end| cluster.members[end].name.clone());
        (if direction.backward { (far, near) } else { (near, far) }, frames)
    });
    Run::new(outputs, sent.collect())
}

/// A link for each two neighbours, by its ends in the order in which they are named.
fn connect(
    cluster: &Cluster,
    simulation: &mut Simulation<Station<Numbers>, RoceMedium, Witness>,
) -> BTreeMap<[usize; 2], LinkIndex> {
    let rate = BitRate::new(100_000_000_000).expect("a rate");
    let config = LinkConfig { rate, latency: Duration::from_micros(1) };
    let mut links = BTreeMap::new();
    for (index, member) in cluster.members.iter().enumerate() {
        for (port, &neighbour) in member.neighbours.iter().enumerate() {
            let back = cluster.members[neighbour].neighbours.iter().position(|&back| back == index);
            let far = (neighbour, back.expect("neighbours are mutual"));
            if index < neighbour {
                let [a, b] =
                    [(index, port), far].map(|(node, port)| (NodeIndex(node as u32), [PortId(port as u16)]));
                links.insert([index, neighbour], simulation.connect((a.0, &a.1), (b.0, &b.1), config));
            }
        }
    }
    links
}
