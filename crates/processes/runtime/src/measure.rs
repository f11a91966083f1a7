//! What the links of a mesh carry, measured by writes (MultiWrite 5.2, step 2).
//!
//! The ranks take turns, so that they do not measure the processors that they share: each writes to all others at once, and times each
//! link. What comes first is not counted: a rate limiter lets a burst through. A link's rate is the median of several stretches, so that
//! neither a process that was not woken counts nor the burst after it. The slowest link of each kind decides, for on it
//! the others' data would wait; each rank hands on what it knows with the turn, the last one tells all, and so all know the same.

use quincunx_collective::{GroupId, Numbers, Payload, Rank as RankNumber};
use quincunx_design::{Demand, LinkRates};
use quincunx_engine::verbs::WorkId;
use quincunx_engine::writes::Target;
use quincunx_units::{BitRate, ByteCount, Duration};
use std::collections::BTreeMap;
use std::time::Instant;

use crate::joined::JoinedGroup;
use crate::process::RuntimeError;
use crate::rank::Rank;

/// Writes on each link that are not counted; then stretches, and the writes of each.
const UNCOUNTED: usize = 16;
const STRETCHES: usize = 5;
const STRETCH: usize = 8;
const WRITES: usize = UNCOUNTED + STRETCHES * STRETCH;

/// Writes on a link at a time.
const DEPTH: u64 = 4;

/// Writes on one link.
struct MeasuredLink {
    posted: usize,
    ended: usize,
    /// When the uncounted ones had ended, and then each stretch.
    marks: Vec<Instant>,
}

impl MeasuredLink {
    fn note_end(&mut self, at: Instant) {
        self.ended += 1;
        if self.ended >= UNCOUNTED && (self.ended - UNCOUNTED).is_multiple_of(STRETCH) {
            self.marks.push(at);
        }
    }

    fn rate(&self, piece: ByteCount) -> BitRate {
        let time = |pair: &[Instant]| Duration::from_nanos((pair[1] - pair[0]).as_nanos() as u64);
        let mut times: Vec<Duration> = self.marks.windows(2).map(time).collect();
        times.sort_unstable();
        let median = times.get(STRETCHES / 2).copied().unwrap_or(Duration::ZERO);
        BitRate::of_transfer(piece * STRETCH as u64, median).unwrap_or(FASTEST)
    }
}

impl Rank {
    /// What a group of `ranks` must be ready for so that [`measure`](Self::measure) finds slots for messages of `piece` bytes.
    pub fn measuring_demand(ranks: u16, piece: ByteCount) -> Demand {
        Demand::Writes { slots: DEPTH as u32 * (u32::from(ranks) - 1) + 1, length: piece }
    }

    /// Measures what the links of the group's mesh carry. All its ranks must call it, and write nothing else meanwhile; all get the same
    /// answer. Rank 0 is the last to return: it may destroy the group then.
    ///
    /// # Errors
    /// If the group's design offers no writes or it was not made for [`measuring_demand`](Self::measuring_demand), the group fails, or
    /// `limit` is over.
    pub fn measure(
        &mut self,
        group: &JoinedGroup,
        piece: ByteCount,
        limit: Duration,
    ) -> Result<LinkRates, RuntimeError> {
        let (id, me, last) = (group.id, group.rank.0, group.ranks - 1);
        let word_slot = DEPTH as usize * usize::from(last);
        let word = |rank: u16| Target { rank: RankNumber(rank), slot: word_slot };
        let before =
            if me == 0 { None } else { Some(self.word(id, |from| from == me - 1, word(0).slot, limit)?) };
        let mine = self.probe(group, piece, limit)?;
        let known = before.map_or(mine, |before| slower(before, mine));
        if me < last {
            self.write(id, 0, word(me + 1), emit(known), limit)?;
        } else {
            let all: Vec<Target> = (0..last).map(word).collect();
            self.multi_write(id, 0, &all, emit(known), limit)?;
        }
        // Everybody tells rank 0 what the last one has told; rank 0 hears the last one twice.
        let mut rates = known;
        match me {
            0 => {
                for _ in 0..=last {
                    rates = self.word(id, |_| true, word(0).slot, limit)?;
                }
            }
            _ if me < last => rates = self.word(id, |from| from == last, word(0).slot, limit)?,
            _ => {}
        }
        if me > 0 {
            self.begin_write(id, 0, vec![word(0)], emit(rates))?;
        }
        Ok(rates)
    }

