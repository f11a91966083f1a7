//! How units are read and printed: exactly, with one-line errors.

use proptest::prelude::*;
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate, MeanTime, Probability};

fn duration(text: &str) -> Duration {
    text.parse().unwrap()
}

fn size(text: &str) -> ByteCount {
    text.parse().unwrap()
}

fn rate(text: &str) -> u64 {
    text.parse::<BitRate>().unwrap().bits_per_second()
}

#[test]
fn durations_are_read_in_every_unit() {
    assert_eq!(duration("7ps"), Duration::from_picos(7));
    assert_eq!(duration("250ns"), Duration::from_nanos(250));
    assert_eq!(duration("1us"), Duration::from_micros(1));
    assert_eq!(duration("2.5ms"), Duration::from_micros(2_500));
    assert_eq!([duration("10m"), duration("1.5h")], [600, 5_400].map(Duration::from_secs));
    assert_eq!(duration("3s"), Duration::from_secs(3));
}

#[test]
fn mean_times_are_read_up_to_years_and_are_never_nothing() {
    let read = |text: &str| text.parse::<MeanTime>();
    let seconds = ["90s", "10m", "6000h", "1.5d", "50y"].map(|text| read(text).unwrap().as_secs_f64());
    assert_eq!(seconds, [90.0, 600.0, 21.6e6, 129_600.0, 50.0 * 365.0 * 86_400.0]);
    assert_eq!(["5400s", "48h", "365d"].map(|text| read(text).unwrap().to_string()), ["90m", "2d", "1y"]);
    for text in ["0s", "0.5s", "5", "5w"] {
        assert!(read(text).unwrap_err().to_string().contains("6000h"), "{text}");
    }
}

#[test]
fn sizes_are_read_in_binary_decimal_and_plain_bytes() {
    assert_eq!(size("4KiB"), ByteCount::new(4096));
    assert_eq!(size("16MiB"), ByteCount::new(16 << 20));
    assert_eq!(size("1.5KiB"), ByteCount::new(1536));
    assert_eq!(size("1GB"), ByteCount::new(1_000_000_000));
    assert_eq!(size("512B"), ByteCount::new(512));
    assert_eq!(size("4096"), ByteCount::new(4096));
    assert_eq!(size("0"), ByteCount::new(0));
}

#[test]
fn rates_are_read_in_bits_and_in_bytes() {
    assert_eq!(rate("500Mbit/s"), 500_000_000);
    assert_eq!(rate("100Gbit/s"), 100_000_000_000);
    assert_eq!(rate("56GB/s"), 448_000_000_000);
}

#[test]
fn a_space_may_stand_before_the_suffix() {
    assert_eq!(size(" 4 KiB "), ByteCount::new(4096));
}

#[test]
fn decimals_that_floats_cannot_hold_are_exact() {
    assert_eq!(duration("0.000000000001s"), Duration::from_picos(1));
    assert_eq!(duration("1234567.890123456789s"), Duration::from_picos(1_234_567_890_123_456_789));
    assert_eq!(duration("1.50s"), Duration::from_millis(1_500));
}

