//! What block quantization and the quantised AllReduces promise.

use proptest::prelude::*;
use quincunx_collective::{BlockQuantization, BlockSizeError, CodeType, DataType, Quantized, noise};

const BLOCKS: [usize; 5] = [32, 64, 128, 256, 512];
/// The smallest magnitude of a block whose scale is a normal binary16 number, whatever the code: 127 times 2^-14.
const NORMAL: f32 = 127.0 / 16384.0;

fn quantization(code: CodeType, block: usize) -> BlockQuantization {
    BlockQuantization::new(code, block).expect("a block size of the table")
}

fn int8() -> BlockQuantization {
    quantization(CodeType::Int8, 32)
}

fn int4() -> BlockQuantization {
    quantization(CodeType::Int4, 32)
}

fn any_quantization() -> impl Strategy<Value = BlockQuantization> {
    let code = proptest::sample::select(&CodeType::ALL[..]);
    (code, proptest::sample::select(&BLOCKS[..])).prop_map(|(code, block)| quantization(code, block))
}

/// Finite numbers of every magnitude that binary16 has, subnormal ones, ties and zeros among them.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => (-70_000.0f32..70_000.0, -30i32..1).prop_map(|(value, exponent)| value * 2f32.powi(exponent)),
        1 => (-254i32..=254).prop_map(|halves| halves as f32 / 2.0),
        1 => Just(0.0),
        1 => Just(-0.0),
    ]
}

fn vector(longest: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(value(), 0..=longest)
}

fn restored(quantization: BlockQuantization, values: &[f32]) -> Vec<f32> {
    quantization.dequantize(&quantization.quantize(values), values.len())
}

fn scales(quantized: &Quantized) -> Vec<f32> {
    let bits = quantized.scales.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    bits.map(|bits| half::f16::from_bits(bits).to_f32()).collect()
}

fn signed(codes: &[u8]) -> Vec<i8> {
    codes.iter().map(|code| *code as i8).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn noisy_ranks(ranks: u64, values: usize) -> Vec<Vec<f32>> {
    let vector = |seed| noise(seed, 4 * values, DataType::F32).into_bytes();
    let floats =
        |bytes: Vec<u8>| bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    (0..ranks).map(|seed| floats(vector(seed))).collect()
}

#[test]
fn a_wave_of_scin_is_4096_bytes_of_codes_and_128_of_scales() {
    assert_eq!(BlockQuantization::INT8_BY_64, quantization(CodeType::Int8, 64));
    let wave = BlockQuantization::INT8_BY_64.quantize(&[1.0; 4096]);
    assert_eq!((wave.codes.len(), wave.scales.len()), (4096, 128));
}

#[test]
fn the_largest_magnitude_gets_the_largest_code() {
    let quantized = int8().quantize(&[127.0, -3.0, 0.0, -127.0]);
    assert_eq!(scales(&quantized), [1.0]);
    assert_eq!(quantized.codes, [127, 253, 0, 129]);
    let quantized = int4().quantize(&[3.5, -3.5, 0.5]);
    assert_eq!(scales(&quantized), [0.5]);
    assert_eq!(quantized.codes, [0x97, 0x01]);
}

#[test]
fn ties_go_to_even_codes() {
    let quantized = int8().quantize(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5]);
    assert_eq!(signed(&quantized.codes), [127, 0, 2, 2, 0, -2, -2]);
}

