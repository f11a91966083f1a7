//! What CAIS's schedules take from the compiler, written out by hand for a small sub-layer; and what other kernels are compiled to.

use crate::{LAYER, machine, plan};
use quincunx_accelerator::{CounterId, Fetch, Merges, Program, Schedule, Send, Signal, To, Wait};
use quincunx_compiler::{Dataflow, Kernel, compile};
use quincunx_schedules::{ALL_REDUCE_KERNELS, Cais, KERNELS};

/// Eight row blocks of 32 rows, two of each accelerator; four tiles of sums, two of the second product, four stages.
const ROW_BLOCKS: u32 = 8;
const SUM_TILES: u32 = 4;
const COLUMNS: u32 = 2;
const STAGES: u32 = 4;
/// Bytes of a row block: 32 rows of 64 elements of two bytes.
const STRIPE: u64 = 32 * 64 * 2;
/// The first counters of sums, and of row blocks that are normalised.
const SUMS: u16 = 0;
const READY: u16 = 8;

/// Kernels of which some start with the rows of their own accelerator, so that their indices depend on it.
fn rotated(kernels: [bool; 3]) -> Cais {
    let turned = "(blockIdx.y + gpuId * (M / ROWS / gpus)) % (M / ROWS) * ROWS";
    let mut texts = KERNELS;
    for (text, _) in texts.iter_mut().zip(kernels).filter(|(_, is_rotated)| *is_rotated) {
        assert!(text.contains("blockIdx.y * ROWS"));
        *text = text.replace("blockIdx.y * ROWS", turned).leak();
    }
    Cais {
        name: "rotated",
        summary: "",
        kernels: texts,
        coordinated: true,
        dataflow: true,
        traffic_control: true,
    }
}

#[test]
fn the_compiled_plan_is_the_one_that_a_hand_would_make() {
    for rank in 0..4 {
        let Program { kernels, tiles, .. } = plan("cais", rank).program;
        let [first, norm, second] = &kernels[..] else { panic!("three kernels") };
        assert_eq!(
            [first, norm, second].map(|kernel| (kernel.merges, kernel.priority, kernel.beside)),
            [(Merges::Reductions, 1, Some(2)), (Merges::Nothing, 2, None), (Merges::Loads, 1, Some(0))]
        );

        assert_eq!(first.blocks.len() as u32, ROW_BLOCKS * SUM_TILES);
        for block in &first.blocks {
            let [output] = block.outputs[..] else { panic!("a tile") };
            let offset = output.local as u64;
            let (row_block, column) = ((offset / STRIPE) as u32, (offset % STRIPE / 32) as u32);
            assert_eq!((output.send, u32::from(output.to)), (Send::MergedReduce, row_block / 2));
            assert_eq!(block.group, Some(row_block * SUM_TILES + column));
            assert!(block.waits.is_empty() && block.signals.is_empty());
        }

        let own = (2 * u32::from(rank)..2 * u32::from(rank) + 2).flat_map(|row_block| [row_block; 4]);
        assert_eq!(norm.blocks.len(), own.clone().count());
        for (block, row_block) in norm.blocks.iter().zip(own) {
            let counter = |first: u16| CounterId(first + row_block as u16);
            assert_eq!(block.waits, [Wait { counter: counter(SUMS), target: 4 * STRIPE }]);
            assert_eq!(block.signals, [Signal { to: To::All, counter: counter(READY) }]);
            assert_eq!(block.group, None);
        }

        assert_eq!(second.blocks.len() as u32, ROW_BLOCKS * COLUMNS);
        for block in &second.blocks {
            let group = block.group.unwrap() - ROW_BLOCKS * SUM_TILES;
            let row_block = group / COLUMNS;
            let counter = CounterId(READY + row_block as u16);
            assert_eq!(block.waits, [Wait { counter, target: 4 }]);
            assert_eq!(block.stages.len() as u32, STAGES);
            for stage in &block.stages {
                let tile = tiles[stage.tiles[0].0 as usize];
                assert_eq!(tile.series, Some(row_block));
                let is_own = row_block / 2 == u32::from(rank);
                assert_eq!(tile.fetch, if is_own { Fetch::Own } else { Fetch::MergedLoad });
            }
        }
    }
}

#[test]
fn without_the_dataflow_optimiser_no_kernel_shares_the_sms() {
    let Program { kernels, .. } = plan("cais-base", 0).program;
    assert!(kernels.iter().all(|kernel| kernel.beside.is_none()));
}

