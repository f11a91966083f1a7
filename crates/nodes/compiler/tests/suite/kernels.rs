//! Kernels: what merges, what does not and why, groups, and descriptions that make no sense.

use proptest::prelude::*;
use quincunx_compiler::*;
use std::collections::BTreeSet;

pub(crate) fn text_of(name: &str) -> String {
    let path = format!("{}/../../../examples/kernels/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a kernel that is shipped")
}

fn shipped(name: &str) -> Kernel {
    Kernel::parse(name, &text_of(name)).unwrap()
}

/// A kernel of 4 GPUs with a grid of 4 by 3, two threads, and a shared and a local array; so many statements.
fn text(statements: &[(&str, &str, &str)]) -> String {
    let mut text = r#"
name = "small"
gpus = 4
grid = [4, 3]
threads = [2]
[constants]
W = 8
[define]
own = "gpuId * 2"
[[arrays]]
name = "shared"
element = "f16"
length = "1024"
home = "index / 256"
[[arrays]]
name = "local"
element = "f32"
length = "64"
home = "local"
"#
    .to_owned();
    for (kind, array, index) in statements {
        text += &format!(
            "[[statements]]\nkind = \"{kind}\"\narray = \"{array}\"\nindex = \"{index}\"\nloops = [{{ name = \"k\", from = \"0\", to = \"W\" }}]\n"
        );
    }
    text
}

fn small(statements: &[(&str, &str, &str)]) -> Kernel {
    Kernel::parse("small.toml", &text(statements)).unwrap()
}

fn reasons(kernel: &Kernel) -> Vec<Option<String>> {
    compile(kernel).statements.iter().map(|lowered| lowered.plain.as_ref().map(ToString::to_string)).collect()
}

fn instructions(kernel: &Kernel) -> Vec<Option<String>> {
    let lowered = compile(kernel).statements;
    lowered.iter().map(|lowered| lowered.instruction.as_ref().map(ToString::to_string)).collect()
}

#[test]
fn all_gather_and_gemm_loads_the_gathered_rows_by_merged_loads_in_a_group_of_each_row_of_tiles() {
    let kernel = shipped("ag-gemm");
    let Compiled { statements, groups } = compile(&kernel);
    assert_eq!(
        reasons(&kernel),
        [None, Some("each GPU has an array of its own".into()), Some("stores do not merge".into())]
    );
    let text = statements[0].instruction.unwrap().to_string();
    assert_eq!(text, "ld.cais.global.v8.f16 {%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8}, [%rd1], %r0;");
    // Blocks of all columns read the same rows.
    assert_eq!((groups.gpus, groups.count), (8, 72));
    let first: Vec<u32> = groups.blocks_of(0).collect();
    assert_eq!(first, (0..11).collect::<Vec<_>>());
    let region = statements[0].region.clone().unwrap();
    assert_eq!(region.elements, Interval { low: 0, high: 128 * 4096 - 1 });
    assert_eq!((region.homes, statements[0].regions), (Interval { low: 0, high: 0 }, 72));
}

#[test]
fn gemm_and_reduce_scatter_adds_partial_sums_by_merged_reductions_in_a_group_of_each_tile() {
    let kernel = shipped("gemm-rs");
    let Compiled { statements, groups } = compile(&kernel);
    let local = Some("each GPU has an array of its own".to_owned());
    assert_eq!(reasons(&kernel), [local.clone(), local, None]);
    assert!(statements[2].instruction.unwrap().to_string().starts_with("red.cais.global.add.v8.f16 [%rd3]"));
    assert_eq!(groups.count, 72 * 32);
    assert_eq!(groups.of_block, (0..72 * 32).collect::<Vec<_>>());
}

#[test]
fn a_layer_norm_of_own_rows_merges_nothing_and_has_no_groups() {
    let kernel = shipped("layernorm");
    let Compiled { statements, groups } = compile(&kernel);
    assert!(statements.iter().all(|lowered| lowered.plain.is_some() && lowered.regions == 0));
    assert_eq!(
        reasons(&kernel)[0].as_deref(),
        Some("depends on gpuId: GPU 0 accesses 0, GPU 1 4718592, through `row`")
    );
    assert_eq!((groups.count, groups.of_block.len()), (0, 0));
}

#[test]
fn an_index_that_only_looks_as_if_it_depended_merges_and_one_that_hides_it_does_not() {
    let kernel = shipped("rotated");
    let found = reasons(&kernel);
    assert_eq!(
        found,
        [Some("depends on gpuId: GPU 0 accesses 0, GPU 1 8192, through `turned`".to_owned()), None, None]
    );
    let texts = instructions(&kernel);
    assert!(texts[0].as_ref().unwrap().starts_with("ld.global.v8.bf16"));
    assert!(texts[1].as_ref().unwrap().starts_with("ld.cais.global.cg.v8.bf16"));
    // What is added to every index stands in the instruction, in bytes.
    assert_eq!(texts[2].as_deref(), Some("red.cais.global.add.f32 [%rd3+512], %f1, %r0;"));
    // The loads alone would be 64 groups.
    assert_eq!(compile(&kernel).groups.count, 256);
}

