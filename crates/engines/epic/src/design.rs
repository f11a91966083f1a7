//! EPIC as three designs, one for each realisation of the switch: parameters, the plan on a tree, and what runs on ranks and switches.

use crate::closed_forms::Symbols;
use crate::comm_lib::{CommLib, CommLibConfig};
use crate::config::{EdgeConfig, GroupConfig, MAX_EDGES};
use crate::control::MAX_RANKS;
use crate::inc_engine::IncEngine;
use crate::memory::{slots, switch_memory};
use crate::mode::Mode;
use crate::mode_i::ModeI;
use crate::mutation::Mutation;
use crate::params::{EpicParams, GroupParams};
use crate::timers::RESEND;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    About, ClosedForm, Connection, Context, Design, Endpoint, FabricKind, GroupContext, Member, Model, Peer,
    Placement, Plan, Premises, Reference, Refusal, Settings, SwitchPart, SwitchPlan,
};
use quincunx_engine::Verified;
use quincunx_fabric::{IncTree, TreeNodeId, TreeRole};
use quincunx_units::{Duration, Packets};
use quincunx_wire::Operation;
use serde::{Deserialize, Serialize};

/// How often a rank that runs ahead is told so at most: as often as DCQCN's receivers notify (N).
const NOTIFICATION_INTERVAL: Duration = Duration::from_micros(50);

/// EPIC with switches of one mode, or of several.
#[derive(Clone, Copy, Debug)]
pub struct Epic {
    about: About,
    /// None: by levels, as the parameters say.
    mode: Option<Mode>,
}

/// What all have alike.
const fn about(mode: Option<Mode>, name: &'static str, summary: &'static str) -> About {
    About {
        // Of switches: their mode, and their neighbours'. Of groups: checked results, standard queue pairs, what plans say of queue pairs.
        version: 6,
        model: Model {
            // A Mode-I switch serves its queue pairs in turn, and whose turn it is tells them apart.
            is_symmetric: matches!(mode, Some(Mode::II | Mode::III)),
            // A switch in Mode-II has no order between what it sends itself and the acknowledges that it passes on.
            answers_overtake: matches!(mode, Some(Mode::II) | None),
            smallest: &[],
            mutations: |_| Mutation::all().map(Mutation::name).collect(),
            request: |header| match header.operation {
                Operation::SendOnlyImmediate(_) => "control",
                _ => "data",
            },
            timer: |kind| if kind == RESEND { "retransmission" } else { "acknowledge" },
        },
        ..About::new(name, summary, &[(FabricKind::Tree, &Collective::PRIMITIVES)])
    }
}

const fn of_mode(mode: Mode, name: &'static str, summary: &'static str) -> Epic {
    Epic { about: about(Some(mode), name, summary), mode: Some(mode) }
}

/// Connection terminated (4.2).
pub const EPIC_1: Epic =
    of_mode(Mode::I, "epic-1", "EPIC, connection terminated: switches combine whole messages");

/// Connection translated (4.3).
pub const EPIC_2: Epic =
    of_mode(Mode::II, "epic-2", "EPIC, connection translated: switches rewrite headers, hosts retransmit");

/// Connection augmented (4.4).
pub const EPIC_3: Epic = of_mode(
    Mode::III,
    "epic-3",
    "EPIC, connection augmented: packets pass through pipes, every hop retransmits",
);

/// Each switch in a mode of its own (3.1: the same IncTree over realisations that differ).
pub const EPIC_MIXED: Epic = Epic {
    about: About {
        uses_parts_of: &["epic-3", "epic-1", "epic-2"],
        ..about(None, "epic-mixed", "EPIC on switches of several modes in one tree")
    },
    mode: None,
};

/// The closed forms of the paper (F), of trees whose switches are all in one mode.
pub const CLOSED_FORMS: [Reference; 3] = [
    Reference {
        design: EPIC_1.about.name,
        value: |form, settings, of| closed_form(Mode::I, form, settings, of),
    },
    Reference {
        design: EPIC_2.about.name,
        value: |form, settings, of| closed_form(Mode::II, form, settings, of),
    },
    Reference {
        design: EPIC_3.about.name,
        value: |form, settings, of| closed_form(Mode::III, form, settings, of),
    },
];

/// What a rank is told beside its edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpicRank {
    /// Its first hop is no queue pair: it skips the numbers of what it does not send or receive.
    pub skips: bool,
    /// Its first hop counts packets, not messages.
    pub window_in_packets: bool,
}