#[test]
fn of_two_int4_codes_in_a_byte_the_first_is_the_lower() {
    let quantized = int4().quantize(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(quantized.codes, [0x21, 0x43, 0x65, 0x07]);
}

#[test]
fn a_scale_is_rounded_up_so_that_no_code_overflows() {
    // 1/7 lies between two binary16 numbers, the lower of which is nearer.
    let below = half::f16::from_f32(1.0 / 7.0);
    assert!(below.to_f32() < 1.0 / 7.0);
    let scale = half::f16::from_bits(below.to_bits() + 1).to_f32();
    assert_eq!(scales(&int4().quantize(&[1.0])), [scale]);
}

#[test]
fn a_block_of_zeros_has_scale_zero_and_stays_zero() {
    let quantized = int8().quantize(&[0.0, -0.0, 0.0]);
    assert_eq!(quantized, Quantized { codes: vec![0; 3], scales: vec![0; 2] });
    assert_eq!(bits(&int8().dequantize(&quantized, 3)), [0, 0, 0]);
}

#[test]
fn the_smallest_number_of_all_has_a_scale_too() {
    let tiny = f32::from_bits(1);
    assert_eq!(scales(&int8().quantize(&[tiny])), [2f32.powi(-24)]);
    assert_eq!(restored(int8(), &[tiny, -tiny]), [0.0, 0.0]);
}

#[test]
fn what_no_finite_scale_reaches_makes_its_block_nan_and_no_other() {
    let largest = 65504.0 * 127.0;
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, largest * 1.000_001, f32::from_bits(0xff80_0001)]
    {
        let mut values = [1.0; 96];
        values[40] = bad;
        let quantized = int8().quantize(&values);
        assert_eq!(quantized.codes[32..64], [0; 32]);
        assert_eq!(quantized.scales[2..4], 0x7e00u16.to_le_bytes());
        let restored = int8().dequantize(&quantized, values.len());
        assert_eq!(bits(&restored[32..64]), [f32::NAN.to_bits(); 32]);
        assert!(restored[..32].iter().chain(&restored[64..]).all(|value| (value - 1.0).abs() < 0.01));
    }
    assert_eq!(scales(&int8().quantize(&[largest])), [65504.0]);
}

#[test]
fn a_nan_of_one_rank_is_seen_by_all() {
    let mut inputs = noisy_ranks(3, 80);
    inputs[1][70] = f32::NAN;
    for sum in [int4().inq_all_reduce(&inputs), int4().rq_all_reduce(&inputs)] {
        assert_eq!(bits(&sum[64..]), [f32::NAN.to_bits(); 16]);
        assert!(sum[..64].iter().all(|value| value.is_finite()));
    }
}

#[test]
fn codes_and_scales_that_nobody_quantises_to_are_read_all_the_same() {
    let read = |code, codes: &[u8], scale: u16| {
        let quantized = Quantized { codes, scales: &scale.to_le_bytes()[..] };
        quantization(code, 32).dequantize(&quantized, 2)
    };
    assert_eq!(read(CodeType::Int8, &[0x80, 0x01], 0xbc00), [128.0, -1.0]);
    assert_eq!(read(CodeType::Int4, &[0x18], 0xbc00), [8.0, -1.0]);
    for scale in [0x7c00, 0xfc00, 0xffff] {
        assert_eq!(bits(&read(CodeType::Int8, &[0, 1], scale)), [f32::NAN.to_bits(); 2]);
    }
}

#[test]
fn only_the_block_sizes_of_the_table_are_taken() {
    for block in BLOCKS {
        assert_eq!(quantization(CodeType::Int4, block).block(), block);
    }
    let error = BlockQuantization::new(CodeType::Int8, 100).unwrap_err();
    assert_eq!(error, BlockSizeError(100));
    assert_eq!(error.to_string(), "expected a block of 32, 64, 128, 256 or 512 values, found 100");
}

#[test]
#[should_panic(expected = "bytes of codes and scales of 33 values")]
fn a_scale_that_is_not_there_is_not_made_up() {
    int8().dequantize(&Quantized { codes: vec![0; 33], scales: vec![0; 2] }, 33);
}

#[test]
fn one_rank_alone_has_its_own_vector_quantised() {
    let inputs = noisy_ranks(1, 100);
    assert_eq!(int4().rq_all_reduce(&inputs), restored(int4(), &inputs[0]));
    assert_eq!(int4().inq_all_reduce(&inputs), restored(int4(), &inputs[0]), "twice is as good as once");
}

