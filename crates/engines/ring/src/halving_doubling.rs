//! Recursive doubling for short vectors, recursive halving and doubling for long ones: an AllReduce in log2(n) exchanges, or twice as many that
//! carry little more than 2(n-1)/n vectors (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
//! International Journal of High Performance Computing Applications 19(1), 2005).
//!
//! Exchange s is with the rank whose place differs in bit s - 1: the long ones are with ranks nearby. The largest power of two of ranks has places.
//! Each of the others first gives its vector to one that has a place, and in the end gets the sum from it.
//!
//! A rank waits in the exchanges by halving for earlier ones alone, and in those by doubling for later ones, so nothing waits in a circle.

use crate::plan::{Basis, Own, Plan, part};
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::Rank;

/// Vectors up to so many bytes are exchanged whole: for longer ones, half as many exchanges cost more on links of 100 to 400 Gbit/s than they save.
const SHORT: usize = 16 * 1024;

/// Pieces of a long vector, if they are not too short: an exchange waits for the last one of those before it.
const PIECES: usize = 512;

/// Which ranks have places.
#[derive(Clone, Copy)]
struct Places {
    ranks: u16,
}

impl Places {
    fn exchanges(self) -> u32 {
        self.ranks.ilog2()
    }

    fn count(self) -> u16 {
        1 << self.exchanges()
    }

    fn rank(self, place: u16) -> Rank {
        let extra = self.ranks - self.count();
        Rank(if place < extra { 2 * place } else { place + extra })
    }

    /// The place of a rank, or of the one that acts for it.
    fn place(self, Rank(rank): Rank) -> u16 {
        let extra = self.ranks - self.count();
        if rank < 2 * extra { rank / 2 } else { rank - extra }
    }

    fn has_place(self, rank: Rank) -> bool {
        self.rank(self.place(rank)) == rank
    }

    /// The rank that the one at a place acts for.
    fn guest(self, place: u16) -> Option<Rank> {
        (place < self.ranks - self.count()).then_some(Rank(2 * place + 1))
    }

    /// Who the one at a place exchanges with.
    fn partner(self, place: u16, exchange: u32) -> u16 {
        place ^ 1 << (exchange - 1)
    }
}

/// The ranks that `rank` exchanges with, ascending.
pub(crate) fn neighbours(rank: Rank, ranks: u16) -> Vec<Rank> {
    let places = Places { ranks };
    let place = places.place(rank);
    if !places.has_place(rank) {
        return Vec::from([places.rank(place)]);
    }
    let partners = (1..=places.exchanges()).map(|exchange| places.rank(places.partner(place, exchange)));
    let mut found: Vec<Rank> = partners.chain(places.guest(place)).collect();
    found.sort_unstable();
    found
}

/// Which part of the vector the one at a place has the sum of after an exchange by halving.
struct Halves {
    places: Places,
    length: usize,
    element: usize,
}

impl Halves {
    /// What is kept after an exchange, and what is given away in it; the whole vector, and nothing, before the first.
    fn split(&self, place: u16, exchange: u32) -> [Range<usize>; 2] {
        let (mut start, mut count) = (0, self.places.count());
        let mut given = 0..0;
        for bit in 0..exchange {
            count /= 2;
            let (low, high) = (start, start + count);
            let is_high = place >> bit & 1 == 1;
            start = if is_high { high } else { low };
            given = if is_high { low..low + count } else { high..high + count };
        }
        [self.bytes(start..start + count), self.bytes(given)]
    }

    fn bytes(&self, parts: Range<u16>) -> Range<usize> {
        let of = |index| part(self.length, self.element, self.places.count(), index);
        if parts.is_empty() { 0..0 } else { of(parts.start).start..of(parts.end - 1).end }
    }

    /// What the one at a place takes in an exchange by halving, or from its guest (0): first what it gives away next, so that it can.
    fn taken(&self, place: u16, exchange: u32) -> [Range<usize>; 2] {
        if exchange < self.places.exchanges() {
            let [kept, given] = self.split(place, exchange + 1);
            [given, kept]
        } else {
            [0..0, self.split(place, exchange)[0].clone()]
        }
    }

    /// What the one at a place gives away in an exchange by doubling, or to its guest (0): first what it has had for longer.
    fn given_back(&self, place: u16, exchange: u32) -> [Range<usize>; 2] {
        if exchange < self.places.exchanges() {
            self.split(place, exchange + 1)
        } else {
            [0..0, self.split(place, exchange)[0].clone()]
        }
    }
}

/// Plans an AllReduce of `length` bytes, whose elements have `element`; or a Barrier, which has none.
pub(crate) fn plan(plan: &mut Plan, length: usize, element: usize) {
    let places = Places { ranks: plan.ranks };
    plan.cut(length, 1);
    if length <= SHORT.min(plan.piece) {
        exchange_whole(plan, places, length);
    } else {
        plan.cut(length, PIECES);
        halve_and_double(plan, &Halves { places, length, element });
    }
}

