//! The two 8-bit floating-point types of the OCP specification ("OFP8", revision 1.0): to binary32 exactly, and back to nearest, ties
//! to even.

/// One of the two types.
pub(crate) trait Quarter {
    /// Bits of the fraction.
    const FRACTION: u32;
    /// What is taken off an exponent.
    const BIAS: u32;
    /// The first magnitude that is no finite number.
    const SPECIAL: u8;
    /// What is too large.
    const TOO_LARGE: u8;
    /// The quiet NaN.
    const NAN: u8;

    #[inline(always)]
    fn is_nan(bits: u8) -> bool {
        bits & 0x7f > Self::TOO_LARGE.min(Self::NAN - 1)
    }

    /// The value.
    #[inline(always)]
    fn widen(bits: u8) -> f32 {
        let magnitude = u32::from(bits & 0x7f) << (23 - Self::FRACTION);
        let sign = u32::from(bits & 0x80) << 24;
        // As in binary16: 127 for the bias in the exponent, and a subnormal number is a difference of normal ones.
        let normal = magnitude + ((127 - Self::BIAS) << 23);
        let least = (128 - Self::BIAS) << 23;
        let subnormal = f32::from_bits(magnitude | least) - f32::from_bits(least);
        let finite = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
        let value = if bits & 0x7f >= Self::SPECIAL { f32::INFINITY.to_bits() } else { finite };
        if Self::is_nan(bits) { f32::NAN } else { f32::from_bits(value | sign) }
    }

    /// The nearest.
    #[inline(always)]
    fn narrow(single: f32) -> u8 {
        let bits = single.to_bits();
        let magnitude = bits & !(1 << 31);
        let sign = (bits >> 24) as u8 & 0x80;
        let cut = 23 - Self::FRACTION;
        let odd = (magnitude >> cut) & 1;
        // Below the least normal number this wraps, and is not looked at.
        let normal =
            magnitude.wrapping_sub((127 - Self::BIAS) << 23).wrapping_add(((1 << (cut - 1)) - 1) + odd)
                >> cut;
        // The last place of a subnormal number lies at the end of the fraction of this one, so that adding it rounds.
        let anchor = f32::from_bits((127 + 23 + 1 - Self::BIAS - Self::FRACTION) << 23);
        let subnormal = (f32::from_bits(magnitude) + anchor).to_bits().wrapping_sub(anchor.to_bits());
        let finite = if magnitude < (128 - Self::BIAS) << 23 { subnormal } else { normal };
        let rounded = if finite >= u32::from(Self::SPECIAL) { Self::TOO_LARGE } else { finite as u8 };
        if magnitude > f32::INFINITY.to_bits() || rounded == Self::NAN { Self::NAN } else { rounded | sign }
    }
}

/// Four bits of exponent, three of fraction, no infinity.
pub(crate) enum E4M3 {}

/// Five bits of exponent, two of fraction.
pub(crate) enum E5M2 {}

impl Quarter for E4M3 {
    const FRACTION: u32 = 3;
    const BIAS: u32 = 7;
    const SPECIAL: u8 = 0x7f;
    const TOO_LARGE: u8 = 0x7f;
    const NAN: u8 = 0x7f;
}

impl Quarter for E5M2 {
    const FRACTION: u32 = 2;
    const BIAS: u32 = 15;
    const SPECIAL: u8 = 0x7c;
    const TOO_LARGE: u8 = 0x7c;
    const NAN: u8 = 0x7e;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A value by the specification's table: what the fields say.
    fn value<F: Quarter>(bits: u8) -> Option<f64> {
        let (exponent, fraction) =
            (i32::from(bits & 0x7f) >> F::FRACTION, f64::from(bits & ((1 << F::FRACTION) - 1)));
        let one = f64::from(1 << F::FRACTION);
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let power = |exponent: i32| 2.0_f64.powi(exponent - F::BIAS as i32);
        match exponent {
            _ if bits & 0x7f >= F::SPECIAL => None,
            0 => Some(sign * power(1) * fraction / one),
            _ => Some(sign * power(exponent) * (1.0 + fraction / one)),
        }
    }

