//! What became of jobs.

use crate::usage::Usage;
use quincunx_units::{Duration, Instant};

/// A job, from its arrival to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// What it trains.
    pub model: String,
    /// Accelerators.
    pub gpus: u32,
    /// When it was there.
    pub arrived: Instant,
    /// When it had its accelerators.
    pub began: Instant,
    /// When it was over.
    pub ended: Instant,
    /// Collectives of groups that cross the network, and those of them that ran in switches.
    pub collectives: [u64; 2],
    /// How often it lost an accelerator, and began an iteration again on others.
    pub restarts: u32,
    /// The time that those iterations had run until then.
    pub lost: Duration,
}

impl JobOutcome {
    /// Job completion time: from its arrival to its end.
    pub fn completion(&self) -> Duration {
        self.ended.since(self.arrived)
    }

    /// How long it waited for accelerators.
    pub fn wait(&self) -> Duration {
        self.began.since(self.arrived)
    }

    /// How long it ran.
    pub fn runtime(&self) -> Duration {
        self.ended.since(self.began)
    }

    /// The share of its collectives that ran in switches; none has any.
    pub fn in_network(&self) -> Option<f64> {
        let [all, granted] = self.collectives;
        (all > 0).then(|| granted as f64 / all as f64)
    }
}

/// What failed until the last job ended, and what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failed {
    /// Links.
    pub links: u64,
    /// Switches.
    pub switches: u64,
    /// Servers.
    pub servers: u64,
    /// Groups that lost their tree, by one failure or another.
    pub trees: u64,
    /// Those of them that had another one later.
    pub regained: u64,
    /// Collectives that stood still until they went on, by another way or by none for a while.
    pub interrupted: u64,
}

/// A run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TenancyMeasurement {
    /// The jobs, in the order of the file.
    pub jobs: Vec<JobOutcome>,
    /// Beginnings and ends of flows, and timers.
    pub events: u64,
    /// How busy each link was until the last job ended, each way, the busiest first: whose names are [`Cluster::name`](crate::Cluster::name)'s.
    pub busiest: Vec<(String, f64)>,
    /// How often switches were asked for and granted.
    pub grants: [u64; 2],
    /// What failed.
    pub failed: Failed,
    /// What switches and links were used for, if somebody asked.
    pub usage: Option<Usage>,
    /// Jobs of a data set from which no size was drawn, as none like them can be run.
    pub left_out: u64,
}

impl TenancyMeasurement {
    /// Until the last job ended.
    pub fn makespan(&self) -> Duration {
        self.jobs.iter().map(|job| job.ended).max().unwrap_or(Instant::ZERO).since(Instant::ZERO)
    }

    /// The mean of what `of` says of each job, in seconds.
    pub fn mean(&self, of: impl Fn(&JobOutcome) -> Duration) -> f64 {
        let all: f64 = self.jobs.iter().map(|job| of(job).as_secs_f64()).sum();
        all / self.jobs.len().max(1) as f64
    }

    /// What so many per cent of the jobs stay under, in seconds: the nearest rank.
    pub fn percentile(&self, percent: f64, of: impl Fn(&JobOutcome) -> Duration) -> f64 {
        let mut all: Vec<f64> = self.jobs.iter().map(|job| of(job).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * all.len() as f64).ceil() as usize;
        all.get(rank.clamp(1, all.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
    }
}
