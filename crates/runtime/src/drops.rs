//! What a node has dropped, by reason in words: for who operates it.

use quincunx_driver_net::Dropped;
use quincunx_nodes::NodeDrop;
use quincunx_wire::ParseError;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Frames dropped since the start, by reason: `foreign-source`, `duplicate`, `wrong-icrc`.
pub type Drops = BTreeMap<String, u64>;

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

/// The name of a variant with hyphens: `ForeignSource` is `foreign-source`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_engine::PortId;

    #[test]
    fn reasons_are_words_whatever_layer_has_them_and_ports_are_added_up() {
        let dropped = BTreeMap::from([
            (Dropped::Engine(PortId(0), NodeDrop::ForeignSource), 1),
            (Dropped::Engine(PortId(3), NodeDrop::ForeignSource), 2),
            (Dropped::Engine(PortId(0), NodeDrop::Datapath("no slot")), 4),
            (Dropped::Codec(ParseError::Truncated), 5),
            (Dropped::SendBufferFull, 6),
        ]);
        let expected = [("foreign-source", 3), ("no-slot", 4), ("send-buffer-full", 6), ("truncated", 5)];
        assert_eq!(named(&dropped), expected.map(|(name, frames)| (name.to_owned(), frames)).into());
    }
}
