//! The event queue: take the first entry and put a later one in, which is what every step of a simulation does, at
//! several fill levels.
#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quincunx_collective::SplitMix64;
use quincunx_driver_des::EventQueue;
use quincunx_units::{Duration, Instant};
use std::hint::black_box;

const STEPS: u64 = 10_000;

fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hold");
    group.throughput(Throughput::Elements(STEPS));
    for entries in [16_u64, 256, 4096, 65_536] {
        let mut random = SplitMix64::new(entries);
        let mut queue = EventQueue::new();
        let mut sequence = 0;
        while sequence < entries {
            queue.push(Instant::from_picos(random.draw() >> 40), sequence, 0);
            sequence += 1;
        }
        let mut step = || {
            let (at, _, source) = queue.pop().expect("the queue never runs empty");
            let next = at + Duration::from_picos(random.draw() >> 40);
            sequence += 1;
            queue.push(next, sequence, source);
            black_box(at);
        };
        group.bench_function(format!("pop_push_{entries}"), |bencher| {
            bencher.iter(|| (0..STEPS).for_each(|_| step()));
        });
    }
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
