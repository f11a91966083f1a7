//! Sub-layers of tensor-parallel models: whatever the schedule, every contribution is added once and every row reaches all; and what may
//! overlap, and only that, does.

use proptest::prelude::*;
use quincunx_accelerator::{Schedule, SubLayer};
use quincunx_collective::{BlockQuantization, CodeType, LengthOnly, Numbers, Quantized};
use quincunx_design::Value;
use quincunx_designs::CATALOG;
use quincunx_driver_des::BusyOverTime;
use quincunx_scenario::{Fabric, Override, Scenario};
use quincunx_schedules::{ALL, find};
use quincunx_sim::ignore_progress;
use quincunx_sim::layer::{
    KernelSpan, LayerMeasurement, LayerOutcome, LayerRequest, LayerRun, PartMeasurement, measure_layer,
    run_filled, run_layer,
};
use quincunx_sim::memory_fabric::MemoryFabric;
use quincunx_units::Duration;
use quincunx_workload::SubLayer as TransformerSubLayer;

/// Two row blocks an accelerator, four tiles in each.
pub(crate) const LAYER: SubLayer =
    SubLayer { rows: 128, inner: 64, hidden: 64, columns: 32, backward: false };
pub(crate) const RANKS: u32 = 4;
/// Bytes of all row blocks.
const VECTOR: usize = 128 * 64 * 4;

const SMALL: [&str; 9] = [
    "accelerators=4",
    "switches=2",
    "machine.sms=4",
    "machine.communication_sms=2",
    "machine.element=4",
    "machine.tile_rows=16",
    "machine.tile_columns=16",
    "machine.tile_inner=16",
    "machine.tensor=1TFLOP/s",
];

pub(crate) fn scenario(set: &[&str]) -> Scenario {
    let changes = SMALL.iter().chain(set).map(|change| change.parse::<Override>().unwrap());
    Scenario::find("cais-dgx8", &changes.collect::<Vec<_>>(), CATALOG).unwrap()
}

