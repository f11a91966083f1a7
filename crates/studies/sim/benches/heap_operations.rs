//! What a frame on a link costs in heap operations, whatever the machine's speed: `cargo bench -p quincunx-sim --bench heap_operations`,
//! with the names of designs behind `--` for some of them.
//!
//! The floor is a plain binary heap of 1,024 entries from which the first is taken and another one put in for it, as often as it can: what
//! any event queue has to do at least for an event. Floor and simulation take turns in one process, and each turn gives a ratio, so that
//! other work on the machine weighs on both alike; the median of the turns is printed.

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction, SplitMix64};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_sim::{Contents, Measurement, Outputs, Request, ignore_progress, measure};
use quincunx_units::ByteCount;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::hint::black_box;
use std::time::Instant;

const TURNS: usize = 7;
const PENDING: u32 = 1024;
const OPERATIONS: u32 = 2_000_000;

/// Fabric, design and collective, and the bytes of a rank's vector.
const CASES: [(&str, &str, Collective, u64); 9] = [
    ("scin-dgx8", "scin", Collective::AllReduce, 16 << 20),
    ("scin-dgx8", "nvls", Collective::AllReduce, 8 << 20),
    ("scin-dgx8", "cais", Collective::AllReduce, 8 << 20),
    ("epic-star8", "epic-2", Collective::AllReduce, 64 << 20),
    ("epic-star8", "epic-3", Collective::AllReduce, 64 << 20),
    ("leaf-spine-8x4x8", "ring", Collective::AllReduce, 16 << 20),
    ("star-128", "tree", Collective::AllReduce, 4 << 20),
    ("star-128", "direct", Collective::AllReduce, 4 << 20),
    ("mesh8", "multiwrite", Collective::AllGather, 16 << 20),
];

/// Nanoseconds of a heap operation, now.
fn floor() -> f64 {
    let mut random = SplitMix64::new(1);
    let mut draw = || random.draw() % 1_000_000;
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..PENDING).map(|entry| Reverse((draw(), entry))).collect();
    let start = Instant::now();
    for entry in 0..OPERATIONS {
        let Reverse((at, _)) = heap.pop().expect("the heap keeps its size");
        heap.push(Reverse((at + draw(), entry)));
    }
    black_box(heap);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn simulate(request: &Request) -> Measurement {
    measure(request, Outputs::default(), &mut ignore_progress).expect("a collective that ends")
}

fn main() {
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!(
        "| fabric, design, bytes | frames | steps | ns a frame | ns a heap operation | heap operations a frame |"
    );
    println!("|---|---|---|---|---|---|");
    for (fabric, design, collective, size) in CASES {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == design) {
            continue;
        }
        let scenario = Scenario::find(fabric, &[], CATALOG).expect("a fabric");
        let request = Request {
            design: scenario.design(CATALOG, design).expect("a design of the fabric"),
            scenario,
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            size: ByteCount::new(size),
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        };
        let Measurement { frames, steps, .. } = simulate(&request);
        let turn = |_| {
            let before = floor();
            let start = Instant::now();
            simulate(&request);
            let frame = start.elapsed().as_secs_f64() * 1e9 / frames as f64;
            (frame, (before + floor()) / 2.0)
        };
        let turns: Vec<(f64, f64)> = (0..TURNS).map(turn).collect();
        let of = |what: &dyn Fn(&(f64, f64)) -> f64| median(turns.iter().map(what).collect());
        println!(
            "| {fabric}, {design}, {size} | {frames} | {steps} | {:.1} | {:.1} | {:.2} |",
            of(&|turn| turn.0),
            of(&|turn| turn.1),
            of(&|turn| turn.0 / turn.1),
        );
    }
}