    fn hold<F: Quarter>(largest: f64, smallest: f64) {
        let finite: Vec<(u8, f64)> = (0..0x7f).filter_map(|bits| Some((bits, value::<F>(bits)?))).collect();
        assert_eq!(finite.last().unwrap().1, largest);
        assert_eq!(finite[1].1, smallest);
        for bits in 0..=u8::MAX {
            let wide = F::widen(bits);
            match value::<F>(bits) {
                Some(value) => {
                    assert_eq!(f64::from(wide), value, "{bits:#04x}");
                    assert_eq!(F::narrow(wide), bits, "{bits:#04x} there and back");
                }
                None if wide.is_nan() => assert_eq!(F::narrow(wide), F::NAN),
                None => assert!(wide.is_infinite() && F::narrow(wide) == bits, "{bits:#04x}"),
            }
        }
        // Between two neighbours: the nearer one, and of a tie the even one.
        for pair in finite.windows(2) {
            let [(low, a), (high, b)] = [pair[0], pair[1]];
            let middle = ((a + b) / 2.0) as f32;
            assert_eq!(F::narrow(middle), if low % 2 == 0 { low } else { high }, "{middle}");
            assert_eq!(F::narrow(middle.next_down()), low, "{middle}");
            assert_eq!(F::narrow(middle.next_up()), high, "{middle}");
            assert_eq!(F::narrow(-middle.next_up()), high | 0x80, "{middle}");
        }
    }

    /// Of single precision, over its whole range: the first bits of each number with what is next to it.
    fn every_single_goes_to_the_nearest<F: Quarter>() {
        let finite: Vec<(u8, f64)> = (0..0x7f).filter_map(|bits| Some((bits, value::<F>(bits)?))).collect();
        let (last, largest) = finite[finite.len() - 1];
        let too_large = largest + (largest - finite[finite.len() - 2].1) / 2.0;
        for bits in (0..f32::INFINITY.to_bits())
            .step_by(1 << 14)
            .flat_map(|bits| [bits, bits + 1, bits + (1 << 14) - 1])
        {
            let single = f64::from(f32::from_bits(bits));
            let above = finite.partition_point(|(_, value)| *value < single);
            let nearest = match above.checked_sub(1).map(|below| (finite[below], finite.get(above))) {
                None => 0,
                Some((_, None)) if single > too_large || (single == too_large && last % 2 == 1) => {
                    F::TOO_LARGE
                }
                Some((below, None)) => below.0,
                Some(((low, a), Some((high, b)))) => match (single - a).total_cmp(&(b - single)) {
                    core::cmp::Ordering::Equal => low + low % 2,
                    order if order.is_lt() => low,
                    _ => *high,
                },
            };
            assert_eq!(F::narrow(f32::from_bits(bits)), nearest, "{single:e}");
        }
    }

    #[test]
    fn every_single_goes_to_the_nearest_e4m3_and_e5m2() {
        every_single_goes_to_the_nearest::<E4M3>();
        every_single_goes_to_the_nearest::<E5M2>();
    }

    #[test]
    fn e4m3_is_as_the_specification_has_it() {
        hold::<E4M3>(448.0, 2.0_f64.powi(-9));
    }

    #[test]
    fn e5m2_is_as_the_specification_has_it() {
        hold::<E5M2>(57344.0, 2.0_f64.powi(-16));
    }

    #[test]
    fn what_is_too_large_is_a_nan_or_infinite() {
        for (large, e4m3, e5m2) in
            [(464.0, 0x7e, 0x5f), (465.0, 0x7f, 0x5f), (1e6, 0x7f, 0x7c), (f32::INFINITY, 0x7f, 0x7c)]
        {
            assert_eq!((E4M3::narrow(large), E5M2::narrow(large)), (e4m3, e5m2), "{large}");
        }
        assert_eq!((E4M3::narrow(-1e6), E5M2::narrow(-1e6)), (0x7f, 0xfc));
        assert_eq!((E4M3::narrow(-f32::NAN), E5M2::narrow(-f32::NAN)), (0x7f, 0x7e));
    }
}
