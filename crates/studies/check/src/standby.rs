//! Two managers of one fabric: one that serves, and one that stands by for the lease of the store. The lease may end at any moment, while the
//! first is merely slow: he goes on until the store refuses him or he finds out himself. Two hosts and a client leave him for the
//! other, each when it likes; words of before may be on their way, and he may hear of it late.
//!
//! What must hold: no two groups have one queue pair; of one request one group comes, whoever is asked how
//! often; a group of which a manager has told the client is known to the next; and in the end nobody holds anything.

use core::net::IpAddr;

use quincunx_collective::LengthOnly;
use quincunx_control::{
    ControlCommand, ControlConfig, ControlEvent, ControlNode, ControlTimer, GroupRequest, ManagerConfig,
    Message, Mutation, NodeDescription, Pair,
};
use quincunx_design::{Catalog, Refusal};
use quincunx_driver_check::{End, Member, NodeId, System};
use quincunx_engine::{Engine, PortId};
use quincunx_units::Duration;

use crate::describe::Describe;
use crate::requested::{RequestedGroup, words, words_of_timer};

/// Two managers to explore.
#[derive(Clone, Debug)]
pub struct Standby {
    catalog: Catalog,
    wanted: GroupRequest,
    /// Groups that the client asks for, one after the other.
    groups: u8,
    mutation: Option<Mutation>,
}

/// Who uses a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct StandbyOwner {
    /// Of the client: requests that are still to be made, one that is not answered, a group that he has.
    to_ask: u8,
    waits: bool,
    has: bool,
    /// Of the client: all nodes are there; he has left the first manager, and ends his group at the second.
    may_ask: bool,
    has_turned: bool,
    /// Of an agent: it has made its first connection.
    begun: bool,
    /// Of a manager: it has the lease, as far as it knows.
    serves: bool,
    /// Groups and bytes that are held, as the node sees it.
    held: (usize, u64),
}

const FIRST: NodeId = NodeId(0);
const SECOND: NodeId = NodeId(3);
const STORE: NodeId = NodeId(4);
const CLIENT: NodeId = NodeId(5);

/// Nodes with an agent.
const AGENTS: u16 = 2;

impl Standby {
    /// Two managers of groups that run the first design of the catalog that needs a switch.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(catalog: Catalog, groups: u8, mutation: Option<Mutation>) -> Result<Self, Refusal> {
        let wanted = RequestedGroup::find(catalog)?.among_hosts(catalog)?;
        Ok(Self { catalog, wanted, groups, mutation })
    }

    fn config(&self, node: NodeId) -> ControlConfig {
        let mutation = self.mutation;
        match node {
            FIRST | SECOND => ControlConfig::Manager {
                catalog: self.catalog,
                config: ManagerConfig { return_timeout: Duration::from_secs(1), ..ManagerConfig::default() },
                pair: Some(Pair { stands_by: node == SECOND, agents: AGENTS }),
                mutation,
            },
            STORE => ControlConfig::Store { mutation },
            CLIENT => ControlConfig::Client { wanted: Box::new(self.wanted.clone()), mutation },
            _ => {
                let address = IpAddr::from([10, 0, 0, node.0 as u8]);
                let description = NodeDescription::host(self.name(node), address, 4);
                ControlConfig::Agent { description: Box::new(description), collectives: 0, mutation }
            }
        }
    }
}

const fn is_agent(node: NodeId) -> bool {
    node.0 > 0 && node.0 <= AGENTS
}

impl System for Standby {
    type Engine = ControlNode;
    type Owner = StandbyOwner;

    fn members(&self) -> Vec<Member<ControlNode, StandbyOwner>> {
        let member = |node| {
            let Ok(engine) = ControlNode::new(self.config(node));
            let to_ask = if node == CLIENT { self.groups } else { 0 };
            Member {
                engine,
                owner: StandbyOwner { to_ask, serves: node == FIRST, ..StandbyOwner::default() },
            }
        };
        (0..=CLIENT.0).map(|node| member(NodeId(node))).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let ends = |manager: NodeId, port: u16| {
            let to = move |from: u16, node, to: u16| {
                [End { node: manager, port: PortId(from) }, End { node, port: PortId(to) }]
            };
            let agents = (0..AGENTS).map(move |agent| to(agent, NodeId(agent + 1), port));
            agents.chain([to(AGENTS, STORE, port), to(AGENTS + 1, CLIENT, port)])
        };
        let clock = [FIRST, SECOND].map(|node| End { node, port: PortId(AGENTS + 2) });
        ends(FIRST, 0).chain(ends(SECOND, 1)).chain([clock]).collect()
    }

    fn wants_command(&self, node: NodeId, owner: &StandbyOwner) -> bool {
        match node {
            CLIENT if owner.has => owner.has_turned,
            CLIENT => owner.to_ask > 0 && !owner.waits && owner.may_ask,
            _ => is_agent(node) && !owner.begun,
        }
    }

    fn command(&self, node: NodeId, owner: &mut StandbyOwner) -> ControlCommand {
        if node != CLIENT {
            owner.begun = true;
            return ControlCommand::Reconnect;
        }
        owner.waits = true;
        if core::mem::take(&mut owner.has) {
            return ControlCommand::EndAll;
        }
        owner.to_ask -= 1;
        ControlCommand::Ask
    }

    fn observe(&self, node: NodeId, owner: &mut StandbyOwner, event: ControlEvent) -> Result<(), String> {
        match event {
            ControlEvent::Manages { groups, taken, .. } => owner.held = (groups, taken.bytes()),
            ControlEvent::Holds { groups, clash } => {
                owner.held = (groups, 0);
                if let Some(other) = clash {
                    let name = self.name(node);
                    return Err(format!("{name} has two groups in one place, one of them group {other}"));
                }
            }
            ControlEvent::MayAsk => owner.may_ask = true,
            ControlEvent::Turned => owner.has_turned = true,
            ControlEvent::Serves(serves) => owner.serves = serves,
            ControlEvent::Made(group) => (owner.waits, owner.has) = (false, group.is_some()),
            ControlEvent::Ended { group, had_vanished } => {
                owner.waits = false;
                if had_vanished {
                    return Err(format!(
                        "group {group} was made for the client, and the next manager does not know it"
                    ));
                }
            }
            ControlEvent::Failed => {}
            ControlEvent::Answered(_) | ControlEvent::Forgotten(_) | ControlEvent::Ran { .. } => {
                return Err("a word that is meant for nobody here".to_owned());
            }
        }
        Ok(())
    }

    fn is_done(&self, node: NodeId, owner: &StandbyOwner) -> bool {
        let ended = owner.serves == (node == SECOND);
        ended && owner.to_ask == 0 && !owner.waits && !owner.has && owner.held == (0, 0)
    }
}

impl Describe for Standby {
    fn name(&self, node: NodeId) -> String {
        match node {
            FIRST => "first manager".to_owned(),
            SECOND => "second manager".to_owned(),
            STORE => "store".to_owned(),
            CLIENT => "client".to_owned(),
            host => format!("r{}", host.0 - 1),
        }
    }

    fn frame(&self, header: &Message, _: &LengthOnly) -> String {
        words(header)
    }

    fn timer(&self, _: NodeId, timer: ControlTimer) -> String {
        words_of_timer(timer)
    }
}
