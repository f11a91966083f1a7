//! How runs are measured.

use quincunx_units::Duration;
use serde::Deserialize;

/// How runs are measured. A fabric takes those keys that its runs can honour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Collectives that a design runs as several in a row: each part is begun when all ranks have finished the one before, not by each
    /// rank on its own. For fabrics of packets.
    pub stepwise: bool,
    /// The end is when all have the result that they are to get, not when all know that they are done. For fabrics of packets.
    pub receivers_only: bool,
    /// From the accelerators' start to their knowing of the end; else from the first request to the last write response. For fabrics of
    /// memory with switches.
    pub synchronised: bool,
    /// Virtual time that a collective may take.
    pub limit: Duration,
}

impl Default for Measure {
    /// As an application sees it, within ten seconds.
    fn default() -> Self {
        Self { stepwise: false, receivers_only: false, synchronised: true, limit: Duration::from_secs(10) }
    }
}
