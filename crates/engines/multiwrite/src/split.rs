//! How much goes over the direct links and how much over relays, from what both can carry (MultiWrite 3.1, 5.2 step 2).
//!
//! Two groups share a full mesh, `n` ranks in the one that gathers and `m` in the other one, whose ranks relay. With `w` on every link
//! and `s` bytes a rank the rates that the relays add, and the time that follows:
//!
//! | | paired relays: one a rank | full: every rank of the other group |
//! |---|---|---|
//! | a MultiWrite for all | w, and s/2w for n = m = 4 | m/n w, and s/2w |
//! | a write for each | w/(n - 1), and 3s/4w | m/(2(n - 1)) w, and 3s/5w |
//!
//! With full relaying a link from a rank to a relay of the other group carries what it sends there to be relayed, and what it relays itself:
//! `1 + (n - 1)` shares, or `2 (n - 1)`. So MultiWrite saves a third of the time where relays are paired, and a sixth (the paper's "at
//! least 16%") where all relay.

use alloc::vec::Vec;
use quincunx_units::{BitRate, ByteCount};

use crate::writer::RelayCost;

/// What goes over relays, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// Nothing.
    Direct,
    /// A write for each destination.
    Unicast,
    /// One MultiWrite for all.
    MultiWrite,
}

/// A part of a rank's data, and how it travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The way to each destination: 0 is the direct one.
    pub way: usize,
    /// Its share of the data, as a share of the sum of all weights.
    pub weight: u64,
    /// One write for all destinations, or one for each.
    pub is_shared: bool,
}

/// What a split is worked out from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paths {
    /// What a link within the group carries.
    pub direct: BitRate,
    /// What a link between the groups carries.
    pub cross: BitRate,
    /// Ranks that gather: n.
    pub members: u16,
    /// Ranks of the other group: m.
    pub others: u16,
    /// Relays that each rank uses: 1, its partner, or all m.
    pub relays: u16,
    /// What relaying a message takes, and how long the messages are.
    pub relay: (RelayCost, ByteCount),
}

/// The parts that end at the same time.
pub fn split(strategy: Strategy, paths: &Paths) -> Vec<Part> {
    let direct = Part { way: 0, weight: paths.direct.bits_per_second(), is_shared: true };
    let relays = if strategy == Strategy::Direct { 0 } else { paths.relays };
    if relays == 0 {
        return Vec::from([direct]);
    }
    let is_shared = strategy == Strategy::MultiWrite;
    let weight = relayed(is_shared, paths) / u64::from(relays);
    let relayed = (1..=usize::from(relays)).map(|way| Part { way, weight, is_shared });
    [direct].into_iter().chain(relayed).collect()
}

/// What all relays of a rank add, in bits a second to each destination: as much as the links carry, or the relays manage.
fn relayed(is_shared: bool, paths: &Paths) -> u64 {
    let (copies, others, members) =
        (u128::from(paths.members) - 1, u128::from(paths.others), u128::from(paths.members));
    let cross = u128::from(paths.cross.bits_per_second());
    let is_paired = paths.relays == 1;
    let by_links = match (is_shared, is_paired) {
        (true, true) => cross,
        (false, true) => cross / copies,
        (true, false) => cross * others / members,
        (false, false) => cross * others / (2 * copies),
    };
    let (RelayCost { message, copy }, length) = paths.relay;
    let (messages, copies_each) = if is_shared { (1, copies) } else { (copies, 1) };
    let picos = messages * (u128::from(message.as_picos()) + copies_each * u128::from(copy.as_picos()));
    let share = if is_paired { (1, 1) } else { (others, members) };
    let by_relays =
        (u128::from(length.bytes()) * 8 * 1_000_000_000_000 * share.0).checked_div(picos * share.1);
    let rate = by_relays.map_or(by_links, |by_relays| by_links.min(by_relays));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// How many of `total` pieces each part gets: in proportion, and all of them.
pub(crate) fn pieces(parts: &[Part], total: usize) -> Vec<usize> {
    let whole: u128 = parts.iter().map(|part| u128::from(part.weight)).sum();
    let (mut weight, mut given) = (0, 0);
    let part = |part: &Part| {
        weight += u128::from(part.weight);
        let until = ((total as u128 * weight + whole / 2) / whole.max(1)) as usize;
        let count = until - given;
        given = until;
        count
    };
    parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_units::Duration;

    fn paths(relays: u16) -> Paths {
        let rate = BitRate::new(1_200_000_000).unwrap();
        let relay = (RelayCost::default(), ByteCount::new(1000));
        Paths { direct: rate, cross: rate, members: 4, others: 4, relays, relay }
    }

    /// Of the data, in thousandths.
    fn relayed_share(strategy: Strategy, paths: &Paths) -> u64 {
        let parts = split(strategy, paths);
        let weight = |parts: &[Part]| parts.iter().map(|part| part.weight).sum::<u64>();
        1000 * weight(&parts[1..]) / weight(&parts)
    }

    #[test]
    fn the_shares_of_relays_are_those_of_section_3_1() {
        let shares = |relays| {
            [Strategy::Direct, Strategy::Unicast, Strategy::MultiWrite]
                .map(|strategy| relayed_share(strategy, &paths(relays)))
        };
        assert_eq!(shares(1), [0, 250, 500]);
        assert_eq!(shares(4), [0, 400, 500]);
    }

    #[test]
    fn slower_links_between_the_groups_get_less() {
        let half = BitRate::new(600_000_000).unwrap();
        assert_eq!(relayed_share(Strategy::MultiWrite, &Paths { cross: half, ..paths(1) }), 333);
    }

    #[test]
    fn a_relay_that_takes_its_time_gets_less() {
        // 8,000 bits in 10 us each, for three copies: 0.8 Gbit/s to each destination.
        let cost = RelayCost { message: Duration::from_micros(7), copy: Duration::from_micros(1) };
        let slow = Paths { relay: (cost, ByteCount::new(1000)), ..paths(1) };
        assert_eq!(relayed_share(Strategy::MultiWrite, &slow), 400);
    }

    #[test]
    fn all_pieces_are_given_away() {
        let parts = split(Strategy::MultiWrite, &paths(4));
        for total in 0..50 {
            assert_eq!(pieces(&parts, total).iter().sum::<usize>(), total);
        }
        assert_eq!(pieces(&parts, 8), [4, 1, 1, 1, 1]);
    }
}
