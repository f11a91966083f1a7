//! What the ranks of a group have called lately, and when: told by each by its own clock, and set against each other here.

use crate::status::GroupStatus;
use quincunx_collective::Collective;
use quincunx_control::Call;
use quincunx_units::Duration;
use std::collections::BTreeMap;

/// A call and when it was. Times are nanoseconds since 1970 by the rank's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimedCall {
    /// What was called, and where.
    pub call: Call,
    /// When the program called it.
    pub called: u64,
    /// When it began: it may have waited for others.
    pub begun: u64,
    /// When it ended, if it has.
    pub ended: Option<u64>,
}

/// What has come to its end in a group, in the network or among its hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Calls of collectives.
    pub collectives: u64,
    /// Of a rank's vectors, or of its parts in ReduceScatter and AllGather.
    pub bytes: u64,
    /// During which one was under way at the rank.
    pub time: Duration,
}

impl Ran {
    /// The most of either.
    fn max(self, other: Self) -> Self {
        Self {
            collectives: self.collectives.max(other.collectives),
            bytes: self.bytes.max(other.bytes),
            time: self.time.max(other.time),
        }
    }
}

/// What a rank tells of its calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallRecord {
    /// The latest, in the order of their numbers.
    pub calls: Vec<TimedCall>,
    /// What has ended since the rank joined, in the network.
    pub in_network: Ran,
    /// The same among the hosts.
    pub among_hosts: Ran,
}

/// The calls of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankCalls {
    /// Whether its node has a connection to the manager.
    pub is_attached: bool,
    /// None if it does not answer.
    pub record: Option<CallRecord>,
    /// The same for all ranks that have one clock; zero: nobody knows.
    pub machine: u64,
    /// By how many nanoseconds its clock is ahead of the manager's.
    pub ahead: i64,
    /// How wrong that may be, either way.
    pub error: u64,
}

impl RankCalls {
    /// Of one that has not answered.
    pub const fn silent(is_attached: bool) -> Self {
        Self { is_attached, record: None, machine: 0, ahead: 0, error: 0 }
    }

    /// The latest, in the order of their numbers.
    pub fn calls(&self) -> &[TimedCall] {
        self.record.as_ref().map_or(&[], |record| &record.calls)
    }

    fn has_clock_of(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.machine != 0 && self.machine == other.machine
    }

    /// By how much another one's clock is ahead of this one's, as the manager has measured.
    fn measured(&self, other: &Self) -> Aligned {
        // A century is more than any clock is wrong by, and sums of such are numbers.
        const MOST: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;
        let error = self.error.min(MOST / 4) + other.error.min(MOST / 4);
        let ahead = other.ahead.saturating_sub(self.ahead).clamp(-(MOST as i64), MOST as i64);
        Aligned { ahead, error }
    }

    /// The least and the most that another one's clock can be ahead of this one's, by the collectives that both have called.
    fn bounds(&self, other: &Self) -> [i64; 2] {
        let by_number: BTreeMap<u64, &TimedCall> =
            self.calls().iter().map(|timed| (timed.call.number, timed)).collect();
        let [mut least, mut most] = [i64::MIN, i64::MAX];
        for timed in other.calls().iter().filter(|timed| gathers_all(timed.call.collective)) {
            let Some(mine) = by_number.get(&timed.call.number) else { continue };
            let after = |ended: u64, called: u64| (ended as i64).saturating_sub(called as i64);
            most = timed.ended.map_or(most, |ended| most.min(after(ended, mine.called)));
            least = mine.ended.map_or(least, |ended| least.max(-after(ended, timed.called)));
        }
        [least, most]
    }
}

/// The calls of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupCalls {
    /// Which.
    pub group: GroupStatus,
    /// In rank order.
    pub ranks: Vec<RankCalls>,
}

/// A rank's clock against that of the first rank that has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aligned {
    /// By how many nanoseconds it is ahead.
    pub ahead: i64,
    /// How wrong that may be, either way.
    pub error: u64,
}

/// How late a rank has called what others wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Collectives that all ranks have called.
    pub calls: u64,
    /// Of those, how often it was the last, by more than the clocks may be wrong.
    pub last: u64,
    /// How long after the first rank it came, on average.
    pub mean: Duration,
    /// The longest.
    pub longest: Duration,
}

/// How late contributions may be that are counted together: those that pass the last bound come after them.
pub const LATENESS_BOUNDS: [Duration; 11] = [
    Duration::from_micros(10),
    Duration::from_micros(30),
    Duration::from_micros(100),
    Duration::from_micros(300),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
];

/// How late a rank's contributions have come to the switch that it is connected with, by the switch's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RankArrivals {
    /// Which.
    pub rank: u16,
    /// Collectives to which all ranks at the switch have contributed.
    pub collectives: u64,
    /// Of those, how often it was the last.
    pub last: u64,
    /// How long after the first rank it came, in all.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// How often so late, by [`LATENESS_BOUNDS`].
    pub buckets: [u64; LATENESS_BOUNDS.len() + 1],
}

