//! The control plane: a manager, and the agents of a switch with room for one group and of two hosts. Groups are asked for and ended, the
//! connections of agents break, the manager stops and starts again from what it kept, leases run out, ranks are done with a group; messages are late and doubled. Or the
//! switch is killed, or a rank finds that its way is cut, while ranks run collectives: then the group is made anew among its hosts.
//!
//! What must hold: no two groups have one part of a switch's memory or one queue pair, every request is answered, and in the end nobody
//! holds anything and the manager knows it. Of a group that is made anew, all ranks run all collectives, each once and in order as far as
//! the application sees, and no collective puts together inputs of two different ones.

use quincunx_collective::LengthOnly;
use quincunx_control::{
    ControlCommand, ControlConfig, ControlEvent, ControlNode, ControlTimer, GroupRequest, ManagerConfig,
    Message, Mutation, NodeDescription, policy,
};
use quincunx_design::{Catalog, Refusal};
use quincunx_driver_check::{End, Member, NodeId, System};
use quincunx_engine::{Engine, PortId};
use quincunx_units::Duration;

use crate::arguments::Arguments;
use crate::describe::Describe;
use crate::requested::{RequestedGroup, words, words_of_timer};
use crate::standby::Standby;
use crate::study::Study;
use crate::subject::Subject;

/// What happens to the control plane.
#[derive(Clone, Debug)]
pub struct ControlSetup {
    /// Designs that there are; the groups run the first that needs switches, and fall back to nothing.
    pub catalog: Catalog,
    /// Groups that are asked for: one when all nodes are there, each other one when those before it end.
    pub groups: u8,
    /// The manager stops and starts again, once, at any time.
    pub restarts: bool,
    /// The agents' connections break, once each, at any time.
    pub reconnects: bool,
    /// Groups have leases, which nobody renews. They run out when the clock moves on.
    pub leases: bool,
    /// Ranks run collectives, and the switch is killed once, at any time.
    pub kills: bool,
    /// The first group is not ended by the manager: each of its ranks is done with it, at any time.
    pub releases: bool,
    /// A rule that all break.
    pub mutation: Option<Mutation>,
}

/// Who uses a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ControlOwner {
    /// Requests that are still to be made.
    to_ask: u8,
    /// Requests that are not answered.
    open: usize,
    /// Of the manager: all nodes have been there.
    complete: bool,
    /// Groups and bytes that are held, as the node sees it.
    held: (usize, u64),
    /// Of an agent: it has made its first connection.
    begun: bool,
    /// Of the manager: the last group is to be ended at once.
    wants_end: bool,
    /// Notices that have been given.
    notices: u8,
    /// Of a rank: collectives of which its application has heard.
    ran: u64,
    /// Of a rank: it has heard that its group is over. Of the manager: it has refused a group.
    is_refused: bool,
}

/// Ends all groups; restarts the manager; breaks a connection.
const END: u8 = 0;
const RESTART: u8 = 1;
const BREAK: u8 = 2;
/// After a restart, agents connect again.
const AGAIN: u8 = 3;
/// Kills the switch.
const KILL: u8 = 4;
/// A rank's application is done: who ends the group hears of it.
const DONE: [u8; 2] = [5, 6];

/// Collectives that ranks run where the switch is killed: one may be under way, one complete at one rank, and one complete at both.
const COLLECTIVES: u64 = 3;

const MANAGER: NodeId = NodeId(0);
const SWITCH: NodeId = NodeId(1);
const NODES: u16 = 4;

/// A control plane to explore.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    setup: ControlSetup,
    requested: RequestedGroup,
}

impl ControlPlane {
    /// The control plane of a set-up.
    ///
    /// # Errors
    /// If no design of the catalog runs in a switch.
    pub fn new(setup: ControlSetup) -> Result<Self, Refusal> {
        let requested = RequestedGroup::find(setup.catalog)?;
        let lease = setup.leases.then_some(Duration::from_secs(60));
        let requested = RequestedGroup { wanted: GroupRequest { lease, ..requested.wanted }, ..requested };
        Ok(Self { setup, requested })
    }

    /// The first group as soon as all nodes are there; each other one when those before it end, while they still hold what it needs.
    fn wants_group(&self, owner: &ControlOwner) -> bool {
        let is_first = owner.to_ask == self.setup.groups;
        owner.to_ask > 0 && owner.open == 0 && owner.complete && (is_first || owner.notices & 1 << END != 0)
    }

    fn description(&self, node: NodeId) -> NodeDescription {
        self.requested.node(self.name(node), node.0 as u8, node == SWITCH)
    }
}

impl System for ControlPlane {
    type Engine = ControlNode;
    type Owner = ControlOwner;

