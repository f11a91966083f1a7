//! Queue pairs of groups that no manager sets up.

use quincunx_control::Retry;
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, RateConfig, Reliability};
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Psn};

use super::{Accelerators, Setup};

/// What all of them have in common.
pub(super) struct Lines {
    mtu: ByteCount,
    /// Packets that each may have outstanding.
    pub(super) outstanding: u32,
    acknowledge_every: u32,
    retry: Retry,
    selective: bool,
    rate: Option<RateConfig>,
}

impl From<&Accelerators> for Lines {
    fn from(accelerators: &Accelerators) -> Self {
        let Accelerators { mtu, outstanding, acknowledge_every, retry, selective, .. } = *accelerators;
        Self { mtu, outstanding, acknowledge_every, retry, selective, rate: None }
    }
}

impl From<&Setup> for Lines {
    fn from(setup: &Setup) -> Self {
        Self {
            mtu: setup.mtu,
            outstanding: setup.message * setup.window,
            acknowledge_every: setup.acknowledge_every,
            retry: setup.retry,
            selective: setup.selective,
            rate: setup.congestion.control,
        }
    }
}

impl Lines {
    /// One end.
    pub(super) fn queue_pair(&self, local: Endpoint, remote: Endpoint) -> QueuePairConfig {
        QueuePairConfig {
            local,
            remote,
            mtu: self.mtu.as_usize(),
            send_psn: Psn::new(0),
            expected_psn: Psn::new(0),
            acknowledge_every: self.acknowledge_every,
            retry_timeout: self.retry.timeout,
            retry_count: self.retry.count,
            rnr_timer: 1,
            rnr_retry_count: INFINITE_RNR_RETRIES,
            max_outstanding_packets: self.outstanding,
            remote_write: true,
            reliability: if self.selective { Reliability::Selective } else { Reliability::GoBackN },
            rate: self.rate,
            mutation: None,
        }
    }
}
