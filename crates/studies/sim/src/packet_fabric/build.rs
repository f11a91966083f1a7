//! From a cluster to its nodes on links in virtual time, with loss, traffic of others, limits of queues and pauses.

use super::data::Data;
use super::{LinkUse, RoceMedium, SimulationError, Surroundings};
use quincunx_cluster::{Cluster, Ports};
use quincunx_collective::Rank;
use quincunx_driver_des::{
    Direction, DirectionStatistics, LinkConfig, LinkIndex, NodeIndex, Observer, PauseConfig, QueueConfig,
    Simulation,
};
use quincunx_engine::{Engine, PortId};
use quincunx_network::FaultPlan;
use quincunx_nodes::{Node, NodeKind};
use quincunx_scenario::Scenario;
use quincunx_units::Duration;

/// Nodes on links, a group installed if the cluster has one.
pub(crate) struct Built<P: Data, O> {
    pub(crate) simulation: Simulation<Node<P>, RoceMedium, O>,
    /// Nodes have the numbers that they have there.
    pub(crate) cluster: Cluster,
    /// How long frames are.
    pub(crate) medium: RoceMedium,
    /// What packets of traffic carry.
    pub(crate) filling: P,
}

/// A node of a cluster as the simulation numbers it.
pub(super) fn index(node: usize) -> NodeIndex {
    NodeIndex(node as u32)
}

/// The nodes that a direction comes from and goes to.
fn ends(cluster: &Cluster, direction: Direction) -> [usize; 2] {
    let [first, second] = cluster.wiring().links()[direction.link.0 as usize].ends.map(|end| end.node);
    if direction.backward { [second, first] } else { [first, second] }
}

/// What these nodes are called.
pub(super) fn names(cluster: &Cluster, direction: Direction) -> [&str; 2] {
    ends(cluster, direction).map(|end| cluster.wiring().nodes()[end].name.as_str())
}

/// Whether they are ranks.
pub(super) fn joins_ranks(cluster: &Cluster, direction: Direction) -> [bool; 2] {
    ends(cluster, direction).map(|end| cluster.kind(end) == NodeKind::Host)
}

/// Every direction of every link, with the names of its ends.
pub(super) fn directions(cluster: &Cluster) -> impl Iterator<Item = (Direction, String)> {
    let links = (0..cluster.wiring().links().len() as u32).map(LinkIndex);
    let directions = links.flat_map(|link| [link.forward(), link.backward()]);
    directions.map(|direction| (direction, names(cluster, direction).join(" > ")))
}

impl<P: Data, O: Observer<Node<P>>> Built<P, O> {
    pub(crate) fn new(
        scenario: &Scenario,
        cluster: Cluster,
        seed: u64,
        observer: O,
    ) -> Result<Self, SimulationError> {
        let around = scenario.fabric.packet_link().and_then(|link| link.framing);
        let medium = RoceMedium {
            surroundings: around.map_or(Surroundings::Ethernet, Surroundings::Fixed),
            framing: cluster.framing(),
        };
        let mut simulation = Simulation::with_observer(medium, seed, observer);
        let wiring = cluster.wiring();
        for node in 0..wiring.nodes().len() {
            let Ok(engine) = Node::new(cluster.kind(node));
            simulation.add_node(engine);
        }
        for link in wiring.links() {
            let [a, b] = link.ends.map(|end| (index(end.node), [PortId(end.port)]));
            let config = LinkConfig { rate: link.properties.rate, latency: link.properties.latency };
            simulation.connect((a.0, &a.1), (b.0, &b.1), config);
        }
        for node in 0..wiring.nodes().len() {
            for command in cluster.commands(node, Ports::Links, None)? {
                simulation.command(index(node), command)?;
            }
        }
        let mut built = Self { simulation, cluster, medium, filling: P::zeroed(scenario.packet.as_usize()) };
        built.disturb(scenario);
        Ok(built)
    }

    /// Loss, background traffic, limits of queues, and pauses.
    fn disturb(&mut self, scenario: &Scenario) {
        let wiring = self.cluster.wiring();
        let of_first_hosts = |hosts: u16| {
            let links = (0..hosts).map(Rank).flat_map(|rank| wiring.access(rank));
            links.map(|link| LinkIndex(*link as u32)).flat_map(|link| [link.forward(), link.backward()])
        };
        if let Some(loss) = &scenario.faults.loss {
            for direction in of_first_hosts(loss.links) {
                self.simulation.set_faults(direction, FaultPlan::losing(loss.probability));
            }
        }
        let congestion = &scenario.faults.congestion;
        if let Some(rate) = congestion.background {
            for direction in of_first_hosts(congestion.links) {
                self.simulation.set_background(direction, Some(rate));
            }
        }
        let queue = QueueConfig { limit: congestion.queue, mark_above: congestion.mark_above };
        for link in 0..wiring.links().len() as u32 {
            for direction in [LinkIndex(link).forward(), LinkIndex(link).backward()] {
                self.simulation.set_queue(direction, queue);
                let [_, to] = ends(&self.cluster, direction);
                if let Some(pause) = &congestion.pause
                    && self.cluster.kind(to) == NodeKind::Switch
                {
                    let pause = PauseConfig { xoff: pause.xoff, xon: pause.xon };
                    self.simulation.set_pause(direction, pause);
                }
            }
        }
    }

    /// What links have carried, as shares of `time`.
    pub(crate) fn links(&self, time: Duration) -> Vec<LinkUse> {
        let share = |busy: Duration| {
            if time == Duration::ZERO { 0.0 } else { busy.as_secs_f64() / time.as_secs_f64() }
        };
        let link_use = |(direction, statistics): (Direction, DirectionStatistics)| {
            let joins_ranks = joins_ranks(&self.cluster, direction);
            let [from, to] = names(&self.cluster, direction).map(str::to_owned);
            LinkUse { from, to, joins_ranks, utilisation: share(statistics.busy), statistics }
        };
        self.simulation.statistics().map(link_use).collect()
    }
}
