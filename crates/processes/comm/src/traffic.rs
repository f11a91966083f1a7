//! What an endpoint's node has counted.

use quincunx_driver_net::{Statistics, Traffic};
use quincunx_runtime::Drops;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What an endpoint's node has counted since it was attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointTraffic {
    /// Traffic and time.
    pub statistics: Statistics,
    /// What has left it, by the peer that it was for.
    pub sent_to: BTreeMap<SocketAddr, Traffic>,
    /// Frames that it has dropped, by reason.
    pub drops: Drops,
}
