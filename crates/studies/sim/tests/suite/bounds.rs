//! No simulated time is below what its bytes allow; on a fabric that nobody else uses long vectors take little more than that; and a longer vector takes
//! no less time than a shorter one. Of all designs, so that none of those that are compared is better or worse than it can be.

use quincunx_collective::{Collective, Rank, SplitMix64};
use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_sim::memory_fabric::RunError;
use quincunx_sim::{MeasureError, Measurement, Outputs, ignore_progress, measure};

use crate::requests::{lengths, request, scenario};

const MIB: u64 = 1 << 20;

/// What a long vector may take over what its bytes take on a link, and bytes with frames and acknowledges over those of vectors.
const BOUND: f64 = 1.06;

/// The same of one tree of ranks: the first and the last pieces pass all levels up and down while links have nothing else to carry.
const TREE_BOUND: f64 = 1.1;

/// A run; none if the design says why there is none there.
fn run(on: &Scenario, design: &dyn AnyDesign, collective: Collective, size: u64) -> Option<Measurement> {
    match measure(
        &lengths(request(on, design.name(), collective, size)),
        Outputs::default(),
        &mut ignore_progress,
    ) {
        Ok(found) => Some(found),
        Err(error) if error.is_refusal() => None,
        // A size that does not split over the ranks.
        Err(MeasureError::Memory(RunError::Rejected(_))) => None,
        Err(error) => panic!("{} {collective} of {size} on {}: {error}", design.name(), on.place()),
    }
}

/// Bytes that cross some rank's own link one way at least, whoever computes: what a rank has and others need, or the other way round.
fn least_bytes(collective: Collective, ranks: u64, size: u64) -> u64 {
    match collective {
        Collective::ReduceScatter | Collective::AllGather => size - size / ranks,
        Collective::Barrier => 0,
        _ => size,
    }
}

/// How long so many bytes take on a rank's links.
fn seconds(on: &Scenario, bytes: f64) -> f64 {
    bytes * 8.0 / on.fabric.packet_link().unwrap().rate.bits_per_second() as f64
}

/// Designs, collectives, fabrics, links and sizes that a seed draws.
#[test]
fn no_time_is_below_what_bytes_over_the_wire_allow() {
    let shapes =
        ["star-2", "star-5", "star-8", "tree-3-2", "leaf-spine-2x2x4", "leaf-spine-4x1x3", "fat-tree-4"];
    let designs: Vec<_> = CATALOG.choices(FabricKind::Tree).collect();
    let mut random = SplitMix64::new(42);
    let mut draw = |count: usize| random.draw() as usize % count;
    let mut runs = 0;
    while runs < 60 {
        let design = designs[draw(designs.len())];
        let on =
            scenario(shapes[draw(shapes.len())], &[["link.rate=10Gbit/s", "link.rate=400Gbit/s"][draw(2)]]);
        let collective = Collective::PRIMITIVES[draw(Collective::PRIMITIVES.len())];
        let size = u64::from(on.ranks()) * 240 * [1, 30, 1_000, 5_000][draw(4)];
        if !design.about().offers(collective, FabricKind::Tree) {
            continue;
        }
        let Some(found) = run(&on, design, collective, size) else { continue };
        runs += 1;
        let case = format!("{} {collective} of {size} on {}", design.name(), on.place());
        let least = seconds(&on, least_bytes(collective, on.ranks().into(), size) as f64);
        assert!(found.time.as_secs_f64() >= least, "{case}: {} for {least}", found.time);
        for link in &found.links {
            assert!(link.utilisation <= 1.0 + 1e-9, "{case}: {} is busy for {}", link.name, link.utilisation);
        }
        let busiest = found.uplink.max(found.downlink).bytes() as f64;
        assert!(
            found.time.as_secs_f64() >= seconds(&on, busiest),
            "{case}: {busiest} bytes on a rank's link"
        );
    }
}

/// What a rank's link carries one way at most, in vectors, where designs are as good as their papers and textbooks have them.
fn vectors(design: &str, collective: Collective, ranks: f64) -> Option<f64> {
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let part = (ranks - 1.0) / ranks;
    Some(match (design, collective) {
        ("ring" | "direct" | "halving-doubling", AllReduce) => 2.0 * part,
        ("ring" | "direct", ReduceScatter | AllGather) => part,
        // All send to the root, or it to all.
        ("direct", Reduce { .. } | Broadcast { .. }) => ranks - 1.0,
        ("double-tree", AllReduce) => 2.0,
        // A rank with two children hears a vector of each and sends them one.
        ("tree", AllReduce) => 3.0,
        // A ReduceScatter is a Reduce to each rank, an AllGather a Broadcast from each: in its own turn a rank's link is free one way.
        (
            "epic-1" | "epic-2" | "epic-3",
            AllReduce | Reduce { .. } | Broadcast { .. } | ReduceScatter | AllGather,
        ) => 1.0,
        _ => return None,
    })
}

#[test]
fn long_vectors_take_what_their_bytes_take_on_a_fabric_that_nobody_else_uses() {
    let on = scenario("star-8", &["link.rate=400Gbit/s", "link.latency=500ns"]);
    let (size, mut runs) = (16 * MIB, 0);
    for design in CATALOG.choices(FabricKind::Tree) {
        for collective in Collective::PRIMITIVES {
            let Some(vectors) = vectors(design.name(), collective, 8.0) else { continue };
            runs += 1;
            let case = format!("{} {collective}", design.name());
            let found = run(&on, design, collective, size).unwrap_or_else(|| panic!("{case} runs"));
            let share = found.time.as_secs_f64() / seconds(&on, vectors * size as f64);
            let bound = match design.name() {
                "tree" => TREE_BOUND,
                _ => BOUND,
            };
            assert!(share < bound, "{case}: {share:.3} of {vectors} vectors");
            let least = seconds(&on, least_bytes(collective, 8, size) as f64);
            assert!(found.time.as_secs_f64() >= least, "{case}: {} for {least}", found.time);
        }
    }
    assert!(runs > 20, "{runs} of what there is have a bound");
}

#[test]
fn a_longer_vector_takes_no_less_time() {
    let of_kind = [
        ("star-8", FabricKind::Tree),
        ("leaf-spine-2x2x4", FabricKind::Tree),
        ("memory-4x2", FabricKind::Memory),
    ];
    for (shape, kind) in of_kind {
        let on = scenario(shape, &[]);
        for design in CATALOG.choices(kind) {
            for collective in Collective::PRIMITIVES.map(|collective| collective.with_root(Rank(1))) {
                if !design.about().offers(collective, kind) || collective == Collective::Barrier {
                    continue;
                }
                let mut last = None;
                for size in [1u64 << 10, 1 << 13, 1 << 16, 1 << 19] {
                    let time = run(&on, design, collective, size).map(|found| found.time);
                    assert!(
                        last <= time,
                        "{} {collective} of {size} on {shape}: {time:?} after {last:?}",
                        design.name()
                    );
                    last = time;
                }
            }
        }
    }
}
