//! The pass over a graph: who waits for whom, for which blocks, and what runs side by side.

use crate::kernels::text_of;
use quincunx_compiler::*;
use std::collections::BTreeSet;

const GPUS: u16 = 8;

/// A sub-layer's products: rows, the first one's share of its inner dimension, hidden size, columns of the second one.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    m: u32,
    k: u32,
    hidden: u32,
    n: u32,
}

/// Figure 2's model: attention's output projection and the first FFN product (L1), FFN's second product and the next layer's projections (L2),
/// and the same on the way back (L3, L4).
const LAYERS: [(&str, Sizes); 4] = [
    ("L1", Sizes { m: 3072, k: 512, hidden: 4096, n: 1408 }),
    ("L2", Sizes { m: 3072, k: 1408, hidden: 4096, n: 1536 }),
    ("L3", Sizes { m: 3072, k: 1408, hidden: 4096, n: 512 }),
    ("L4", Sizes { m: 3072, k: 1536, hidden: 4096, n: 1408 }),
];

fn graph(sizes: Sizes, texts: [&str; 3]) -> (Vec<Kernel>, Vec<Compiled>, Dataflow) {
    let Sizes { m, k, hidden, n } = sizes;
    let constants: [&[(&str, u32)]; 3] = [
        &[("M", m), ("K", k), ("N", hidden)],
        &[("M", m), ("N", hidden)],
        &[("M", m), ("K", hidden), ("N", n)],
    ];
    let kernels: Vec<Kernel> = texts
        .iter()
        .zip(constants)
        .map(|(text, constants)| Kernel::resized("graph", text, GPUS, constants).unwrap())
        .collect();
    let compiled: Vec<Compiled> = kernels.iter().map(compile).collect();
    let pairs: Vec<_> = kernels.iter().zip(&compiled).collect();
    let dataflow = Dataflow::of(&pairs).unwrap();
    (kernels, compiled, dataflow)
}

fn shipped(sizes: Sizes) -> Dataflow {
    let texts = ["gemm-rs", "layernorm", "ag-gemm"].map(text_of);
    graph(sizes, texts.each_ref().map(String::as_str)).2
}

#[test]
fn a_sub_layer_passes_row_blocks_from_its_tiles_by_its_normalisation_to_the_next_product() {
    for (name, sizes) in LAYERS {
        let Dataflow { edges, beside } = shipped(sizes);
        let [sums, norms] = &edges[..] else { panic!("{name}: {} edges", edges.len()) };
        assert_eq!((sums.producer, sums.consumer, &*sums.array), (0, 1, "sums"));
        assert_eq!((norms.producer, norms.consumer, &*norms.array), (1, 2, "norms"));
        assert_eq!((sums.written, norms.written), (Written::Added, Written::Stored));
        let row_blocks = sizes.m / 128;
        for edge in [sums, norms] {
            assert!(edge.is_fine() && !edge.local);
            assert_eq!(edge.parts.len() as u32, row_blocks, "{name}");
        }
        for (row, (sum, norm)) in (0..).zip(sums.parts.iter().zip(&norms.parts)) {
            let length = i128::from(128 * sizes.hidden);
            let elements = Interval { low: row * length, high: (row + 1) * length - 1 };
            assert_eq!((sum.elements, norm.elements), (elements, elements));
            // All tiles of the row block, of all GPUs, for its home; the home's 32 blocks of four rows, for all.
            let home = row as u16 * GPUS / row_blocks as u16;
            assert_eq!(sum.writers, vec![sizes.hidden / 128; GPUS.into()]);
            assert_eq!(sum.readers, BTreeSet::from([home]));
            let own = |gpu| if gpu == home { 32 } else { 0 };
            assert_eq!(norm.writers, (0..GPUS).map(own).collect::<Vec<_>>());
            assert_eq!(norm.readers, (0..GPUS).collect());
        }
        assert_eq!(beside, [[0, 2]], "{name}: the products send in opposite directions");
    }
}

