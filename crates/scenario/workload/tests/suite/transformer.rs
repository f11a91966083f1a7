//! Language models are those of CAIS's table I, and their parts on a GPU are together a layer.

use proptest::prelude::*;
use quincunx_workload::{Direction, Gemm, SubLayer, Transformer, Work};

fn model(name: &str) -> Transformer {
    Transformer::find(name).unwrap()
}

const fn gemm(m: u64, n: u64, k: u64) -> Gemm {
    Gemm { m, n, k }
}

#[test]
fn the_models_are_those_of_table_one() {
    let rows: Vec<_> = Transformer::names()
        .iter()
        .map(|name| model(name))
        .map(|model| (model.name, model.hidden, model.ffn, model.heads, model.sequence, model.batch))
        .collect();
    assert_eq!(
        rows,
        [
            ("llama-7b".to_owned(), 4096, 11264, 32, 3072, 3),
            ("mega-gpt-4b".to_owned(), 2048, 8192, 24, 1024, 16),
            ("mega-gpt-8b".to_owned(), 3072, 12288, 32, 1024, 12),
        ]
    );
}

#[test]
fn twice_llama_7b_is_the_full_model_of_table_two() {
    let full = model("llama-7b").scaled(2);
    assert_eq!((full.hidden, full.ffn, full.heads), (8192, 22528, 64));
    assert_eq!(full.tokens(), model("llama-7b").tokens());
}

#[test]
fn sub_layers_of_llama_7b_over_eight_gpus_are_partial_sums_then_layer_norm_then_columns() {
    let llama = model("llama-7b");
    let tokens = 3 * 3072;
    for (which, before, after) in [
        // Output projection, first FFN layer.
        (SubLayer::L1, 512, 1408),
        // Second FFN layer, queries with keys and values.
        (SubLayer::L2, 1408, 1536),
        // Gradients of the inputs of: first FFN layer, output projection.
        (SubLayer::L3, 1408, 512),
        // Queries with keys and values, second FFN layer.
        (SubLayer::L4, 1536, 1408),
    ] {
        let shape = llama.sub_layer(which, 8).unwrap();
        assert_eq!(shape.before, gemm(tokens, 4096, before), "{which}");
        assert_eq!(shape.norm, (tokens, 4096), "{which}");
        assert_eq!(shape.after, gemm(tokens, after, 4096), "{which}");
    }
}

#[test]
fn a_gate_doubles_the_columns_of_the_first_ffn_layer_alone() {
    let gated = Transformer { ffn_matrices: 3, ..model("llama-7b") };
    assert_eq!(gated.sub_layer(SubLayer::L1, 8).unwrap().after.n, 2 * 1408);
    assert_eq!(gated.sub_layer(SubLayer::L3, 8).unwrap().before.k, 2 * 1408);
    assert_eq!(gated.sub_layer(SubLayer::L2, 8).unwrap().before.k, 1408);
    assert_eq!(gated.sub_layer(SubLayer::L4, 8).unwrap().after.n, 1408);
}

#[test]
fn attention_keeps_scores_on_the_chip_and_does_them_again_backward() {
    let gpt = model("mega-gpt-4b");
    let outside = |direction| gpt.outside(direction, 8).unwrap();
    let attention = |direction| {
        outside(direction).into_iter().find(|(name, _)| *name == "attention").expect("attention").1
    };
    let (scores, sums) = (gemm(16 * 1024, 1024, 256), gemm(16 * 1024, 256, 1024));
    let token = 16 * 1024 * 256;
    let forward = Work::Fused { gemms: vec![scores, sums], values: 4 * token };
    let backward = Work::Fused { gemms: vec![scores, scores, sums, sums, sums], values: 8 * token };
    assert_eq!([Direction::Forward, Direction::Backward].map(attention), [forward, backward]);
}

