//! How long collectives of all ranks take, each alone on the network, simulated once and kept by all that decides it.
//!
//! Vectors of up to 16 MiB are simulated at their own length, or, where lengths are many, at powers of two with lines between them; a test holds
//! these against simulations of their own. A longer one repeats what one of 16 MiB does between its first frames and
//! its last, so that each byte more takes as long as those from 8 MiB to 16 MiB; a test holds that against whole simulations (a ring whose ranks wait
//! for each other's acknowledges, `hosts.lockstep`, is up to 0.4 % off). Where frames
//! may be lost or marked nothing is repeated, and all are simulated at their own length.

use crate::progress::ProgressFn;
use crate::{Contents, KnownTimes, MeasureError, Measurement, Outputs, Request, measure};
use quincunx_collective::Collective;
use quincunx_units::{ByteCount, Duration};

/// Why a collective has no time.
pub(crate) struct NoTime {
    /// The length that was simulated.
    pub(crate) size: ByteCount,
    /// What went wrong.
    pub(crate) why: Why,
}

/// What went wrong.
pub(crate) enum Why {
    /// It did not end.
    Run(MeasureError),
    /// So many elements of its result are wrong.
    Wrong(u64),
}

/// The longest vector that is simulated at its own length where all frames arrive.
pub(crate) const LONGEST: ByteCount = ByteCount::new(16 << 20);

/// The shortest one between lines: shorter ones are a packet, too.
const LEAST: ByteCount = ByteCount::new(1 << 10);

/// Whether a vector twice as long repeats what half of it does: no frame is lost or marked, and nobody else sends.
fn is_steady(request: &Request) -> bool {
    let faults = &request.scenario.faults;
    faults.loss.is_none() && faults.congestion == Default::default() && request.background.is_none()
}

/// What a line through two lengths and their times says of another, which is not shorter than the first.
fn along(line: [(ByteCount, Duration); 2], size: ByteCount) -> Duration {
    let [(from, short), (to, long)] = line;
    // A longer vector that takes less time is one of a few packets: nothing is continued below what is known.
    let more = if long > short { long - short } else { Duration::ZERO };
    let picos = u128::from(more.as_picos()) * u128::from((size - from).bytes());
    let picos = picos / u128::from((to - from).bytes().max(1));
    short + Duration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

/// How long collectives take.
pub(crate) struct Times<'a, 'b> {
    request: &'a Request,
    /// All that decides times but the design, the collective and its size.
    key: &'a str,
    known: &'a KnownTimes,
    progress: ProgressFn<'b>,
    /// Whether each byte more of a long vector takes as long as the one before.
    is_steady: bool,
    /// Of all simulations.
    steps: u64,
}

impl<'a, 'b> Times<'a, 'b> {
    /// Of a request, whose collective and size are of no account. What is `known` under the key is not simulated again.
    pub(crate) fn new(
        request: &'a Request,
        key: &'a str,
        known: &'a KnownTimes,
        progress: ProgressFn<'b>,
    ) -> Self {
        let is_steady = is_steady(request);
        Self { request, key, known, progress, is_steady, steps: 0 }
    }

    /// Steps of all simulations.
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whoever hears how far simulations have come.
    pub(crate) fn progress(&mut self) -> ProgressFn<'_> {
        self.progress
    }

    /// How long a collective takes, by a simulation at its own length if it is not a long one.
    pub(crate) fn of(&mut self, collective: Collective, size: ByteCount) -> Result<Duration, NoTime> {
        if size <= LONGEST || !self.is_steady {
            return self.simulated(collective, size);
        }
        self.line(collective, [LONGEST / 2, LONGEST], size)
    }

    /// How long it takes by simulations at powers of two up to the `longest`.
    pub(crate) fn between(
        &mut self,
        collective: Collective,
        size: ByteCount,
        longest: ByteCount,
    ) -> Result<Duration, NoTime> {
        let bytes = size.bytes().max(LEAST.bytes());
        if !self.is_steady || (bytes.is_power_of_two() && bytes <= longest.bytes()) {
            return self.simulated(collective, ByteCount::new(bytes));
        }
        let upper = ByteCount::new(bytes.checked_next_power_of_two().unwrap_or(u64::MAX)).min(longest);
        self.line(collective, [upper / 2, upper], ByteCount::new(bytes))
    }

    fn line(
        &mut self,
        collective: Collective,
        [short, long]: [ByteCount; 2],
        size: ByteCount,
    ) -> Result<Duration, NoTime> {
        let [first, second] = [self.simulated(collective, short)?, self.simulated(collective, long)?];
        Ok(along([(short, first), (long, second)], size))
    }

    fn simulated(&mut self, collective: Collective, size: ByteCount) -> Result<Duration, NoTime> {
        let key = format!("{} {} {collective} {}", self.key, self.request.design.name(), size.bytes());
        if let Some(time) = self.known.get(&key) {
            return Ok(time);
        }
        let contents = Contents::on(&self.request.scenario, size);
        let request = Request { collective, size, contents, ..self.request.clone() };
        let measured = measure(&request, Outputs::default(), self.progress)
            .map_err(|error| NoTime { size, why: Why::Run(error) })?;
        let Measurement { time, steps, wrong, .. } = measured;
        if let Some(wrong @ 1..) = wrong {
            return Err(NoTime { size, why: Why::Wrong(wrong) });
        }
        self.known.set(key, time);
        self.steps += steps;
        Ok(time)
    }
}