#[test]
fn the_switch_adds_in_rank_order_and_quantises_once() {
    let inputs = noisy_ranks(8, 70);
    let mut sum = vec![0.0; 70];
    for input in &inputs {
        for (sum, value) in sum.iter_mut().zip(restored(int8(), input)) {
            *sum += value;
        }
    }
    assert_eq!(bits(&int8().inq_all_reduce(&inputs)), bits(&restored(int8(), &sum)));
}

#[test]
fn a_chunk_goes_round_the_ring_from_the_rank_of_its_number() {
    // Three blocks for three ranks. A seventh of the largest is a step: 0.4 is lost when it has to travel beside a 7.
    let rank =
        |values: [f32; 3]| values.map(|value| [[7.0, value], [7.0, value]]).concat().concat().repeat(8);
    let step = |values: &mut [f32]| {
        let scale = half::f16::from_f32(values[0] / 7.0);
        assert!(scale.to_f32() * 7.0 == values[0], "made of exact scales");
        values[1] = (values[1] / scale.to_f32()).round_ties_even() * scale.to_f32();
    };
    let inputs = [rank([0.4, 1.0, 3.0]), rank([1.0, 3.0, 0.4]), rank([3.0, 0.4, 1.0])];
    let sum = int4().rq_all_reduce(&inputs);
    for chunk in 0..3 {
        let at = |rank: usize| [7.0, inputs[rank % 3][32 * chunk + 1]];
        let mut expected = at(chunk);
        for hop in 1..3 {
            step(&mut expected);
            expected = std::array::from_fn(|index| expected[index] + at(chunk + hop)[index]);
        }
        step(&mut expected);
        assert_eq!(sum[32 * chunk..][..2], expected, "chunk {chunk}");
    }
}

#[test]
fn quantising_once_in_the_network_is_closer_than_at_every_hop() {
    let inputs = noisy_ranks(8, 4096);
    let exact: Vec<f64> =
        (0..4096).map(|index| inputs.iter().map(|input| f64::from(input[index])).sum()).collect();
    for code in CodeType::ALL {
        for block in BLOCKS {
            let quantization = quantization(code, block);
            let error = |sum: Vec<f32>| -> f64 {
                sum.iter().zip(&exact).map(|(sum, exact)| (f64::from(*sum) - exact).powi(2)).sum()
            };
            let inq = error(quantization.inq_all_reduce(&inputs));
            let rq = error(quantization.rq_all_reduce(&inputs));
            assert!(inq < rq, "{quantization:?}: squared errors {inq} and {rq}");
        }
    }
}

