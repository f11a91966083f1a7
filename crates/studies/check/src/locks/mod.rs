//! Locks on switches' memory: two groups whose trees lead over the same switches, with memory for one of them at a time. Words and packets
//! are lost, late and doubled.
//!
//! What must hold: no two groups have one slot, no packet comes for a slot that its group has not locked, every rank runs all of its
//! invocations whatever was granted, and in the end no switch has a lock that nobody wants.

mod node;

use quincunx_collective::{GroupId, LengthOnly};
use quincunx_design::{Catalog, Refusal};
use quincunx_driver_check::{End, Member, NodeId, System};
use quincunx_engine::{Engine, PortId};
use quincunx_nodes::locks::LockMutation;

use node::{Again, Begin, LockConfig, LockEvent, Says};
pub use node::{LockFrame, LockNode};

use crate::arguments::Arguments;
use crate::describe::Describe;
use crate::study::Study;
use crate::subject::Subject;

/// Where the groups are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPlaces {
    /// Both have their ranks at one switch.
    OneSwitch,
    /// Both have a rank at each of two switches; the root of one is a leaf of the other, so that each can have half of what it needs.
    Crossed,
}

/// Two groups to explore.
#[derive(Clone, Copy, Debug)]
pub struct LockSetup {
    /// Where they are.
    pub places: LockPlaces,
    /// Invocations of the first group, and of the second.
    pub invocations: [u8; 2],
    /// How often a group asks again, before it runs an invocation among its hosts.
    pub tries: u8,
    /// A rule that all break.
    pub mutation: Option<LockMutation>,
}

/// Who uses a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockOwner {
    /// Of a rank: invocations that it has not begun.
    to_run: u8,
    /// Of a rank: one runs. Of a switch: locks that are held.
    open: usize,
}

const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];
const UP: PortId = PortId(0);

/// Groups that share memory.
#[derive(Clone, Debug)]
pub struct Locks {
    setup: LockSetup,
}

impl Locks {
    /// The network of a set-up.
    pub fn new(setup: LockSetup) -> Self {
        Self { setup }
    }

    fn switches(&self) -> u16 {
        match self.setup.places {
            LockPlaces::OneSwitch => 1,
            LockPlaces::Crossed => 2,
        }
    }

    /// A switch's ports are 0 to the other switch, and 1 to 4 to ranks: two of a group at one switch, or one of each.
    fn port_of(&self, rank: u16) -> (NodeId, PortId) {
        match self.setup.places {
            LockPlaces::OneSwitch => (NodeId(0), PortId(1 + rank)),
            // Ranks 0 and 2 at the first, 1 and 3 at the second.
            LockPlaces::Crossed => (NodeId(rank % 2), PortId(1 + rank / 2)),
        }
    }

    /// Ports of a group at a switch: to the parent and to the children.
    fn edges(&self, switch: u16, group: usize) -> (GroupId, Option<PortId>, Vec<PortId>) {
        let own = |rank: u16| {
            let (node, port) = self.port_of(rank);
            (node.0 == switch).then_some(port)
        };
        let mut children: Vec<PortId> = (2 * group as u16..2 * group as u16 + 2).filter_map(own).collect();
        let mut parent = None;
        if self.setup.places == LockPlaces::Crossed {
            // The root of the first group is the first switch, of the second the second.
            match usize::from(switch) == group {
                true => children.push(UP),
                false => parent = Some(UP),
            }
        }
        (GROUPS[group], parent, children)
    }

    fn rank(&self, node: NodeId) -> Option<u16> {
        node.0.checked_sub(self.switches())
    }
}

impl System for Locks {
    type Engine = LockNode;
    type Owner = LockOwner;

