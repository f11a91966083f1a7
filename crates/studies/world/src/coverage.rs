//! What a run has met: faults that were in force, what became of frames and words, states of managers, groups and ranks. Where a line that
//! should be there is missing over many seeds, a generator is dead.

use crate::facts::Fact;
use crate::settings::Own;
use quincunx_nodes::NodeDrop;
use std::collections::BTreeMap;
use std::fmt;

/// Counts by what was met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
}

impl Coverage {
    /// By name, in its order.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// How often something was met.
    pub fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name.clone()).or_default() += count;
        }
    }

    pub(crate) fn meet(&mut self, name: &str) {
        self.add_to(name, 1);
    }

    fn add_to(&mut self, name: &str, count: u64) {
        match self.counts.get_mut(name) {
            Some(known) => *known += count,
            None => _ = self.counts.insert(name.to_owned(), count),
        }
    }

    pub(crate) fn meet_fault(&mut self, name: &str) {
        self.meet(&format!("fault: {name}"));
    }

    pub(crate) fn meet_settings(&mut self, own: &Own) {
        own.iter().for_each(|(key, value)| self.meet(&format!("job: sets {key}={value}")));
    }

    pub(crate) fn drop(&mut self, reason: NodeDrop, count: u64) {
        self.add_to(&format!("dropped: {reason:?}"), count);
    }

    pub(crate) fn hear(&mut self, fact: &Fact) {
        let name = match fact {
            Fact::Asked { .. } => "job: asks for a group",
            Fact::Made { switches, .. } if switches.is_empty() => "job: group among hosts",
            Fact::Made { .. } => "job: group in switches",
            Fact::NotMade { .. } => "job: no group",
            Fact::Joined { mistaken: Some(_), .. } => "rank: joins, and will call something else",
            Fact::Joined { .. } => "rank: joins",
            Fact::Delivered { .. } => "rank: result",
            Fact::Ended { is_late: true, .. } => "rank: deadline over",
            Fact::Ended { .. } => "rank: hears that its group is over",
            Fact::Released { .. } => "rank: done",
            Fact::Recreated { repeats: true, .. } => "rank: group made anew, runs again for others",
            Fact::Recreated { .. } => "rank: group made anew",
            Fact::Installed { .. } => "switch: installs",
            Fact::Removed { .. } => "switch: forgets",
            Fact::Moved { .. } => "switch: moves memory",
            Fact::Serves { records: 0 } => "manager: serves",
            Fact::Serves { .. } => "manager: serves, with groups of before",
            Fact::GroupEnded { .. } => "manager: group fails",
            Fact::Met(name) => name,
        };
        self.meet(name);
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{count:>12}  {name}"))
    }
}
