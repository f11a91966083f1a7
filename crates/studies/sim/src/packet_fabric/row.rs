//! The result of a measurement.

use quincunx_collective::{Bandwidths, Collective, Reduction};
use quincunx_driver_des::{BusyOverTime, DirectionStatistics};
use quincunx_units::{ByteCount, Duration};

/// What one direction of a link has carried.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkUse {
    /// The node it comes from.
    pub from: String,
    /// The node it goes to.
    pub to: String,
    /// Whether that it comes from, and that it goes to, is a rank.
    pub joins_ranks: [bool; 2],
    /// Share of the time in which bits were on it.
    pub utilisation: f64,
    /// All of it.
    pub statistics: DirectionStatistics,
}

/// One measurement over all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// How it was carried out.
    pub design: &'static str,
    /// Which collective.
    pub collective: Collective,
    /// How elements were combined.
    pub reduction: Reduction,
    /// Ranks in the group.
    pub ranks: u16,
    /// Bytes, as nccl-tests count them, of a domain's vector; none for a Barrier; of a rank's tokens.
    pub size: ByteCount,
    /// From the start at all ranks to the end that counts.
    pub time: Duration,
    /// Rates over that time.
    pub bandwidths: Bandwidths,
    /// Wrong elements, over all ranks; none if memory held no numbers.
    pub wrong: Option<u64>,
    /// Payload and degree buffers of the switch with most of them (EPIC F.3).
    pub switch_buffer: ByteCount,
    /// Steps that the simulation did.
    pub steps: u64,
    /// Frames that were sent on all links.
    pub frames: u64,
    /// Frames that links lost or had no room for.
    pub lost: u64,
    /// Data frames that ranks and switches in the group sent again: what a switch passes on a second time counts, too.
    pub retransmitted: u64,
    /// Frames that nodes dropped, for any reason.
    pub dropped: u64,
    /// Each direction of each link.
    pub links: Vec<LinkUse>,
    /// How busy each of them was over time, until the last rank's end.
    pub busy_over_time: BusyOverTime,
}
