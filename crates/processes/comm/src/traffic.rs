//! What an endpoint's node has counted.

use quincunx_driver_net::Statistics;
use quincunx_runtime::Drops;

/// What an endpoint's node has counted since it was attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointTraffic {
    /// Traffic and time.
    pub statistics: Statistics,
    /// Frames that it has dropped, by reason.
    pub drops: Drops,
}
