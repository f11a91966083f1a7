//! What a rank measures, and how it says so.

use quincunx_control::Encapsulation;
use quincunx_driver_net::Traffic;
use quincunx_runtime::Drops;
use quincunx_wire::{Gid, headers_below_bth};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::net::IpAddr;

use crate::error::WorkerError;

/// Bytes around what a node counts of a frame on an Ethernet link: Ethernet 14, and in a UDP datagram IPv4 20 or IPv6 40, and UDP 8.
pub(crate) const fn bytes_below(address: IpAddr, encapsulation: Encapsulation) -> u64 {
    match encapsulation {
        Encapsulation::Udp => headers_below_bth(Gid::of(address)) as u64,
        Encapsulation::Ethernet => 14,
    }
}

/// What one rank measured of one case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Index of the case in the plan.
    pub case: usize,
    /// Mean time of a repetition, in microseconds.
    pub mean_us: f64,
    /// Median time, in microseconds.
    pub median_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Wrong elements in the first warm-up and in the last repetition.
    pub wrong: u64,
    /// Elements that were compared.
    pub compared: u64,
    /// Ranks whose vectors a collective puts together: on a mesh those of a domain.
    pub ranks: u16,
    /// Bytes a repetition that left over the rank's link, or the busiest of its links, headers included.
    pub sent_bytes: f64,
    /// Bytes a repetition that came over the rank's link, headers included; zero on a mesh, where each is what another has sent.
    pub received_bytes: f64,
    /// Bytes a repetition that left for ranks of other servers, headers included, of what goes to experts.
    #[serde(default)]
    pub cross_server_bytes: Option<f64>,
    /// The most memory that the process has had by the end, in bytes, of what goes to experts.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// What data is split by, on a mesh.
    pub split: Option<Split>,
    /// Payload and degree buffers of the switch that has most of them, in bytes (EPIC F.3); zero without a switch, nothing where ranks do not learn it.
    pub switch_buffer_bytes: Option<u64>,
    /// What the group runs: the design asked for, or what it fell back to.
    pub design: String,
    /// Why it fell back, if it did: what rank 0 has heard of the manager.
    pub fallback: Option<String>,
    /// By which ways the case's collectives ran, warm-ups and barriers included, if switches' memory was locked for each.
    pub ways: Option<Ways>,
    /// Frames that it has dropped since the case before, by reason.
    pub drops: Drops,
    /// Processor time a repetition, the kernel's on its behalf included, in microseconds.
    pub rank_processor_us: f64,
    /// The same of all switches together, where they run beside the ranks.
    pub switch_processor_us: Option<f64>,
    /// Seconds by phase over the timed repetitions: system calls, parse, engine, emit, waiting, other. Zero unless asked.
    pub profile_s: [f64; 6],
}

/// How an AllGather on a mesh divides data over ways, and why.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Split {
    /// What the slowest link within a domain carries, in bits a second.
    pub direct: u64,
    /// What the slowest link between domains carries.
    pub cross: u64,
    /// The share of the data that goes over relays.
    pub relayed: f64,
}

/// How often a group ran in its tree, and how often among its hosts because other groups had its switches' memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ways {
    /// In the tree.
    pub tree: u64,
    /// Among the hosts.
    pub hosts: u64,
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tree, hosts } = self;
        write!(
            f,
            "{tree} collectives ran in the tree, {hosts} among the hosts: others had the switches' memory"
        )
    }
}

/// `links carry 98.5Mbit/s within domains and 98.4Mbit/s between them: 50.0 % goes over relays`.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [direct, cross] = [self.direct, self.cross].map(|bits| bits as f64 / 1e6);
        let relayed = self.relayed * 100.0;
        write!(
            f,
            "links carry {direct:.1} Mbit/s within domains and {cross:.1} Mbit/s between them: {relayed:.1} % goes over relays"
        )
    }
}

/// Says what was measured, on a line.
pub(crate) fn say(measured: &Measured, out: &mut impl Write) -> Result<(), WorkerError> {
    serde_json::to_writer(&mut *out, measured).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// The median and the 99th percentile.
pub(crate) fn times_of(times: &mut [f64]) -> [f64; 2] {
    times.sort_unstable_by(f64::total_cmp);
    [0.5, 0.99].map(|share| {
        times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or(0.0)
    })
}

/// What was dropped after `before`.
pub(crate) fn since(before: &Drops, mut after: Drops) -> Drops {
    for (reason, frames) in &mut after {
        *frames -= before.get(reason).unwrap_or(&0);
    }
    after.retain(|_, frames| *frames > 0);
    after
}

pub(crate) fn link_bytes(before: &Traffic, after: &Traffic, below: u64) -> f64 {
    let frames = after.frames - before.frames;
    (after.bytes - before.bytes + frames * below) as f64
}
