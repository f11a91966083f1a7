//! How runs are measured.

use quincunx_units::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

/// How runs are measured. A fabric takes those keys that its runs can honour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Collectives that a design runs as several one after the other: each part is begun when all ranks have finished the one before, not by each
    /// rank on its own. For fabrics of packets.
    pub stepwise: bool,
    /// The end is when all have the result that they are to get, not when all know that they are done. For fabrics of packets.
    pub receivers_only: bool,
    /// From the accelerators' start to their knowing of the end; else from the first request to the last write response. For fabrics of
    /// memory with switches.
    pub synchronised: bool,
    /// Time limit of a collective; default: ten seconds of virtual time, or a minute of real time on real hosts.
    pub limit: Option<Duration>,
}

impl Default for Measure {
    /// As an application sees it.
    fn default() -> Self {
        Self { stepwise: false, receivers_only: false, synchronised: true, limit: None }
    }
}

impl Measure {
    /// The virtual time that a collective may take.
    pub fn virtual_limit(&self) -> Duration {
        self.limit.unwrap_or(Duration::from_secs(10))
    }
}