/// What a switch is told beside its edges: they are the children in order, then the parent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpicSwitch {
    /// How it realises its node.
    pub mode: Mode,
    /// By edge: the mode of the switch that it leads to; none where it leads to a rank.
    pub neighbours: Vec<Option<Mode>>,
    /// Which edge leads to the parent; none at the root.
    pub parent: Option<u16>,
    /// By rank: which edge leads there.
    pub toward: Vec<u16>,
}

impl Epic {
    /// The mode of its switches, if all have one.
    pub const fn mode(self) -> Option<Mode> {
        self.mode
    }

    /// The name of the design of switches of one mode.
    const fn name_of(mode: Mode) -> &'static str {
        match mode {
            Mode::I => EPIC_1.about.name,
            Mode::II => EPIC_2.about.name,
            Mode::III => EPIC_3.about.name,
        }
    }

    /// The modes of the tree's switches: as they are said level by level, or what each can do, Mode-III if it can.
    fn modes(
        self,
        params: &EpicParams,
        placement: &Placement,
        tree: &IncTree,
    ) -> Result<BTreeMap<TreeNodeId, Mode>, Refusal> {
        let parent = |node: TreeNodeId| tree.node(node).parent_edge().map(|edge| tree.edge(edge).parent.node);
        let can = |node: TreeNodeId, mode: Mode| {
            let offers = |name| placement.offers.get(&node).is_none_or(|offered| offered.contains(name));
            offers(self.about.name) || offers(Self::name_of(mode))
        };
        let mut modes = BTreeMap::new();
        for node in tree.switches() {
            let best = || [Mode::III, Mode::I].into_iter().find(|&mode| can(node, mode));
            let said = params.group.modes.as_ref().map(|levels| levels.mode(tree.steps_to_root(node)));
            modes.insert(node, self.mode.or(said).or_else(best).unwrap_or(Mode::II));
        }
        if self.mode.is_none() && params.group.modes.is_none() {
            // Above a switch that has only Mode-II, all are in it.
            let only: Vec<_> =
                modes.iter().filter(|(_, mode)| **mode == Mode::II).map(|(&node, _)| node).collect();
            for node in only {
                for above in core::iter::successors(parent(node), |&node| parent(node)) {
                    modes.insert(above, Mode::II);
                }
            }
        }
        for (&node, &mode) in &modes {
            if !can(node, mode) {
                return Err(Refusal::new(
                    format!("switches that offer {} where the tree has them", Self::name_of(mode)),
                    "one that does not",
                    "Mode-II is right at the root, and below Mode-II alone; choose other switches, or a design of one mode",
                ));
            }
            let below_another = parent(node).is_some_and(|parent| modes[&parent] != Mode::II);
            if mode == Mode::II && below_another && !params.group.unproved {
                return Err(Refusal::new(
                    "Mode-II at the root, or below Mode-II",
                    format!("it below Mode-{}", parent(node).map_or("", |parent| modes[&parent].numeral())),
                    "nobody acknowledges an AllReduce's result there; put another mode below, as in II/III",
                ));
            }
        }
        Ok(modes)
    }

    fn tree<'a>(&self, placement: &'a Placement) -> Result<&'a IncTree, Refusal> {
        let name = self.about.name;
        let tree = placement.tree.as_ref().ok_or_else(|| {
            Refusal::new(
                format!("a fabric with switches for {name}"),
                "hosts that are joined directly",
                "choose a tree such as star-8",
            )
        })?;
        if tree.ranks() != placement.ranks {
            return Err(Refusal::new(
                format!("a tree of {} ranks", placement.ranks),
                tree.ranks(),
                "change the group's parameters",
            ));
        }
        // A switch with one neighbour has nothing to combine and nobody to pass it on to; the others have a parent.
        if tree.node(tree.root()).edges().len() < 2 {
            return Err(Refusal::new(
                "a tree with at least two branches at the root",
                "one",
                "choose a tree such as star-8",
            ));
        }
        let most = tree.switches().into_iter().map(|node| tree.node(node).edges().len()).max().unwrap_or(0);
        if most > MAX_EDGES || !(1..=MAX_RANKS).contains(&tree.ranks()) {
            return Err(Refusal::new(
                format!(
                    "a tree of at most {MAX_RANKS} ranks, with at most {MAX_EDGES} neighbours of a switch"
                ),
                format!("{} ranks and {most} neighbours", tree.ranks()),
                "choose a smaller tree, or one with more levels",
            ));
        }
        Ok(tree)
    }

    /// Refuses what only another mode has.
    fn check(&self, params: &EpicParams) -> Result<(), Refusal> {
        let GroupParams { slots, run_ahead, synchronize_rates, resend_results, ref modes, .. } = params.group;
        if (modes.is_some() || params.group.unproved) && self.mode.is_some() {
            return Err(Refusal::new(
                format!(
                    "`group.modes` and `group.unproved` for epic-mixed alone, not for {}",
                    self.about.name
                ),
                "modes",
                "leave it out, or choose epic-mixed",
            ));
        }
        let foreign = match self.mode {
            Some(Mode::I | Mode::III) if !resend_results => Some(("group.resend_results", "epic-2")),
            None | Some(Mode::III) => None,
            _ if slots.is_some() => Some(("group.slots", "epic-3")),
            _ if run_ahead => Some(("group.run_ahead", "epic-3")),
            _ if !synchronize_rates => Some(("group.synchronize_rates", "epic-3")),
            _ => None,
        };
        match foreign {
            Some((key, owner)) => Err(Refusal::new(
                format!("`{key}` as it is by default for {}", self.about.name),
                "another value",
                format!("only {owner} has it; leave it out"),
            )),
            None => Ok(()),
        }
    }

    /// A node's context as the engines of a switch want it.
    fn group_config(
        &self,
        params: &EpicParams,
        role: EpicSwitch,
        context: &GroupContext,
        mutation: Option<Mutation>,
    ) -> Result<GroupConfig, Refusal> {
        let GroupParams { transport, .. } = &params.group;
        // What the manager has booked bounds what is allocated here.
        let needed = switch_memory(role.mode, &params.group, context.connections.len() as u16);
        if needed > context.memory {
            return Err(Refusal::new(
                format!("{needed} of memory, booked for the group"),
                context.memory,
                "run the same version at both ends",
            ));
        }
        if role.neighbours.len() != context.connections.len() {
            return Err(Refusal::new(
                format!("what {} neighbours are", context.connections.len()),
                role.neighbours.len(),
                "run the same version at both ends",
            ));
        }
        let edges = context.connections.iter().zip(&role.neighbours).map(|(connection, &mode)| EdgeConfig {
            local: connection.local,
            remote: connection.remote,
            rank: match connection.peer {
                Peer::Rank(rank) => Some(rank),
                Peer::Switch(_) => None,
            },
            mode,
        });
        Ok(GroupConfig {
            ranks: context.ranks,
            mode: role.mode,
            mtu: transport.mtu.as_usize(),
            window: if role.mode == Mode::III {
                Packets::new(slots(role.mode, &params.group))
            } else {
                transport.window_packets()
            },
            message: transport.message,
            initial_psn: context.initial_psn,
            edges: edges.collect(),
            parent: role.parent.map(usize::from),
            toward: role.toward.iter().map(|&edge| usize::from(edge)).collect(),
            reproducible: params.group.reproducible,
            standard_verbs: params.group.standard_verbs,
            selective: params.group.is_selective(),
            run_ahead: params.group.run_ahead,
            resend_results: params.group.resend_results,
            notification_interval: params.group.synchronize_rates.then_some(NOTIFICATION_INTERVAL),
            mutation,
            resend_timeout: transport.retry_timeout,
            retry_count: transport.retry_count,
        })
    }
}

