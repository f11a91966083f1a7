//! What the three payload kinds promise: the same regions, views and writes, and reductions that agree.

use proptest::prelude::*;
use quincunx_collective::{
    BlockQuantization, CodeType, DataType, LengthOnly, Numbers, Payload, Provenance, Quantized, Rank,
    ReduceOp, Reduction, Without, exact, noise, pattern, reduce_without,
};

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// A type that has a smaller and a larger.
fn number() -> impl Strategy<Value = DataType> {
    let numbers = DataType::ALL.into_iter().filter(|data_type| data_type.block_format().is_none());
    proptest::sample::select(numbers.collect::<Vec<_>>())
}

fn reduction() -> impl Strategy<Value = Reduction> {
    proptest::sample::select(Reduction::all().collect::<Vec<_>>())
}

fn combined(a: &Numbers, b: &Numbers, reduction: Reduction) -> Numbers {
    let mut result = a.clone();
    result.reduce(0, b.view(0..b.length()), reduction);
    result
}

fn f32s(values: &[f32]) -> Numbers {
    Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn halves(values: &[u16]) -> Numbers {
    Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

/// Cuts a piece out of `source`, writes it into a zeroed region, cuts that piece out of a copy, and checks that it is
/// the same; in units of four bytes, which all kinds can be cut at.
fn cut_and_write<P: Payload>(source: &P, from: usize, length: usize, to: usize) {
    let piece = source.view(from..from + length);
    assert_eq!(P::view_length(piece), length);
    let mut target = P::zeroed(to + length);
    target.write(to, piece);
    assert_eq!(target.length(), to + length);
    let whole = P::from_view(target.view(0..to + length));
    assert_eq!(whole, target);
    let again = P::subview(whole.view(0..to + length), to..to + length);
    assert_eq!(P::from_view(again), P::from_view(piece));
    assert_eq!(P::from_view(whole.view(0..to)), P::zeroed(to));
}

proptest! {
    #[test]
    fn every_kind_gives_back_what_was_written(from in 0usize..8, length in 0usize..33, to in 0usize..8) {
        let (from, to) = (4 * from, 4 * to);
        cut_and_write(&pattern(Rank(1), 64, DataType::F32), from, length, to);
        cut_and_write(&Provenance::of_rank(Rank(1), 64), from, length, to);
        cut_and_write(&LengthOnly::new(64), from, length, to);
    }

    #[test]
    fn numbers_can_be_cut_at_any_byte(from in 0usize..32, length in 0usize..33, to in 0usize..32) {
        cut_and_write(&noise(5, 64, DataType::I32), from, length, to);
    }

    #[test]
    fn reduction_of_whole_numbers_is_associative_and_commutative(
        reduction in reduction(), ranks in proptest::array::uniform3(0u16..64), elements in 0usize..70,
    ) {
        let [a, b, c] = ranks.map(|rank| exact(Rank(rank), elements * reduction.data_type.size(), reduction));
        let left = combined(&combined(&a, &b, reduction), &c, reduction);
        let right = combined(&a, &combined(&c, &b, reduction), reduction);
        prop_assert_eq!(left, right);
    }

    #[test]
    fn min_and_max_of_any_bits_are_associative_and_commutative(
        max in any::<bool>(), data_type in number(), bytes in proptest::array::uniform3(any::<[u8; 64]>()),
    ) {
        let reduction = Reduction { op: if max { ReduceOp::Max } else { ReduceOp::Min }, data_type };
        let [a, b, c] = bytes.map(|bytes| Numbers::from(bytes.to_vec()));
        let left = combined(&combined(&a, &b, reduction), &c, reduction);
        let right = combined(&a, &combined(&c, &b, reduction), reduction);
        prop_assert_eq!(left, right);
    }

    #[test]
    fn a_reduction_of_any_bits_is_commutative(reduction in reduction(), bytes in proptest::array::uniform2(any::<[u8; 64]>())) {
        let times = reduction.data_type.size().div_ceil(64);
        let [a, b] = bytes.map(|bytes| Numbers::from(bytes.repeat(times)));
        prop_assert_eq!(combined(&a, &b, reduction), combined(&b, &a, reduction));
    }

    /// Whatever vectors a processor has, for lengths that they divide and others.
    #[test]
    fn every_processor_gives_the_same_bits(reduction in reduction(), bytes in proptest::array::uniform2(any::<[u8; 256]>()), elements in 1..100_usize) {
        let size = reduction.data_type.size();
        let length = if size < 8 { elements * size } else { size };
        let [a, b] = bytes.map(|bytes| bytes.repeat(4)[..length].to_vec());
        let expected = combined(&Numbers::from(a.clone()), &Numbers::from(b.clone()), reduction).into_bytes();
        for without in [Without::Avx512, Without::Avx2] {
            let mut found = a.clone();
            reduce_without(without, &mut found, &b, reduction);
            prop_assert_eq!(&found, &expected, "without {:?}", without);
        }
    }

    #[test]
    fn f32_is_combined_as_the_machine_does(a in any::<[f32; 9]>(), b in any::<[f32; 9]>()) {
        let (left, right) = (f32s(&a), f32s(&b));
        for (op, expected) in [
            (ReduceOp::Sum, std::array::from_fn(|i| a[i] + b[i])),
            (ReduceOp::Min, std::array::from_fn(|i| if a[i].total_cmp(&b[i]).is_lt() { a[i] } else { b[i] })),
            (ReduceOp::Max, std::array::from_fn(|i| if a[i].total_cmp(&b[i]).is_gt() { a[i] } else { b[i] })),
        ] {
            let expected: [f32; 9] = expected;
            let expected = expected.map(|value| if value.is_nan() { f32::NAN } else { value });
            prop_assert_eq!(combined(&left, &right, Reduction { op, data_type: DataType::F32 }), f32s(&expected));
        }
    }

    #[test]
    fn f64_is_combined_as_the_machine_does(a in any::<[f64; 5]>(), b in any::<[f64; 5]>()) {
        let vector = |values: &[f64; 5]| Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
        for (op, expected) in [
            (ReduceOp::Sum, std::array::from_fn(|i| a[i] + b[i])),
            (ReduceOp::Product, std::array::from_fn(|i| a[i] * b[i])),
            (ReduceOp::Min, std::array::from_fn(|i| if a[i].total_cmp(&b[i]).is_lt() { a[i] } else { b[i] })),
            (ReduceOp::Max, std::array::from_fn(|i| if a[i].total_cmp(&b[i]).is_gt() { a[i] } else { b[i] })),
        ] {
            let expected: [f64; 5] = expected;
            let nan = a.iter().zip(&b).map(|(a, b)| a.is_nan() || b.is_nan());
            let expected: Vec<f64> = expected.into_iter().zip(nan).map(|(value, nan)| if nan || value.is_nan() { f64::NAN } else { value }).collect();
            let reduction = Reduction { op, data_type: DataType::F64 };
            prop_assert_eq!(combined(&vector(&a), &vector(&b), reduction), vector(&expected.try_into().unwrap()));
        }
    }

    #[test]
    fn integers_wrap_and_order_as_the_machine_has_them(a in any::<u64>(), b in any::<u64>()) {
        use ReduceOp::{BitAnd, BitOr, BitXor, Max, Min, Product, Sum};
        let both = |reduction| {
            let [a, b] = [a, b].map(|word| Numbers::from(word.to_le_bytes().to_vec()));
            u64::from_le_bytes(combined(&a, &b, reduction).bytes().try_into().unwrap())
        };
        macro_rules! hold {
            ($($data_type:ident $type:ty),*) => {$(
                const SIZE: usize = size_of::<$type>();
                let elements = |word: u64| {
                    word.to_le_bytes().as_chunks::<SIZE>().0.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).collect::<Vec<_>>()
                };
                for (op, one) in [
                    (Sum, <$type>::wrapping_add as fn($type, $type) -> $type), (Product, <$type>::wrapping_mul), (Min, <$type>::min),
                    (Max, <$type>::max), (BitAnd, |a, b| a & b), (BitOr, |a, b| a | b), (BitXor, |a, b| a ^ b),
                ] {
                    let expected: Vec<$type> = elements(a).into_iter().zip(elements(b)).map(|(a, b)| one(a, b)).collect();
                    let reduction = Reduction { op, data_type: DataType::$data_type };
                    prop_assert_eq!(elements(both(reduction)), expected, "{} of {}", op, stringify!($type));
                }
            )*};
        }
        {hold!(I64 i64);}
        {hold!(U64 u64);}
        {hold!(I32 i32);}
        {hold!(U32 u32);}
        {hold!(I16 i16);}
        {hold!(I8 i8);}
        {hold!(U8 u8);}
    }

    #[test]
    fn half_precision_is_combined_in_f32_and_rounded_back(a in any::<[u16; 9]>(), b in any::<[u16; 9]>()) {
        use half::{bf16, f16};
        let f16_sum = std::array::from_fn::<u16, 9, _>(|i| {
            let sum = f16::from_f32(f16::from_bits(a[i]).to_f32() + f16::from_bits(b[i]).to_f32());
            if sum.is_nan() { 0x7e00 } else { sum.to_bits() }
        });
        let bf16_sum = std::array::from_fn::<u16, 9, _>(|i| {
            let sum = bf16::from_f32(bf16::from_bits(a[i]).to_f32() + bf16::from_bits(b[i]).to_f32());
            if sum.is_nan() { 0x7fc0 } else { sum.to_bits() }
        });
        let f16_max = std::array::from_fn::<u16, 9, _>(|i| {
            let (a, b) = (f16::from_bits(a[i]), f16::from_bits(b[i]));
            let max = if a.total_cmp(&b).is_gt() { a } else { b };
            if a.is_nan() || b.is_nan() { 0x7e00 } else { max.to_bits() }
        });
        let f16_product = std::array::from_fn::<u16, 9, _>(|i| {
            let product = f16::from_f32(f16::from_bits(a[i]).to_f32() * f16::from_bits(b[i]).to_f32());
            if product.is_nan() { 0x7e00 } else { product.to_bits() }
        });
        let bf16_product = std::array::from_fn::<u16, 9, _>(|i| {
            let product = bf16::from_f32(bf16::from_bits(a[i]).to_f32() * bf16::from_bits(b[i]).to_f32());
            if product.is_nan() { 0x7fc0 } else { product.to_bits() }
        });
        let bf16_min = std::array::from_fn::<u16, 9, _>(|i| {
            let (a, b) = (bf16::from_bits(a[i]), bf16::from_bits(b[i]));
            let min = if a.total_cmp(&b).is_lt() { a } else { b };
            if a.is_nan() || b.is_nan() { 0x7fc0 } else { min.to_bits() }
        });
        for (op, data_type, expected) in [
            (ReduceOp::Sum, DataType::F16, f16_sum),
            (ReduceOp::Sum, DataType::Bf16, bf16_sum),
            (ReduceOp::Product, DataType::F16, f16_product),
            (ReduceOp::Product, DataType::Bf16, bf16_product),
            (ReduceOp::Max, DataType::F16, f16_max),
            (ReduceOp::Min, DataType::Bf16, bf16_min),
        ] {
            prop_assert_eq!(combined(&halves(&a), &halves(&b), Reduction { op, data_type }), halves(&expected));
        }
    }

    #[test]
    fn provenance_counts_as_a_sum_of_numbers_does(
        steps in proptest::collection::vec((0u16..16, 0usize..8, 0usize..9), 0..40),
    ) {
        // One i32 vector a rank, in which a contribution is a one, does the same sums.
        let mut counts = Provenance::zeroed(32);
        let mut numbers: Vec<Numbers> = (0..16).map(|_| Numbers::zeroed(32)).collect();
        let one = Numbers::from(1i32.to_le_bytes().repeat(8));
        for (rank, offset, length) in steps {
            let (offset, length) = (4 * offset, 4 * length.min(8 - offset));
            let own = Provenance::of_rank(Rank(rank), 32);
            counts.reduce(offset, own.view(offset..offset + length), SUM);
            let wrapping = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
            numbers[usize::from(rank)].reduce(offset, one.view(0..length), wrapping);
        }
        for rank in 0..16 {
            for element in 0..8 {
                let bytes = &numbers[usize::from(rank)].bytes()[4 * element..][..4];
                let number = i32::from_le_bytes(bytes.try_into().unwrap());
                prop_assert_eq!(i32::from(counts.count(4 * element, Rank(rank))), number.min(15));
            }
        }
    }

    #[test]
    fn provenance_is_the_same_in_whatever_order_it_is_added_up_and_another_if_anything_else_is_in_it(
        (parts, shuffled) in proptest::collection::vec((0u16..16, 0usize..4), 1..12)
            .prop_flat_map(|parts| (Just(parts.clone()), Just(parts).prop_shuffle())),
        cut in 0usize..12,
        instead in (0u16..16, 0usize..4),
    ) {
        let sum = |parts: &[(u16, usize)]| {
            let mut sum = Provenance::zeroed(4);
            for &(rank, number) in parts {
                let own = Provenance::of_rank(Rank(rank), 4).moved(number);
                sum.reduce(0, own.view(0..4), SUM);
            }
            sum
        };
        let (left, right) = shuffled.split_at(cut.min(shuffled.len()));
        let mut halves = sum(left);
        halves.reduce(0, sum(right).view(0..4), SUM);
        prop_assert_eq!(&halves, &sum(&parts));
        let of_number = |number: usize| parts.iter().filter(|part| part.1 == number).count();
        let strangers = parts.len() - (0..4).map(of_number).max().unwrap();
        prop_assert_eq!(sum(&parts).to_string().as_str() == "[many]", strangers > 3);
        let mut other = parts.clone();
        other[0] = instead;
        if strangers <= 3 && instead != parts[0] {
            prop_assert_ne!(sum(&other), sum(&parts));
        }
    }

    #[test]
    fn provenance_is_renamed_as_its_ranks_are(
        parts in proptest::collection::vec((0u16..8, 0usize..3), 1..6),
        names in Just((0u16..8).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let sum = |name: &dyn Fn(u16) -> u16| {
            let mut sum = Provenance::zeroed(4);
            for &(rank, number) in &parts {
                sum.reduce(0, Provenance::of_rank(Rank(name(rank)), 4).moved(number).view(0..4), SUM);
            }
            sum
        };
        let rename = |rank: u16| names[usize::from(rank)];
        prop_assert_eq!(sum(&|rank| rank).renamed(8, |rank| Rank(rename(rank.0))), sum(&rename));
    }
}

#[test]
fn provenance_reads_as_numbers_with_their_ranks() {
    let mut sum = Provenance::of_all(3, 12);
    sum.reduce(4, Provenance::of_rank(Rank(2), 4).moved(1).view(0..4), SUM);
    sum.reduce(8, Provenance::of_rank(Rank(4), 4).moved(7).view(0..4), SUM);
    assert_eq!(sum.to_string(), "[0:0+1+2 1:0+1+2x2 2:0+1+2,7:4]");
    assert_eq!([sum.number(0), sum.number(4), sum.number(8)], [Some(0), Some(1), None]);
    assert_eq!([sum.count(8, Rank(4)), sum.count(8, Rank(3))], [1, 0]);
    assert_eq!(Provenance::zeroed(4).to_string(), "[-]");
}

#[test]
fn a_counter_stops_at_fifteen_and_leaves_its_neighbours_alone() {
    let mut counts = Provenance::of_all(16, 4);
    for _ in 0..20 {
        counts.reduce(0, Provenance::of_rank(Rank(7), 4).view(0..4), SUM);
    }
    let found: Vec<u8> = (0..16).map(|rank| counts.count(0, Rank(rank))).collect();
    assert_eq!(found, [1, 1, 1, 1, 1, 1, 1, 15, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn provenance_keeps_a_length_that_is_no_multiple_of_four() {
    let region = Provenance::of_rank(Rank(3), 6);
    assert_eq!(region.length(), 6);
    assert_eq!(region.count(5, Rank(3)), 1);
    assert_eq!(Provenance::view_length(region.view(4..6)), 2);
}

#[test]
fn a_nan_on_either_side_is_the_result_of_min_and_max() {
    let (nan, one) = (f32s(&[f32::from_bits(0xffab_cdef)]), f32s(&[1.0]));
    for op in [ReduceOp::Min, ReduceOp::Max] {
        let reduction = Reduction { op, data_type: DataType::F32 };
        assert_eq!(combined(&nan, &one, reduction), f32s(&[f32::NAN]));
        assert_eq!(combined(&one, &nan, reduction), f32s(&[f32::NAN]));
    }
}

#[test]
fn minus_zero_is_less_than_zero() {
    let (minus, plus) = (f32s(&[-0.0]), f32s(&[0.0]));
    let min = Reduction { op: ReduceOp::Min, data_type: DataType::F32 };
    let max = Reduction { op: ReduceOp::Max, data_type: DataType::F32 };
    assert_eq!(combined(&plus, &minus, min), minus);
    assert_eq!(combined(&minus, &plus, max), plus);
}

#[test]
#[should_panic(expected = "not whole elements")]
fn half_an_element_cannot_be_reduced() {
    Numbers::zeroed(8).reduce(0, &[0; 6], SUM);
}

#[test]
#[should_panic(expected = "within an element")]
fn provenance_cannot_be_cut_within_an_element() {
    Provenance::zeroed(8).view(2..6);
}

#[test]
#[should_panic(expected = "3 bytes at 6")]
fn lengths_are_checked_like_numbers() {
    LengthOnly::new(8).write(6, LengthOnly::new(3));
}

/// Quantises and dequantises, and says how long codes and scales are.
fn there_and_back<P: Payload>(quantization: BlockQuantization, vector: &P) -> (P, usize, usize) {
    let Quantized { codes, scales } = P::quantize(quantization, vector.view(0..vector.length()));
    let (code_bytes, scale_bytes) = (codes.length(), scales.length());
    let quantized = Quantized { codes: codes.view(0..code_bytes), scales: scales.view(0..scale_bytes) };
    (P::dequantize(quantization, vector.length() / 4, quantized), code_bytes, scale_bytes)
}

proptest! {
    #[test]
    fn every_kind_is_quantised_to_the_same_lengths_and_back(values in 0usize..700, int4 in any::<bool>()) {
        let code = if int4 { CodeType::Int4 } else { CodeType::Int8 };
        let quantization = BlockQuantization::new(code, 64).unwrap();
        let (numbers, codes, scales) = there_and_back(quantization, &pattern(Rank(1), 4 * values, DataType::F32));
        prop_assert_eq!((codes, scales), (quantization.code_bytes(values), quantization.scale_bytes(values)));
        prop_assert_eq!(numbers.length(), 4 * values);
        let lengths = LengthOnly::new(4 * values);
        prop_assert_eq!(there_and_back(quantization, &lengths), (lengths, codes, scales));
        let counts = Provenance::of_rank(Rank(1), 4 * values);
        prop_assert_eq!(there_and_back(quantization, &counts), (counts.clone(), codes, scales));
    }
}

/// Elements of an 8-bit type.
fn quarters(bits: &[u8]) -> Numbers {
    Numbers::from(bits.to_vec())
}

#[test]
fn eight_bits_of_floating_point_are_combined_in_f32_and_rounded_back() {
    // 448 is the largest of E4M3, 57344 of E5M2; 0x38 and 0x3c are one.
    for (data_type, op, a, b, expected) in [
        (DataType::F8E4M3, ReduceOp::Sum, 0x38, 0x38, 0x40),
        (DataType::F8E4M3, ReduceOp::Sum, 0x7e, 0x58, 0x7e),
        (DataType::F8E4M3, ReduceOp::Sum, 0x7e, 0x7e, 0x7f),
        (DataType::F8E4M3, ReduceOp::Product, 0x40, 0xc4, 0xcc),
        (DataType::F8E4M3, ReduceOp::Min, 0x00, 0x80, 0x80),
        (DataType::F8E4M3, ReduceOp::Max, 0xff, 0x7e, 0x7f),
        (DataType::F8E5M2, ReduceOp::Sum, 0x3c, 0x3c, 0x40),
        (DataType::F8E5M2, ReduceOp::Sum, 0x7b, 0x7b, 0x7c),
        (DataType::F8E5M2, ReduceOp::Sum, 0x7c, 0xfc, 0x7e),
        (DataType::F8E5M2, ReduceOp::Max, 0x80, 0x00, 0x00),
        (DataType::F8E5M2, ReduceOp::Min, 0xfc, 0x01, 0xfc),
    ] {
        let found = combined(&quarters(&[a]), &quarters(&[b]), Reduction { op, data_type });
        assert_eq!(found, quarters(&[expected]), "{op} of {data_type}: {a:#04x}, {b:#04x}");
    }
}

#[test]
fn an_average_divides_a_sum_towards_zero_or_as_the_type_rounds() {
    let divided = |bytes: &[u8], by, data_type| {
        let mut numbers = Numbers::from(bytes.to_vec());
        numbers.divide(by, data_type);
        numbers.into_bytes()
    };
    assert_eq!(divided(&7_i32.to_le_bytes(), 2, DataType::I32), 3_i32.to_le_bytes());
    assert_eq!(divided(&(-7_i64).to_le_bytes(), 2, DataType::I64), (-3_i64).to_le_bytes());
    assert_eq!(divided(&[0x80, 7], 300, DataType::I8), [0, 0]);
    assert_eq!(divided(&[255, 7], 300, DataType::U8), [0, 0]);
    assert_eq!(divided(&1_f32.to_le_bytes(), 3, DataType::F32), (1_f32 / 3.0).to_le_bytes());
    assert_eq!(divided(&1_f64.to_le_bytes(), 3, DataType::F64), (1_f64 / 3.0).to_le_bytes());
    let third = half::f16::from_f32(1.0 / 3.0).to_le_bytes();
    assert_eq!(divided(&half::f16::ONE.to_le_bytes(), 3, DataType::F16), third);
    assert_eq!(divided(&[0x44], 2, DataType::F8E4M3), [0x3c]);
}

proptest! {
    /// A reciprocal rounds twice, and a shift rounds down: neither is a division.
    #[test]
    fn an_average_is_the_quotient_of_every_type(bits in any::<u64>(), by in 1..=300_u16) {
        let divided = |size: usize, data_type| {
            let mut numbers = Numbers::from(bits.to_le_bytes()[..size].to_vec());
            numbers.divide(by, data_type);
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&numbers.into_bytes());
            u64::from_le_bytes(bytes)
        };
        let wide = i128::from(by);
        for (size, signed, unsigned) in [
            (1, DataType::I8, DataType::U8),
            (4, DataType::I32, DataType::U32),
            (8, DataType::I64, DataType::U64),
        ] {
            let (kept, away) = (u64::MAX >> (64 - 8 * size), 64 - 8 * size);
            let number = i128::from((bits << away) as i64 >> away);
            prop_assert_eq!(divided(size, signed), (number / wide) as u64 & kept);
            prop_assert_eq!(divided(size, unsigned), (i128::from(bits & kept) / wide) as u64);
        }
        let (single, double) = (f32::from_bits(bits as u32), f64::from_bits(bits));
        let quotient = f32::from_bits(divided(4, DataType::F32) as u32);
        prop_assert!(quotient == single / f32::from(by) || quotient.is_nan() && single.is_nan());
        let quotient = f64::from_bits(divided(8, DataType::F64));
        prop_assert!(quotient == double / f64::from(by) || quotient.is_nan() && double.is_nan());
        let half = half::f16::from_bits(bits as u16).to_f32();
        let quotient = half::f16::from_bits(divided(2, DataType::F16) as u16);
        prop_assert!(quotient == half::f16::from_f32(half / f32::from(by)) || quotient.is_nan() && half.is_nan());
    }
}

#[test]
fn a_clone_stays_as_it_was_when_the_other_one_is_written_to() {
    let kept = Numbers::from(vec![1, 2, 3, 4]);
    let mut changed = kept.clone();
    changed.write(1, &[9, 9]);
    changed.bytes_mut()[3] = 7;
    let mut summed = kept.clone();
    summed.reduce(0, &[1, 0, 0, 0], Reduction { op: ReduceOp::Sum, data_type: DataType::I32 });
    assert_eq!([kept, changed, summed].map(Numbers::into_bytes), [[1, 2, 3, 4], [1, 9, 9, 7], [2, 2, 3, 4]]);
}

proptest! {
    #[test]
    fn what_is_moved_and_combined_within_a_region_is_what_a_copy_would_be(
        bytes in prop::collection::vec(any::<u8>(), 64),
        (from, to, length) in (0..=16_usize, 0..=16_usize, 0..=16_usize),
    ) {
        let (from, to) = (from.min(16 - length) * 4, to.min(16 - length) * 4);
        let (source, length) = (from..from + 4 * length, 4 * length);
        let whole = Numbers::from(bytes);
        let copy = Numbers::from_view(whole.view(source.clone()));
        let (mut moved, mut expected) = (whole.clone(), whole.clone());
        moved.copy_within(to, source.clone());
        expected.write(to, copy.view(0..length));
        prop_assert_eq!(moved, expected);
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
        if to + length <= from || from + length <= to {
            let (mut combined, mut expected) = (whole.clone(), whole);
            combined.reduce_within(to, source, reduction);
            expected.reduce(to, copy.view(0..length), reduction);
            prop_assert_eq!(combined, expected);
        }
    }
}

#[test]
#[should_panic(expected = "0..8 into 4..12")]
fn what_overlaps_is_not_combined() {
    Numbers::zeroed(16).reduce_within(4, 0..8, SUM);
}

#[test]
fn a_region_that_is_lengthened_keeps_what_it_has_and_is_never_shortened() {
    fn lengthened<P: Payload>(region: &P, length: usize) -> P {
        let mut longer = region.clone();
        longer.lengthen(length);
        longer
    }
    let numbers = Numbers::from(vec![1, 2, 3, 4]);
    assert_eq!(lengthened(&numbers, 8), Numbers::from(vec![1, 2, 3, 4, 0, 0, 0, 0]));
    assert_eq!(lengthened(&numbers, 2), numbers);
    assert_eq!(lengthened(&LengthOnly::new(4), 8), LengthOnly::new(8));
    let own = Provenance::of_rank(Rank(1), 8);
    let longer = lengthened(&own, 16);
    assert_eq!(Provenance::from_view(longer.view(0..8)), own);
    assert_eq!(Provenance::from_view(longer.view(8..16)), Provenance::zeroed(8));
}