/// A message each way in each exchange. The sum so far is sent from the slot where it was added up, and added to the next from the output.
fn exchange_whole(plan: &mut Plan, places: Places, length: usize) {
    let (rank, place) = (plan.rank, places.place(plan.rank));
    let own = Some(Own { offset: 0, position: 0 });
    let mut push = |basis: Option<usize>, own, from: Option<Rank>, to: Option<Rank>| {
        match length {
            0 => plan.push_token(own, from, to),
            _ => plan.push(length, own, from.map(|_| 0), from, to),
        }
        plan.base(Basis {
            stage: basis,
            adds_to_output: basis.is_some(),
            sends_slot: from.is_some(),
            acknowledged: 0,
        })
    };
    if !places.has_place(rank) {
        let host = Some(places.rank(place));
        push(None, own, None, host);
        push(None, None, host, None);
        return;
    }
    let guest = places.guest(place);
    let partner = |exchange| Some(places.rank(places.partner(place, exchange)));
    let first = push(None, own, guest, partner(1));
    let mut sum = guest.map(|_| first);
    for exchange in 1..=places.exchanges() {
        let to = if exchange < places.exchanges() { partner(exchange + 1) } else { guest };
        sum = Some(push(sum, own, partner(exchange), to));
    }
}

/// Sums are made where they belong in the output: what a rank has given away there it gets back.
fn halve_and_double(plan: &mut Plan, halves: &Halves) {
    let places = halves.places;
    let place = places.place(plan.rank);
    let own = |range: &Range<usize>| Some(Own { offset: range.start, position: 0 });
    if !places.has_place(plan.rank) {
        let host = Some(places.rank(place));
        for range in halves.taken(place, 0) {
            plan.push(range.len(), own(&range), None, None, host);
        }
        for range in halves.given_back(place, 0) {
            plan.push(range.len(), None, Some(range.start), host, None);
        }
        return;
    }
    // The stages after which there are the sums that are given away next and those that are kept then.
    let mut sums = [None; 2];
    let guest = places.guest(place);
    if guest.is_some() {
        sums = halves.taken(place, 0).map(|range| {
            plan.push_based(Basis::default(), range.len(), own(&range), Some(range.start), guest, None)
        });
    }
    let mut has_sums = guest.is_some();
    let mut given = Vec::new();
    for exchange in 1..=places.exchanges() {
        let other = places.partner(place, exchange);
        let partner = Some(places.rank(other));
        let [gives, keeps] = sums.map(|stage| Basis { stage, adds_to_output: has_sums, ..Basis::default() });
        let mut pieces = 0;
        for range in halves.taken(other, exchange) {
            pieces += range.len().div_ceil(plan.piece);
            let source = has_sums.then_some(range.start);
            plan.push_based(gives, range.len(), own(&range), source, None, partner);
        }
        given.push(pieces);
        sums = halves
            .taken(place, exchange)
            .map(|range| plan.push_based(keeps, range.len(), own(&range), Some(range.start), partner, None));
        has_sums = true;
    }
    // The stages after which there is what earlier exchanges left, and what the last one did.
    let (mut earlier, mut last) = (Vec::new(), Vec::from_iter(sums[1]));
    for exchange in (0..=places.exchanges()).rev() {
        let other = (exchange > 0).then(|| places.partner(place, exchange));
        let partner = other.map_or(guest, |other| Some(places.rank(other)));
        for (range, stages) in halves.given_back(place, exchange).into_iter().zip([&earlier, &last]) {
            if partner.is_some() && !range.is_empty() {
                plan.push(range.len(), own(&range), Some(range.start), None, partner);
                plan.wait_for(stages);
            }
        }
        let Some(other) = other else { break };
        let basis = Basis { acknowledged: given[exchange as usize - 1], ..Basis::default() };
        let taken = halves
            .given_back(other, exchange)
            .map(|range| plan.push_based(basis, range.len(), None, Some(range.start), partner, None));
        earlier.append(&mut last);
        last = taken.into_iter().flatten().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_a_place_or_one_that_acts_for_it() {
        for ranks in 2..=70 {
            let places = Places { ranks };
            assert!(places.count() <= ranks && ranks < 2 * places.count());
            for place in 0..places.count() {
                assert!(places.has_place(places.rank(place)) && places.place(places.rank(place)) == place);
                let guest = places.guest(place);
                assert!(guest.is_none_or(|guest| !places.has_place(guest) && places.place(guest) == place));
            }
            let acting = (0..ranks).map(Rank).filter(|rank| places.has_place(*rank)).count();
            let guests = (0..places.count()).filter_map(|place| places.guest(place)).count();
            assert_eq!((acting, acting + guests), (usize::from(places.count()), usize::from(ranks)));
        }
    }

    #[test]
    fn what_one_keeps_the_other_gives_away_and_in_the_end_each_keeps_another_part() {
        for ranks in [2, 3, 8, 13] {
            let places = Places { ranks };
            let halves = Halves { places, length: 4 * 19, element: 4 };
            for place in 0..places.count() {
                for exchange in 1..=places.exchanges() {
                    let [[kept, given], [others, from_other]] =
                        [place, places.partner(place, exchange)].map(|at| halves.split(at, exchange));
                    assert_eq!(
                        (kept, given),
                        (from_other, others),
                        "{place} of {ranks}, exchange {exchange}"
                    );
                }
            }
            let kept = |place| halves.split(place, places.exchanges())[0].clone();
            let mut parts: Vec<_> = (0..places.count()).map(kept).collect();
            parts.sort_unstable_by_key(|part| (part.start, part.end));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, halves.length));
        }
    }
}