    fn members(&self) -> Vec<Member<LockNode, LockOwner>> {
        let mutation = self.setup.mutation;
        let switch = |switch| {
            let groups = (0..2).map(|group| self.edges(switch, group)).collect();
            let Ok(engine) = LockNode::new(LockConfig::Switch(groups, mutation));
            Member { engine, owner: LockOwner::default() }
        };
        let rank = |rank: u16| {
            let group = usize::from(rank / 2);
            let Ok(engine) = LockNode::new(LockConfig::Rank(GROUPS[group], self.setup.tries, mutation));
            let owner = LockOwner { to_run: self.setup.invocations[group], open: 0 };
            Member { engine, owner }
        };
        (0..self.switches()).map(switch).chain((0..4).map(rank)).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let mut links = Vec::new();
        if self.setup.places == LockPlaces::Crossed {
            links.push([NodeId(0), NodeId(1)].map(|node| End { node, port: UP }));
        }
        for rank in 0..4 {
            let (node, port) = self.port_of(rank);
            links.push([End { node, port }, End { node: NodeId(self.switches() + rank), port: UP }]);
        }
        links
    }

    fn wants_command(&self, _: NodeId, owner: &LockOwner) -> bool {
        owner.to_run > 0 && owner.open == 0
    }

    fn command(&self, _: NodeId, owner: &mut LockOwner) -> Begin {
        owner.to_run -= 1;
        owner.open = 1;
        Begin
    }

    fn observe(&self, node: NodeId, owner: &mut LockOwner, event: LockEvent) -> Result<(), String> {
        match event {
            LockEvent::Ran(_) => owner.open = 0,
            LockEvent::Held(locks) => owner.open = locks,
            LockEvent::Foreign(group) => {
                let name = self.name(node);
                return Err(format!(
                    "{name} gets a packet of group {group} for memory that this group does not have for itself"
                ));
            }
        }
        Ok(())
    }

    fn is_done(&self, _: NodeId, owner: &LockOwner) -> bool {
        owner.to_run == 0 && owner.open == 0
    }
}

impl Describe for Locks {
    fn name(&self, node: NodeId) -> String {
        match self.rank(node) {
            None => format!("s{}", node.0),
            Some(rank) => format!("rank {} of group {}", rank % 2, rank / 2 + 1),
        }
    }

    fn frame(&self, header: &LockFrame, _: &LengthOnly) -> String {
        let LockFrame { group, number, says } = header;
        match says {
            Says::Word(word) => format!("\"{word}\" of group {group}, invocation {number}"),
            Says::Data => format!("a contribution of group {group}, invocation {number}"),
            Says::Result => format!("the result of group {group}, invocation {number}"),
        }
    }

    fn timer(&self, _: NodeId, Again: Again) -> String {
        "its retransmission timer".to_owned()
    }
}

/// Locks, as a study.
pub(crate) struct LockStudy;

const PLACES: [(&str, LockPlaces); 2] =
    [("one-switch", LockPlaces::OneSwitch), ("crossed", LockPlaces::Crossed)];

impl Study for LockStudy {
    fn name(&self) -> &'static str {
        "locks"
    }

    fn summary(&self) -> &'static str {
        "two groups that lock switches' memory for each invocation, or run among their hosts"
    }

    fn collectives(&self) -> &'static [&'static str] {
        &["one-switch", "crossed"]
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("--times", "invocations of the first group; the second has one [default: 1]"),
            ("--tries", "times that a refused group asks again, before it runs among its hosts [default: 0]"),
            ("--mutate", ""),
        ]
    }

    fn mutations(&self) -> Vec<&'static str> {
        LockMutation::all().map(LockMutation::name).collect()
    }

    fn subject(&self, _: Catalog, places: &str, arguments: &Arguments) -> Result<Subject, Refusal> {
        let (_, places) =
            *PLACES.iter().find(|(name, _)| *name == places).expect("it is asked whether it takes it");
        let mutation = arguments.mutate.as_deref().map(str::parse).transpose();
        let mutation = mutation.map_err(|error: quincunx_engine::UnknownMutation| Refusal::of(&error))?;
        let setup = LockSetup { places, invocations: [arguments.times, 1], tries: arguments.tries, mutation };
        let network = Box::new(Locks::new(setup));
        Ok(Subject { network, tree: None, packets: 0, senders: None, is_lossless: false, is_single: false })
    }
}