    fn members(&self) -> Vec<Member<ControlNode, ControlOwner>> {
        let mutation = self.setup.mutation;
        let config = ManagerConfig {
            return_timeout: Duration::from_secs(if self.setup.kills { 0 } else { 1 }),
            policy: policy::ALL[1],
            fallback: self.requested.fallback.filter(|_| self.setup.kills),
            recreates: self.setup.kills,
            ..ManagerConfig::default()
        };
        let collectives = if self.setup.kills { COLLECTIVES } else { 0 };
        let manager = ControlConfig::Manager { catalog: self.setup.catalog, config, pair: None, mutation };
        let agents = (1..NODES).map(|node| ControlConfig::Agent {
            description: Box::new(self.description(NodeId(node))),
            collectives: if NodeId(node) == SWITCH { 0 } else { collectives },
            mutation,
        });
        let member = |(index, config): (u16, ControlConfig)| {
            let Ok(engine) = ControlNode::new(config);
            let to_ask = if index == 0 { self.setup.groups } else { 0 };
            Member { engine, owner: ControlOwner { to_ask, ..ControlOwner::default() } }
        };
        (0..).zip([manager].into_iter().chain(agents)).map(member).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let link = |node: u16| {
            [End { node: MANAGER, port: PortId(node - 1) }, End { node: NodeId(node), port: PortId(0) }]
        };
        let data = |[a, b]: [(u16, u16); 2]| {
            [a, b].map(|(node, port)| End { node: NodeId(node), port: PortId(port) })
        };
        // Each rank's to the switch, and one between the ranks.
        let data = [[(1, 1), (2, 1)], [(1, 2), (3, 1)], [(2, 2), (3, 2)]].map(data);
        (1..NODES).map(link).chain(data.into_iter().filter(|_| self.setup.kills)).collect()
    }

    fn wants_command(&self, node: NodeId, owner: &ControlOwner) -> bool {
        match node {
            MANAGER => self.wants_group(owner) || owner.wants_end,
            _ => !owner.begun,
        }
    }

    fn command(&self, node: NodeId, owner: &mut ControlOwner) -> ControlCommand {
        if node != MANAGER {
            owner.begun = true;
            return ControlCommand::Reconnect;
        }
        if core::mem::take(&mut owner.wants_end) {
            return ControlCommand::EndAll;
        }
        owner.to_ask -= 1;
        owner.open += 1;
        ControlCommand::Init(Box::new(self.requested.wanted.clone()))
    }

    fn observe(&self, node: NodeId, owner: &mut ControlOwner, event: ControlEvent) -> Result<(), String> {
        match event {
            ControlEvent::Answered(answer) => {
                owner.is_refused |= answer.is_err();
                owner.open =
                    owner.open.checked_sub(1).ok_or("an answer to a request that nobody has made")?;
                owner.wants_end = owner.notices & 1 << END != 0;
            }
            ControlEvent::Forgotten(requests) => {
                owner.open =
                    owner.open.checked_sub(requests).ok_or("requests are forgotten that nobody has made")?;
            }
            ControlEvent::Manages { nodes, groups, taken } => {
                owner.complete |= nodes == usize::from(NODES - 1);
                owner.held = (groups, taken.bytes());
            }
            ControlEvent::Ran { number, with, is_told } => {
                let name = self.name(node);
                if with != number {
                    return Err(format!(
                        "{name} ends collective {number} with the other's input of collective {with}"
                    ));
                }
                if is_told && number != owner.ran + 1 {
                    return Err(format!("{name} is told of collective {number} after {}", owner.ran));
                }
                owner.ran = owner.ran.max(number);
            }
            ControlEvent::Failed if owner.ran > 0 => {
                return Err(format!("{} has run collectives, and its group has failed", self.name(node)));
            }
            ControlEvent::Failed => owner.is_refused = true,
            ControlEvent::MayAsk
            | ControlEvent::Turned
            | ControlEvent::Serves(_)
            | ControlEvent::Made(_)
            | ControlEvent::Ended { .. } => {
                return Err("a word of two managers, where there is one".to_owned());
            }
            ControlEvent::Holds { groups, clash } => {
                let forgets = groups < owner.held.0 && node != SWITCH;
                // A group may fail where a manager or a connection goes.
                let may_fail = self.setup.restarts || self.setup.reconnects;
                if self.setup.releases && !may_fail && forgets && owner.notices & 1 << END == 0 {
                    return Err(format!(
                        "{} forgets a group that its rank is not done with",
                        self.name(node)
                    ));
                }
                owner.held = (groups, 0);
                if let Some(other) = clash {
                    let name = self.name(node);
                    return Err(format!("{name} has two groups in one place, one of them group {other}"));
                }
            }
        }
        Ok(())
    }

    fn notices(&self) -> u8 {
        if self.setup.kills { 7 } else { 4 }
    }

