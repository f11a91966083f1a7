//! Every run of a trial: the same nodes on the same links, with its faults as a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use quincunx_cluster::{Cluster, Ports};
use quincunx_collective::Provenance;
use quincunx_driver_check::{
    End, Exploration, Member, NodeId, Renaming, Statistics, System, Unfinished, Verdict, explore,
};
use quincunx_engine::PortId;
use quincunx_engine::verbs::Outcome;
use quincunx_network::{Fate, OrderingClass};
use quincunx_nodes::{HostEvent, Node, NodeCommand, NodeEvent, NodeTimer};
use quincunx_units::ByteCount;
use quincunx_wire::{Operation, RoceHeader};

use crate::run::{Flow, Run};
use crate::steps::{Step, steps};
use crate::{RunError, Trial};

/// The memory that an exploration may take together with whatever the process holds.
const MEMORY: ByteCount = ByteCount::new(8 << 30);

/// A header that a node has sent in some run, but for what is a matter of timing: see [`Run::requests`].
type Header = (Flow, RoceHeader);

/// What comes of all runs of a trial.
#[derive(Clone, Debug)]
pub struct Explored {
    /// What the ranks have got, in the order of [`Run::outputs`]: all results that there are.
    pub outcomes: Vec<Vec<Provenance>>,
    /// How much there was to look at.
    pub statistics: Statistics,
    requests: Vec<Header>,
}

impl Explored {
    /// Requests of a run that are in none of all runs.
    pub fn unknown_requests(&self, run: &Run) -> Vec<Header> {
        let requests = run.requests().into_iter().flat_map(|((flow, _), frames)| {
            frames.into_iter().map(move |frame| (flow.clone(), frame.header))
        });
        requests.filter(|header| !self.requests.contains(header)).collect()
    }
}

/// Who uses a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Owner {
    /// Commands that it has given.
    given: u8,
    /// Collectives that have ended.
    ended: u8,
}

/// What has been seen in any run.
#[derive(Default)]
struct Seen {
    /// By step and rank.
    outputs: Vec<Vec<Provenance>>,
    requests: BTreeSet<String>,
    headers: Vec<Header>,
}

struct Network<'a> {
    trial: &'a Trial,
    cluster: &'a Cluster,
    nodes: Vec<Node<Provenance>>,
    steps: Vec<Step<Provenance>>,
    /// By node: its commands, each with the collectives that must have ended before.
    commands: Vec<Vec<(usize, NodeCommand<Provenance>)>>,
    answers_overtake: bool,
    seen: Mutex<Seen>,
}

/// Explores a trial, as far as so many states go.
///
/// # Errors
/// If a run is wrong, not all can be looked at, or the trial makes no sense.
pub fn explore_every_run(trial: &Trial, most: u64) -> Result<Explored, RunError> {
    let cluster = trial.cluster()?;
    let network = Network::new(trial, &cluster)?;
    let mut budget = Exploration {
        losses: 0,
        duplicates: 0,
        delays: 0,
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        persistent_sets: true,
        at_once: true,
        symmetry: false,
        threads: 1,
        memory: MEMORY,
    };
    for fate in trial.faults.fates.values().flat_map(BTreeMap::values) {
        match fate {
            Fate::Delivered => {}
            Fate::Lost => budget.losses += 1,
            Fate::Late(_) => budget.delays += 1,
            Fate::Doubled { .. } => budget.duplicates += 1,
        }
    }
    let mut watch = |statistics: &Statistics| {
        if statistics.distinct > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let (statistics, verdict) = explore(&network, budget, &mut watch);
    match verdict {
        Verdict::Correct => {
            let Seen { outputs, headers, .. } =
                network.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(Explored { outcomes: outputs, statistics, requests: headers })
        }
        Verdict::Wrong { fault, path, .. } => {
            Err(RunError::Wrong { fault: fault.to_string(), steps: path.0.len() })
        }
        Verdict::Unfinished(Unfinished::Stopped | Unfinished::Memory { .. }) => {
            Err(RunError::TooLarge { most })
        }
    }
}

impl<'a> Network<'a> {
    fn new(trial: &'a Trial, cluster: &'a Cluster) -> Result<Self, RunError> {
        let steps = steps::<Provenance>(trial);
        let of_node = |node| {
            let rank = cluster.wiring().rank_at(node);
            let numbered =
                || rank.into_iter().flat_map(|rank| (0..).zip(&steps).map(move |step| (rank, step)));
            let commands = numbered().flat_map(|(rank, (number, step))| {
                step.commands(trial, rank).into_iter().map(move |command| (number, command))
            });
            commands.collect()
        };
        let commands = (0..cluster.wiring().nodes().len()).map(of_node).collect();
        let outputs = vec![Vec::new(); steps.len() * usize::from(cluster.wiring().ranks())];
        Ok(Self {
            trial,
            cluster,
            nodes: cluster.build_nodes(Ports::Links, None)?,
            commands,
            steps,
            answers_overtake: trial.design.about().model.answers_overtake,
            seen: Mutex::new(Seen { outputs, ..Seen::default() }),
        })
    }

    fn name(&self, node: usize) -> String {
        self.cluster.wiring().nodes()[node].name.clone()
    }
}

fn is_answer(header: &RoceHeader) -> bool {
    matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification)
}