pub(crate) fn with_run<T>(
    schedule: &'static dyn Schedule,
    scenario: &Scenario,
    layer: SubLayer,
    seed: u64,
    then: impl FnOnce(&LayerRun<'_>) -> T,
) -> T {
    let Fabric::Memory(fabric) = &scenario.fabric else { panic!("a memory fabric") };
    let unit = schedule.unit().map(|unit| {
        let design = scenario.design(CATALOG, unit.design).unwrap();
        let mut settings = scenario.settings(design).unwrap();
        for (key, value) in unit.set {
            let value = value.parse::<u64>().map_or_else(|_| Value::from(*value), Value::from);
            design.set(&mut settings, key, &value).unwrap();
        }
        (design, settings)
    });
    let fabric = MemoryFabric::from(fabric);
    then(&LayerRun { fabric: &fabric, setup: &scenario.machine, planes: 1, layer, schedule, unit, seed })
}

/// A number that says whose it is and where it lies.
fn partial(rank: u16, element: usize) -> f32 {
    (element % 1009) as f32 + f32::from(rank) * 2048.0
}

/// Elements of all row blocks.
const fn elements(layer: SubLayer) -> usize {
    layer.rows as usize * layer.hidden as usize
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// Runs over real numbers: partial sums everywhere, the rest zero.
fn run_numbers(name: &str, set: &[&str], seed: u64) -> LayerOutcome<Numbers> {
    run_numbers_of(name, set, LAYER, seed)
}

fn run_numbers_of(name: &str, set: &[&str], layer: SubLayer, seed: u64) -> LayerOutcome<Numbers> {
    run_numbers_by(find(name).unwrap(), set, layer, seed)
}

pub(crate) fn run_numbers_by(
    schedule: &'static dyn Schedule,
    set: &[&str],
    layer: SubLayer,
    seed: u64,
) -> LayerOutcome<Numbers> {
    let scenario = scenario(set);
    with_run(schedule, &scenario, layer, seed, |run| {
        let fill = |rank: u16, length: usize| {
            let mut bytes = vec![0; length];
            for element in 0..elements(layer) {
                bytes[element * 4..][..4].copy_from_slice(&partial(rank, element).to_le_bytes());
            }
            Some(Numbers::from(bytes))
        };
        run_filled(run, fill, &mut ignore_progress).unwrap()
    })
}

/// Sums and normalised rows of an accelerator.
fn sums_and_norms(memory: &Numbers, elements: usize) -> [Vec<f32>; 2] {
    let bytes = memory.clone().into_bytes();
    [1, 2].map(|vector| floats(&bytes[vector * elements * 4..][..elements * 4]))
}

/// Whether each accelerator has the sums of its own rows, and all of them the normalised rows of all.
fn assert_right(name: &str, outcome: &LayerOutcome<Numbers>) {
    assert_right_of(name, LAYER, outcome);
}

pub(crate) fn assert_right_of(name: &str, layer: SubLayer, outcome: &LayerOutcome<Numbers>) {
    assert_eq!(outcome.drops, 0, "{name} drops packets");
    assert_eq!(first_wrong(layer, outcome), None, "{name}");
}

/// The first element that is not the sum of all contributions: a sum at its home, or a row element anywhere.
pub(crate) fn first_wrong(layer: SubLayer, outcome: &LayerOutcome<Numbers>) -> Option<String> {
    let ranks = outcome.memories.len();
    let (elements, share) = (elements(layer), elements(layer) / ranks);
    let sum_of = |element| -> f32 { (0..ranks as u16).map(|rank| partial(rank, element)).sum() };
    for (rank, memory) in outcome.memories.iter().enumerate() {
        let [sums, norms] = sums_and_norms(memory, elements);
        for element in 0..elements {
            let wanted = sum_of(element);
            let (sum, norm) = (sums[element], norms[element]);
            if element / share == rank && sum != wanted {
                return Some(format!("sum {element} at its home {rank} is {sum} instead of {wanted}"));
            }
            // The normalisation of this machine takes its time and copies.
            if norm != wanted {
                return Some(format!("row element {element} at {rank} is {norm} instead of {wanted}"));
            }
        }
    }
    None
}

#[test]
fn every_schedule_adds_each_contribution_once_and_brings_each_row_to_all() {
    // LADM adds nothing up; quantised sums have a test of their own.
    for schedule in ALL.iter().filter(|schedule| !["ladm", "scin-inq"].contains(&schedule.name())) {
        assert_right(schedule.name(), &run_numbers(schedule.name(), &[], 1));
    }
}

#[test]
fn every_schedule_is_right_on_16_and_32_accelerators() {
    for ranks in [16, 32] {
        // A row block of each, of one tile.
        let layer = SubLayer { rows: 16 * ranks, inner: 16, hidden: 16, columns: 16, backward: false };
        let accelerators = format!("accelerators={ranks}");
        for schedule in ALL.iter().filter(|schedule| schedule.name() != "scin-inq") {
            let outcome = run_numbers_of(schedule.name(), &[&accelerators], layer, 1);
            assert_eq!(outcome.memories.len(), ranks as usize, "{}", schedule.name());
            if schedule.name() == "ladm" {
                assert_eq!(outcome.drops, 0);
            } else {
                assert_right_of(&format!("{} on {ranks}", schedule.name()), layer, &outcome);
            }
        }
    }
}

/// Runs over vectors quantised by `scheme`, and compares what all have with what its arithmetic gives.
fn assert_quantised_sums(scheme: BlockQuantization, set: &[&str], layer: SubLayer) {
    let values = elements(layer);
    let quantised = |rank: u16| scheme.quantize(&(0..values).map(|at| partial(rank, at)).collect::<Vec<_>>());
    let bytes = |vector: &Quantized| [vector.codes.as_slice(), &vector.scales].concat();
    let scenario = scenario(set);
    let outcome = with_run(find("scin-inq").unwrap(), &scenario, layer, 1, |run| {
        let fill = |rank: u16, length: usize| {
            let mut memory = bytes(&quantised(rank));
            memory.resize(length, 0);
            Some(Numbers::from(memory))
        };
        run_filled(run, fill, &mut ignore_progress).unwrap()
    });
    assert_eq!(outcome.drops, 0);
    let contributions: Vec<Quantized> = (0..outcome.memories.len() as u16).map(quantised).collect();
    let wanted = bytes(&scheme.sum(&contributions, values));
    assert_ne!(wanted, bytes(&contributions[0]), "a sum is none of its contributions");
    for (rank, memory) in outcome.memories.iter().enumerate() {
        let found = memory.clone().into_bytes();
        for (what, vector) in [("sums", 1), ("normalised rows", 2)] {
            assert!(found[vector * values * 4..].starts_with(&wanted), "{what} at {rank}");
        }
    }
}

#[test]
fn quantised_sums_are_those_of_the_reference_arithmetic_on_all_accelerators() {
    let scheme = BlockQuantization::INT8_BY_64;
    assert_quantised_sums(scheme, &[], LAYER);
    for (accelerators, rows) in [("accelerators=16", 256), ("accelerators=32", 512)] {
        assert_quantised_sums(
            scheme,
            &[accelerators],
            SubLayer { rows, inner: 16, hidden: 16, columns: 16, backward: false },
        );
    }
    let scheme = BlockQuantization::new(CodeType::Int4, 128).unwrap();
    assert_quantised_sums(scheme, &["quantization.bits=4", "quantization.block=128"], LAYER);
}

#[test]
fn quantised_vectors_take_half_of_the_links_that_whole_elements_take() {
    let set = ["machine.element=2"];
    let [whole, quantised] = ["scin", "scin-inq"].map(|name| {
        with_run(find(name).unwrap(), &scenario(&set), LAYER, 1, |run| {
            run_layer(run, &mut ignore_progress).unwrap()
        })
    });
    // Codes of one byte, and a scale factor of two for each 64 of them.
    let share = quantised.packets as f64 / whole.packets as f64;
    assert!((0.5..0.54).contains(&share), "{} of {} packets", quantised.packets, whole.packets);
}

#[test]
fn codes_that_do_not_fit_where_elements_would_be_are_refused_in_a_line() {
    let error = with_run(find("scin-inq").unwrap(), &scenario(&["machine.element=1"]), LAYER, 1, |run| {
        run_layer(run, &mut ignore_progress).unwrap_err().to_string()
    });
    assert!(error.contains("in the room of its elements") && !error.contains('\n'), "{error}");
}

#[test]
fn a_merging_table_of_one_entry_loses_and_doubles_nothing() {
    for name in ["cais", "cais-uncoordinated", "cais-base"] {
        let outcome = run_numbers(name, &["merge.entries=1", "merge.timeout=1us"], 1);
        assert_right(name, &outcome);
        let [evicted, bypassed] = ["evicted", "bypassed"].map(|name| outcome.counted[name].0);
        assert!(evicted > 0 && bypassed > 0, "{name}: {evicted} evicted, {bypassed} went past the unit");
    }
}

#[test]
fn an_l2_without_room_reads_rows_again_and_brings_the_same() {
    // Two blocks at a time: what four columns of a row block read is read twice.
    let layer = SubLayer { columns: 64, ..LAYER };
    let one = ["machine.sms=2", "machine.communication_sms=1", "machine.blocks_per_sm=1"];
    let whole = run_numbers_of("cais-base", &one, layer, 1);
    let small = run_numbers_of("cais-base", &[&one[..], &["machine.l2=1KiB"]].concat(), layer, 1);
    assert_right_of("cais-base", layer, &small);
    let [kept, again] = [whole, small].map(|outcome| outcome.counted["loads"].0);
    assert!(again > kept, "{again} loads instead of {kept}");
}

#[test]
fn tiles_that_are_no_whole_sectors_wide_cost_more_packets_and_bring_the_same() {
    let wide = run_numbers("cais", &[], 1);
    // Four elements of four bytes: half a sector.
    let narrow = run_numbers("cais", &["machine.tile_inner=4", "machine.tile_columns=4"], 1);
    assert_right("cais", &narrow);
    assert!(narrow.packets > 2 * wide.packets, "{} packets, {} in wide tiles", narrow.packets, wide.packets);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_seed_and_no_coordination_changes_a_sum(
        seed in any::<u64>(),
        entries in 0..5u32,
        [pre_launch, pre_access, throttle] in any::<[bool; 3]>(),
        ahead in 1..4u32,
    ) {
        let set = [
            format!("merge.entries={entries}"),
            format!("machine.pre_launch={pre_launch}"),
            format!("machine.pre_access={pre_access}"),
            format!("machine.throttle={throttle}"),
            format!("machine.sums_ahead={ahead}KiB"),
            format!("machine.loads_ahead={ahead}KiB"),
            "machine.sync_timeout=5us".into(),
            "machine.jitter=90%".into(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        assert_right("cais", &run_numbers("cais", &set, seed));
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| run_numbers("cais-uncoordinated", &[], seed);
    let (first, again, other) = (run(1), run(1), run(2));
    assert_eq!((first.time, first.steps), (again.time, again.steps));
    assert_ne!((first.time, first.steps), (other.time, other.steps));
}

#[test]
fn accelerators_drift_apart_where_kernels_compete_and_nowhere_else() {
    let few = [
        "machine.sms=2",
        "machine.communication_sms=1",
        "machine.claims_ahead=0",
        "machine.drift_time=100ns",
    ];
    let layer = SubLayer { rows: 512, ..LAYER };
    let times = |name: &str| {
        ["machine.drift=0%", "machine.drift=100%"]
            .map(|drift| run_numbers_of(name, &[&few[..], &[drift]].concat(), layer, 1).time)
    };
    for alone in ["cais", "cais-base", "tp-nvls"] {
        let [without, with] = times(alone);
        assert_eq!(without, with, "{alone}");
    }
    let [without, with] = times("cais-uncoordinated");
    assert_ne!(without, with);
}

/// From when until when a kernel ran, over all accelerators.
fn span(outcome: &LayerOutcome<LengthOnly>, name: &str) -> (Duration, Duration) {
    let of = outcome.kernels.iter().filter(|kernel| kernel.name == name);
    let from = of.clone().map(|kernel| kernel.from).min();
    (from.expect("a kernel of that name"), of.map(|kernel| kernel.to).max().expect("the same"))
}

/// How long links were busy between two moments, all together.
fn busy(outcome: &LayerOutcome<LengthOnly>, from: Duration, to: Duration) -> f64 {
    let over_time = &outcome.busy_over_time;
    let bin = over_time.bin.as_secs_f64();
    let inside = |number: usize| {
        let middle = (number as f64 + 0.5) * bin;
        middle > from.as_secs_f64() && middle < to.as_secs_f64()
    };
    let of = |bins: &Vec<f64>| -> f64 {
        (0..).zip(bins).filter(|&(number, _)| inside(number)).map(|(_, share)| share * bin).sum()
    };
    over_time.directions.iter().map(of).sum()
}

#[test]
fn a_schedule_overlaps_what_its_publication_overlaps_and_nothing_else() {
    // Long enough for many rounds of blocks, and as much to send as to compute.
    let layer = SubLayer { rows: 512, inner: 128, hidden: 256, columns: 128, backward: false };
    let scenario = scenario(&["machine.launch=1us", "machine.skew=0s", "merge.entries=0"]);
    for schedule in ALL {
        let outcome = with_run(*schedule, &scenario, layer, 1, |run| run_layer(run, &mut ignore_progress));
        let name = schedule.name();
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (first, second) = (span(&outcome, "product 1"), span(&outcome, "product 2"));
        let all = busy(&outcome, Duration::ZERO, outcome.time);
        let wanted = schedule.overlap();
        // Barriers are a few words.
        let [during_first, during_second] = [first, second].map(|(from, to)| busy(&outcome, from, to) / all);
        assert_eq!(during_first > 0.2, wanted.first, "{name}: {during_first:.2} is sent during product 1");
        assert_eq!(during_second > 0.2, wanted.second, "{name}: {during_second:.2} is sent during product 2");
        // Kernels that wait for others are launched behind these.
        let both_run = |rank| span_at(&outcome, "product 2", rank).0 < span_at(&outcome, "product 1", rank).1;
        let products = (0..RANKS as u16).any(both_run);
        assert_eq!(products, wanted.products, "{name}: products at {first:?} and {second:?}");
    }
}

/// From when until when a kernel ran on an accelerator.
fn span_at(outcome: &LayerOutcome<LengthOnly>, name: &str, rank: u16) -> (Duration, Duration) {
    let of = |kernel: &&KernelSpan| kernel.name == name && kernel.rank == rank;
    let kernel = outcome.kernels.iter().find(of).expect("a kernel of that name");
    (kernel.from, kernel.to)
}

#[test]
fn stages_between_the_products_follow_each_other_where_there_is_no_dataflow() {
    let scenario = scenario(&["machine.launch=1us", "machine.skew=0s"]);
    for (name, stages) in [
        ("tp-nvls", &["product 1", "all_reduce", "norm", "product 2"][..]),
        ("sp-nvls", &["product 1", "reduce_scatter", "norm", "all_gather", "product 2"]),
        ("coconet", &["all_reduce", "norm", "product 2"]),
        ("coconet-nvls", &["all_reduce", "norm", "product 2"]),
        ("fuselib", &["product 1", "norm", "product 2"]),
        ("fuselib-nvls", &["product 1", "norm", "product 2"]),
        ("t3", &["reduce_scatter", "norm", "all_gather"]),
        ("t3-nvls", &["reduce_scatter", "norm", "all_gather"]),
        ("ladm", &["product 1", "norm", "product 2"]),
        ("cais-base", &["product 1", "norm", "product 2"]),
        ("scin", &["product 1", "all_reduce", "norm", "product 2"]),
        ("scin-inq", &["product 1", "all_reduce", "norm", "product 2"]),
        ("scin-sp", &["product 1", "reduce_scatter", "norm", "all_gather", "product 2"]),
    ] {
        let outcome =
            with_run(find(name).unwrap(), &scenario, LAYER, 1, |run| run_layer(run, &mut ignore_progress));
        let outcome = outcome.unwrap();
        for rank in 0..RANKS as u16 {
            for pair in stages.windows(2) {
                let [first, second] = [pair[0], pair[1]].map(|stage| span_at(&outcome, stage, rank));
                assert!(
                    first.1 <= second.0,
                    "{name} at {rank}: {} {first:?}, {} {second:?}",
                    pair[0],
                    pair[1]
                );
            }
        }
    }
}

#[test]
fn merging_sends_each_tile_up_once_and_down_once() {
    let set = ["merge.entries=0", "machine.skew=0s"];
    let sent = |name| {
        let outcome = with_run(find(name).unwrap(), &scenario(&set), LAYER, 1, |run| {
            run_layer(run, &mut ignore_progress).unwrap()
        });
        outcome.counted.clone()
    };
    let counted = sent("cais");
    // A row of a tile has 16 elements of four bytes.
    let pieces = (VECTOR / 64) as u64;
    // N - 1 accelerators reduce and load each of them; one sum of each goes home, one load goes there.
    assert_eq!(counted["reductions"].0, pieces * u64::from(RANKS - 1));
    assert_eq!(counted["whole sums"].0, pieces);
    assert_eq!(counted["loads"].0 - counted["merged loads"].0, pieces);
}

#[test]
fn a_block_says_twice_where_it_is_whether_requests_are_throttled_or_not() {
    let syncs = |set: &[&str]| {
        let scenario = scenario(&[&["merge.entries=0", "machine.skew=0s"], set].concat());
        let run = |run: &LayerRun<'_>| run_layer(run, &mut ignore_progress).unwrap();
        with_run(find("cais").unwrap(), &scenario, LAYER, 1, run).counted["syncs"].0
    };
    let row_blocks = u64::from(LAYER.rows / 16);
    let [adding, loading] = [LAYER.hidden, LAYER.columns].map(|columns| row_blocks * u64::from(columns / 16));
    let ranks = u64::from(RANKS);
    // Before it is launched, and before its first request that may merge (CAIS III-B2). What throttles asks by requests that are sent anyhow.
    for throttle in ["machine.throttle=false", "machine.throttle=true"] {
        assert_eq!(syncs(&[throttle]), ranks * 2 * (adding + loading), "{throttle}");
    }
}

#[test]
fn ladm_loads_what_lies_elsewhere_and_adds_nothing_up() {
    let outcome = with_run(find("ladm").unwrap(), &scenario(&[]), LAYER, 1, |run| {
        run_layer(run, &mut ignore_progress).unwrap()
    });
    assert_eq!(outcome.drops, 0);
    assert!(outcome.counted.is_empty(), "no unit computes in its switches");
    let whole = with_run(find("cais").unwrap(), &scenario(&[]), LAYER, 1, |run| {
        run_layer(run, &mut ignore_progress).unwrap().packets
    });
    assert!(outcome.packets > whole, "{} packets, {whole} with merging", outcome.packets);
}

#[test]
fn steady_utilisation_is_that_of_the_middle_half_of_the_time() {
    let mut outcome = with_run(find("cais").unwrap(), &scenario(&[]), LAYER, 1, |run| {
        run_layer(run, &mut ignore_progress).unwrap()
    });
    // Of five bins, the last one behind the end.
    outcome.time = Duration::from_nanos(3900);
    let directions = vec![vec![0.0, 1.0, 1.0, 0.0, 0.0], vec![0.0, 0.5, 1.0, 0.0, 0.0]];
    outcome.busy_over_time = BusyOverTime { bin: Duration::from_micros(1), directions };
    let measured = LayerMeasurement {
        model: "none".into(),
        ranks: 4,
        time: outcome.time,
        parts: vec![PartMeasurement { sub_layer: TransformerSubLayer::L1, outcome }],
        outside: Duration::ZERO,
        operations: 0,
        entry: 128,
        planes: 1,
    };
    assert_eq!(measured.steady_utilisation(), [0.875, 0.125]);
}

#[test]
fn rows_that_cannot_be_split_are_refused_in_a_line() {
    let scenario = scenario(&[]);
    let layer = SubLayer { rows: 100, ..LAYER };
    let error = with_run(find("cais").unwrap(), &scenario, layer, 1, |run| {
        run_layer(run, &mut ignore_progress).unwrap_err().to_string()
    });
    assert!(error.contains("rows in multiples of 64, found 100"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn a_model_or_a_part_that_is_not_there_is_refused_with_those_that_are() {
    let error = |set: &[&str]| {
        let request = LayerRequest { scenario: scenario(set), schedule: find("cais").unwrap(), seed: 1 };
        measure_layer(&request, CATALOG, &mut ignore_progress).unwrap_err().to_string()
    };
    assert!(error(&[]).contains("llama-7b"), "{}", error(&[]));
    assert!(error(&["layer.model=gpt-9"]).contains("llama-7b"));
    assert!(error(&["layer.model=llama-7b", "layer.part=L5"]).contains("L1, L2, L3, L4"));
}