    fn calls_for_notice(&self, node: NodeId, owner: &ControlOwner, notice: u8) -> bool {
        let is_manager = node == MANAGER;
        match notice {
            END if self.setup.kills => {
                let all_done = DONE.iter().all(|done| owner.notices & 1 << done != 0);
                is_manager && owner.to_ask == 0 && owner.open == 0 && (all_done || owner.is_refused)
            }
            END => {
                let is_answered = owner.complete && owner.open == 0;
                is_manager && is_answered && (!self.setup.releases || owner.to_ask < self.setup.groups)
            }
            KILL => is_manager && owner.complete,
            5 | 6 => {
                let is_rank = node == NodeId(u16::from(notice - DONE[0]) + 2);
                is_rank && (owner.ran == COLLECTIVES || owner.is_refused)
            }
            RESTART => is_manager && self.setup.restarts && owner.complete,
            BREAK => is_manager && self.setup.reconnects && owner.complete,
            AGAIN => is_manager && owner.notices & 1 << RESTART != 0,
            _ => false,
        }
    }

    fn lacks_notice(&self, node: NodeId, owner: &ControlOwner, notice: u8) -> bool {
        let is_for = match notice {
            END if self.setup.releases => node != SWITCH,
            END | RESTART | 5 | 6 => node == MANAGER,
            BREAK | KILL => node == SWITCH,
            _ => node != MANAGER,
        };
        is_for && owner.notices & 1 << notice == 0
    }

    fn take_notice(&self, node: NodeId, owner: &mut ControlOwner, notice: u8) -> Option<ControlCommand> {
        owner.notices |= 1 << notice;
        Some(match notice {
            5 | 6 => return None,
            KILL => ControlCommand::Die,
            // It only knows then that it may be asked for the next one.
            END if self.setup.releases && node == MANAGER => return None,
            END if self.setup.releases => ControlCommand::Release,
            END => ControlCommand::EndAll,
            RESTART => ControlCommand::Restart,
            _ => ControlCommand::Reconnect,
        })
    }

    fn is_done(&self, node: NodeId, owner: &ControlOwner) -> bool {
        let ended = node != MANAGER || owner.notices & 1 << END != 0;
        let is_rank = node != MANAGER && node != SWITCH;
        let ended = ended && (!is_rank || !self.setup.kills || owner.ran == COLLECTIVES || owner.is_refused);
        owner.to_ask == 0 && owner.open == 0 && owner.held == (0, 0) && ended
    }
}

impl Describe for ControlPlane {
    fn name(&self, node: NodeId) -> String {
        match node.0 {
            0 => "manager".to_owned(),
            1 => "s0".to_owned(),
            host => format!("r{}", host - 2),
        }
    }

    fn frame(&self, header: &Message, _: &LengthOnly) -> String {
        words(header)
    }

    fn timer(&self, _: NodeId, timer: ControlTimer) -> String {
        words_of_timer(timer)
    }

    fn notice(&self, notice: u8) -> String {
        match notice {
            END if self.setup.releases => {
                "hears that the group has done its work, and a rank is done with it"
            }
            END => "is asked to end all groups",
            RESTART => "stops, and starts again",
            KILL => "is killed",
            5 | 6 => "hears that a rank is done",
            BREAK => "loses its connection, and makes another",
            _ => "notices that the manager is another one, and connects again",
        }
        .to_owned()
    }
}

/// The control plane, as a study.
pub(crate) struct ControlStudy;

/// What can happen to it.
const HISTORIES: [(&str, [bool; 5]); 6] = [
    ("groups", [false, false, false, false, false]),
    ("restart", [true, false, false, false, false]),
    ("reconnect", [false, true, false, false, false]),
    ("lease", [false, false, true, false, false]),
    ("remake", [false, false, false, true, false]),
    ("release", [true, false, false, false, true]),
];

impl Study for ControlStudy {
    fn name(&self) -> &'static str {
        "control"
    }

    fn summary(&self) -> &'static str {
        "a manager and agents: groups come and go, memory for one at a time"
    }

    fn collectives(&self) -> &'static [&'static str] {
        &["groups", "restart", "reconnect", "lease", "remake", "release", "standby"]
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "--groups",
                "groups that are asked for, each when the one before ends [default: 1]; lease needs --clock",
            ),
            ("--mutate", ""),
        ]
    }

    fn mutations(&self) -> Vec<&'static str> {
        Mutation::all().map(Mutation::name).collect()
    }

    fn subject(&self, catalog: Catalog, history: &str, arguments: &Arguments) -> Result<Subject, Refusal> {
        let mutation = arguments.mutate.as_deref().map(str::parse).transpose();
        let mutation = mutation.map_err(|error: quincunx_engine::UnknownMutation| Refusal::of(&error))?;
        let groups = arguments.groups;
        let subject = |network| Subject {
            network,
            tree: None,
            packets: 0,
            senders: None,
            is_lossless: true,
            is_single: false,
        };
        if history == "standby" {
            return Ok(subject(Box::new(Standby::new(catalog, groups, mutation)?)));
        }
        let (_, [restarts, reconnects, leases, kills, releases]) =
            *HISTORIES.iter().find(|(name, _)| *name == history).expect("it is asked whether it takes it");
        let setup = ControlSetup { catalog, groups, restarts, reconnects, leases, kills, releases, mutation };
        Ok(subject(Box::new(ControlPlane::new(setup)?)))
    }
}