proptest! {
    #[test]
    fn an_error_is_at_most_half_a_scale(quantization in any_quantization(), values in vector(600)) {
        let quantized = quantization.quantize(&values);
        let scales = scales(&quantized);
        let restored = quantization.dequantize(&quantized, values.len());
        for (index, (value, restored)) in values.iter().zip(restored).enumerate() {
            // Both differ by few enough digits for binary64 to subtract them exactly.
            let error = (f64::from(*value) - f64::from(restored)).abs();
            prop_assert!(error <= f64::from(scales[index / quantization.block()]) / 2.0, "{value} became {restored}");
        }
    }

    #[test]
    fn a_code_is_the_nearest_whole_number_ties_to_even(values in vector(64), block in 0usize..2) {
        let quantization = quantization(CodeType::Int8, BLOCKS[block]);
        let quantized = quantization.quantize(&values);
        let scales = scales(&quantized);
        for (index, (value, code)) in values.iter().zip(signed(&quantized.codes)).enumerate() {
            let scale = f64::from(scales[index / quantization.block()]);
            let exact = if scale == 0.0 { 0.0 } else { f64::from(*value) / scale };
            prop_assert_eq!(f64::from(code), exact.round_ties_even());
        }
    }

    #[test]
    fn a_scale_is_the_smallest_that_reaches_the_largest_magnitude(
        quantization in any_quantization(), value in value(),
    ) {
        let largest = f32::from(quantization.code().largest());
        let scale = scales(&quantization.quantize(&[value]))[0];
        prop_assert!(scale * largest >= value.abs());
        let smaller = half::f16::from_bits(half::f16::from_f32(scale).to_bits().wrapping_sub(1)).to_f32();
        prop_assert!(scale == 0.0 || smaller * largest < value.abs());
    }

    #[test]
    fn what_is_quantised_already_stays_as_it_is(quantization in any_quantization(), mut values in vector(600)) {
        // Below, the digits of a subnormal scale are too few for the largest magnitude to get the largest code again.
        values.iter_mut().step_by(quantization.block()).for_each(|value| *value += NORMAL.copysign(*value));
        let quantized = quantization.quantize(&values);
        let again = quantization.quantize(&quantization.dequantize(&quantized, values.len()));
        prop_assert_eq!(again, quantized);
    }

    #[test]
    fn lengths_are_whole_codes_and_a_scale_for_each_block_begun(
        quantization in any_quantization(), values in vector(600),
    ) {
        let quantized = quantization.quantize(&values);
        let bytes = match quantization.code() { CodeType::Int8 => values.len(), CodeType::Int4 => values.len().div_ceil(2) };
        prop_assert_eq!(quantized.codes.len(), bytes);
        prop_assert_eq!(quantized.scales.len(), 2 * values.len().div_ceil(quantization.block()));
    }

    #[test]
    fn a_block_knows_nothing_of_its_neighbours(quantization in any_quantization(), values in vector(1100)) {
        let whole = restored(quantization, &values);
        let parts: Vec<f32> =
            values.chunks(quantization.block()).flat_map(|block| restored(quantization, block)).collect();
        prop_assert_eq!(bits(&whole), bits(&parts));
    }

    #[test]
    fn the_other_sign_of_a_vector_gives_the_other_sign_of_everything(values in vector(100)) {
        let turned: Vec<f32> = values.iter().map(|value| -value).collect();
        for quantization in [int8(), int4()] {
            let expected: Vec<f32> = restored(quantization, &values).iter().map(|value| 0.0 - value).collect();
            prop_assert_eq!(bits(&restored(quantization, &turned)), bits(&expected));
        }
    }

    #[test]
    fn int4_codes_read_back_as_they_were_packed(codes in proptest::collection::vec(-7i8..=7, 0..70)) {
        let values: Vec<f32> = codes.iter().map(|code| f32::from(*code)).collect();
        let packed: Vec<u8> = codes.chunks(2).map(|pair| match pair {
            [low, high] => *low as u8 & 15 | (*high as u8) << 4,
            [low] => *low as u8 & 15,
            _ => unreachable!("chunks of two"),
        }).collect();
        let scales = 1u16.to_le_bytes().repeat(codes.len().div_ceil(32)); // 2^-24
        let restored = int4().dequantize(&Quantized { codes: &packed, scales: &scales }, codes.len());
        prop_assert_eq!(restored, values.iter().map(|value| value * 2f32.powi(-24)).collect::<Vec<_>>());
    }

    #[test]
    fn a_quantised_sum_is_off_by_half_a_scale_for_each_quantisation(
        quantization in any_quantization(), values in 1usize..300, ranks in 1u64..6,
    ) {
        let inputs = noisy_ranks(ranks, values);
        let largest = f64::from(quantization.code().largest());
        // noise stays below 2^8: a scale is at most that over the largest code, and a binary16 digit more.
        let step = |summands: u64| summands as f64 * 256.0 / largest * (1.0 + 1.0 / 1024.0);
        // Each partial sum is off by what went into it, too: a bound for the largest magnitude, and so for the scale.
        let inq: f64 = ranks as f64 * step(1) / 2.0 + step(ranks + 1) / 2.0;
        let rq: f64 = (1..=ranks).map(|summands| step(2 * summands) / 2.0).sum();
        let sums = [(quantization.inq_all_reduce(&inputs), inq), (quantization.rq_all_reduce(&inputs), rq)];
        for (sum, bound) in sums {
            for index in 0..values {
                let exact: f64 = inputs.iter().map(|input| f64::from(input[index])).sum();
                prop_assert!((f64::from(sum[index]) - exact).abs() <= bound);
            }
        }
    }
}
