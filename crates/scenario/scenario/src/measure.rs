//! How runs are measured.

use quincunx_units::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

/// How runs are measured. A fabric takes those keys that its runs can honour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// For collectives of several parts, all ranks finish a part before any begins the next; otherwise each rank goes on by itself. For fabrics of
    /// packets.
    pub stepwise: bool,
    /// The time ends when every rank has its result, not when every rank knows that it is done. For fabrics of packets.
    pub receivers_only: bool,
    /// The time runs from the accelerators' start until they know of the end; otherwise from the first request to the last write response. For
    /// fabrics of memory with switches.
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