/// The AllReduce form: every GPU normalises all rows, which it loads from their homes, and multiplies its own copy of them.
fn all_reduce_form() -> [String; 3] {
    let local = "length = \"M * K\"\nhome = \"local\"";
    let norm = text_of("layernorm")
        .replace("M / gpus / ROWS", "M / ROWS")
        .replace("gpuId * (M / gpus) + ", "")
        .replace(
            "name = \"norms\"\nelement = \"f16\"\nlength = \"M * N\"\nhome = \"index / (length / gpus)\"",
            "name = \"norms\"\nelement = \"f16\"\nlength = \"M * N\"\nhome = \"local\"",
        );
    let gemm = text_of("ag-gemm").replace("length = \"M * K\"\nhome = \"index / (length / gpus)\"", local);
    [text_of("gemm-rs"), norm, gemm]
}

#[test]
fn in_the_all_reduce_form_all_load_the_sums_and_wait_for_their_own_rows_alone() {
    let texts = all_reduce_form();
    for (name, sizes) in LAYERS {
        let (kernels, compiled, dataflow) = graph(sizes, texts.each_ref().map(String::as_str));
        let [sums, norms] = &dataflow.edges[..] else { panic!("two edges") };
        assert_eq!([sums, norms].map(|edge| (edge.local, edge.is_fine())), [(false, true), (true, true)]);
        // The normalisation of all rows loads alike everywhere.
        assert_eq!(compiled[1].groups.count, kernels[1].blocks());
        for part in &sums.parts {
            assert_eq!(part.readers, (0..GPUS).collect());
            assert_eq!(part.awaited(3, sums.local), u32::from(GPUS) * sizes.hidden / 128);
        }
        assert!(norms.parts.iter().all(|part| part.awaited(5, norms.local) == 32), "{name}");
        assert_eq!(dataflow.beside, [[0, 1]], "{name}: sums go up while others come down");
    }
}

#[test]
fn a_kernel_that_reads_all_rows_in_each_block_waits_for_the_whole_producer() {
    let mut texts = ["gemm-rs", "layernorm", "ag-gemm"].map(text_of);
    texts[1] = texts[1].replace("row * N + i * VECTOR\"\nloops = [{ name = \"i\", from = \"0\", to = \"N / VECTOR\" }]\nwidth = \"VECTOR\"\n\n[[statements]]\nkind = \"load\"\narray = \"scale\"", "i * VECTOR\"\nloops = [{ name = \"i\", from = \"0\", to = \"M * N / VECTOR\" }]\nwidth = \"VECTOR\"\n\n[[statements]]\nkind = \"load\"\narray = \"scale\"");
    let (.., dataflow) = graph(LAYERS[0].1, texts.each_ref().map(String::as_str));
    let sums = dataflow.between(0, 1).unwrap();
    assert!(!sums.is_fine() && dataflow.between(1, 2).unwrap().is_fine());
    assert!(dataflow.beside.is_empty(), "the second product cannot run beside the first");
}

#[test]
fn kernels_that_have_nothing_to_merge_share_nothing() {
    let rotated = "(blockIdx.y + gpuId * (M / ROWS / gpus)) % (M / ROWS) * ROWS";
    let mut texts = ["gemm-rs", "layernorm", "ag-gemm"].map(text_of);
    for text in &mut texts {
        *text = text.replace("blockIdx.y * ROWS", rotated);
    }
    let (_, compiled, dataflow) = graph(LAYERS[0].1, texts.each_ref().map(String::as_str));
    assert!(compiled.iter().all(|compiled| compiled.groups.count == 0));
    assert!(dataflow.beside.is_empty() && dataflow.beside(0).is_none());
    // What depends on what is the same: all rows are still written and read.
    assert_eq!(dataflow.edges, shipped(LAYERS[0].1).edges);
}

#[test]
fn arrays_of_one_name_that_are_not_alike_are_refused_in_a_line() {
    let kernels = [("gemm-rs", 9216), ("layernorm", 4608)];
    let kernels = kernels.map(|(name, m)| Kernel::resized(name, &text_of(name), GPUS, &[("M", m)]).unwrap());
    let compiled = kernels.each_ref().map(compile);
    let error = Dataflow::of(&[(&kernels[0], &compiled[0]), (&kernels[1], &compiled[1])]).unwrap_err();
    let expected = "expected `sums` of kernel `layernorm` as an earlier kernel has it, found 18874368 elements instead of 37748736";
    assert!(error.to_string().starts_with(expected), "{error}");
}
