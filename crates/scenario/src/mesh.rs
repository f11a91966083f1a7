//! A full mesh of accelerators in groups that gather each for itself, and relay for each other (MultiWrite 3.1).

use crate::fabric::Contradiction;
use crate::{GroupSetup, Loss, PacketLink, text};
use quincunx_fabric::Relays;
use quincunx_units::{ByteCount, Duration};
use serde::Deserialize;

/// Accelerators that are joined each with each, without switches.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshFabric {
    /// What it is, in a line.
    pub summary: Option<String>,
    /// Groups; each runs the collective for itself.
    pub groups: u16,
    /// Accelerators in a group.
    pub members: u16,
    /// Every link.
    pub link: PacketLink,
    /// How queue pairs are set up.
    #[serde(default)]
    pub group: GroupSetup,
    /// Loss on links of hosts: on all links of each of the first ones, both ways.
    pub loss: Option<Loss>,
    /// Relays.
    pub relay: RelaySetup,
}

/// How ranks of other groups relay, and what it takes them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaySetup {
    /// Who relays for a rank.
    #[serde(deserialize_with = "text::deserialize")]
    pub relays: Relays,
    /// The longest message.
    #[serde(deserialize_with = "text::deserialize")]
    pub piece: ByteCount,
    /// To prepare more than one way, once a collective, before anything is sent.
    #[serde(deserialize_with = "text::deserialize")]
    pub preparation: Duration,
    /// To take a message in and to read whom it is for.
    #[serde(deserialize_with = "text::deserialize")]
    pub message: Duration,
    /// To send one copy of it.
    #[serde(deserialize_with = "text::deserialize")]
    pub copy: Duration,
}

impl MeshFabric {
    /// Accelerators.
    pub fn ranks(&self) -> u16 {
        self.groups.saturating_mul(self.members)
    }

    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        if let Some(loss) = &self.loss
            && loss.links > self.ranks()
        {
            let found = format!("{} with {} hosts", loss.links, self.ranks());
            return Err(("`loss.links` of at most the hosts", found, "name fewer"));
        }
        self.relay.check(self.groups, self.members)
    }
}

impl RelaySetup {
    /// Whether so many groups can relay for each other.
    pub(crate) fn check(&self, groups: u16, members: u16) -> Result<(), Contradiction> {
        if groups < 2 || members < 2 {
            let found = format!("{groups} of {members}");
            return Err(("two `groups` of two `members` at least", found, "nobody relays within a group"));
        }
        if self.piece.bytes() == 0 {
            return Err(("a `relay.piece` of a byte or more", "none".into(), "nothing could be sent"));
        }
        Ok(())
    }
}
