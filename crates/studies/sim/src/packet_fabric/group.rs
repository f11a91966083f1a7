//! A group of ranks in a simulation, and running collectives on it one after the other.

use quincunx_cluster::Cluster;
use quincunx_collective::{Collective, GroupId, Rank, Reduction};
use quincunx_design::FabricKind;
use quincunx_driver_des::{Direction, Limits, NodeIndex, Observer, Simulation, Stopped};
use quincunx_engine::Terms;
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::{HostCommand, HostEvent, Node, NodeCommand, NodeEvent};
use quincunx_units::{ByteCount, Duration, Instant};

use super::build::{Built, index, joins_ranks, names};
use super::data::Data;
use super::observer::OutputObserver;
use super::retransmissions::Retransmissions;
use super::{LinkUse, RoceMedium, SimulationError};
use crate::progress::ProgressFn;
use crate::session::{Next, Runs, Session};
use crate::traffic::{Carrying, Source};
use crate::{Outputs, Request};

/// What clusters install.
const GROUP: GroupId = GroupId(1);

/// A collective that has ended well at all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished<P> {
    /// By rank: how long after the start.
    pub after: Vec<Duration>,
    /// By rank: the input as it was given.
    pub inputs: Vec<P>,
    /// By rank.
    pub outputs: Vec<P>,
}

/// Hosts, switches and links, with one group on them.
pub struct SimulatedGroup<P: Data, O = ()> {
    built: Built<P, O>,
    traffic: Option<Source>,
}

/// A group in which it is counted what is sent again, and whose frames may be written.
pub(super) type ObservedGroup<P> = SimulatedGroup<P, (Retransmissions, OutputObserver)>;

impl<P: Data> ObservedGroup<P> {
    /// Has what follows be written.
    pub(super) fn observe(&mut self, outputs: Outputs) -> Result<(), SimulationError> {
        let outputs = OutputObserver::new(outputs, self.cluster()).map_err(SimulationError::output)?;
        *self.simulation_mut().observer_mut() = (Retransmissions::of(self.cluster(), &[GROUP]), outputs);
        Ok(())
    }
}

impl<P: Data> SimulatedGroup<P> {
    /// A group of a request's design on its fabric that nobody watches. Its buffers are for the request's collective and size.
    ///
    /// # Errors
    /// If the design refuses the fabric or its parameters, or a node refuses its set-up.
    pub fn new(request: &Request) -> Result<Self, SimulationError> {
        Self::with_observer(request, ())
    }
}

impl<P: Data, O: Observer<Node<P>>> SimulatedGroup<P, O> {
    /// A group whose frames somebody watches.
    ///
    /// # Errors
    /// As [`new`](SimulatedGroup::new).
    pub fn with_observer(request: &Request, observer: O) -> Result<Self, SimulationError> {
        let (scenario, seed) = (&request.scenario, request.seed);
        let design = request.design;
        let [input, _] = request.vectors()?;
        let mut cluster = Cluster::of(scenario, design, ByteCount::new(input as u64))?;
        if request.background.is_some() {
            if scenario.kind() != FabricKind::Tree {
                return Err(SimulationError::NoWay);
            }
            cluster.forward_everything();
        }
        let mut built = Built::new(scenario, cluster, seed, observer)?;
        let mut traffic = None;
        if let Some(offered) = request.background {
            let mut source = Source::new(offered, built.population()?, seed);
            let settled = Instant::ZERO + source.settling_time(built.link().latency);
            source.run(&mut built, Limits::until(settled));
            built.simulation.reset_statistics();
            traffic = Some(source);
        }
        Ok(Self { built, traffic })
    }

    /// Ranks in the group.
    pub fn ranks(&self) -> u16 {
        self.hosts().len() as u16
    }

