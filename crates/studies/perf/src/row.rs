//! A line of the result, in the columns of nccl-tests, and `netbw`: what really crossed the busiest link of a rank.

use quincunx_collective::{Bandwidths, DataType};
use quincunx_report::Columns;
use quincunx_runtime::Drops;
use quincunx_units::{ByteCount, Duration};
use serde::Serialize;
use std::fmt;

use crate::measured::{Measured, Split, Ways};
use crate::plan::Case;
use crate::task::Task;

/// One case over all ranks. Times are in microseconds, rates in 10^9 bytes a second.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[allow(non_snake_case, reason = "the names of the columns are a contract")]
pub struct Row {
    /// The design, or what it fell back to.
    pub design: String,
    /// The collective.
    pub collective: String,
    /// Bytes, as nccl-tests count them.
    pub size: u64,
    /// Elements.
    pub count: u64,
    /// Data type.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Operation.
    pub redop: String,
    /// Root, or -1.
    pub root: i32,
    /// Whether input and output are one memory, an application's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    /// Mean time of the slowest rank.
    pub time_us: f64,
    /// Median time of rank 0.
    pub median_us: f64,
    /// 99th percentile of rank 0.
    pub p99_us: f64,
    /// Size over time.
    pub algbw_GBps: f64,
    /// What a host algorithm would move over its busiest link in that time, as nccl-tests count.
    pub busbw_GBps: f64,
    /// What really crossed the busiest link of a rank, one way, headers included, over time.
    pub netbw_GBps: f64,
    /// Wrong elements, over all ranks.
    pub wrong: u64,
    /// Payload and degree buffers of the switch with most of them (EPIC F.3); not through the library, whose ranks do not learn it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_buffer_bytes: Option<u64>,
    /// Frames that ranks have dropped in it, by reason; not what switches have.
    #[serde(skip_serializing_if = "Drops::is_empty")]
    pub drops: Drops,
    /// On a mesh: how data was split over ways, by what its links carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// What was asked for, and why it is not what ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<FellBack>,
    /// By which ways its collectives ran, if switches' memory was locked for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// Bytes that crossed between servers in a repetition, all ranks together, headers included; of what goes to experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_server_bytes: Option<u64>,
    /// The most memory that a rank's process has had by the end of it, in bytes; of what goes to experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Repetitions.
    pub iterations: u32,
    /// Processor time of a rank for a repetition, the mean of all ranks, in microseconds.
    pub rank_processor_us: f64,
    /// Processor time of all switches together for a repetition, in microseconds, where they run beside the ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_processor_us: Option<f64>,
    /// Mean seconds a rank spent in system calls, parsing, the engine, emitting, waiting and else; with `--profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_s: Option<[f64; 6]>,
}

/// A group that runs among its hosts, for switches have no room for what was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FellBack {
    /// The design that was asked for.
    pub asked: String,
    /// Why it was not to be had, in the manager's words.
    pub reason: String,
}

impl Row {
    /// One row from what all ranks measured of a case.
    pub fn new(case: &Case, measured: &[Measured]) -> Self {
        let ranks = measured.first().map_or(1, |measured| measured.ranks);
        let most = |value: &dyn Fn(&Measured) -> f64| measured.iter().map(value).fold(0.0, f64::max);
        let time_us = most(&|measured| measured.mean_us);
        let busiest = most(&|measured| measured.sent_bytes.max(measured.received_bytes));
        let task: Option<Task> = case.collective.parse().ok();
        let element = case.data_type.parse::<DataType>().map_or(1, DataType::size) as u64;
        let counted = task.map(|task| task.counted_size(ByteCount::new(case.bytes)));
        let size = counted.map_or(case.bytes, ByteCount::bytes);
        let time = Duration::from_picos((time_us * 1e6) as u64);
        let busiest = ByteCount::new(busiest as u64);
        let bandwidths = task.map_or_else(Bandwidths::default, |task| {
            task.bandwidths(ranks, ByteCount::new(case.bytes), busiest, time)
        });
        let rooted = task.is_some_and(|task| task.root().is_some());
        let mean = |value: &dyn Fn(&Measured) -> f64| {
            measured.iter().map(value).sum::<f64>() / measured.len().max(1) as f64
        };
        let profile = [0, 1, 2, 3, 4, 5].map(|phase| mean(&|measured| measured.profile_s[phase]));
        Self {
            design: measured.first().map_or_else(|| case.design.clone(), |measured| measured.design.clone()),
            collective: case.collective.clone(),
            size,
            count: size / element,
            data_type: case.data_type.clone(),
            redop: if task.is_some_and(Task::reduces) { case.op.clone() } else { "none".into() },
            in_place: case.in_place,
            root: if rooted { i32::from(case.root) } else { -1 },
            time_us,
            median_us: measured.first().map_or(0.0, |measured| measured.median_us),
            p99_us: measured.first().map_or(0.0, |measured| measured.p99_us),
            algbw_GBps: bandwidths.algorithm,
            busbw_GBps: bandwidths.bus,
            netbw_GBps: bandwidths.network,
            wrong: measured.iter().map(|measured| measured.wrong).sum(),
            switch_buffer_bytes: measured.iter().filter_map(|measured| measured.switch_buffer_bytes).max(),
            drops: measured.iter().flat_map(|measured| &measured.drops).fold(
                Drops::new(),
                |mut all, (reason, frames)| {
                    *all.entry(reason.clone()).or_default() += frames;
                    all
                },
            ),
            split: measured.first().and_then(|measured| measured.split),
            fell_back: measured
                .iter()
                .find_map(|measured| measured.fallback.clone())
                .map(|reason| FellBack { asked: case.design.clone(), reason }),
            ways: measured.first().and_then(|measured| measured.ways),
            cross_server_bytes: measured
                .iter()
                .map(|measured| measured.cross_server_bytes)
                .sum::<Option<f64>>()
                .map(|bytes| bytes as u64),
            peak_memory_bytes: measured.iter().filter_map(|measured| measured.peak_memory_bytes).max(),
            iterations: case.iterations,
            rank_processor_us: mean(&|measured| measured.rank_processor_us),
            switch_processor_us: measured.first().and_then(|measured| measured.switch_processor_us),
            profile_s: (profile.iter().sum::<f64>() > 0.0).then_some(profile),
        }
    }
}

impl Row {
    /// `processor time of a repetition: 11540.2 us a rank, 84120.9 us the switches; a rank spent 41 % in system calls, ...`, if that was
    /// asked for.
    pub fn spent(&self) -> Option<String> {
        const PHASES: [&str; 6] =
            ["in system calls", "parsing", "in the engine", "emitting", "waiting", "on the rest"];
        let profile = self.profile_s?;
        let all = profile.iter().sum::<f64>();
        let shares: Vec<String> = PHASES
            .iter()
            .zip(profile)
            .map(|(phase, seconds)| format!("{:.0} % {phase}", 100.0 * seconds / all))
            .collect();
        let switches = self.switch_processor_us.map(|time| format!(", {time:.1} us the switches"));
        Some(format!(
            "processor time of a repetition: {:.1} us a rank{}; a rank spent {}",
            self.rank_processor_us,
            switches.unwrap_or_default(),
            shares.join(", ")
        ))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Columns {
            design: &self.design,
            collective: &self.collective,
            size: self.size,
            count: self.count,
            data_type: &self.data_type,
            redop: &self.redop,
            root: self.root,
            time: self.time_us,
            algbw: self.algbw_GBps,
            busbw: self.busbw_GBps,
            netbw: self.netbw_GBps,
            wrong: Some(self.wrong),
        };
        columns.fmt(f)
    }
}
