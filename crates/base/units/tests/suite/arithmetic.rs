//! What callers compute with units.

use proptest::prelude::*;
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};

#[test]
fn a_packet_takes_its_bits_over_the_rate() {
    let link = BitRate::new(100_000_000_000).unwrap();
    assert_eq!(link.time_for(ByteCount::new(1250)), Duration::from_nanos(100));
}

#[test]
fn bytes_in_a_round_trip_are_the_bandwidth_delay_product() {
    let link = BitRate::new(100_000_000_000).unwrap();
    assert_eq!(link.bytes_in(Duration::from_micros(2)), ByteCount::new(25_000));
}

#[test]
fn a_rate_of_transfer_needs_both_bytes_and_time() {
    let rate = BitRate::of_transfer(ByteCount::new(1_000_000), Duration::from_millis(1));
    assert_eq!(rate.unwrap().as_gigabytes_per_second_f64(), 1.0);
    assert_eq!(BitRate::of_transfer(ByteCount::new(0), Duration::from_millis(1)), None);
    assert_eq!(BitRate::of_transfer(ByteCount::new(1), Duration::ZERO), None);
}

#[test]
fn a_vector_is_cut_into_packets_of_an_mtu() {
    let mtu = ByteCount::new(1024);
    assert_eq!(ByteCount::new(0).pieces_of(mtu), 0);
    assert_eq!(ByteCount::new(1).pieces_of(mtu), 1);
    assert_eq!(ByteCount::new(1024).pieces_of(mtu), 1);
    assert_eq!(ByteCount::new(1025).pieces_of(mtu), 2);
}

#[test]
fn sizes_never_go_below_nothing_or_wrap() {
    assert_eq!(ByteCount::new(1) - ByteCount::new(2), ByteCount::new(0));
    assert_eq!(ByteCount::new(u64::MAX) + ByteCount::new(1), ByteCount::new(u64::MAX));
    assert_eq!(ByteCount::new(1 << 40) * (1 << 40), ByteCount::new(u64::MAX));
}

#[test]
fn a_sleep_never_ends_early() {
    assert_eq!(std::time::Duration::from(Duration::from_picos(1)), std::time::Duration::from_nanos(1));
    assert_eq!(Duration::from(std::time::Duration::MAX), Duration::from_picos(u64::MAX));
}

proptest! {
    #[test]
    fn what_passes_in_the_time_for_a_size_is_that_size(bits in 1u64..=1 << 43, bytes in 0u64..=1 << 20) {
        let (rate, size) = (BitRate::new(bits).unwrap(), ByteCount::new(bytes));
        let time = rate.time_for(size);
        prop_assume!(time < Duration::from_picos(u64::MAX));
        // The time is rounded up to a picosecond, in which a fast link may pass some more.
        prop_assert!(rate.bytes_in(time) >= size);
        prop_assert!(rate.bytes_in(time).bytes() <= bytes + bits / 8_000_000_000_000 + 1);
    }
}

#[test]
fn operations_take_their_number_over_the_rate() {
    let rate = FlopRate::new(4_000_000_000_000).unwrap();
    assert_eq!(rate.time_for(8_000_000_000), Duration::from_millis(2));
    assert_eq!(rate.time_for(1), Duration::from_picos(1), "rounded up");
    assert_eq!(FlopRate::new(0), None);
}
