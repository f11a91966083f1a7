//! Full meshes of hosts in domains of equal size (MultiWrite 3.1).

use core::fmt;
use core::ops::Range;

/// Hosts linked each with each, without switches, in domains that gather each for themselves. Written as `mesh-DxM`: D domains of M
/// ranks each; the first M ranks are the first domain, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MeshShape {
    domains: u16,
    members: u16,
}

impl MeshShape {
    /// A mesh of `domains` times `members` ranks; `None` without a domain, with one rank in each, or with more ranks than numbers.
    pub const fn new(domains: u16, members: u16) -> Option<Self> {
        if domains == 0 || members < 2 || domains.checked_mul(members).is_none() {
            return None;
        }
        Some(Self { domains, members })
    }

    /// Domains.
    pub const fn domains(self) -> u16 {
        self.domains
    }

    /// Ranks of a domain.
    pub const fn members(self) -> u16 {
        self.members
    }

    /// How many ranks it has.
    pub const fn ranks(self) -> u16 {
        self.domains * self.members
    }

    /// The ranks of the domain that `rank` is in.
    pub const fn domain(self, rank: u16) -> Range<u16> {
        let first = rank / self.members * self.members;
        first..first + self.members
    }
}

impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh-{}x{}", self.domains, self.members)
    }
}