impl Design for Epic {
    type Params = EpicParams;
    type RankRole = EpicRank;
    type SwitchRole = EpicSwitch;

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(
        &self,
        params: &EpicParams,
        placement: &Placement,
    ) -> Result<Plan<EpicRank, EpicSwitch>, Refusal> {
        self.check(params)?;
        let tree = self.tree(placement)?;
        let modes = self.modes(params, placement, tree)?;
        let member = |node: TreeNodeId| match tree.node(node).role() {
            TreeRole::Rank(rank) => Member::Rank(rank),
            TreeRole::Switch => Member::Switch(node),
        };
        let connection = |edge: &quincunx_fabric::TreeEdge| {
            let end = |end: quincunx_fabric::TreeEnd| (member(end.node), end.index);
            Connection::new(end(edge.parent), end(edge.child))
        };
        let switch = |node: TreeNodeId| {
            let at = tree.node(node);
            let toward = |rank| at.toward(Rank(rank)).expect("no rank is at a switch");
            let mode = modes[&node];
            let neighbour = |edge: u16| {
                let neighbour = tree.across(node, edge).node;
                (tree.node(neighbour).role() == TreeRole::Switch).then(|| modes[&neighbour])
            };
            SwitchPlan {
                node,
                role: EpicSwitch {
                    mode,
                    neighbours: (0..at.edges().len() as u16).map(neighbour).collect(),
                    parent: at.parent_index(),
                    toward: (0..tree.ranks()).map(toward).collect(),
                },
                memory: switch_memory(mode, &params.group, at.edges().len() as u16),
                passes: Vec::new(),
            }
        };
        let rank = |rank| {
            let first_hop = tree.across(tree.leaf(Rank(rank)), 0).node;
            let window_in_packets = modes[&first_hop] != Mode::I;
            EpicRank { skips: window_in_packets && !params.group.standard_verbs, window_in_packets }
        };
        let ranks = (0..tree.ranks()).map(rank).collect();
        let in_steps: &[Collective] = match params.group.overlap {
            true => &[],
            false => &[Collective::ReduceScatter, Collective::AllGather],
        };
        Ok(Plan {
            switches: tree.switches().into_iter().map(switch).collect(),
            // In Mode-I a switch takes messages as fast as they come, but holds no more of them than a window: a rank that is ahead of the
            // others finds none of its receive requests left. The kernel's queue pairs keep no count, and take an acknowledge that they did
            // not ask for amiss.
            credits: self.mode == Some(Mode::I) && !params.group.standard_verbs,
            in_steps,
            ..Plan::new(ranks, tree.edges().iter().map(connection).collect())
        })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &EpicParams,
        role: EpicRank,
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let group = context.group()?;
        let rank = group.rank()?;
        if group.connections.len() != 1 {
            let found = group.connections.len();
            return Err(Refusal::new(
                "one connection, to a switch",
                found,
                "run the same version at both ends",
            ));
        }
        let transport = &params.group.transport;
        let config = CommLibConfig {
            ranks: group.ranks,
            rank,
            mtu: transport.mtu.as_usize(),
            message: transport.message,
            window: transport.window,
            run_ahead: params.group.run_ahead,
            overlap: params.group.overlap,
            eager: params.group.eager,
            confirm: params.group.confirm,
            synchronize_psn: role.skips,
            window_in_packets: role.window_in_packets,
        };
        let mut library = CommLib::new(config).map_err(|error| Refusal::of(&error))?;
        // Most are broken by switches; that there is such a rule is to be known here, too.
        if let Some(mutation) = context.mutation()? {
            library.break_rule(mutation);
        }
        Ok(Endpoint::Program(match params.group.verify {
            true => Box::new(Verified::new(library, rank, group.ranks)),
            false => Box::new(library),
        }))
    }

