//! The roofline, held against what was measured.

use quincunx_language::{
    Accelerator, Decoder, KernelKind, Launches, LayerProfile, Phase, Products, Source, Split, Timing, kernels,
};

fn timing(name: &str, products: Products) -> Timing {
    Timing {
        accelerator: Accelerator::find(name).unwrap(),
        profile: Some(LayerProfile::parse(name, LayerProfile::text(name).unwrap()).unwrap()),
        products,
        launches: Launches::Graph,
        stretch: 1.0,
    }
}

const PROMPT: Phase = Phase::Prefill { batch: 8, length: 1024 };
const TOKEN: Phase = Phase::Decode { batch: 8, length: 1024 };

#[test]
fn the_roofline_is_near_what_was_measured_on_two_gpus() {
    for name in ["h200", "h100"] {
        for products in [Products::Fp16, Products::Fp8] {
            for phase in [PROMPT, TOKEN] {
                let error = timing(name, products).error(None, phase).unwrap().unwrap();
                assert!(error.rows >= 120, "{name}: {error:?}");
                assert!(error.median.abs() < 0.05, "{name}, {products:?}: {error:?}");
                let doubt = Source::Roofline.doubt();
                assert!(error.range[0] > -doubt && error.range[1] < 0.2, "{name}, {products:?}: {error:?}");
            }
        }
    }
}

#[test]
fn what_is_stretched_takes_so_many_times_as_long_wherever_its_time_is_from() {
    let once = timing("h200", Products::Fp16);
    let twice = Timing { stretch: 2.0, ..once.clone() };
    let split = Split { tp: 8, ..Split::default() };
    let all = |timing: &Timing| {
        let of = |name: &str, phase| timing.layer(&Decoder::find(name).unwrap(), &split, phase).unwrap().0;
        let head = timing.head(&Decoder::find("llama2-7b").unwrap(), &split, 8).unwrap();
        // Measured, between measured, by the roofline, and the product at the end.
        [of("llama2-7b", PROMPT), of("llama2-7b", TOKEN), of("llama3-8b", PROMPT), head]
    };
    assert_eq!(all(&twice), all(&once).map(|time| time * 2));
    // What is said of the roofline is said of it as it is.
    assert_eq!(twice.error(None, PROMPT), once.error(None, PROMPT));
}

#[test]
fn a_layer_is_measured_or_between_or_by_the_roofline() {
    let timing = timing("h200", Products::Fp16);
    let source = |name: &str, tp, phase| {
        let split = Split { tp, ..Split::default() };
        timing.layer(&Decoder::find(name).unwrap(), &split, phase).unwrap().1
    };
    assert_eq!(source("llama2-7b", 8, PROMPT), Source::Measured);
    assert_eq!(source("llama2-7b", 8, TOKEN), Source::Between);
    assert_eq!(source("llama3-8b", 8, PROMPT), Source::Roofline);
    // What lies between products is shared then, and nobody has measured that.
    let split = Split { tp: 8, sequence_parallel: true, ..Split::default() };
    let model = Decoder::find("llama2-7b").unwrap();
    assert_eq!(timing.layer(&model, &split, PROMPT).unwrap().1, Source::Roofline);
}

#[test]
fn a_layer_is_ten_launches() {
    // SCIN 4.1: norm and addition twice.
    let split = Split { tp: 8, ..Split::default() };
    let all = kernels(&Decoder::find("llama2-70b").unwrap(), &split, PROMPT, Products::Fp16);
    let names: Vec<_> = all.iter().map(|kernel| kernel.name).collect();
    assert_eq!(names, ["norm", "qkv", "attention", "out", "gate_up", "activation", "down", "add"]);
    assert_eq!(all.iter().map(|kernel| kernel.launches).sum::<u64>(), 10);
}

#[test]
fn products_do_two_operations_for_each_weight_and_token() {
    for (name, split) in [
        ("llama2-70b", Split::default()),
        ("gpt3-175b", Split::default()),
        ("qwen2.5-7b", Split { tp: 4, ..Split::default() }),
        ("deepseek-v3", Split::default()),
    ] {
        let model = Decoder::find(name).unwrap();
        let all = kernels(&model, &split, PROMPT, Products::Fp16);
        let products = all.iter().filter(|kernel| kernel.kind == KernelKind::Product);
        let operations: f64 = products.map(|kernel| kernel.operations).sum();
        let layers = model.layers as f64 * f64::from(split.tp);
        // Tables before the first layer and behind the last one are no layer's; dense layers are a little larger or smaller.
        let weights = (model.active_parameters() - model.outer_parameters()) as f64;
        let error = operations * layers / (2.0 * 8192.0 * weights) - 1.0;
        assert!(error.abs() < 0.02, "{name}: {error}");
    }
}

