//! How fast the packet fabric is simulated: AllReduce of 16 MiB over a star of eight in packets of 4 KiB, each acknowledged,
//! with the whole queue-pair engine on every host. The unit is a data packet from one host to another, or to the switch
//! that aggregates it; ACKs, results and hops are included in its cost.
#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_sim::packet_fabric::simulate;
use quincunx_sim::{Contents, Request};
use quincunx_units::ByteCount;

const SIZE: ByteCount = ByteCount::new(16 << 20);
const RANKS: u64 = 8;

fn all_reduce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("all_reduce_16MiB_star8");
    group.sample_size(20);
    // Hosts as on real networks.
    let changes =
        ["hosts.chunk=64KiB", "hosts.lockstep=false"].map(|change| change.parse().expect("a change"));
    let scenario = Scenario::find("epic-star8", &changes, CATALOG).expect("a preset");
    let vector = SIZE.pieces_of(scenario.packet);
    // Around the ring each rank sends 2(n-1)/n of the vector; to a switch, all of it.
    for (design, packets) in
        [("ring", 2 * (RANKS - 1) * vector), ("epic-2", RANKS * vector), ("epic-3", RANKS * vector)]
    {
        let request = Request {
            design: scenario.design(CATALOG, design).expect("a design"),
            scenario: scenario.clone(),
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            size: SIZE,
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        };
        group.throughput(Throughput::Elements(packets));
        group.bench_function(design, |bencher| {
            bencher.iter(|| simulate(&request).expect("a collective that ends"));
        });
    }
    group.finish();
}

criterion_group!(benches, all_reduce);
criterion_main!(benches);
