//! Rates and times as other tools write them, which may be floating numbers.

use quincunx_units::{BitRate, Duration};

/// Units of a rate in bits a second, as ns-3 has them (`DataRate`).
const RATES: [(&str, f64); 2] = [("bps", 1.0), ("b/s", 1.0)];
const BYTE_RATES: [(&str, f64); 2] = [("Bps", 8.0), ("B/s", 8.0)];

/// Units of a time in picoseconds, as ns-3 has them (`Time`).
const TIMES: [(&str, f64); 5] = [("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3), ("ps", 1.0)];

/// The whole number that a floating one is nearest to, where that is below 2^63.
fn rounded(value: f64) -> Option<u64> {
    (value.is_finite() && (0.0..9.2e18).contains(&value)).then(|| value.round() as u64)
}

/// So many bits a second; none for nothing, or more than there are numbers for.
pub(crate) fn rate(bits: f64) -> Option<BitRate> {
    rounded(bits).and_then(BitRate::new)
}

/// So many picoseconds.
pub(crate) fn time(picos: f64) -> Option<Duration> {
    rounded(picos).map(Duration::from_picos)
}

/// A number, and what stands behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    // An exponent is of the number, an E of "EB" would be of the unit, which is none here.
    let is_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '-' | '+');
    let end = text.find(|letter| !is_number(letter)).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `400Gbps`, `2.5Gb/s`, `50GBps`, and bits a second without a unit.
pub(crate) fn parse_rate(text: &str) -> Option<BitRate> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return rate(number);
    }
    let (base, scale) =
        RATES.iter().chain(&BYTE_RATES).find_map(|(name, bits)| Some((unit.strip_suffix(name)?, bits)))?;
    let factor = match base {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    rate(number * scale * factor)
}

/// `0.0005ms`, `2.5e-05ms`, and seconds without a unit.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let unit = if unit.is_empty() { "s" } else { unit };
    let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
    time(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_read_as_ns_3_reads_them() {
        let rates =
            ["400Gbps", "2880Gb/s", "50GBps", "1000", "0.1Mbps"].map(|text| parse_rate(text).unwrap());
        assert_eq!(
            rates.map(|rate| rate.to_string()),
            ["400Gbit/s", "2.88Tbit/s", "400Gbit/s", "1kbit/s", "100kbit/s"]
        );
        let times = ["0.000025ms", "2.5e-05ms", "1us", "0", "0.5s"].map(|text| parse_time(text).unwrap());
        assert_eq!(times.map(|time| time.to_string()), ["25ns", "25ns", "1us", "0s", "500ms"]);
    }

    #[test]
    fn what_is_no_rate_or_time_is_none() {
        for text in ["", "fast", "0Gbps", "-1Gbps", "NaN", "1e999Gbps", "9e99", "4Qbps", "1.2.3bps", "inf"] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
        for text in ["", "ms", "-1ms", "1h", "1e30s", "nan"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