#[test]
fn what_is_finer_than_the_smallest_unit_is_refused() {
    assert!("0.5ps".parse::<Duration>().is_err());
    assert!("0.3B".parse::<ByteCount>().is_err());
    assert!("1.0001KiB".parse::<ByteCount>().is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!("18446744073709551616".parse::<ByteCount>().is_err());
    assert!("18446745s".parse::<Duration>().is_err());
    assert!("99999999999999999999999999Gbit/s".parse::<BitRate>().is_err());
    assert!("1.00000000000000000000000001s".parse::<Duration>().is_err());
}

#[test]
fn a_rate_of_zero_is_refused() {
    assert!("0bit/s".parse::<BitRate>().is_err());
}

#[test]
fn what_is_no_number_with_a_suffix_is_refused() {
    for text in ["", "ns", "5", "-1ns", "1.ns", ".5ns", "1..5ns", "1.2.3ns", "1e3ns", "5parsecs", "5 n s"] {
        assert!(text.parse::<Duration>().is_err(), "{text:?} was taken for a duration");
    }
    assert!("4Kib".parse::<ByteCount>().is_err(), "kibibits are not a size in bytes");
}

#[test]
fn errors_are_one_line_with_an_example() {
    let error = "fast".parse::<BitRate>().unwrap_err().to_string();
    assert_eq!(
        error,
        "expected a rate above zero in whole bits a second such as 500Mbit/s, 100Gbit/s or 56GB/s, found \"fast\""
    );
}

#[test]
fn values_print_as_people_write_them() {
    assert_eq!(Duration::from_nanos(250).to_string(), "250ns");
    assert_eq!(Duration::from_micros(2_500).to_string(), "2.5ms");
    assert_eq!(Duration::from_picos(1_000_050).to_string(), "1.00005us");
    assert_eq!(Duration::ZERO.to_string(), "0s");
    assert_eq!(ByteCount::new(16 << 20).to_string(), "16MiB");
    assert_eq!(ByteCount::new(1500).to_string(), "1500B");
    assert_eq!(ByteCount::new(0).to_string(), "0B");
    assert_eq!(BitRate::new(448_000_000_000).unwrap().to_string(), "448Gbit/s");
    assert_eq!(BitRate::new(2_500_000_000).unwrap().to_string(), "2.5Gbit/s");
}

#[test]
fn printing_respects_the_width_of_a_column() {
    assert_eq!(format!("{:>8}|{:<8}|", ByteCount::new(4096), Duration::from_micros(1)), "    4KiB|1us     |");
}

proptest! {
    #[test]
    fn every_duration_reads_back_as_printed(picos: u64) {
        let value = Duration::from_picos(picos);
        prop_assert_eq!(value.to_string().parse::<Duration>().unwrap(), value);
    }

    #[test]
    fn every_size_reads_back_as_printed(bytes: u64, shift in 0u32..50) {
        let value = ByteCount::new(bytes >> shift << (shift % 41));
        prop_assert_eq!(value.to_string().parse::<ByteCount>().unwrap(), value);
    }

    #[test]
    fn every_rate_reads_back_as_printed(bits in 1u64..) {
        let value = BitRate::new(bits).unwrap();
        prop_assert_eq!(value.to_string().parse::<BitRate>().unwrap(), value);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,40}", number in "[0-9.]{0,45}(|B|KiB|s|ps|GB/s)") {
        for text in [text, number] {
            let _ = (text.parse::<Duration>(), text.parse::<ByteCount>(), text.parse::<BitRate>());
        }
    }
}

#[test]
fn probabilities_are_read_as_fractions_or_percentages() {
    assert_eq!("5%".parse(), Probability::new(0.05));
    assert_eq!("0.25".parse(), Probability::new(0.25));
    let error = "120%".parse::<Probability>().expect_err("more than certain");
    assert_eq!(error.to_string(), "expected a probability from 0 to 1 such as 0.05 or 5%, found \"120%\"");
    assert!("NaN".parse::<Probability>().is_err());
}

#[test]
fn certainty_and_impossibility_are_exact() {
    let certain = Probability::new(1.0).expect("a probability");
    assert!([0, 1, u64::MAX].into_iter().all(|draw| certain.hits(draw) && !Probability::ZERO.hits(draw)));
}

#[test]
fn rates_of_arithmetic_are_read_as_they_are_printed() {
    let rate = |text: &str| text.parse::<FlopRate>();
    assert_eq!(rate("10.07TFLOP/s").unwrap().operations_per_second(), 10_070_000_000_000);
    for text in ["10.07TFLOP/s", "1FLOP/s", "500GFLOP/s"] {
        assert_eq!(rate(text).unwrap().to_string(), text);
    }
    assert!(rate("0TFLOP/s").unwrap_err().to_string().contains("above zero"));
    assert!(rate("10Tbit/s").is_err() && rate("10").is_err());
}
