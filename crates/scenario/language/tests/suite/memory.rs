//! What an accelerator keeps, and what is refused because it cannot be split.

use quincunx_language::{Decoder, Memory, Phase, Products, Split, TrainingSetup};

fn model(name: &str) -> Decoder {
    Decoder::find(name).unwrap()
}

fn training(split: Split) -> Memory {
    let setup = TrainingSetup::new(64, 2048);
    Memory::of_training(&model("llama2-7b"), &split, &setup)
}

#[test]
fn training_keeps_sixteen_bytes_of_a_weight_and_replicas_share_some() {
    // ZeRO, figure 1: 16 psi; 4 psi and 12 psi / n; 2 psi and 14 psi / n; 16 psi / n.
    let weights = 6_738_415_616;
    let of = |zero| {
        let memory = training(Split { dp: 64, zero, ..Split::default() });
        [memory.weights, memory.gradients, memory.optimizer].map(|bytes| bytes.bytes())
    };
    assert_eq!(of(0), [2 * weights, 2 * weights, 12 * weights]);
    assert_eq!(of(1), [2 * weights, 2 * weights, 12 * (weights / 64)]);
    assert_eq!(of(2), [2 * weights, 2 * (weights / 64), 12 * (weights / 64)]);
    assert_eq!(of(3), [2, 2, 12].map(|each| each * (weights / 64)));
}

#[test]
fn activations_are_those_of_the_microbatches_under_way() {
    let of = |split: Split| training(split).activations.bytes();
    // Korthikanti et al., equation 2 without scores: 34 s b h of a layer.
    let layers = 34 * 2048 * 4096 * 32;
    assert_eq!(of(Split::default()), layers);
    assert_eq!(of(Split { pp: 4, ..Split::default() }), layers, "a quarter of the layers, four times");
    assert_eq!(of(Split { tp: 4, sequence_parallel: true, ..Split::default() }), layers / 4);
    assert_eq!(of(Split { tp: 4, ..Split::default() }), layers / 34 * 16, "10 and 24 over 4");
    assert_eq!(of(Split { recompute: true, ..Split::default() }), layers / 17, "a layer's input");
    let parts = of(Split { pp: 4, interleave: 2, ..Split::default() });
    assert_eq!(parts, layers / 8 * 11, "and 3 of 8 more");
}

#[test]
fn keys_and_values_are_kept_of_each_token() {
    let of = |name: &str, tp| {
        let split = Split { tp, ..Split::default() };
        let phase = Phase::Decode { batch: 4, length: 1000 };
        Memory::of_inference(&model(name), &split, phase, Products::Fp8)
    };
    // 2 x 8 heads x 128 x 80 layers x 2 B over 8 accelerators: 40 KiB a token; and a byte a weight.
    assert_eq!(of("llama2-70b", 8).kept.bytes(), 4000 * 40 * 1024);
    assert_eq!(of("llama2-70b", 16).kept.bytes(), 4000 * 40 * 1024, "none has less than a head");
    assert_eq!(of("llama2-7b", 1).weights.bytes(), 6_738_415_616);
    // 576 values in 61 layers, on each (DeepSeek-V2, section 2.1.2).
    assert_eq!(of("deepseek-v3", 8).kept.bytes(), 4000 * 576 * 61 * 2);
}

#[test]
fn what_does_not_divide_is_refused() {
    let refused = |name: &str, split: Split| split.check(&model(name)).unwrap_err();
    let split = Split::default();
    let heads = refused("llama2-70b", Split { tp: 7, ..split });
    assert_eq!(
        heads,
        "expected a `tp` that divides the attention heads of llama2-70b, found 7 for 64; choose another"
    );
    let odd = r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":90,"vocab_size":9}"#;
    let odd = Decoder::parse("odd", "config.json", odd).unwrap();
    let ffn = Split { tp: 4, ..split }.check(&odd).unwrap_err();
    assert_eq!(
        ffn,
        "expected a `tp` that divides the values inside the FFN of odd, found 4 for 90; choose another"
    );
    assert!(refused("qwen2.5-7b", Split { tp: 7, ..split }).contains("the 4 heads of keys"));
    assert!(refused("llama2-7b", Split { pp: 33, ..split }).contains("at most 32 stages"));
    assert!(refused("llama2-7b", Split { pp: 8, interleave: 5, ..split }).contains("at most 32 stages"));
    assert!(refused("llama2-7b", Split { ep: 2, ..split }).contains("a model with experts"));
    assert!(refused("mixtral-8x7b", Split { ep: 3, ..split }).contains("divides the experts"));
    assert!(
        refused("mixtral-8x7b", Split { ep: 4, dp: 2, ..split }).contains("the 2 accelerators of a stage")
    );
    assert!(refused("llama2-7b", Split { tp: 0, ..split }).contains("of one or more"));
    assert!(refused("llama2-7b", Split { zero: 4, ..split }).contains("`zero` of 0 to 3"));
    assert_eq!(Split { tp: 8, pp: 3, dp: 5, ..split }.check(&model("llama2-70b")), Ok(()));
    assert_eq!(Split { pp: 3, ..split }.layers(&model("llama2-70b")), 27, "the longest of 27, 27 and 26");
}

#[test]
fn experts_that_are_together_are_split_and_those_that_are_apart_are_whole() {
    let model = model("mixtral-8x7b");
    let experts = |split: Split| model.share(&split)[1];
    assert_eq!(experts(Split { tp: 8, ..Split::default() }), model.routed_parameters() / 8);
    assert_eq!(experts(Split { tp: 8, ep: 4, ..Split::default() }), model.routed_parameters() / 4);
}

#[test]
fn the_first_of_several_stages_has_one_of_both_tables() {
    let model = model("llama2-7b");
    let common = |pp| model.share(&Split { pp, ..Split::default() })[0];
    assert_eq!(common(1), model.parameters());
    assert_eq!(common(2), model.common_parameters() / 2 + 32000 * 4096);
}

#[test]
fn a_stage_keeps_what_its_own_layers_need() {
    let of = |pp| {
        let split = Split { pp, ..Split::default() };
        let phase = Phase::Decode { batch: 4, length: 1000 };
        Memory::of_inference(&model("llama2-7b"), &split, phase, Products::Fp16).kept.bytes()
    };
    assert_eq!(of(4), of(1) / 4);
    // Of two microbatches no more are under way, however many stages there are.
    let of = |batch| {
        let setup = TrainingSetup::new(batch, 2048);
        let split = Split { pp: 4, ..Split::default() };
        Memory::of_training(&model("llama2-7b"), &split, &setup).activations.bytes()
    };
    assert_eq!((of(2), of(8)), (of(4) / 2, of(4)));
}
