//! Throughput of combining 4 KiB blocks, for each type and operation, beside a plain copy of such a block, and of
//! quantising a wave of 4096 values, in bytes of binary32.

use criterion::{Criterion, Throughput};
use quincunx_collective::{BlockQuantization, CodeType, DataType, Payload, ReduceOp, Reduction, noise};
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
    for data_type in DataType::ALL {
        for op in ReduceOp::ALL {
            let reduction = Reduction { op, data_type };
            let source = noise(1, BLOCK, data_type);
            let mut target = noise(2, BLOCK, data_type);
            group.bench_function(format!("{data_type}_{op}"), |bencher| {
                bencher.iter(|| {
                    black_box(&mut target).reduce(0, black_box(&source).view(0..BLOCK), black_box(reduction));
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
    waves(&mut criterion);
    criterion.final_summary();
}
