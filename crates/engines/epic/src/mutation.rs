//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// A rule that is broken. Where the fault comes from is said with each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutation {
    /// Mode-III frees slots like Mode-II, when an aggregate is complete, not when it has been acknowledged (EPIC figure 6).
    ModeIIRecycling,
    /// At Mode-III's root an aggregate goes to the replication pipe whether there is room or not (H.4).
    RootCopiesAggregate,
    /// A Mode-II buffer of one slot more than the window instead of twice the window (5.1).
    WindowShort,
    /// Mode-III acknowledges what arrives, not what it has added up in order.
    AckBeforeAggregate,
    /// CheckDuplicate says that nothing is one.
    NoDuplicateCheck,
    /// PSNs are compared as they are, though they wrap.
    PsnNoWrap,
    /// A NAK counts as an ACK of the packet that it asks for.
    NakAsAck,
    /// Mode-II as in 4.3, without a valid range: what the network kept for long is added to the slot's next user.
    StaleCollective,
    /// Mode-II with two pools of slots told apart by one bit: a contribution to one forgets that its sender has contributed
    /// to the other (SwitchML's rule).
    OneBitVersion,
    /// Mode-II, Reduce: slots are freed when an aggregate is complete, though its receiver may still want it.
    ReduceRecycledByCompletion,
    /// Mode-II, Broadcast: a receiver's NAK is passed on as it is, and acknowledges for slower ones.
    NakForwarded,
    /// Mode-II: an ACK goes upstream when it is news, and never again.
    AckOnlyIfNews,
}

const NAMES: [(&str, Mutation); 12] = [
    ("mode-ii-recycling", Mutation::ModeIIRecycling),
    ("root-copies-aggregate", Mutation::RootCopiesAggregate),
    ("window-short", Mutation::WindowShort),
    ("ack-before-aggregate", Mutation::AckBeforeAggregate),
    ("no-duplicate-check", Mutation::NoDuplicateCheck),
    ("psn-no-wrap", Mutation::PsnNoWrap),
    ("nak-as-ack", Mutation::NakAsAck),
    ("stale-collective", Mutation::StaleCollective),
    ("one-bit-version", Mutation::OneBitVersion),
    ("reduce-recycled-by-completion", Mutation::ReduceRecycledByCompletion),
    ("nak-forwarded", Mutation::NakForwarded),
    ("ack-only-if-news", Mutation::AckOnlyIfNews),
];

impl Mutation {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, mutation)| *mutation)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, mutation)| mutation == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

/// No rule of this name can be broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of {}, found \"{found}\"", names())]
pub struct UnknownMutation {
    found: String,
}

fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(text: &str) -> Result<Self, UnknownMutation> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, mutation)| *mutation).ok_or_else(|| UnknownMutation { found: text.to_string() })
    }
}
