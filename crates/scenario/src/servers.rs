//! Servers of accelerators that are joined in full within, and by a network between: where tokens are dispatched to experts
//! (MultiWrite 3.2).

use crate::gate::Shape;
use crate::{GateSource, GroupSetup, Loss, PacketLink, ScenarioError, text};
use quincunx_units::{BitRate, ByteCount, Duration};
use serde::Deserialize;

/// Servers, and the batch that is dispatched on them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServersFabric {
    /// What it is, in a line.
    pub summary: Option<String>,
    /// Servers.
    pub servers: u16,
    /// Accelerators in a server.
    pub members: u16,
    /// Between any two accelerators of a server.
    pub link: PacketLink,
    /// From each accelerator to the network, which has no bottleneck of its own.
    pub network: NetworkLink,
    /// How queue pairs are set up.
    #[serde(default)]
    pub group: GroupSetup,
    /// Loss on the first accelerators' links to the network, both ways.
    pub loss: Option<Loss>,
    /// What relaying takes.
    pub relay: RelayTime,
    /// Tokens of each accelerator, or the most of them that are taken from a file.
    pub tokens: u32,
    /// A token's values.
    #[serde(deserialize_with = "text::deserialize")]
    pub token: ByteCount,
    /// Experts, as many on each accelerator.
    pub experts: u16,
    /// Experts of a token.
    pub top_k: u16,
    /// How a token's experts are chosen.
    #[serde(deserialize_with = "text::deserialize")]
    pub gate: GateSource,
}

/// A link to the network, each way.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkLink {
    /// Bits a second.
    #[serde(deserialize_with = "text::deserialize")]
    pub rate: BitRate,
    /// From the moment a bit is sent to the moment it arrives.
    #[serde(deserialize_with = "text::deserialize")]
    pub latency: Duration,
}

/// What it takes to relay tokens.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayTime {
    /// To prepare relaying, once a batch, before anything is sent.
    #[serde(deserialize_with = "text::deserialize")]
    pub preparation: Duration,
    /// To take a message in and to read whom it is for.
    #[serde(deserialize_with = "text::deserialize")]
    pub message: Duration,
    /// To send one copy of it.
    #[serde(deserialize_with = "text::deserialize")]
    pub copy: Duration,
}

impl ServersFabric {
    /// Accelerators.
    pub fn ranks(&self) -> u16 {
        self.servers.saturating_mul(self.members)
    }

    /// The most tokens that an accelerator has.
    pub fn most_tokens(&self) -> usize {
        let wanted = self.tokens as usize;
        match &self.gate {
            GateSource::Drawn(_) => wanted,
            GateSource::Written(written) => {
                wanted.min(written.tokens.iter().map(Vec::len).max().unwrap_or_default())
            }
        }
    }

    /// The values of as many tokens.
    pub fn batch(&self) -> ByteCount {
        ByteCount::new(self.most_tokens() as u64 * self.token.bytes())
    }

    /// Reads the gate's file, if it has one.
    pub(crate) fn read_gate(&mut self) -> Result<(), ScenarioError> {
        let shape = Shape { ranks: self.ranks(), experts: self.experts, top_k: self.top_k };
        match &mut self.gate {
            GateSource::Drawn(_) => Ok(()),
            GateSource::Written(written) => written.read(shape),
        }
    }

    /// What makes no sense: what was expected, what was found and what to do.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        let ranks = self.ranks();
        if self.servers < 2 || self.members < 2 || ranks > 1024 {
            let found = format!("{} of {}", self.servers, self.members);
            return Err((
                "two `servers` of two `members` at least, and 1,024 in all at most",
                found,
                "a bitmap holds no more",
            ));
        }
        if self.experts == 0 || !self.experts.is_multiple_of(ranks) {
            let found = format!("{} on {ranks} accelerators", self.experts);
            return Err((
                "`experts` on every accelerator, as many on each",
                found,
                "make it a multiple of them",
            ));
        }
        if self.top_k == 0 || self.top_k > self.experts {
            let found = format!("{} of {}", self.top_k, self.experts);
            return Err(("`top_k` of one to all `experts`", found, "a token has each expert once"));
        }
        if self.tokens == 0 {
            return Err(("`tokens` of one or more", "0".into(), "nothing would be dispatched"));
        }
        if self.token.bytes() == 0 || !self.token.bytes().is_multiple_of(4) {
            return Err(("a `token` of whole words of four bytes", self.token.to_string(), "round it"));
        }
        match &self.loss {
            Some(loss) if loss.links > ranks => Err((
                "`loss.links` of at most the hosts",
                format!("{} with {ranks}", loss.links),
                "name fewer",
            )),
            _ => Ok(()),
        }
    }
}
