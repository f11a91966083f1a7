//! Bandwidths of a collective, as nccl-tests define them, and what really crossed the links.

use crate::Collective;
use quincunx_units::{BitRate, ByteCount, Duration};

/// Rates in 10^9 bytes a second, for tables.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bandwidths {
    /// Size over time.
    pub algorithm: f64,
    /// What a host algorithm would move over its busiest link in that time.
    pub bus: f64,
    /// What really crossed the busiest link of a rank, one way, headers included, over time.
    pub network: f64,
}

impl Collective {
    /// Bytes that count for bandwidth; a Barrier moves none.
    pub fn counted_size(self, size: ByteCount) -> ByteCount {
        if self == Self::Barrier { ByteCount::new(0) } else { size }
    }

    /// Whether elements are combined.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce { .. } | Self::ReduceScatter | Self::Combine)
    }

    /// The bandwidths of a collective of `size` among `ranks` that took `time`, with `busiest` bytes on a rank's busiest
    /// link, one way. All zero if it took no time.
    ///
    /// # Panics
    /// If `ranks` is zero.
    pub fn bandwidths(self, ranks: u16, size: ByteCount, busiest: ByteCount, time: Duration) -> Bandwidths {
        let rate =
            |bytes| BitRate::of_transfer(bytes, time).map_or(0.0, BitRate::as_gigabytes_per_second_f64);
        let algorithm = rate(self.counted_size(size));
        Bandwidths { algorithm, bus: algorithm * self.bus_factor(ranks), network: rate(busiest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_reduce_of_eight_counts_its_bus_bandwidth_seven_quarters() {
        let (size, busiest) = (ByteCount::new(8_000), ByteCount::new(9_000));
        let found = Collective::AllReduce.bandwidths(8, size, busiest, Duration::from_micros(1));
        assert_eq!(found, Bandwidths { algorithm: 8.0, bus: 14.0, network: 9.0 });
    }

    #[test]
    fn a_barrier_moves_nothing_that_counts() {
        let size = ByteCount::new(8_000);
        let found = Collective::Barrier.bandwidths(8, size, size, Duration::from_micros(1));
        assert_eq!(found, Bandwidths { algorithm: 0.0, bus: 0.0, network: 8.0 });
    }

    #[test]
    fn no_time_gives_no_bandwidth() {
        let size = ByteCount::new(1);
        assert_eq!(Collective::AllReduce.bandwidths(2, size, size, Duration::ZERO), Bandwidths::default());
    }
}