    /// Starts a collective at all ranks now and runs until all have ended it, at most `limit`. Buffers are by rank, as
    /// long as [`CollectiveRequest`](quincunx_engine::verbs::CollectiveRequest) says.
    ///
    /// # Errors
    /// If a rank refuses it or fails, or not all end in time.
    pub fn run(
        &mut self,
        collective: Collective,
        reduction: Reduction,
        buffers: Vec<(P, P)>,
        limit: Duration,
        progress: ProgressFn<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        let start = self.simulation().now();
        if let Some(traffic) = &mut self.traffic {
            traffic.skip_to(start);
        }
        for (rank, (input, output)) in buffers.into_iter().enumerate() {
            let order = HostCommand::Start {
                group: GROUP,
                collective,
                reduction,
                input,
                output,
                terms: Terms::WHOLE,
            };
            let node = self.node(Rank(rank as u16));
            self.simulation_mut().command(node, NodeCommand::Host(order))?;
        }
        let mut ended: Vec<Option<(Duration, P, P)>> = self.hosts().iter().map(|_| None).collect();
        let mut unfinished = ended.len() as u16;
        let mut session = Session::new(self.built.progress(), progress);
        while unfinished > 0 {
            let mut carrying = Carrying { source: self.traffic.as_mut(), carrier: &mut self.built };
            let next = session.next(&mut carrying, start + limit)?;
            let after = self.simulation().now().since(start);
            match next {
                Next::Event(emitted) => {
                    let NodeEvent::Host(HostEvent::Finished { outcome, input, output, .. }) = emitted.event
                    else {
                        // A switch has lost a neighbour: its ranks will find out by themselves.
                        continue;
                    };
                    let rank = self.rank_at(emitted.node);
                    if outcome != Outcome::Done {
                        return Err(SimulationError::Failed { rank: rank as u16, outcome, after });
                    }
                    ended[rank] = Some((after, input, output));
                    unfinished -= 1;
                }
                Next::Idle | Next::TimeLimit => return Err(self.unfinished(unfinished, after)),
            }
        }
        let mut finished = Finished { after: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
        for (after, input, output) in ended.into_iter().flatten() {
            finished.after.push(after);
            finished.inputs.push(input);
            finished.outputs.push(output);
        }
        Ok(finished)
    }

    /// Why not all ranks finished.
    fn unfinished(&self, unfinished: u16, after: Duration) -> SimulationError {
        let ranks = self.ranks();
        let paused: Vec<_> =
            self.simulation().paused().map(|direction| self.names(direction).join(" > ")).collect();
        match &paused[..] {
            [] => SimulationError::Unfinished { unfinished, ranks, after },
            [first, rest @ ..] => {
                let others =
                    if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                SimulationError::Paused { unfinished, ranks, after, links: format!("{first}{others}") }
            }
        }
    }

    /// Runs on until no frame is on its way, at most `limit`; then the next collective finds an idle fabric.
    pub fn drain(&mut self, limit: Duration) {
        let time = self.simulation().now() + limit;
        while self.simulation().frames_under_way() > 0 {
            let steps = self.simulation().steps() + 1;
            match self.simulation_mut().run(Limits { time, steps }) {
                Stopped::StepLimit | Stopped::Event(_) => {}
                Stopped::Idle | Stopped::TimeLimit => return,
            }
        }
    }

    fn rank_at(&self, node: NodeIndex) -> usize {
        let rank = self.hosts().iter().position(|&host| index(host) == node);
        rank.expect("hosts are ranks")
    }

    /// The hosts by rank.
    fn hosts(&self) -> &[usize] {
        self.built.cluster.wiring().hosts()
    }

    /// The node that runs a rank.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&self, rank: Rank) -> NodeIndex {
        index(self.built.cluster.wiring().host(rank))
    }

    /// Who is where, and what each is told.
    pub fn cluster(&self) -> &Cluster {
        &self.built.cluster
    }

    /// The simulation underneath: time, steps, statistics, the observer.
    pub fn simulation(&self) -> &Simulation<Node<P>, RoceMedium, O> {
        &self.built.simulation
    }

    /// The simulation underneath, to be changed: faults, queues, background traffic.
    pub fn simulation_mut(&mut self) -> &mut Simulation<Node<P>, RoceMedium, O> {
        &mut self.built.simulation
    }

    /// What the nodes are called that a direction comes from and goes to.
    fn names(&self, direction: Direction) -> [&str; 2] {
        names(&self.built.cluster, direction)
    }

    /// What links have carried, as shares of `time`.
    pub fn links(&self, time: Duration) -> Vec<LinkUse> {
        self.built.links(time)
    }

    /// Bytes on the busiest link of a rank, one way.
    pub fn busiest_bytes(&self) -> ByteCount {
        let of_rank = |direction| joins_ranks(&self.built.cluster, direction).contains(&true);
        let bytes = self.simulation().statistics().filter(|(direction, _)| of_rank(*direction));
        bytes.map(|(_, statistics)| statistics.bytes).max().unwrap_or_default()
    }

    /// Payload and degree buffers of the switch with most of them (EPIC F.3).
    pub fn switch_buffer(&self) -> ByteCount {
        let bytes = self.simulation().engines().map(|(_, node)| match node {
            Node::Host(_) => 0,
            Node::Switch(switch) => switch.buffer_bytes(),
        });
        ByteCount::new(bytes.max().unwrap_or(0) as u64)
    }
}
