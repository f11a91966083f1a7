//! What a simulation has measured, on either kind of fabric, or why there is no measurement.

use crate::memory_fabric::RunError;
use crate::packet_fabric::{LinkUse, Row, SimulationError};
use crate::session::Interrupted;
use quincunx_collective::Bandwidths;
use quincunx_driver_des::BusyOverTime;
use quincunx_scenario::ScenarioError;
use quincunx_units::{BitRate, ByteCount, Duration};

/// What one direction of a link has carried.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkLoad {
    /// Where it leads.
    pub name: String,
    /// The share of the time that it was busy.
    pub utilisation: f64,
    /// Bytes, headers among them.
    pub bytes: ByteCount,
}

/// What a simulation has measured, on either kind of fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// Bytes; none for a Barrier.
    pub size: ByteCount,
    /// How long it took.
    pub time: Duration,
    /// Rates over that time.
    pub bandwidths: Bandwidths,
    /// Wrong elements over all ranks; none if memory held no numbers.
    pub wrong: Option<u64>,
    /// What the collective takes of the fullest switch: payload and degree buffers, wave tables, or the entries of a multicast
    /// unit.
    pub switch_buffer: ByteCount,
    /// Steps of the simulation.
    pub steps: u64,
    /// Frames or packets on all links.
    pub frames: u64,
    /// Frames that links lost or had no room for; memory fabrics lose nothing.
    pub lost: u64,
    /// Data frames that ranks and switches in the group sent again; memory fabrics lose nothing, and repeat nothing.
    pub retransmitted: u64,
    /// Directions of links.
    pub links: Vec<LinkLoad>,
    /// The most bytes that left a rank by one link.
    pub uplink: ByteCount,
    /// The most bytes that reached a rank by one link.
    pub downlink: ByteCount,
    /// How busy each of them was over time; nothing in a mean of several runs.
    pub busy_over_time: BusyOverTime,
    /// The most payload that an accelerator's links can carry, where requests and responses share them with data.
    pub payload_bound: Option<BitRate>,
}

impl Measurement {
    /// The mean of several runs of one request with other seeds, and the standard error of its time. Rates are over the
    /// mean time, wrong elements those of all.
    ///
    /// # Panics
    /// If there are none.
    pub fn mean(runs: &[Self]) -> (Self, Duration) {
        if let [only] = runs {
            return (only.clone(), Duration::ZERO);
        }
        let (count, first) = (runs.len() as u64, runs.first().expect("a run at least"));
        let total: Duration = runs.iter().map(|run| run.time).sum();
        let time = total / count;
        // What a rate counts is the same in every run, so that its mean is weighted by the time.
        let weighted = |rate: &dyn Fn(&Self) -> f64| match total {
            Duration::ZERO => 0.0,
            _ => runs.iter().map(|run| rate(run) * run.time.as_secs_f64()).sum::<f64>() / total.as_secs_f64(),
        };
        let mean_bytes = |bytes: &dyn Fn(&Self) -> ByteCount| {
            ByteCount::new(runs.iter().map(|run| bytes(run).bytes()).sum::<u64>() / count)
        };
        let link = |(at, link): (usize, &LinkLoad)| LinkLoad {
            name: link.name.clone(),
            utilisation: weighted(&|run| run.links[at].utilisation),
            bytes: mean_bytes(&|run| run.links[at].bytes),
        };
        let mean = Self {
            time,
            bandwidths: Bandwidths {
                algorithm: weighted(&|run| run.bandwidths.algorithm),
                bus: weighted(&|run| run.bandwidths.bus),
                network: weighted(&|run| run.bandwidths.network),
            },
            wrong: runs.iter().map(|run| run.wrong).sum(),
            switch_buffer: runs.iter().map(|run| run.switch_buffer).max().unwrap_or_default(),
            steps: runs.iter().map(|run| run.steps).sum::<u64>() / count,
            frames: runs.iter().map(|run| run.frames).sum::<u64>() / count,
            lost: runs.iter().map(|run| run.lost).sum::<u64>() / count,
            retransmitted: runs.iter().map(|run| run.retransmitted).sum::<u64>() / count,
            busy_over_time: BusyOverTime::default(),
            links: first.links.iter().enumerate().map(link).collect(),
            uplink: mean_bytes(&|run| run.uplink),
            downlink: mean_bytes(&|run| run.downlink),
            ..first.clone()
        };
        (mean, standard_error(runs.iter().map(|run| run.time)))
    }
}

/// Of the mean of such times; zero of one.
pub(crate) fn standard_error(times: impl Iterator<Item = Duration> + Clone) -> Duration {
    let count = times.clone().count() as f64;
    if count < 2.0 {
        return Duration::ZERO;
    }
    let picos = times.map(|time| time.as_picos() as f64);
    let mean = picos.clone().sum::<f64>() / count;
    let variance = picos.map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Duration::from_picos((variance / count).sqrt() as u64)
}

/// Why there is no measurement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MeasureError {
    /// The packet simulation's reason.
    #[error(transparent)]
    Packet(SimulationError),
    /// The memory simulation's reason.
    #[error(transparent)]
    Memory(RunError),
    /// The scenario has a value that the design does not take.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
}

impl MeasureError {
    /// Whether the design does not run there, on that fabric with these settings, whatever others do.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Packet(SimulationError::Cluster(_) | SimulationError::Refused(_))
                | Self::Memory(RunError::Design(_))
        )
    }
}

impl From<SimulationError> for MeasureError {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Stopped(stopped) => Self::Stopped(stopped),
            error => Self::Packet(error),
        }
    }
}

impl From<RunError> for MeasureError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Stopped(stopped) => Self::Stopped(stopped),
            error => Self::Memory(error),
        }
    }
}

impl From<Row> for Measurement {
    fn from(row: Row) -> Self {
        Self {
            size: row.size,
            time: row.time,
            bandwidths: row.bandwidths,
            wrong: row.wrong,
            switch_buffer: row.switch_buffer,
            steps: row.steps,
            frames: row.frames,
            lost: row.lost,
            retransmitted: row.retransmitted,
            links: loads(&row.links),
            uplink: busiest(&row.links, 0),
            downlink: busiest(&row.links, 1),
            busy_over_time: row.busy_over_time,
            payload_bound: None,
        }
    }
}

/// What each direction of links has carried.
pub(crate) fn loads(links: &[LinkUse]) -> Vec<LinkLoad> {
    let load = |link: &LinkUse| LinkLoad {
        name: format!("{} > {}", link.from, link.to),
        utilisation: link.utilisation,
        bytes: link.statistics.bytes,
    };
    links.iter().map(load).collect()
}

/// The most bytes on a direction that comes from a rank, or, for end 1, that goes to one.
pub(crate) fn busiest(links: &[LinkUse], end: usize) -> ByteCount {
    let of_ranks = links.iter().filter(|link| link.joins_ranks[end]);
    of_ranks.map(|link| link.statistics.bytes).max().unwrap_or_default()
}