impl System for Network<'_> {
    type Engine = Node<Provenance>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<Provenance>, Owner>> {
        let member = |engine: &Node<_>| Member { engine: engine.clone(), owner: Owner::default() };
        self.nodes.iter().map(member).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end =
            |end: quincunx_cluster::WiringEnd| End { node: NodeId(end.node as u16), port: PortId(end.port) };
        self.cluster.wiring().links().iter().map(|link| link.ends.map(end)).collect()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        let next = self.commands[node.index()].get(usize::from(owner.given));
        next.is_some_and(|(after, _)| usize::from(owner.ended) == *after)
    }

    /// Every frame that is sent in any run comes by here.
    fn ordering_class(&self, header: &RoceHeader) -> OrderingClass {
        if is_answer(header) {
            return if self.answers_overtake { OrderingClass::SECOND } else { OrderingClass::FIRST };
        }
        let header = RoceHeader { acknowledge_request: false, ..*header };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.requests.insert(format!("{header:?}")) {
            let name =
                |address| self.name(self.cluster.node_at(address).expect("frames go from node to node"));
            let flow = (name(header.source), name(header.destination));
            seen.headers.push((flow, header));
        }
        OrderingClass::FIRST
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> NodeCommand<Provenance> {
        let (_, command) = &self.commands[node.index()][usize::from(owner.given)];
        owner.given += 1;
        command.clone()
    }

    fn observe(&self, node: NodeId, owner: &mut Owner, event: NodeEvent<Provenance>) -> Result<(), String> {
        let name = self.name(node.index());
        let NodeEvent::Host(HostEvent::Finished { outcome: Outcome::Done, input, output, .. }) = event else {
            return Err(format!("{name} tells of {event:?}"));
        };
        let rank = self.cluster.wiring().rank_at(node.index()).ok_or("a switch has run a collective")?;
        let step = usize::from(owner.ended);
        owner.ended += 1;
        let expected = &self.steps[step].expected[rank.index()];
        let is_right = output == *expected && input == self.steps[step].inputs[rank.index()];
        let collective = self.steps[step].collective;
        let fault = format!("{name} expects {expected} from its {collective}, and gets {output}");
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = &mut seen.outputs[step * usize::from(self.trial.scenario.ranks()) + rank.index()];
        if !outputs.contains(&output) {
            outputs.push(output);
        }
        if is_right { Ok(()) } else { Err(fault) }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        let ends = if self.commands[node.index()].is_empty() { 0 } else { self.steps.len() };
        usize::from(owner.ended) == ends
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        Vec::new()
    }

    /// Nothing is renamed: there are no symmetries.
    fn rename_frame(
        &self,
        _: &Renaming,
        _: End,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        (*header, payload.clone())
    }

    fn rename_timer(&self, _: &Renaming, _: NodeId, timer: NodeTimer) -> NodeTimer {
        timer
    }
}
