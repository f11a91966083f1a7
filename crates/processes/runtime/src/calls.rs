//! What a rank has called lately in a group, and when the manager is to hear of it: when it asks, and when a collective does not come to its
//! end. Whoever has called something else than the others hears that from the manager, and so do they.

use quincunx_collective::{Collective, DataType, Numbers, Op, Payload};
use quincunx_control::{Call, Report, Standing};
use std::time::{Duration, Instant};

/// Calls that are kept, the latest ones. More than are under way at once.
const KEPT: usize = 8;

/// A collective of which no part has ended for so long is stalled. It may only wait for a slow rank.
const PATIENCE: Duration = Duration::from_millis(30);

/// While it is stalled it is told again after twice the time each time, and after so long at the latest.
const LONGEST: Duration = Duration::from_secs(10);

/// The calls of a group, at one rank.
#[derive(Debug)]
pub(crate) struct Calls {
    /// By their number, modulo so many.
    latest: [Option<Call>; KEPT],
    count: u64,
    /// Collectives that have ended; of calls that are cut up, parts.
    ended: u64,
    /// Calls that have come to their end.
    complete: u64,
    /// When the last one was called, or ended.
    changed: Option<Instant>,
    stall: Stall,
}

/// Since when nothing has ended, as far as has been looked.
#[derive(Debug)]
struct Stall {
    ended: u64,
    since: Option<Instant>,
    patience: Duration,
}

impl Calls {
    pub(crate) const fn new() -> Self {
        let stall = Stall { ended: 0, since: None, patience: PATIENCE };
        Self { latest: [None; KEPT], count: 0, ended: 0, complete: 0, changed: None, stall }
    }

    /// The application has called a collective.
    pub(crate) fn add(&mut self, collective: Collective, reduction: (Op, DataType), bytes: u64) {
        self.count += 1;
        self.changed = Some(Instant::now());
        let place = (self.count % KEPT as u64) as usize;
        self.latest[place] = Some(Call::new(self.count, collective, reduction, bytes));
    }

    /// A collective has ended.
    pub(crate) const fn end_one(&mut self) {
        self.ended += 1;
    }

    /// A call has come to its end.
    pub(crate) fn complete_one(&mut self) {
        self.complete += 1;
        self.changed = Some(Instant::now());
    }

    /// What the manager hears.
    pub(crate) fn report(&self, is_stalled: bool, now: Instant) -> Report {
        let idle = self.changed.map_or(Duration::ZERO, |changed| now.saturating_duration_since(changed));
        let standing = Standing { complete: self.complete, idle: idle.into() };
        Report::Called { calls: self.all(), is_stalled, standing }
    }

    /// In the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Call> {
        let first = self.count.saturating_sub(KEPT as u64 - 1);
        (first..=self.count).filter_map(|number| self.latest[(number % KEPT as u64) as usize]).collect()
    }

    /// Whether the manager is to hear now that something is stalled; `is_busy` if there is something that has to end.
    pub(crate) fn is_due(&mut self, is_busy: bool, now: Instant) -> bool {
        let Self { ended, stall, .. } = self;
        if !is_busy || stall.ended != *ended {
            *stall = Stall { ended: *ended, since: None, patience: PATIENCE };
        }
        if !is_busy {
            return false;
        }
        let since = *stall.since.get_or_insert(now);
        if now.saturating_duration_since(since) < stall.patience {
            return false;
        }
        stall.patience += stall.patience.min(LONGEST);
        true
    }
}

/// What a call is to the manager, by its buffers.
pub(crate) fn length_of(collective: Collective, [input, output]: [&Numbers; 2]) -> u64 {
    let of = match collective {
        Collective::Broadcast { .. } | Collective::ReduceScatter => output,
        _ => input,
    };
    of.length() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::ReduceOp;

    const SUM: (Op, DataType) = (Op::Reduce(ReduceOp::Sum), DataType::F32);

    /// At which of the next milliseconds the manager hears that something is stalled.
    fn told(calls: &mut Calls, start: Instant, millis: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let is_due = |at: &u64| calls.is_due(true, start + Duration::from_millis(*at));
        millis.into_iter().filter(is_due).collect()
    }

    #[test]
    fn what_is_stalled_is_told_less_and_less_often() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        assert_eq!(told(&mut calls, start, 0..1000), [30, 60, 120, 240, 480, 960]);
        let seconds = told(&mut calls, start, (1000..100_000).step_by(10));
        let pauses: Vec<u64> = seconds.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.ends_with(&[10_000, 10_000]) && pauses.is_sorted(), "{seconds:?}");
    }

    #[test]
    fn what_ends_or_has_not_begun_is_not_stalled() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        for end in 1..10 {
            assert!(told(&mut calls, start, (end - 1) * 29..end * 29).is_empty());
            calls.end_one();
        }
        assert_eq!(told(&mut calls, start, 300..400), [330, 360]);
        // Whatever waited is over, and something else begins later.
        assert!(!calls.is_due(false, start + Duration::from_millis(400)));
        assert!(!calls.is_due(false, start + Duration::from_millis(900)));
        assert_eq!(told(&mut calls, start, 900..1000), [930, 960]);
    }

    #[test]
    fn the_latest_calls_are_kept_in_order() {
        let mut calls = Calls::new();
        assert_eq!(calls.all(), []);
        for number in 1..=20 {
            calls.add(Collective::AllReduce, SUM, number);
            let told: Vec<_> = calls.all().iter().map(|call| (call.number, call.bytes)).collect();
            let expected: Vec<_> = (1..=number).rev().take(KEPT).map(|one| (one, one)).collect();
            assert!(told.iter().rev().eq(&expected), "{told:?}");
        }
    }

    #[test]
    fn a_vectors_length_is_that_of_what_all_ranks_have() {
        let [input, output] = [64, 16].map(Numbers::zeroed);
        let root = quincunx_collective::Rank(0);
        for (collective, bytes) in [
            (Collective::AllReduce, 64),
            (Collective::Reduce { root }, 64),
            (Collective::Broadcast { root }, 16),
            (Collective::ReduceScatter, 16),
            (Collective::AllGather, 64),
        ] {
            assert_eq!(length_of(collective, [&input, &output]), bytes);
        }
    }
}