#[test]
fn a_rotated_kernel_has_neither_groups_nor_requests_that_merge() {
    for which in [[true, false, false], [false, false, true], [true, false, true]] {
        let [first_is, _, second_is] = which;
        let Program { kernels, tiles, .. } = rotated(which).plan(&LAYER, &machine(), 1).unwrap().program;
        let [first, _, second] = &kernels[..] else { panic!("three kernels") };
        let send = if first_is { Send::Reduce } else { Send::MergedReduce };
        for (block, was) in first.blocks.iter().zip(&plan("cais", 1).program.kernels[0].blocks) {
            assert_eq!((block.group.is_none(), block.outputs[0].send), (first_is, send));
            // Accelerator 1 is two row blocks ahead.
            let turned = (was.outputs[0].local as u64 + 2 * STRIPE) % (8 * STRIPE);
            assert_eq!(
                block.outputs[0].local as u64,
                if first_is { turned } else { was.outputs[0].local as u64 }
            );
        }
        assert_eq!(first.merges, if first_is { Merges::Nothing } else { Merges::Reductions });
        assert_eq!(second.merges, if second_is { Merges::Nothing } else { Merges::Loads });
        let fetch = if second_is { Fetch::Load } else { Fetch::MergedLoad };
        let remote = tiles.iter().filter(|tile| tile.from != 1);
        assert!(remote.clone().count() > 0);
        assert!(remote.clone().all(|tile| (tile.fetch, tile.series.is_none()) == (fetch, second_is)));
        assert!(second.blocks.iter().all(|block| block.group.is_none() == second_is));
    }
}

#[test]
fn kernels_that_do_not_fit_a_sub_layer_are_refused_in_a_line() {
    let with = |kernel: usize, from: &str, to: &str| {
        let mut cais = rotated([false; 3]);
        assert!(cais.kernels[kernel].contains(from));
        cais.kernels[kernel] = cais.kernels[kernel].replace(from, to).leak();
        cais.plan(&LAYER, &machine(), 0).unwrap_err()
    };
    let home = with(0, "index / (length / gpus)", "gpus - 1 - index / (length / gpus)");
    assert!(home.contains("expected `sums` of kernel `layernorm` as an earlier kernel has it"), "{home}");
    let grid = with(2, "\"N / COLUMNS\", \"M / ROWS\"", "\"N / COLUMNS\", \"M / ROWS / 2\"");
    assert!(grid.starts_with("expected kernels of a block for each tile"), "{grid}");
    let constant = with(1, "ROWS", "LINES");
    assert!(constant.starts_with("norm, constants: expected a constant `ROWS`"), "{constant}");
}

/// The AllReduce form of a sub-layer: every accelerator normalises all rows and multiplies its own copy of them.
fn all_reduce_form() -> Dataflow {
    let [first, norm, second] = ALL_REDUCE_KERNELS;
    let product = [("M", 256), ("ROWS", 32), ("COLUMNS", 16)];
    let read = |text: &str, sizes: &[(&str, u32)]| Kernel::resized("form", text, 4, sizes).unwrap();
    let kernels = [
        read(first, &[&product[..], &[("N", 64), ("K", 96)]].concat()),
        read(norm, &[("M", 256), ("N", 64), ("ROWS", 8)]),
        read(second, &[&product[..], &[("N", 32), ("K", 64)]].concat()),
    ];
    let compiled = kernels.each_ref().map(compile);
    let pairs: Vec<_> = kernels.iter().zip(&compiled).collect();
    Dataflow::of(&pairs).unwrap()
}

#[test]
fn all_reduce_forms_wait_for_the_parts_that_the_graph_has() {
    let dataflow = all_reduce_form();
    let [sums, norms] = &dataflow.edges[..] else { panic!("two edges") };
    assert_eq!([sums.parts.len(), norms.parts.len()], [ROW_BLOCKS as usize; 2]);
    for (name, rank) in
        ["fuselib", "coconet"].into_iter().flat_map(|name| (0..4).map(move |rank| (name, rank)))
    {
        let Program { kernels, .. } = plan(name, rank).program;
        let norm = kernels.iter().find(|kernel| kernel.name == "norm").unwrap();
        // Sums of an accelerator's own rows come from all who add to them; others come whole, once.
        let expected = (0..).zip(&sums.parts).map(|(row_block, part)| {
            let contributors = part.writers.iter().filter(|blocks| **blocks > 0).count() as u64;
            let times = if row_block / 2 == rank { contributors } else { 1 };
            assert!(part.readers.contains(&rank), "all normalise all rows");
            Wait { counter: CounterId(SUMS + row_block), target: STRIPE * times }
        });
        assert_eq!(norm.waits, expected.collect::<Vec<_>>(), "{name}");
        let written: u32 = norms.parts.iter().map(|part| part.awaited(rank, norms.local)).sum();
        assert_eq!(norm.blocks.len() as u32, written, "{name}");
    }
}
