//! What schedules plan: how long tiles take, in which order, and in which groups.

mod compiled;
mod places;
mod waits;

use quincunx_accelerator::{Coordination, Machine, Merges, Plan, SubLayer};
use quincunx_schedules::{ALL, find};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};

pub(crate) const LAYER: SubLayer =
    SubLayer { rows: 256, inner: 96, hidden: 64, columns: 32, backward: false };

/// Four accelerators of two SMs; without chance.
pub(crate) fn machine() -> Machine {
    Machine {
        ranks: 4,
        planes: 1,
        switches: 2,
        sms: 2,
        blocks_per_sm: 2,
        tensor: FlopRate::new(1_000_000_000_000).unwrap(),
        memory: BitRate::new(8_000_000_000_000).unwrap(),
        norm_efficiencies: [1.0, 1.0],
        l2: ByteCount::new(1 << 20),
        element: 2,
        tile_rows: 32,
        tile_columns: 16,
        tile_inner: 16,
        norm_rows: 8,
        launch: Duration::from_micros(1),
        skew: Duration::ZERO,
        jitter: 0.0,
        drift: 0.0,
        drift_time: Duration::from_micros(1),
        coordination: Coordination { pre_launch: true, pre_access: true, throttle: true },
        communication_sms: 1,
        copy_engines: 2,
        line: 128,
        seed: 1,
    }
}

fn plan(name: &str, rank: u16) -> Plan {
    find(name).unwrap().plan(&LAYER, &machine(), rank).unwrap()
}

/// The time of each block of a kernel; all of them are equal.
fn block_time(name: &str, kernel: usize) -> Duration {
    let plan = plan(name, 0);
    let times: Vec<Duration> = plan.program.kernels[kernel]
        .blocks
        .iter()
        .map(|block| block.stages.iter().map(|stage| stage.compute).sum())
        .collect();
    assert!(times.iter().all(|time| *time == times[0]), "{name}: blocks of one kernel are alike");
    times[0]
}

#[test]
fn a_tile_takes_its_operations_at_an_sms_share_of_the_rate() {
    // 2 * 32 * 16 * 96 operations at half of 1 TFLOP/s; traffic takes less.
    assert_eq!(block_time("cais", 0), Duration::from_picos(196_608));
    assert_eq!(block_time("cais", 2), Duration::from_picos(2 * 2 * 32 * 16 * 64));
}

#[test]
fn a_tile_of_little_arithmetic_takes_its_share_of_the_traffic() {
    let slow = Machine { memory: BitRate::new(8_000_000_000).unwrap(), ..machine() };
    let plan = find("cais").unwrap().plan(&LAYER, &slow, 0).unwrap();
    // 256 x 96 + 96 x 64 + 256 x 64 elements of two bytes over 32 tiles, at half of 1 GB/s.
    let bytes = (256 * 96 + 96 * 64 + 256 * 64) * 2 * 2 / 32;
    assert_eq!(plan.program.kernels[0].blocks[0].stages[0].compute, Duration::from_nanos(bytes));
}

#[test]
fn the_gradient_of_a_normalisation_reads_one_more_and_is_what_lies_between_products_backward() {
    let backward = SubLayer { backward: true, ..LAYER };
    let forward = block_time("tp-nvls", 2);
    let plan = find("tp-nvls").unwrap().plan(&backward, &machine(), 0).unwrap();
    assert_eq!(plan.program.kernels[2].name, "norm");
    let found = plan.program.kernels[2].blocks[0].stages[0].compute;
    assert_eq!(found.as_picos() * 3, forward.as_picos() * 4);
}

#[test]
fn a_plane_has_the_blocks_and_times_of_the_whole_machine_and_its_share_of_every_byte() {
    for schedule in quincunx_schedules::ALL.iter().filter(|schedule| schedule.name() != "ladm") {
        let of = |planes| schedule.plan(&LAYER, &Machine { planes, ..machine() }, 1).unwrap().program;
        let (whole, plane) = (of(1), of(2));
        assert_eq!(whole.memory, 2 * plane.memory);
        assert_eq!(whole.kernels.len(), plane.kernels.len());
        for (whole, plane) in whole.kernels.iter().zip(&plane.kernels) {
            assert_eq!(whole.blocks.len(), plane.blocks.len(), "{}, {}", schedule.name(), whole.name);
            for (whole, plane) in whole.blocks.iter().zip(&plane.blocks) {
                let times = |block: &quincunx_accelerator::Block| -> Vec<Duration> {
                    block.stages.iter().map(|stage| stage.compute).collect()
                };
                assert_eq!((times(whole), whole.group), (times(plane), plane.group));
                let bytes = |block: &quincunx_accelerator::Block| -> u64 {
                    block.outputs.iter().map(|output| output.rows.total()).sum()
                };
                assert_eq!(bytes(whole), 2 * bytes(plane));
            }
        }
        for (whole, plane) in whole.tiles.iter().zip(&plane.tiles) {
            assert_eq!(whole.rows.total(), 2 * plane.rows.total(), "{}", schedule.name());
        }
    }
}