#[test]
fn heads_that_are_not_whole_change_no_product() {
    let gpt = model("mega-gpt-4b");
    assert_ne!(gpt.hidden % gpt.heads, 0);
    let whole = Transformer { heads: 16, ..gpt.clone() };
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(gpt.outside(direction, 32), whole.outside(direction, 32));
    }
}

/// Operations on one GPU of sub-layers and what is outside, in products of weights, and in all.
fn operations(model: &Transformer, direction: Direction, gpus: u16) -> (u64, u64) {
    let shapes = direction.sub_layers().map(|which| {
        assert_eq!(which.direction(), direction);
        model.sub_layer(which, gpus).unwrap()
    });
    let inside: u64 = shapes.iter().map(|shape| shape.before.operations() + shape.after.operations()).sum();
    let outside = model.outside(direction, gpus).unwrap();
    let gemms: u64 = outside
        .iter()
        .map(|(_, work)| if matches!(work, Work::Gemm(_)) { work.operations() } else { 0 })
        .sum();
    (inside + gemms, inside + outside.iter().map(|(_, work)| work.operations()).sum::<u64>())
}

proptest! {
    /// Of a layer with w weights each token takes 2 w operations forward and twice that backward (Narayanan et al., section 5.1 and
    /// appendix), attention 4 s h forward and, with scores done again, 10 s h backward; each GPU has its share.
    #[test]
    fn the_parts_are_together_a_layer(
        name in prop::sample::select(Transformer::names()),
        gpus in prop::sample::select(vec![1u16, 2, 4, 8, 16, 32]),
        factor in 1u32..5,
        ffn_matrices in 2u32..4,
    ) {
        let model = Transformer { ffn_matrices, ..model(&name).scaled(factor) };
        let [hidden, ffn] = [model.hidden, model.ffn].map(u64::from);
        let weights = 4 * hidden * hidden + u64::from(ffn_matrices) * hidden * ffn;
        let attention = 2 * u64::from(model.sequence) * hidden;
        for (direction, times, products) in [(Direction::Forward, 1, 2), (Direction::Backward, 2, 5)] {
            let right = 2 * weights * model.tokens() * times;
            let all = right + attention * model.tokens() * products;
            let (found, found_all) = operations(&model, direction, gpus);
            prop_assert_eq!((found * u64::from(gpus), found_all * u64::from(gpus)), (right, all));
        }
    }
}

#[test]
fn a_model_that_gpus_do_not_share_evenly_is_refused_in_a_line() {
    let llama = model("llama-7b");
    for (gpus, part) in [(3, "expected a hidden size"), (0, "expected a hidden size")] {
        let message = llama.sub_layer(SubLayer::L1, gpus).unwrap_err().to_string();
        assert!(
            message.contains(part) && message.contains("llama-7b") && !message.contains('\n'),
            "{message}"
        );
        assert_eq!(llama.outside(Direction::Forward, gpus).unwrap_err().to_string(), message);
    }
    let odd = Transformer { ffn: 11265, ..llama.clone() };
    assert!(odd.sub_layer(SubLayer::L2, 8).unwrap_err().to_string().contains("an FFN size"));
    let short = Transformer { batch: 1, sequence: 3, ..llama };
    assert!(short.sub_layer(SubLayer::L2, 8).unwrap_err().to_string().contains("expected tokens"));
}

#[test]
fn names_are_read_and_others_are_refused_in_a_line() {
    for which in SubLayer::ALL {
        assert_eq!(which.to_string().parse(), Ok(which));
    }
    assert_eq!("l2".parse(), Ok(SubLayer::L2));
    assert_eq!("backward".parse(), Ok(Direction::Backward));
    let messages = [
        Transformer::find("gpt-5").unwrap_err().to_string(),
        "L5".parse::<SubLayer>().unwrap_err().to_string(),
        "both".parse::<Direction>().unwrap_err().to_string(),
        Transformer::parse("here", "name = 1").unwrap_err().to_string(),
    ];
    for (message, part) in messages.iter().zip(["llama-7b, mega-gpt-4b", "(L1, L2", "(forward, b", "here: "])
    {
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    }
}