    /// Waits for rates in slot `slot` of a rank that is `expected`; what is written to other slots only counts for its writer.
    fn word(
        &mut self,
        group: GroupId,
        expected: impl Fn(u16) -> bool,
        slot: usize,
        limit: Duration,
    ) -> Result<LinkRates, RuntimeError> {
        self.wait(group, "the rates that another rank measures", limit, |rank| {
            let delivered = rank.delivered.get_mut(&group)?;
            while let Some(one) = delivered.pop_front() {
                if one.slot == slot && expected(one.source.0) {
                    return parse(&one.data);
                }
            }
            None
        })
    }

    /// This rank's links, by writes to all others at once.
    fn probe(
        &mut self,
        group: &JoinedGroup,
        piece: ByteCount,
        limit: Duration,
    ) -> Result<LinkRates, RuntimeError> {
        let id = group.id;
        let peers: Vec<u16> = (0..group.ranks).filter(|peer| *peer != group.rank.0).collect();
        let mut links: Vec<MeasuredLink> =
            peers.iter().map(|_| MeasuredLink { posted: 0, ended: 0, marks: Vec::new() }).collect();
        let mut under_way: BTreeMap<WorkId, (usize, usize)> = BTreeMap::new();
        let post = |rank: &mut Self, link: usize, slot: usize, links: &mut [MeasuredLink]| {
            links[link].posted += 1;
            let target = Target { rank: RankNumber(peers[link]), slot };
            rank.begin_write(id, 0, vec![target], Numbers::zeroed(piece.as_usize()))
        };
        for link in 0..links.len() {
            for depth in 0..DEPTH as usize {
                let slot = link * DEPTH as usize + depth;
                under_way.insert(post(self, link, slot, &mut links)?, (link, slot));
            }
        }
        while !under_way.is_empty() {
            let ((_, ended), at) =
                self.wait(id, "the end of a write", limit, |rank| rank.written.pop_first())?;
            let Some((link, slot)) = under_way.remove(&ended) else { continue };
            links[link].note_end(at);
            if links[link].posted < WRITES {
                under_way.insert(post(self, link, slot, &mut links)?, (link, slot));
            }
        }
        let domain = group.together();
        let slowest = |is_near: bool| {
            let of_kind = peers.iter().zip(&links).filter(|(peer, _)| domain.contains(peer) == is_near);
            of_kind.map(|(_, link)| link.rate(piece)).min()
        };
        let direct = slowest(true).unwrap_or(FASTEST);
        Ok(LinkRates { direct, cross: slowest(false).unwrap_or(direct) })
    }
}

/// What takes no time.
const FASTEST: BitRate = BitRate::new(u64::MAX).expect("above zero");

fn slower(a: LinkRates, b: LinkRates) -> LinkRates {
    LinkRates { direct: a.direct.min(b.direct), cross: a.cross.min(b.cross) }
}

fn emit(rates: LinkRates) -> Numbers {
    let bytes = [rates.direct, rates.cross].map(|rate| rate.bits_per_second().to_le_bytes());
    Numbers::from(bytes.concat())
}

fn parse(data: &Numbers) -> Option<LinkRates> {
    let (direct, cross) = data.bytes().split_first_chunk::<8>()?;
    let rate = |bytes: &[u8; 8]| BitRate::new(u64::from_le_bytes(*bytes));
    Some(LinkRates { direct: rate(direct)?, cross: rate(cross.first_chunk()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link on which each write takes `nanos`, but the one numbered `late`, which takes a hundred times as long.
    fn link(nanos: u64, late: Option<usize>) -> MeasuredLink {
        let mut link = MeasuredLink { posted: WRITES, ended: 0, marks: Vec::new() };
        let mut at = Instant::now();
        for write in 0..WRITES {
            let times = if late == Some(write) { 100 } else { 1 };
            at += std::time::Duration::from_nanos(nanos * times);
            link.note_end(at);
        }
        link
    }

    #[test]
    fn a_links_rate_is_what_its_writes_take_but_for_one_that_had_to_wait() {
        let rate = BitRate::new(800_000_000).unwrap();
        assert_eq!(link(10_000, None).rate(ByteCount::new(1000)), rate);
        for late in [0, UNCOUNTED, UNCOUNTED + STRETCH, WRITES - 1] {
            assert_eq!(link(10_000, Some(late)).rate(ByteCount::new(1000)), rate);
        }
    }

    #[test]
    fn rates_are_read_back_as_written() {
        let rates = LinkRates { direct: BitRate::new(7).unwrap(), cross: FASTEST };
        assert_eq!(parse(&emit(rates)), Some(rates));
        assert_eq!(parse(&Numbers::zeroed(16)), None);
        assert_eq!(parse(&Numbers::zeroed(12)), None);
    }
}
