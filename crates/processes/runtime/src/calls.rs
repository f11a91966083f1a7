//! What a rank has called lately in a group, and when the manager is to hear of it: when it asks, and when a collective does not come to its
//! end. Whoever has called something else than the others hears that from the manager, and so do they.

use quincunx_collective::{Collective, DataType, Numbers, Op, Payload};
use quincunx_control::{AwaitedMessage, Call, Place, Report, Standing};
use quincunx_control_grpc::{CallRecord, Ran, TimedCall};
use std::collections::VecDeque;
use std::panic::Location;
use std::time::{Duration, Instant, SystemTime};

/// Calls that are kept, the latest ones.
const KEPT: usize = 512;

/// Of those as many are told if ranks may not agree: more than are under way at once.
const TOLD: usize = 8;

/// A collective of which no part has ended for so long is stalled. It may only wait for a slow rank.
const PATIENCE: Duration = Duration::from_millis(30);

/// While it is stalled it is told again after twice the time each time, and after so long at the latest.
const LONGEST: Duration = Duration::from_secs(10);

/// Where a program calls a collective. It costs next to nothing until somebody asks.
#[derive(Clone, Debug)]
pub enum CallSite {
    /// In Rust.
    Rust(&'static Location<'static>),
    /// In another language.
    Other(Place),
}

impl CallSite {
    fn place(&self) -> Place {
        match self {
            Self::Rust(location) => Place { file: location.file().into(), line: location.line() },
            Self::Other(place) => place.clone(),
        }
    }
}

/// A collective as a program calls it.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// Which.
    pub collective: Collective,
    /// How elements combine, and what they are.
    pub reduction: (Op, DataType),
    /// Of a whole vector, or of a rank's part in ReduceScatter and AllGather.
    pub bytes: u64,
    /// Where.
    pub site: Option<CallSite>,
    /// When: it may have waited for others to end before it began.
    pub called: Instant,
}

/// A message that a program waits for.
#[derive(Clone, Debug)]
pub struct PendingMessage {
    /// What it has called: receive, all_to_all, gather or scatter.
    pub operation: &'static str,
    /// The rank that it is to come from; none: any.
    pub from: Option<u16>,
    /// Of a message that is received by itself.
    pub tag: Option<u32>,
    /// Where.
    pub site: Option<CallSite>,
    /// When.
    pub called: Instant,
}

/// A call, and what has become of it.
#[derive(Debug)]
struct Kept {
    call: NewCall,
    begun: Instant,
    ended: Option<Instant>,
}

