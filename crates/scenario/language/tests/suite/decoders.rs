//! Models are read as they are published, and have as many weights as is published.

use proptest::prelude::*;
use quincunx_language::{Attention, Decoder};

/// What the models' own weights add up to, as model hubs tell it; of GPT-3 and DeepSeek-V3 what their papers say.
const PUBLISHED: [(&str, u64, f64); 16] = [
    ("llama2-7b", 6_738_415_616, 0.0),
    ("llama2-13b", 13_015_864_320, 0.0),
    ("llama2-70b", 68_976_648_192, 0.0),
    ("llama-7b", 6_738_415_616, 0.0),
    ("llama-65b", 65_285_660_672, 0.0),
    ("llama3-8b", 8_030_261_248, 0.0),
    ("llama3-70b", 70_553_706_496, 0.0),
    ("llama3.2-1b", 1_235_814_400, 0.0),
    ("qwen2.5-0.5b", 494_032_768, 0.0),
    ("qwen2.5-7b", 7_615_616_512, 0.0),
    ("mixtral-8x7b", 46_702_792_704, 0.0),
    ("gpt2", 124_439_808, 0.0),
    ("gpt2-large", 774_030_080, 0.0),
    ("deepseek-v3", 671_000_000_000, 0.001),
    ("gpt3-175b", 175_000_000_000, 0.005),
    ("gpt3-13b", 13_000_000_000, 0.02),
];

#[test]
fn a_model_has_the_weights_that_are_published() {
    for (name, published, tolerance) in PUBLISHED {
        let found = Decoder::find(name).unwrap().parameters();
        let error = (found as f64 / published as f64 - 1.0).abs();
        assert!(error <= tolerance, "{name}: {found}, published {published}");
    }
}

#[test]
fn a_token_meets_the_experts_that_it_takes_alone() {
    let active = |name: &str| Decoder::find(name).unwrap().active_parameters();
    assert_eq!(active("mixtral-8x7b"), 12_879_925_248);
    // 37 of 671 billion (DeepSeek-V3, 2024, section 2).
    let share = active("deepseek-v3") as f64 / 37e9;
    assert!((share - 1.0).abs() < 0.02, "{share}");
    let dense = Decoder::find("llama2-7b").unwrap();
    assert_eq!(dense.active_parameters(), dense.parameters());
}

#[test]
fn keys_under_the_names_of_another_family_are_the_same() {
    let gpt = r#"{"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,"vocab_size":50257,"n_inner":null}"#;
    let other = r#"{"model_type":"gpt2","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,
        "max_position_embeddings":1024,"vocab_size":50257,"intermediate_size":3072,"architectures":["any"]}"#;
    let read = |text| Decoder::parse("model", "config.json", text).unwrap();
    assert_eq!(read(gpt), read(other));
}

#[test]
fn heads_may_be_wider_than_their_share_of_a_token() {
    let text = r#"{"model_type":"qwen3","hidden_size":2560,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,
        "head_dim":128,"intermediate_size":9728,"vocab_size":151936,"tie_word_embeddings":true}"#;
    let model = Decoder::parse("qwen3-4b", "config.json", text).unwrap();
    assert_eq!(model.attention, Attention::Grouped { heads: 32, kept: 8, width: 128 });
    assert_eq!(model.parameters(), 4_022_468_096);
}

#[test]
fn what_is_no_model_is_refused_in_a_line_that_says_what_to_do() {
    let good = r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":100}"#;
    assert!(Decoder::parse("m", "config.json", good).is_ok());
    let refused = [
        ("[1]", "found invalid type"),
        ("{", "found EOF"),
        (&good.replace("llama", "mamba"), "expected a `model_type` that is known"),
        (&good.replace(r#""model_type":"llama","#, ""), "found none; take the nearest"),
        (&good.replace(r#""hidden_size":64,"#, ""), "expected `hidden_size`, found none; add it"),
        (&good.replace(":64", ":0"), "expected 1 to 16777216 in `hidden_size`, found 0"),
        (
            &good.replace(":64", ":66"),
            "in multiples of `num_attention_heads`, found 66 and 4; say `head_dim`",
        ),
        (&good.replace(":64", ":-1"), "invalid value"),
        (&good.replace(":64", ":NaN"), "expected value"),
        (&good.replace("\"vocab", "\"num_key_value_heads\":3,\"vocab"), "found 4 and 3; correct them"),
        (
            &good.replace("\"vocab", "\"num_local_experts\":8,\"vocab"),
            "expected `num_experts_per_tok`, found none",
        ),
        (
            &good.replace("\"vocab", "\"num_local_experts\":8,\"num_experts_per_tok\":9,\"vocab"),
            "expected at most 8 experts a token",
        ),
    ];
    for (text, expected) in refused {
        let error = Decoder::parse("m", "config.json", text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("config.json: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let unknown = Decoder::find("gpt-9").unwrap_err().to_string();
    assert!(unknown.starts_with("expected a language model (deepseek-v3, gpt2, "), "{unknown}");
    assert!(
        Decoder::find("./nowhere/config.json")
            .unwrap_err()
            .to_string()
            .starts_with("./nowhere/config.json: ")
    );
}

proptest! {
    /// A peer's file never panics, whatever its numbers are.
    #[test]
    fn any_numbers_are_a_model_or_an_error(numbers in prop::collection::vec(prop_oneof![0u64..9, any::<u64>()], 12)) {
        let n = |index: usize| numbers[index];
        let text = format!(
            r#"{{"model_type":"deepseek_v3","hidden_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},
            "intermediate_size":{},"vocab_size":{},"n_routed_experts":{},"num_experts_per_tok":{},"n_shared_experts":{},
            "moe_intermediate_size":{},"first_k_dense_replace":{},"head_dim":{}}}"#,
            n(0), n(1), n(2), n(3), n(4), n(5), n(6), n(7), n(8), n(9), n(10), n(11)
        );
        if let Ok(model) = Decoder::parse("m", "config.json", &text) {
            prop_assert!(model.active_parameters() <= model.parameters());
        }
    }
}