/// What a group's switches know of when its ranks come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupArrivals {
    /// Which.
    pub group: GroupStatus,
    /// By switch; nothing if it does not answer.
    pub switches: Vec<(String, Option<Vec<RankArrivals>>)>,
}

/// Ranks of a machine whose collectives are compared with another one's.
const COMPARED: usize = 8;

/// Whether no rank can have ended it before all have called it.
fn gathers_all(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::AllReduce | Collective::Barrier | Collective::ReduceScatter | Collective::AllGather
    )
}

impl GroupCalls {
    /// What has ended in the network and among the hosts, at the rank that has the most of each.
    pub fn ran(&self) -> [Ran; 2] {
        let records = self.ranks.iter().filter_map(|rank| rank.record.as_ref());
        records.fold([Ran::default(); 2], |[network, hosts], record| {
            [network.max(record.in_network), hosts.max(record.among_hosts)]
        })
    }

    /// The clocks of ranks, by what the manager has measured and by what collectives say: nobody ends one before all have called it. Ranks of a
    /// machine have one.
    pub fn clocks(&self) -> Vec<Aligned> {
        let Some(reference) = self.ranks.iter().find(|rank| rank.record.is_some()) else {
            return vec![Aligned::default(); self.ranks.len()];
        };
        let has_its_clock = |rank: &RankCalls| rank.has_clock_of(reference);
        let against = |rank: &RankCalls| {
            if rank.record.is_none() || has_its_clock(rank) {
                return Aligned::default();
            }
            let measured = reference.measured(rank);
            // Of some with that clock against some with the reference's: more would hardly narrow it down.
            let mut bounds = [measured.ahead - measured.error as i64, measured.ahead + measured.error as i64];
            for one in self.ranks.iter().filter(|one| one.has_clock_of(rank)).take(COMPARED) {
                for other in self.ranks.iter().filter(|other| has_its_clock(other)).take(COMPARED) {
                    let [least, most] = other.bounds(one);
                    bounds = [bounds[0].max(least), bounds[1].min(most)];
                }
            }
            let [least, most] = bounds;
            // A clock that was set meanwhile says nothing.
            if least > most {
                return measured;
            }
            Aligned { ahead: measured.ahead.clamp(least, most), error: ((most - least) / 2).unsigned_abs() }
        };
        let mut known: BTreeMap<u64, Aligned> = BTreeMap::new();
        let clock = |rank: &RankCalls| match rank.machine {
            0 => against(rank),
            machine => *known.entry(machine).or_insert_with(|| against(rank)),
        };
        self.ranks.iter().map(clock).collect()
    }

    /// The calls of each number, by rank, on the clock of the first rank that has answered.
    pub fn by_number(&self) -> BTreeMap<u64, BTreeMap<u16, TimedCall>> {
        let clocks = self.clocks();
        let mut calls: BTreeMap<u64, BTreeMap<u16, TimedCall>> = BTreeMap::new();
        for ((rank, of_rank), clock) in (0..).zip(&self.ranks).zip(&clocks) {
            let at = |time: u64| time.saturating_add_signed(-clock.ahead);
            for timed in of_rank.calls() {
                let TimedCall { call, called, begun, ended } = timed.clone();
                let timed = TimedCall { call, called: at(called), begun: at(begun), ended: ended.map(at) };
                calls.entry(timed.call.number).or_default().insert(rank, timed);
            }
        }
        calls
    }

    /// How late each rank comes, over the collectives that all ranks have called.
    pub fn lateness(&self) -> Vec<Lateness> {
        let (clocks, count) = (self.clocks(), self.ranks.len());
        let mut all = vec![Lateness::default(); count];
        let by_number = self.by_number();
        let whole = by_number.values().filter(|of_ranks| of_ranks.len() == count);
        let mut sums = vec![Duration::ZERO; count];
        for of_ranks in whole {
            let called = |rank: &u16| of_ranks[rank].called;
            let first = of_ranks.keys().map(called).min().unwrap_or_default();
            let (last, second) = last_two(of_ranks);
            let error = clocks[usize::from(last)].error
                + second.map_or(0, |second| clocks[usize::from(second)].error);
            let margin = second.map_or(0, |second| called(&last) - called(&second));
            for rank in of_ranks.keys() {
                let place = usize::from(*rank);
                let late = Duration::from_nanos(called(rank) - first);
                let of_rank = &mut all[place];
                of_rank.calls += 1;
                of_rank.last += u64::from(*rank == last && margin > error);
                of_rank.longest = of_rank.longest.max(late);
                sums[place] += late;
            }
        }
        for (of_rank, sum) in all.iter_mut().zip(sums) {
            of_rank.mean = sum / of_rank.calls.max(1);
        }
        all
    }
}