#[test]
fn a_normalisation_reads_its_rows_and_what_is_added_to_them_and_writes_them() {
    // Three times 8 rows of 64 elements of two bytes, at half of 1 TB/s.
    assert_eq!(block_time("cais", 1), Duration::from_picos(3 * 8 * 64 * 2 * 2));
}

#[test]
fn all_accelerators_dispatch_the_groups_of_coordinated_blocks_in_one_order() {
    let groups = |rank: u16| -> Vec<Vec<Option<u32>>> {
        let kernels = plan("cais", rank).program.kernels;
        kernels.iter().map(|kernel| kernel.blocks.iter().map(|block| block.group).collect()).collect()
    };
    let first = groups(0);
    assert!(first[0].iter().all(Option::is_some) && first[2].iter().all(Option::is_some));
    for rank in 1..4 {
        assert_eq!(groups(rank), first, "accelerator {rank}");
    }
}

#[test]
fn consecutive_tiles_go_to_homes_in_turn() {
    let blocks = &plan("cais", 0).program.kernels[0].blocks;
    let homes: Vec<u16> = blocks.iter().take(8).map(|block| block.outputs[0].to).collect();
    assert_eq!(homes, [0, 1, 2, 3, 0, 1, 2, 3]);
}

/// Of a schedule with a machine whose rates wander: its kernels' weights by accelerator.
fn weights(name: &str, rank: u16) -> Vec<Vec<u32>> {
    let machine = Machine { drift: 0.5, drift_time: Duration::from_nanos(100), ..machine() };
    let plan = find(name).unwrap().plan(&LAYER, &machine, rank).unwrap();
    plan.program.kernels.into_iter().map(|kernel| kernel.weights).collect()
}

#[test]
fn rates_at_which_kernels_are_served_wander_within_the_drift() {
    let product = &weights("cais-base", 0)[0];
    assert!(product.iter().all(|weight| (499_999..=2_000_001).contains(weight)), "{product:?}");
    assert!(product.iter().any(|weight| *weight != product[0]), "{product:?}");
}

#[test]
fn accelerators_drift_apart_and_a_kernel_drifts_alike_by_every_schedule() {
    assert_ne!(weights("cais-base", 0)[0], weights("cais-base", 1)[0]);
    for schedule in ["cais", "cais-uncoordinated", "tp-nvls", "t3-nvls"] {
        assert_eq!(weights(schedule, 0)[0], weights("cais-base", 0)[0], "{schedule}");
    }
}

#[test]
fn without_drift_all_kernels_weigh_the_same() {
    for kernel in plan("cais-uncoordinated", 3).program.kernels {
        assert!(kernel.weights.iter().all(|weight| *weight == kernel.weights[0]), "{}", kernel.name);
    }
}

#[test]
fn blocks_keep_their_order_with_coordination_and_without() {
    for schedule in ["cais-uncoordinated", "cais-base"] {
        for rank in 0..4 {
            let [found, expected] = [plan(schedule, rank), plan("cais", rank)].map(|plan| {
                let blocks = plan.program.kernels.into_iter().flat_map(|kernel| kernel.blocks);
                blocks.filter_map(|block| block.group).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{schedule}");
        }
    }
}

#[test]
fn only_merging_schedules_have_requests_that_merge() {
    for schedule in ALL {
        let plan = schedule.plan(&LAYER, &machine(), 0).unwrap();
        let merges = plan.program.kernels.iter().any(|kernel| kernel.merges != Merges::Nothing);
        assert_eq!(merges, schedule.name().starts_with("cais"), "{}", schedule.name());
        assert_eq!(plan.shared_requests, schedule.name() == "cais-partial", "{}", schedule.name());
    }
}

#[test]
fn names_are_different_and_found() {
    for (place, schedule) in ALL.iter().enumerate() {
        assert!(ALL[..place].iter().all(|other| other.name() != schedule.name()));
        assert_eq!(find(schedule.name()).unwrap().name(), schedule.name());
    }
    assert!(find("no-such-schedule").is_none());
}
