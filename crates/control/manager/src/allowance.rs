//! What owners of groups may hold of switches together. Beyond it a group runs among its hosts, as where a switch has no room.

use alloc::collections::BTreeMap;
use alloc::string::String;
use quincunx_units::ByteCount;

/// What one owner may hold; nothing said: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// Groups in switches at once; those that run among their hosts alone do not count.
    pub groups: Option<u32>,
    /// Memory of all switches together.
    pub switch_memory: Option<ByteCount>,
}

/// What all may hold. Groups without an owner have no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowances {
    /// For those of whom nothing else is said.
    pub default: Allowance,
    /// By owner: what is said here goes before the default.
    pub owners: BTreeMap<String, Allowance>,
}

impl Allowances {
    /// What one may hold.
    pub(crate) fn of(&self, owner: &str) -> Allowance {
        if owner.is_empty() {
            return Allowance::default();
        }
        let own = self.owners.get(owner).copied().unwrap_or_default();
        Allowance {
            groups: own.groups.or(self.default.groups),
            switch_memory: own.switch_memory.or(self.default.switch_memory),
        }
    }
}