#[test]
fn blocks_whose_accesses_are_identical_share_a_group() {
    let groups = |statements: &[(&str, &str, &str)]| compile(&small(statements)).groups;
    let all: Vec<u32> = (0..12).collect();
    assert_eq!(groups(&[("load", "shared", "blockIdx.x * W + k")]).of_block, [0, 1, 2, 3].repeat(3));
    assert_eq!(groups(&[("load", "shared", "blockIdx.x / 2 * W + k")]).of_block, [0, 0, 1, 1].repeat(3));
    assert_eq!(groups(&[("load", "shared", "k")]).of_block, [0; 12]);
    assert_eq!(groups(&[("load", "shared", "(blockIdx.y * 4 + blockIdx.x) * W + k")]).of_block, all);
    // Both accesses together.
    let both = [("load", "shared", "blockIdx.x * W + k"), ("reduce", "shared", "blockIdx.y * W + k")];
    assert_eq!(groups(&both).of_block, all);
    // One that does not merge decides nothing.
    let one = [("load", "shared", "blockIdx.x * W + k"), ("load", "shared", "blockIdx.y + own + k")];
    assert_eq!(groups(&one).count, 4);
}

#[test]
fn a_block_that_stands_in_a_product_or_a_loop_is_told_from_others() {
    let product = small(&[("load", "shared", "(blockIdx.x + 1) * k")]);
    assert_eq!(compile(&product).groups.of_block, [0, 1, 2, 3].repeat(3));
    let looped = text(&[("load", "shared", "k")]).replace("to = \"W\"", "to = \"W + blockIdx.y\"");
    let looped = Kernel::parse("looped.toml", &looped).unwrap();
    assert_eq!(compile(&looped).groups.of_block, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn a_loop_that_runs_otherwise_on_each_gpu_merges_nothing() {
    for bounds in ["from = \"own\"", "from = \"gpuId - gpuId\""] {
        let text = text(&[("load", "shared", "blockIdx.x * W")]).replace("from = \"0\"", bounds);
        let found = reasons(&Kernel::parse("loop.toml", &text).unwrap());
        let expected = bounds.contains("own").then(|| "the bounds of loop `k` depend on gpuId".to_owned());
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_kernel_of_one_gpu_has_nobody_to_merge_with() {
    let text = text(&[("load", "shared", "k")]).replace("gpus = 4", "gpus = 1").replace("index / 256", "0");
    let found = reasons(&Kernel::parse("one.toml", &text).unwrap());
    assert_eq!(found, [Some("no other GPU runs the kernel".to_owned())]);
}

#[test]
fn a_kernel_has_other_sizes_where_they_are_constants() {
    let kernel = Kernel::resized("ag-gemm", &text_of("ag-gemm"), 4, &[("M", 256), ("N", 64), ("ROWS", 32)]);
    let kernel = kernel.unwrap_err();
    assert!(kernel.to_string().starts_with("ag-gemm, grid: expected one to three sizes"), "{kernel}");
    let sizes = [("M", 256), ("N", 64), ("ROWS", 32), ("COLUMNS", 16), ("VECTOR", 2)];
    let kernel = Kernel::resized("ag-gemm", &text_of("ag-gemm"), 4, &sizes).unwrap();
    assert_eq!((kernel.gpus, kernel.grid, kernel.threads), (4, [4, 8, 1], [32, 1, 1]));
    assert_eq!(compile(&kernel).groups.count, 8);
    let other = Kernel::resized("ag-gemm", &text_of("ag-gemm"), 4, &[("DEPTH", 1)]).unwrap_err();
    assert!(other.to_string().contains("expected a constant `DEPTH`"), "{other}");
}

#[test]
fn descriptions_that_make_no_sense_are_refused_in_a_line_with_place_and_remedy() {
    let right = text(&[("load", "shared", "blockIdx.x * W + k")]);
    assert!(Kernel::parse("right.toml", &right).is_ok());
    for (from, to, expected) in [
        ("name = \"small\"", "nam = \"small\"", "wrong.toml, line 2: expected a kernel as TOML"),
        ("gpus = 4", "gpus = ", "line 3: expected a kernel as TOML"),
        ("gpus = 4", "gpus = 0", "gpus: expected one GPU or more, found 0"),
        ("grid = [4, 3]", "grid = [4, 0]", "grid: expected one to three sizes of one or more, found [4, 0]"),
        ("grid = [4, 3]", "grid = [4096, 4096, 4096]", "grid: expected a grid of at most 4194304 blocks"),
        ("threads = [2]", "threads = [1, 1, 1, 1]", "threads: expected one to three sizes"),
        (
            "W = 8",
            "gpuId = 8",
            "expected names of letters, digits and `_` that mean nothing else, found `gpuId`",
        ),
        ("W = 8", "own = 8\nW = 8", "define: expected a name once"),
        (
            "own = \"gpuId * 2\"",
            "own = \"own * 2\"",
            "definition of `own`: expected a name that is known here",
        ),
        ("own = \"gpuId * 2\"", "own = \"gpuId *\"", "definition of `own`: expected a number, a name"),
        ("element = \"f16\"", "element = \"f64\"", "array `shared`, `element`: expected f16, bf16"),
        ("length = \"1024\"", "length = \"0\"", "array `shared`, `length`: expected one element or more"),
        ("length = \"1024\"", "length = \"gpuId\"", "`length`: expected a name that is known here"),
        (
            "index / 256",
            "index / 128",
            "`home`: expected `local`, or GPUs from 0 to 3 for every `index`, found 0 to 7",
        ),
        ("index / 256", "index / (gpus - 4)", "`home`: expected a divisor that is never zero"),
        ("name = \"local\"", "name = \"shared\"", "arrays: expected each name once"),
        (
            "array = \"shared\"",
            "array = \"shard\"",
            "statement 1, `array`: expected one of the arrays (shared, local)",
        ),
        ("kind = \"load\"", "kind = \"atom\"", "unknown variant `atom`"),
        ("* W + k", "* w + k", "statement 1, `index`: expected a name that is known here, found `w`"),
        ("* W + k", "* W + k + 4096", "`index`: expected elements 0 to 1023 of `shared`, found 4096 to"),
        ("* W + k", "/ (k - 3)", "`index`: expected a divisor that is never zero"),
        (
            "name = \"k\"",
            "name = \"W\"",
            "loop `W`: expected at most eight loops with names that mean nothing else",
        ),
        (
            "to = \"W\"",
            "to = \"0\"",
            "loop `k`: expected a loop that runs at least once, found 0 to before 0",
        ),
        ("[[statements]]", "[[statements]]\nwidth = 3", "`width`: expected 1, 2, 4 or 8 elements, found 3"),
        ("[[statements]]", "[[statements]]\ncache = \"cc\"", "`cache`: expected ca, cg, cs or cv"),
    ] {
        assert!(right.contains(from), "{from}");
        let message = Kernel::parse("wrong.toml", &right.replace(from, to)).expect_err(to).to_string();
        assert!(message.contains(expected) && message.starts_with("wrong.toml"), "{to}: {message}");
        assert!(!message.contains('\n') && message.contains("; "), "{message}");
    }
    let empty = right.split("[[statements]]").next().unwrap().to_owned() + "";
    assert!(Kernel::parse("empty.toml", &empty).is_err());
}

/// What all threads of a block on a GPU access by a statement.
fn elements(kernel: &Kernel, statement: &Statement, gpu: u16, block: u32) -> BTreeSet<i64> {
    let block = kernel.block(block);
    let mut found = BTreeSet::new();
    for thread in 0..kernel.threads[0] {
        let of = |k: i64| {
            move |variable| match variable {
                Variable::GpuId => gpu.into(),
                Variable::Block(at) => block[usize::from(at)].into(),
                Variable::Thread(_) => thread.into(),
                Variable::Loop(_) => k,
                Variable::Index => unreachable!("no home rule"),
            }
        };
        let around = &statement.loops[0];
        let (from, to) = (around.from.evaluate(&of(0)).unwrap(), around.to.evaluate(&of(0)).unwrap());
        found.extend((from..to).map(|k| statement.index.evaluate(&of(k)).unwrap()));
    }
    found
}

fn index() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "gpuId",
        "own",
        "blockIdx.x",
        "blockIdx.y",
        "threadIdx.x",
        "k",
        "gpus",
        "W",
        "2",
        "3",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 2, |inner| {
        let operator = prop::sample::select(vec!["+", "*", "+", "-"]);
        let divided = prop::sample::select(vec!["/ 2", "% 4", "/ gpus", "% W"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner, divided).prop_map(|(a, by)| format!("({a} {by})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// All that a group promises: on every GPU, by every merged access, its blocks access the same.
    #[test]
    fn blocks_of_a_group_access_the_same_regions_on_all_gpus(first in index(), second in index()) {
        let statements = [("load", "shared", &*first), ("reduce", "shared", &*second)];
        let kernel = Kernel::parse("random.toml", &text(&statements));
        prop_assume!(kernel.is_ok());
        let kernel = kernel.unwrap();
        let Compiled { statements, groups } = compile(&kernel);
        prop_assert_eq!(groups.of_block.is_empty(), statements.iter().all(|lowered| lowered.plain.is_some()));
        for (statement, lowered) in kernel.statements.iter().zip(&statements) {
            if let Some(region) = &lowered.region {
                for group in 0..groups.count {
                    let blocks: Vec<u32> = groups.blocks_of(group).collect();
                    let right = elements(&kernel, statement, 0, blocks[0]);
                    for (gpu, &block) in (0..kernel.gpus).flat_map(|gpu| blocks.iter().map(move |block| (gpu, block))) {
                        let found = elements(&kernel, statement, gpu, block);
                        prop_assert_eq!(&found, &right, "{} in block {} of GPU {}", statement.text, block, gpu);
                    }
                }
                let first = elements(&kernel, statement, 0, 0);
                let inside = first.iter().filter(|at| (0..1024).contains(*at));
                prop_assert!(inside.clone().all(|&at| region.elements.low <= at.into() && at <= region.elements.high as i64));
            }
        }
    }
}
