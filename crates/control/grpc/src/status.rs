//! What operators see of groups and nodes: what the manager says, and what the service keeps beside it.

use quincunx_collective::GroupId;
use quincunx_control::{GroupState, GroupSummary, Holding, NodeDescription};
use quincunx_units::Duration;
use std::convert::Infallible;
use std::str::FromStr;

/// The number that stands for all groups that the caller may not see, together. No group has it.
pub const OTHERS: GroupId = GroupId(0);

/// A node and what groups hold of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// What the node said of itself.
    pub description: NodeDescription,
    /// By group number; [`OTHERS`] for those that the caller may not see.
    pub uses: Vec<(GroupId, Holding)>,
    /// Whether new groups pass it by.
    pub drains: bool,
}

/// A group with what was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// What the manager says of it.
    pub summary: GroupSummary,
    /// What operators call it; empty: nothing.
    pub name: String,
    /// Whose it is; empty: nobody's in particular.
    pub tenant: String,
    /// The design that was asked for.
    pub asked: String,
    /// For how long a rank waits in a collective that does not end, if it is long.
    pub stalled: Option<Duration>,
}

impl GroupStatus {
    /// One line on what is not as it was asked for, if anything is.
    pub fn reason(&self) -> Option<String> {
        match (&self.summary.state, self.stalled) {
            (GroupState::Failed(failure) | GroupState::Suspended(failure), _) => Some(failure.to_string()),
            (GroupState::Ready, Some(stalled)) => {
                let (seconds, number) = (stalled.as_secs_f64(), self.summary.group);
                Some(format!("ranks wait for {seconds:.1} s; `quincunx group waits {number}` says whom for"))
            }
            _ => self.summary.fallback.as_ref().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
impl GroupStatus {
    /// Group 3, "train", of so many ranks on host-0 and so on, as tests have it.
    pub(crate) fn ready(ranks: usize) -> Self {
        let summary = GroupSummary {
            group: GroupId(3),
            design: "epic-3".into(),
            fallback: None,
            state: GroupState::Ready,
            owner: String::new(),
            members: (0..ranks).map(|rank| format!("host-{rank}")).collect(),
            switches: Vec::new(),
            conflicts: 0,
            lease: None,
            recreated: None,
            shared: None,
        };
        let [name, tenant, asked] = ["train", "", "epic-3"].map(String::from);
        Self { summary, name, tenant, asked, stalled: None }
    }
}

/// A group that holds something of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its number, or [`OTHERS`].
    pub group: GroupId,
    /// What it holds.
    pub holding: Holding,
    /// Its name, if it has one.
    pub name: String,
    /// Whose it is, if anybody's.
    pub tenant: String,
}

/// Why a group does not use the network, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The design that was asked for.
    pub asked: String,
    /// The group; `None`: the request was refused.
    pub group: Option<GroupStatus>,
    /// The manager's words, one line; empty if all is as asked for.
    pub reason: String,
    /// The switch that lacked something: its memory in bytes and its queue pairs, both in all.
    pub capacity: Option<(u64, u32)>,
    /// Who held what of that switch when it was decided.
    pub then: Vec<Holder>,
    /// Who does now.
    pub now: Vec<Holder>,
}

/// A group as people say it: digits are its number, anything else is its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupName {
    /// Its number.
    Number(GroupId),
    /// Its name.
    Name(String),
}

impl GroupName {
    /// Whether that is the group.
    pub fn is(&self, group: &GroupStatus) -> bool {
        match self {
            Self::Number(number) => {
                let recreated = group.summary.recreated.as_ref();
                group.summary.group == *number
                    || recreated.is_some_and(|recreated| recreated.earlier.contains(number))
            }
            Self::Name(name) => group.name == *name,
        }
    }
}

impl FromStr for GroupName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let number = text.parse().map(|number| Self::Number(GroupId(number)));
        Ok(number.unwrap_or_else(|_| Self::Name(text.into())))
    }
}
