//! Throughput of combining 4 KiB blocks, for each type and operation, beside a plain copy of such a block.

use criterion::{Criterion, Throughput};
use quincunx_collective::{DataType, Payload, ReduceOp, Reduction, noise};
use std::hint::black_box;

const BLOCK: usize = 4096;

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

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    blocks(&mut criterion);
    criterion.final_summary();
}
