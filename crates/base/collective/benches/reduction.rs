//! Throughput of combining 4 KiB blocks, for each type and operation, beside a plain copy of such a block, and of
//! quantising a wave of 4096 values, in bytes of binary32.
//!
//! Sums of floating-point numbers and of block formats are measured without some vector instructions, too, in the same run: `sum_4KiB/f16` is by all
//! that the processor has, `f16_without_avx512` and `f16_without_avx2` by what others have. On a processor without AVX-512 the first two are the same code.
//! `docs/measure.md` says what bounds them.

use criterion::{Criterion, Throughput};
use quincunx_collective::{
    BlockFormat, BlockQuantization, CodeType, DataType, Payload, ReduceOp, Reduction, Without, noise,
    reduce_without,
};
use std::hint::black_box;

const BLOCK: usize = 4096;
const WAVE: usize = 4096;

fn blocks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block_4KiB");
    group.throughput(Throughput::Bytes(BLOCK as u64));
    let source = noise(1, BLOCK, DataType::I32);
    let mut target = noise(2, BLOCK, DataType::I32);
    group.bench_function("copy", |bencher| {
        bencher.iter(|| black_box(&mut target).write(0, black_box(&source).view(0..BLOCK)));
    });
    for reduction @ Reduction { op, data_type } in Reduction::all() {
        let source = noise(1, BLOCK, data_type);
        let mut target = noise(2, BLOCK, data_type);
        group.bench_function(format!("{data_type}_{op}"), |bencher| {
            bencher.iter(|| {
                black_box(&mut target).reduce(0, black_box(&source).view(0..BLOCK), black_box(reduction));
            });
        });
    }
    group.finish();
}

/// Sums by one kind of vector instructions and by another.
fn sums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sum_4KiB");
    group.throughput(Throughput::Bytes(BLOCK as u64));
    let floats = [DataType::F32, DataType::Bf16, DataType::F16, DataType::F8E4M3, DataType::F8E5M2];
    for data_type in floats.into_iter().chain(BlockFormat::ALL.map(BlockFormat::data_type)) {
        let reduction = Reduction { op: ReduceOp::Sum, data_type };
        // Zero is added, so that they stay as they are: of any other number the sum would grow until it is infinite.
        let zeros = vec![0; BLOCK];
        let mut target = noise(2, BLOCK, data_type).into_bytes();
        group.bench_function(format!("{data_type}"), |bencher| {
            let mut target = noise(2, BLOCK, data_type);
            bencher.iter(|| black_box(&mut target).reduce(0, black_box(&zeros), black_box(reduction)));
        });
        for (name, without) in [("avx512", Without::Avx512), ("avx2", Without::Avx2)] {
            group.bench_function(format!("{data_type}_without_{name}"), |bencher| {
                bencher.iter(|| {
                    reduce_without(without, black_box(&mut target), black_box(&zeros), black_box(reduction))
                });
            });
        }
    }
    group.finish();
}

fn waves(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wave_4096");
    group.throughput(Throughput::Bytes(4 * WAVE as u64));
    let bytes = noise(1, 4 * WAVE, DataType::F32).into_bytes();
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    for code in CodeType::ALL {
        let quantization = BlockQuantization::new(code, 64).expect("a block size of the table");
        group.bench_function(format!("{code:?}_quantize"), |bencher| {
            bencher.iter(|| black_box(quantization).quantize(black_box(&values)));
        });
        let quantized = quantization.quantize(&values);
        group.bench_function(format!("{code:?}_dequantize"), |bencher| {
            bencher.iter(|| black_box(quantization).dequantize(black_box(&quantized), WAVE));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    blocks(&mut criterion);
    sums(&mut criterion);
    waves(&mut criterion);
    criterion.final_summary();
}
