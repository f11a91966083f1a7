//! Schedules from compiled kernels: what the compiler says of a kernel is what its requests come to on the links, and no block starts before what
//! it reads is there.

use crate::layers::{LAYER, RANKS, assert_right_of, first_wrong, run_numbers_by};
use proptest::prelude::*;
use quincunx_accelerator::{Machine, Overlap, Plan, Schedule, SubLayer, Unit};
use quincunx_schedules::{Cais, KERNELS};

const QUIET: [&str; 2] = ["merge.entries=0", "machine.skew=0s"];

const CAIS: Cais = Cais {
    name: "cais",
    summary: "as it is shipped",
    kernels: KERNELS,
    coordinated: true,
    dataflow: true,
    traffic_control: true,
};

/// Its kernels, of which some start with the rows of their own accelerator, so that no two send or load the same at the same time.
fn rotated(kernels: [bool; 3]) -> &'static Cais {
    let turned = "(blockIdx.y + gpuId * (M / ROWS / gpus)) % (M / ROWS) * ROWS";
    let mut texts = KERNELS;
    for (text, _) in texts.iter_mut().zip(kernels).filter(|(_, is_rotated)| *is_rotated) {
        *text = text.replace("blockIdx.y * ROWS", turned).leak();
    }
    Box::leak(Box::new(Cais { kernels: texts, ..CAIS }))
}

#[test]
fn a_rotated_kernel_loses_its_merging() {
    let run = |kernels| {
        let outcome = run_numbers_by(rotated(kernels), &QUIET, LAYER, 1);
        assert_right_of(&format!("{kernels:?}"), LAYER, &outcome);
        let counted = ["merged reductions", "merged loads"].map(|name| outcome.counted[name].0);
        (counted, outcome.packets)
    };
    let ([reductions, loads], packets) = run([false; 3]);
    assert!(reductions > 0 && loads > 0);
    let (without_sums, more) = run([true, false, false]);
    assert!(
        without_sums[0] == 0 && without_sums[1] > 0 && more > packets,
        "{without_sums:?}, {more} packets"
    );
    let (without_loads, more) = run([false, false, true]);
    assert!(
        without_loads[0] > 0 && without_loads[1] == 0 && more > packets,
        "{without_loads:?}, {more} packets"
    );
    let (without_any, most) = run([true, false, true]);
    assert!(without_any == [0, 0] && most > more, "{without_any:?}, {most} packets");
}

/// A schedule whose blocks of one kernel start when half of what they wait for is there.
#[derive(Debug)]
struct Impatient(&'static dyn Schedule, usize);

impl Schedule for Impatient {
    fn name(&self) -> &'static str {
        "impatient"
    }

    fn summary(&self) -> &'static str {
        "blocks of one kernel start too early"
    }

    fn overlap(&self) -> Overlap {
        self.0.overlap()
    }

    fn unit(&self) -> Option<Unit> {
        self.0.unit()
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut plan = self.0.plan(layer, machine, rank)?;
        for wait in plan.program.kernels[self.1].blocks.iter_mut().flat_map(|block| &mut block.waits) {
            wait.target /= 2;
        }
        Ok(plan)
    }
}

/// Whether a run leaves whole sums at their homes, and at all accelerators the rows that were normalised from whole sums. A normalisation copies the
/// sums that it finds, and the second product what it loads, so that whoever starts too early leaves less.
fn is_right(schedule: &'static dyn Schedule, set: &[&str], layer: SubLayer, seed: u64) -> bool {
    first_wrong(layer, &run_numbers_by(schedule, set, layer, seed)).is_none()
}

#[test]
fn blocks_that_start_too_early_are_found() {
    // A table of one entry, so that contributions come one by one; normalisations that take longer than packets, each another time.
    let set = [
        "merge.entries=1",
        "merge.timeout=1us",
        "machine.norm_rows=4",
        "machine.norm_efficiency=0.0001",
        "machine.jitter=90%",
    ];
    assert!(is_right(&CAIS, &set, LAYER, 1));
    for kernel in [1, 2] {
        let impatient: &'static dyn Schedule = Box::leak(Box::new(Impatient(&CAIS, kernel)));
        let found = (1..20).any(|seed| !is_right(impatient, &set, LAYER, seed));
        assert!(found, "blocks of kernel {kernel} have started too early");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_block_starts_before_all_that_it_reads_is_there(
        seed in any::<u64>(),
        [row_blocks, tiles, columns] in [1..4_u32, 1..5_u32, 1..4_u32],
        which in any::<[bool; 2]>(),
        [coordinated, dataflow, traffic_control] in any::<[bool; 3]>(),
        entries in 0..5_u32,
    ) {
        let layer = SubLayer {
            rows: 16 * RANKS * row_blocks,
            inner: 32,
            hidden: 16 * tiles,
            columns: 16 * columns,
            backward: false,
        };
        let schedule = Cais { coordinated, dataflow, traffic_control, ..*rotated([which[0], false, which[1]]) };
        let set = [format!("merge.entries={entries}"), "machine.jitter=90%".into(), "machine.drift=90%".into()];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let outcome = run_numbers_by(Box::leak(Box::new(schedule)), &set, layer, seed);
        assert_right_of("compiled", layer, &outcome);
    }
}