/// The calls of a group, at one rank.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The latest, oldest first; the last one's number is `count`.
    latest: VecDeque<Kept>,
    count: u64,
    /// Collectives that have ended; of calls that are cut up, parts.
    ended: u64,
    /// Calls that have come to their end.
    complete: u64,
    in_network: Ran,
    among_hosts: Ran,
    /// When the last of them did.
    last_end: Option<Instant>,
    /// What the program waits for longest of what others send it.
    message: Option<PendingMessage>,
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
        let ran = Ran { collectives: 0, bytes: 0, time: quincunx_units::Duration::ZERO };
        Self {
            latest: VecDeque::new(),
            count: 0,
            ended: 0,
            complete: 0,
            in_network: ran,
            among_hosts: ran,
            last_end: None,
            message: None,
            stall,
        }
    }

    /// A collective of the application has begun.
    pub(crate) fn add(&mut self, call: NewCall, now: Instant) {
        self.count += 1;
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(Kept { call, begun: now, ended: None });
    }

    /// What is waited for now of what others send.
    pub(crate) fn wait_for(&mut self, message: Option<PendingMessage>) {
        self.message = message;
    }

    /// A collective has ended.
    pub(crate) const fn end_one(&mut self) {
        self.ended += 1;
    }

    /// The oldest call that has not come to its end has.
    pub(crate) fn complete_one(&mut self, in_network: bool, now: Instant) {
        self.complete += 1;
        let place = self.place_of(self.complete);
        let Some(kept) = place.and_then(|place| self.latest.get_mut(place)) else { return };
        kept.ended = Some(now);
        let ran = if in_network { &mut self.in_network } else { &mut self.among_hosts };
        ran.collectives += 1;
        ran.bytes += kept.call.bytes;
        // Of several under way at once each moment counts once.
        let since = self.last_end.replace(now).map_or(kept.begun, |last| last.max(kept.begun));
        ran.time += now.saturating_duration_since(since).into();
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        let first = self.count - self.latest.len() as u64;
        number.checked_sub(first + 1).map(|place| place as usize)
    }

    /// The latest, in the order of their numbers.
    fn last(&self, most: usize) -> impl Iterator<Item = (Call, &Kept)> {
        let from = self.latest.len().saturating_sub(most);
        let first = self.count - (self.latest.len() - from) as u64 + 1;
        (first..).zip(self.latest.range(from..)).map(|(number, kept)| {
            let NewCall { collective, reduction, bytes, site, .. } = &kept.call;
            let place = site.as_ref().map(CallSite::place);
            (Call { place, ..Call::new(number, *collective, *reduction, *bytes) }, kept)
        })
    }

    /// How far the rank has come.
    fn standing(&self, now: Instant) -> Standing {
        let waits = self.place_of(self.complete + 1).and_then(|place| self.latest.get(place));
        let since = match waits {
            Some(kept) => Some(kept.call.called),
            None => self.latest.back().and_then(|kept| kept.ended),
        };
        let idle = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let message = self.message.as_ref().map(|message| AwaitedMessage {
            operation: message.operation.into(),
            from: message.from,
            tag: message.tag,
            waits: now.saturating_duration_since(message.called).into(),
            place: message.site.as_ref().map(CallSite::place),
        });
        Standing { complete: self.complete, idle: idle.into(), message }
    }

    /// What the manager hears.
    pub(crate) fn report(&self, is_stalled: bool, now: Instant) -> Report {
        let calls = self.last(TOLD).map(|(call, _)| call).collect();
        Report::Called { calls, is_stalled, standing: self.standing(now) }
    }

    /// All that is kept, by the clock of this machine.
    pub(crate) fn record(&self) -> CallRecord {
        let Self { in_network, among_hosts, .. } = *self;
        CallRecord { calls: self.timed(), in_network, among_hosts }
    }

    fn timed(&self) -> Vec<TimedCall> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let at = |then: Instant| {
            let then =
                clock.checked_sub(now.saturating_duration_since(then)).unwrap_or(SystemTime::UNIX_EPOCH);
            then.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
        };
        let timed = |(call, kept): (Call, &Kept)| TimedCall {
            call,
            called: at(kept.call.called),
            begun: at(kept.begun),
            ended: kept.ended.map(at),
        };
        self.last(KEPT).map(timed).collect()
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

    fn call(bytes: u64, called: Instant) -> NewCall {
        NewCall { collective: Collective::AllReduce, reduction: SUM, bytes, site: None, called }
    }

    #[test]
    fn the_latest_calls_are_told_in_order_and_more_are_kept_with_their_times() {
        let mut calls = Calls::new();
        assert_eq!((calls.last(TOLD).count(), calls.timed()), (0, vec![]));
        for number in 1..=KEPT as u64 + 20 {
            calls.add(call(number, Instant::now()), Instant::now());
            let told: Vec<_> = calls.last(TOLD).map(|(call, _)| (call.number, call.bytes)).collect();
            let expected: Vec<_> = (1..=number).rev().take(TOLD).map(|one| (one, one)).collect();
            assert!(told.iter().rev().eq(&expected), "{told:?}");
            if number > 2 {
                calls.complete_one(number % 3 == 0, Instant::now());
            }
        }
        let record = calls.record();
        assert_eq!((record.in_network.collectives, record.among_hosts.collectives), (177, 353));
        assert_eq!(record.in_network.bytes + record.among_hosts.bytes, (1..=530).sum::<u64>());
        let timed = calls.timed();
        assert_eq!((timed.len(), timed[0].call.number), (KEPT, 21));
        assert!(timed.iter().all(|timed| timed.called <= timed.begun));
        let open: Vec<u64> =
            timed.iter().filter(|timed| timed.ended.is_none()).map(|timed| timed.call.number).collect();
        assert_eq!(open, [KEPT as u64 + 19, KEPT as u64 + 20]);
    }

    #[test]
    fn a_rank_waits_since_it_called_the_oldest_that_has_not_ended() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(calls.standing(later(1)), Standing::default());
        calls.add(call(64, start), Instant::now());
        calls.add(call(64, later(2)), Instant::now());
        assert_eq!(calls.standing(later(3)).idle, Duration::from_secs(3).into());
        calls.complete_one(true, Instant::now());
        assert_eq!(
            calls.standing(later(3)),
            Standing { complete: 1, idle: Duration::from_secs(1).into(), message: None }
        );
    }

    #[test]
    fn calls_that_are_under_way_at_once_take_their_time_once() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        for _ in 0..4 {
            calls.add(call(64, start), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
        for _ in 0..4 {
            calls.complete_one(true, Instant::now());
        }
        let Ran { collectives, bytes, time } = calls.record().in_network;
        assert_eq!((collectives, bytes), (4, 256));
        let took: quincunx_units::Duration = start.elapsed().into();
        assert!(time <= took && time >= quincunx_units::Duration::from_millis(5), "{time} of {took}");
    }

    #[test]
    fn the_line_of_the_program_is_told() {
        let mut calls = Calls::new();
        let here = Location::caller();
        calls.add(NewCall { site: Some(CallSite::Rust(here)), ..call(64, Instant::now()) }, Instant::now());
        let place = calls.last(1).next().and_then(|(call, _)| call.place).unwrap();
        assert_eq!((&*place.file, place.line), (here.file(), here.line()));
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
