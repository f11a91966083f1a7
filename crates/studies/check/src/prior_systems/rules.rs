//! The rules that can be explored: each system's, from the least to the most repaired.

use core::fmt;

/// How a slot is told apart from its last use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SwitchMlRule {
    /// Not at all: with its result sent it is empty.
    OnePool,
    /// By a version bit: there are two pools, used in turn. A worker's contribution to one forgets that it has contributed to
    /// the other.
    TwoPools,
    /// By the chunk's whole number, which each contribution carries anyway: a worker that has contributed a chunk contributes
    /// none before it.
    ChunkNumbers,
}

/// What becomes of a contribution. Each rule adds to the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AtpRule {
    /// It takes the aggregator that its hash names, joins its chunk there, or goes to the server if another chunk is there. What is
    /// sent again is treated like anything else. An aggregator is free again when the result passes.
    Fallback,
    /// What is sent again reserves nothing, takes along what has been aggregated of its chunk, and frees the aggregator.
    ResendsBypass,
    /// An aggregator whose result does not pass in time is sent to the server as it is, and freed.
    Deadlines,
}

/// Whose rules, and which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rules {
    /// SwitchML's.
    SwitchMl(SwitchMlRule),
    /// ATP's.
    Atp(AtpRule),
}

/// Systems, their rules from the least to the most repaired, and whether a rule is the system's own.
const NAMES: [(&str, &str, Rules, bool); 6] = [
    ("switchml", "one-pool", Rules::SwitchMl(SwitchMlRule::OnePool), false),
    ("switchml", "two-pools", Rules::SwitchMl(SwitchMlRule::TwoPools), true),
    ("switchml", "chunk-numbers", Rules::SwitchMl(SwitchMlRule::ChunkNumbers), false),
    ("atp", "fallback", Rules::Atp(AtpRule::Fallback), false),
    ("atp", "resends-bypass", Rules::Atp(AtpRule::ResendsBypass), true),
    ("atp", "deadlines", Rules::Atp(AtpRule::Deadlines), false),
];

/// A system has no such rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of {expected} as the rule of {system}, found {found}")]
pub struct UnknownRule {
    /// Whose rule.
    pub system: String,
    /// The rules there are.
    pub expected: String,
    /// What was asked for.
    pub found: String,
}

impl Rules {
    /// All rules, each system's from the least to the most repaired.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(.., rules, _)| *rules)
    }

    /// A system's own rule.
    pub fn own(system: &str) -> Option<Self> {
        NAMES.iter().find(|(name, .., own)| *name == system && *own).map(|(.., rules, _)| *rules)
    }

    /// A system's rule of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(system: &str, rule: &str) -> Result<Self, UnknownRule> {
        let names = || NAMES.iter().filter(|(name, ..)| *name == system);
        let found = names().find(|(_, name, ..)| *name == rule).map(|(.., rules, _)| *rules);
        found.ok_or_else(|| UnknownRule {
            system: system.to_owned(),
            expected: names().map(|(_, name, ..)| *name).collect::<Vec<_>>().join(", "),
            found: rule.to_owned(),
        })
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, rule, ..) =
            NAMES.iter().find(|(.., rules, _)| rules == self).expect("every rule has a name");
        write!(f, "{system} {rule}")
    }
}
