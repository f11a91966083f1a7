//! What a node has dropped, by reason in words: for who operates it.

use quincunx_driver_net::{Dropped, reverse_path_drops};
use quincunx_nodes::NodeDrop;
use quincunx_wire::ParseError;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Frames dropped since the start, by reason: `foreign-port`, `duplicate`, `wrong-icrc`.
pub type Drops = BTreeMap<String, u64>;

/// What the kernel drops before a node sees it: its sender is behind another interface than the one that it came in by.
const REVERSE_PATH: &str = "reverse-path";

/// By reason in words. Which port it was, and which layer found out, is left out.
pub(crate) fn named(dropped: &BTreeMap<Dropped<NodeDrop, ParseError>, u64>) -> Drops {
    let mut drops = Drops::new();
    for (dropped, frames) in dropped {
        let name = match dropped {
            Dropped::Engine(_, NodeDrop::QueuePair(reason)) => words(reason),
            Dropped::Engine(_, NodeDrop::Datapath(reason)) => reason.replace(' ', "-"),
            Dropped::Engine(_, reason) => words(reason),
            Dropped::Codec(reason) => words(reason),
            other => words(other),
        };
        *drops.entry(name).or_default() += frames;
    }
    drops
}

/// The name of a variant with hyphens: `ForeignPort` is `foreign-port`.
fn words(reason: &impl Debug) -> String {
    let mut words = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// What the kernel has dropped in this process's network namespace since this was made, in the same words: of all traffic there, not of the
/// node's alone.
pub(crate) struct KernelDrops {
    before: u64,
}

impl KernelDrops {
    pub(crate) fn new() -> Self {
        Self { before: reverse_path_drops() }
    }

    /// `drops`, and with them what the kernel has dropped.
    pub(crate) fn with(&self, mut drops: Drops) -> Drops {
        let since = reverse_path_drops().saturating_sub(self.before);
        if since > 0 {
            drops.insert(REVERSE_PATH.to_owned(), since);
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_engine::PortId;

    #[test]
    fn reasons_are_words_whatever_layer_has_them_and_ports_are_added_up() {
        let dropped = BTreeMap::from([
            (Dropped::Engine(PortId(0), NodeDrop::ForeignPort), 1),
            (Dropped::Engine(PortId(3), NodeDrop::ForeignPort), 2),
            (Dropped::Engine(PortId(0), NodeDrop::Datapath("no slot")), 4),
            (Dropped::Codec(ParseError::Truncated), 5),
            (Dropped::SendBufferFull, 6),
        ]);
        let expected = [("foreign-port", 3), ("no-slot", 4), ("send-buffer-full", 6), ("truncated", 5)];
        assert_eq!(named(&dropped), expected.map(|(name, frames)| (name.to_owned(), frames)).into());
    }
}
