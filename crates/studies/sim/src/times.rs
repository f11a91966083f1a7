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
const LONGEST: ByteCount = ByteCount::new(16 << 20);

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
        let faults = &request.scenario.faults;
        let is_steady =
            faults.loss.is_none() && faults.congestion == Default::default() && request.background.is_none();
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
        let [short, long] = [self.simulated(collective, half)?, self.simulated(collective, LONGEST)?];
        let picos = u128::from((long - short).as_picos()) * u128::from((size - LONGEST).bytes());
        let more = u64::try_from(picos / u128::from(half.bytes())).unwrap_or(u64::MAX);
        Ok(long + Duration::from_picos(more))
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