/// Who has called last, and who before.
fn last_two(of_ranks: &BTreeMap<u16, TimedCall>) -> (u16, Option<u16>) {
    let mut order: Vec<(u64, u16)> = of_ranks.iter().map(|(rank, timed)| (timed.called, *rank)).collect();
    order.sort_unstable();
    let place = |back: usize| order.len().checked_sub(back).map(|place| order[place].1);
    (place(1).unwrap_or_default(), place(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::{DataType, ReduceOp};

    const SECOND: u64 = 1_000_000_000;

    fn timed(number: u64, called: u64, ended: u64) -> TimedCall {
        let call = Call::new(number, Collective::AllReduce, (ReduceOp::Sum.into(), DataType::F32), 64);
        TimedCall { call, called, begun: called, ended: Some(ended) }
    }

    fn of_ranks(ranks: Vec<RankCalls>) -> GroupCalls {
        GroupCalls { group: GroupStatus::ready(ranks.len()), ranks }
    }

    /// Ranks whose clocks are `ahead` and known to a second; rank 1 calls 5 ms later than the others each time.
    fn slow_rank_one(ahead: [i64; 3]) -> GroupCalls {
        let rank = |(place, ahead): (usize, i64)| {
            let at = |time: u64| time.saturating_add_signed(ahead);
            let late = if place == 1 { 5_000_000 } else { 0 };
            let call = |number: u64| {
                let begin = 100 * SECOND + number * 10_000_000;
                timed(number, at(begin + late), at(begin + 5_000_000 + 40_000))
            };
            RankCalls {
                is_attached: true,
                record: Some(CallRecord { calls: (1..=10).map(call).collect(), ..CallRecord::default() }),
                machine: 0,
                ahead: 0,
                error: SECOND,
            }
        };
        of_ranks(ahead.into_iter().enumerate().map(rank).collect())
    }

    #[test]
    fn collectives_set_clocks_against_each_other_to_within_their_length() {
        let ahead = [0, 3_000_000, -70_000_000];
        let clocks = slow_rank_one(ahead).clocks();
        for (clock, ahead) in clocks.iter().zip(ahead).skip(1) {
            assert!((clock.ahead - ahead).unsigned_abs() <= 2 * clock.error, "{clock:?} for {ahead}");
            assert!(clock.error <= 5_040_000, "{clock:?}");
        }
    }

    #[test]
    fn the_one_that_comes_last_is_found_though_clocks_differ() {
        let late = slow_rank_one([0, 0, 0]).lateness();
        assert_eq!((late[1].calls, late[1].longest), (10, Duration::from_millis(5)));
        assert!(late[1].mean > late[0].mean.max(late[2].mean) * 3, "{late:?}");
        // The clocks may be wrong by more than it is late.
        assert_eq!(late[1].last, 0);
    }

    #[test]
    fn clocks_that_are_known_well_stay_as_they_are_and_the_last_is_counted() {
        let mut calls = slow_rank_one([0, 0, 0]);
        for rank in &mut calls.ranks {
            rank.error = 1000;
        }
        assert!(calls.clocks().iter().all(|clock| clock.ahead == 0 && clock.error <= 2000));
        let late = calls.lateness();
        assert_eq!([late[0].last, late[1].last, late[2].last], [0, 10, 0]);
        assert_eq!((late[1].mean, late[0].mean), (Duration::from_millis(5), Duration::ZERO));
    }

    #[test]
    fn times_of_other_clocks_are_told_by_the_first_ones() {
        let ahead = [0, 3_000_000_000, -70_000_000];
        let mut calls = slow_rank_one(ahead);
        for (rank, ahead) in calls.ranks.iter_mut().zip(ahead) {
            (rank.ahead, rank.error) = (ahead, 1000);
        }
        let late = calls.lateness();
        assert_eq!([late[0].last, late[1].last, late[2].last], [0, 10, 0]);
        assert_eq!((late[1].mean, late[2].mean), (Duration::from_millis(5), Duration::ZERO));
    }

    #[test]
    fn a_clock_that_contradicts_the_collectives_is_as_the_manager_has_measured_it() {
        let mut calls = slow_rank_one([0, 0, 0]);
        calls.ranks[2].ahead = 30 * SECOND as i64;
        assert_eq!(calls.clocks()[2], Aligned { ahead: 30 * SECOND as i64, error: 2 * SECOND });
    }

    #[test]
    fn ranks_of_a_machine_have_one_clock_and_those_of_another_one_more() {
        let mut calls = slow_rank_one([0, 0, 3_000_000]);
        for (rank, machine) in calls.ranks.iter_mut().zip([7, 7, 8]) {
            rank.machine = machine;
        }
        let clocks = calls.clocks();
        assert_eq!(clocks[..2], [Aligned::default(); 2]);
        // Against the one that is late it is bounded to within what a collective takes, 40 us, from one side.
        assert!(
            clocks[2].error < 2_600_000
                && (clocks[2].ahead - 3_000_000).unsigned_abs() <= 2 * clocks[2].error,
            "{clocks:?}"
        );
        assert!(calls.lateness()[1].mean >= Duration::from_millis(5));
    }

    #[test]
    fn who_does_not_answer_has_no_times_and_leaves_the_others_theirs() {
        let mut calls = slow_rank_one([0, 0, 0]);
        calls.ranks[0] = RankCalls::silent(false);
        assert_eq!(calls.by_number()[&4].keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(calls.lateness()[1].calls, 0, "not all ranks have told theirs");
        calls.ranks.fill(RankCalls::silent(true));
        assert!(calls.by_number().is_empty());
    }
}
