//! A group of ranks in a simulation, and running collectives on it one after the other.

use quincunx_collective::{Collective, GroupId, Reduction};
use quincunx_driver_des::{Direction, DirectionStatistics, Limits, NodeIndex, Observer, Simulation, Stopped};
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::{HostCommand, HostEvent, Station, StationCommand, StationEvent};
use quincunx_units::{ByteCount, Duration, Instant};

use super::build::Built;
use super::data::Data;
use super::{Design, LinkUse, RoceMedium, Setup, SimulationError};
use crate::progress::{Progress, STEPS_A_REPORT, Watch};
use crate::traffic::Source;

/// What [`Built`] installs.
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
pub struct Group<P: Data, O = ()> {
    built: Built<P, O>,
    traffic: Option<Source>,
}

impl<P: Data> Group<P> {
    /// A group that nobody watches.
    ///
    /// # Errors
    /// If the fabric does not go with the design, or a node refuses its set-up.
    pub fn new(setup: &Setup, design: impl Into<Design>, seed: u64) -> Result<Self, SimulationError> {
        Self::with_observer(setup, design, seed, ())
    }
}

impl<P: Data, O: Observer<Station<P>>> Group<P, O> {
    /// A group whose frames somebody watches.
    ///
    /// # Errors
    /// As [`new`](Group::new).
    pub fn with_observer(
        setup: &Setup,
        design: impl Into<Design>,
        seed: u64,
        observer: O,
    ) -> Result<Self, SimulationError> {
        let mut built = Built::new(setup, design.into(), seed, observer)?;
        let mut traffic = None;
        if let Some(offered) = setup.traffic {
            let mut source = Source::new(offered, built.population()?, seed);
            let settled = Instant::ZERO + source.settling_time(setup.link.latency);
            source.run(&mut built, Limits::until(settled));
            built.simulation.reset_statistics();
            traffic = Some(source);
        }
        Ok(Self { built, traffic })
    }

    pub(super) fn from_built(built: Built<P, O>) -> Self {
        Self { built, traffic: None }
    }

    /// Ranks in the group.
    pub fn ranks(&self) -> u16 {
        self.built.ranks.len() as u16
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
        progress: Watch<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        let start = self.simulation().now();
        if let Some(traffic) = &mut self.traffic {
            traffic.skip_to(start);
        }
        for (rank, (input, output)) in buffers.into_iter().enumerate() {
            let order = HostCommand::Start { group: GROUP, collective, reduction, input, output };
            let node = self.built.ranks[rank];
            self.simulation_mut().command(node, StationCommand::Host(order))?;
        }
        let mut ended: Vec<Option<(Duration, P, P)>> = self.built.ranks.iter().map(|_| None).collect();
        let mut unfinished = ended.len() as u16;
        let steps = self.simulation().steps() + STEPS_A_REPORT;
        let mut limits = Limits { time: start + limit, steps };
        while unfinished > 0 {
            let stopped = match &mut self.traffic {
                Some(traffic) => traffic.run(&mut self.built, limits),
                None => self.built.simulation.run(limits),
            };
            let after = self.simulation().now().since(start);
            match stopped {
                Stopped::Event(emitted) => {
                    let StationEvent::Host(HostEvent::Finished { outcome, input, output, .. }) =
                        emitted.event
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
                Stopped::StepLimit => {
                    let simulation = self.simulation();
                    let at = Progress { now: simulation.now(), steps: simulation.steps() };
                    if progress(at).is_break() {
                        return Err(SimulationError::Stopped { after });
                    }
                    limits.steps += STEPS_A_REPORT;
                }
                Stopped::Idle | Stopped::TimeLimit => {
                    return Err(self.unfinished(unfinished, after));
                }
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
        let rank = self.built.ranks.iter().position(|&rank| rank == node);
        rank.expect("hosts are ranks")
    }

    /// The simulation underneath: time, steps, statistics, the observer.
    pub fn simulation(&self) -> &Simulation<Station<P>, RoceMedium, O> {
        &self.built.simulation
    }

    /// The simulation underneath, to be changed: faults, queues, background traffic.
    pub fn simulation_mut(&mut self) -> &mut Simulation<Station<P>, RoceMedium, O> {
        &mut self.built.simulation
    }

    /// Every direction of every link, with the names of its ends.
    pub fn directions(&self) -> Vec<(Direction, String)> {
        let named = |(direction, _): (Direction, _)| {
            let [from, to] = self.names(direction);
            (direction, format!("{from} > {to}"))
        };
        self.simulation().statistics().map(named).collect()
    }

    /// The nodes that a direction comes from and goes to.
    fn ends(&self, direction: Direction) -> [NodeIndex; 2] {
        let [first, second] = self.built.links[direction.link.0 as usize];
        if direction.backward { [second, first] } else { [first, second] }
    }

    /// What they are called.
    fn names(&self, direction: Direction) -> [&str; 2] {
        self.ends(direction).map(|end| self.built.names[end.0 as usize].as_str())
    }

    /// What links have carried, as shares of `time`.
    pub fn links(&self, time: Duration) -> Vec<LinkUse> {
        let share = |busy: Duration| {
            if time == Duration::ZERO { 0.0 } else { busy.as_secs_f64() / time.as_secs_f64() }
        };
        let link_use = |(direction, statistics): (Direction, DirectionStatistics)| {
            let [from, to] = self.ends(direction);
            let joins_ranks = [from, to].map(|end| self.built.ranks.contains(&end));
            let [from, to] = self.names(direction).map(str::to_owned);
            LinkUse { from, to, joins_ranks, utilisation: share(statistics.busy), statistics }
        };
        self.simulation().statistics().map(link_use).collect()
    }

    /// Bytes on the busiest link of a rank, one way.
    pub fn busiest_bytes(&self) -> ByteCount {
        let of_rank = |link: &[NodeIndex; 2]| link.iter().any(|end| self.built.ranks.contains(end));
        let bytes = self
            .simulation()
            .statistics()
            .filter(|(direction, _)| of_rank(&self.built.links[direction.link.0 as usize]));
        bytes.map(|(_, statistics)| statistics.bytes).max().unwrap_or_default()
    }

    /// Payload and degree buffers of the switch with most of them (EPIC F.3).
    pub fn switch_buffer(&self) -> ByteCount {
        let bytes = self.simulation().engines().map(|(_, station)| match station {
            Station::Host(_) => 0,
            Station::Switch(switch) => switch.buffer_bytes(),
        });
        ByteCount::new(bytes.max().unwrap_or(0) as u64)
    }
}