#[test]
fn a_token_reads_all_weights_of_a_layer() {
    let model = Decoder::find("llama2-70b").unwrap();
    for (products, bytes) in [(Products::Fp16, 2.0), (Products::Fp8, 1.0)] {
        let phase = Phase::Decode { batch: 1, length: 1 };
        let all = kernels(&model, &Split::default(), phase, products);
        let read: f64 = all.iter().map(|kernel| kernel.bytes).sum();
        let weights = (model.common_parameters() / model.layers) as f64 * bytes;
        assert!((read / weights - 1.0).abs() < 0.01, "{read} {weights}");
    }
}

#[test]
fn of_many_experts_a_token_reads_those_that_it_takes() {
    let model = Decoder::find("mixtral-8x7b").unwrap();
    let bytes = |batch| {
        let all = kernels(&model, &Split::default(), Phase::Decode { batch, length: 1 }, Products::Fp16);
        let of = |name| all.iter().find(|kernel| kernel.name == name).unwrap().bytes;
        (of("gate_up") + of("down")) / (2.0 * model.expert_parameters() as f64)
    };
    assert!((bytes(1) - 2.0).abs() < 0.01, "{}", bytes(1));
    assert!((bytes(2) - 4.0).abs() < 0.01, "{}", bytes(2));
    assert!((bytes(64) - 8.0).abs() < 0.15, "{}", bytes(64));
}

#[test]
fn an_accelerator_without_products_of_eight_bits_refuses_them() {
    let timing = Timing {
        accelerator: Accelerator::find("a100").unwrap(),
        profile: None,
        ..timing("h200", Products::Fp8)
    };
    let error = timing.layer(&Decoder::find("gpt2").unwrap(), &Split::default(), TOKEN).unwrap_err();
    assert!(error.to_string().contains("found fp8; set `products` to fp16"), "{error}");
    let unknown = Accelerator::find("b9000").unwrap_err().to_string();
    assert!(unknown.starts_with("expected an accelerator (v100, a100, h100, h200)"), "{unknown}");
}

#[test]
fn the_first_layers_of_a_model_with_experts_may_have_none() {
    let timing = Timing { profile: None, ..timing("h200", Products::Fp16) };
    let model = Decoder::find("deepseek-v3").unwrap();
    let dense = Decoder { experts: None, ..model.clone() };
    let split = Split { tp: 8, ep: 8, ..Split::default() };
    let layer = |model: &Decoder| timing.layer(model, &split, TOKEN).unwrap().0;
    let layers = |count| timing.layers(&model, &split, TOKEN, count).unwrap().0;
    assert_eq!(layers(61), layer(&model) * 58 + layer(&dense) * 3);
    // The longest of four stages is not the first.
    assert_eq!(layers(16), layer(&model) * 16);
}

#[test]
fn what_lies_between_products_is_shared_with_sequence_parallelism() {
    let model = Decoder::find("llama2-7b").unwrap();
    let bytes = |sequence_parallel| {
        let split = Split { tp: 8, sequence_parallel, ..Split::default() };
        let all = kernels(&model, &split, PROMPT, Products::Fp16);
        let of = |name| all.iter().find(|kernel| kernel.name == name).unwrap().bytes;
        [of("norm"), of("add"), of("activation"), of("out")]
    };
    let [norm, add, activation, out] = bytes(false);
    assert_eq!(bytes(true), [norm / 8.0, add / 8.0, activation, out]);
}

#[test]
fn with_more_accelerators_than_heads_of_keys_each_has_one() {
    let model = Decoder::find("llama2-70b").unwrap();
    let split = Split { tp: 16, ..Split::default() };
    let all = kernels(&model, &split, Phase::Decode { batch: 1, length: 1 }, Products::Fp16);
    let product = all.iter().find(|kernel| kernel.name == "qkv").unwrap();
    // Four heads of queries, one of keys and one of values.
    assert_eq!(product.operations, 2.0 * f64::from(8192 * (4 + 2) * 128));
}