    fn switch<P: Payload>(
        &self,
        params: &EpicParams,
        role: EpicSwitch,
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let config = self.group_config(params, role, context.group()?, context.mutation()?)?;
        match config.mode {
            Mode::I => {
                let program = ModeI::new(config).map_err(|error| Refusal::of(&error))?;
                Ok(SwitchPart::Program(Box::new(program)))
            }
            Mode::II | Mode::III => {
                let engine = IncEngine::new(config).map_err(|error| Refusal::of(&error))?;
                Ok(SwitchPart::Datapath(Box::new(engine)))
            }
        }
    }
}

fn closed_form(
    mode: Mode,
    form: ClosedForm,
    settings: &Settings,
    premises: &Premises<'_>,
) -> Result<f64, Refusal> {
    let Premises { tree, link, size, loss } = *premises;
    let params = settings.get::<EpicParams>()?;
    let GroupParams { transport, reproducible, .. } = &params.group;
    let degrees = tree.switches().into_iter().map(|node| tree.node(node).edges().len() as u32);
    let symbols = Symbols {
        mode,
        depth: tree.depth() as u32,
        degree: degrees.max().unwrap_or_default(),
        bandwidth: link.rate.bits_per_second() as f64 / 8e6,
        latency: link.latency.as_micros_f64(),
        packet: transport.mtu.bytes() as f64,
        message: f64::from(transport.message.get()),
        size: size.bytes() as f64,
        reproducible: *reproducible,
        success: 1.0 - loss.value(),
    };
    Ok(match form {
        ClosedForm::Latency => symbols.latency(),
        ClosedForm::SwitchMemory => symbols.switch_memory(),
        ClosedForm::LossTolerance => symbols.loss_tolerance(),
    })
}
