//! How long collectives of all ranks take, each alone on the network and simulated once.
//!
//! Vectors of up to 16 MiB are simulated at their own length. A longer one repeats what one of 16 MiB does between its first frames and
//! its last, so that each byte more takes as long as those from 8 MiB to 16 MiB; a test holds that against whole simulations (a ring whose ranks wait
//! for each other's acknowledges, `hosts.lockstep`, is up to 0.4 % off). Where frames
//! may be lost or marked nothing is repeated, and all are simulated at their own length.

use crate::progress::ProgressFn;
use crate::{Contents, MeasureError, Measurement, Outputs, Request, measure};
use quincunx_collective::Collective;
use quincunx_units::{ByteCount, Duration};
use std::collections::BTreeMap;

/// Why a collective has no time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoTime {
    /// It did not end.
    Run(MeasureError),
    /// So many elements of its result are wrong.
    Wrong(u64),
}

/// The longest vector that is simulated at its own length where all frames arrive.
pub(crate) const LONGEST: ByteCount = ByteCount::new(16 << 20);

/// Whether a vector twice as long repeats what half of it does: no frame is lost or marked, and nobody else sends.
pub(crate) fn is_steady(request: &Request) -> bool {
    let faults = &request.scenario.faults;
    faults.loss.is_none() && faults.congestion == Default::default() && request.background.is_none()
}

/// What a line through two lengths and their times says of another, which is not shorter than the first.
pub(crate) fn along(line: [(ByteCount, Duration); 2], size: ByteCount) -> Duration {
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
    progress: ProgressFn<'b>,
    /// Whether each byte more of a long vector takes as long as the one before.
    is_steady: bool,
    /// What has been simulated.
    known: BTreeMap<(Collective, ByteCount), Duration>,
    /// Of all simulations.
    steps: u64,
}

impl<'a, 'b> Times<'a, 'b> {
    /// Of a request, whose collective and size are of no account.
    pub(crate) fn new(request: &'a Request, progress: ProgressFn<'b>) -> Self {
        let is_steady = is_steady(request);
        Self { request, progress, is_steady, known: BTreeMap::new(), steps: 0 }
    }

    /// Steps of all simulations.
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whoever hears how far simulations have come.
    pub(crate) fn progress(&mut self) -> ProgressFn<'_> {
        self.progress
    }

    /// How long a collective takes.
    pub(crate) fn of(&mut self, collective: Collective, size: ByteCount) -> Result<Duration, NoTime> {
        if size <= LONGEST || !self.is_steady {
            return self.simulated(collective, size);
        }
        let half = LONGEST / 2;
        let line = [half, LONGEST].map(|size| Ok((size, self.simulated(collective, size)?)));
        let [short, long] = line;
        Ok(along([short?, long?], size))
    }

    fn simulated(&mut self, collective: Collective, size: ByteCount) -> Result<Duration, NoTime> {
        if let Some(&time) = self.known.get(&(collective, size)) {
            return Ok(time);
        }
        let contents = Contents::on(&self.request.scenario, size);
        let request = Request { collective, size, contents, ..self.request.clone() };
        let measured = measure(&request, Outputs::default(), self.progress).map_err(NoTime::Run)?;
        let Measurement { time, steps, wrong, .. } = measured;
        if let Some(wrong @ 1..) = wrong {
            return Err(NoTime::Wrong(wrong));
        }
        self.known.insert((collective, size), time);
        self.steps += steps;
        Ok(time)
    }
}
