//! Measured layers.

use quincunx_language::{Decoder, Launches, LayerProfile, Phase, Products, Source};

fn h200() -> LayerProfile {
    LayerProfile::parse("h200", LayerProfile::text("h200").unwrap()).unwrap()
}

fn micros(
    profile: &LayerProfile,
    name: &str,
    tp: u32,
    phase: Phase,
    launches: Launches,
) -> Option<(f64, bool)> {
    let model = Decoder::find(name).unwrap();
    let found = profile.layer(&model, tp, phase, Products::Fp16, launches);
    found.map(|(time, is_exact)| (time.as_micros_f64(), is_exact))
}

const PROMPT: Phase = Phase::Prefill { batch: 8, length: 1024 };

#[test]
fn a_measured_layer_takes_what_was_measured() {
    let of = |phase, launches| micros(&h200(), "llama2-70b", 8, phase, launches);
    assert_eq!(of(PROMPT, Launches::Graph), Some((3101.19, true)));
    let token = Phase::Decode { batch: 1, length: 1024 };
    assert_eq!(of(token, Launches::Graph), Some((103.12, true)));
    // Norm and addition are launched twice.
    let apart = of(token, Launches::Apart).unwrap().0;
    assert!((apart - 136.0).abs() < 0.05, "{apart}");
}

#[test]
fn a_layer_between_measured_ones_takes_what_is_between_theirs() {
    let profile = h200();
    let of = |batch, length| {
        let phase = Phase::Decode { batch, length };
        micros(&profile, "llama2-7b", 8, phase, Launches::Graph).unwrap()
    };
    let [(before, _), (between, is_exact), (behind, _)] = [of(64, 2048), of(96, 2048), of(128, 2048)];
    assert!(!is_exact && before < between && between < behind, "{before} {between} {behind}");
    // As long again, as many tokens looked at: attention doubles, and nothing else.
    let [(short, _), (long, _)] = [of(128, 4096), of(128, 8192)];
    assert!(long > 1.6 * short && long < 2.0 * short, "{short} {long}");
}

#[test]
fn a_row_that_is_left_out_is_near_what_the_others_say() {
    let text = LayerProfile::text("h200").unwrap();
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut errors = Vec::new();
    let rows = file["rows"].as_array().unwrap();
    for (number, row) in rows.iter().enumerate() {
        let is_whole =
            ["prefill", "decode"].contains(&row["phase"].as_str().unwrap()) && row["gemm"] == "fp16";
        // The ends of what was measured are not between others.
        let [batch, length] = ["batch", "length"].map(|key| row[key].as_u64().unwrap());
        let is_inner = is_whole
            && row["tp"] == 8
            && [4, 8, 16, 64].contains(&batch)
            && [512, 1024, 2048].contains(&length);
        if is_inner {
            let mut others = file.clone();
            others["rows"].as_array_mut().unwrap().remove(number);
            let others = LayerProfile::parse("others", &others.to_string()).unwrap();
            let phase = match row["phase"] == "prefill" {
                true => Phase::Prefill { batch, length },
                false => Phase::Decode { batch, length },
            };
            let name = row["model"].as_str().unwrap();
            let (found, is_exact) = micros(&others, name, 8, phase, Launches::Graph).unwrap();
            assert!(!is_exact);
            errors.push((found / row["layer"].as_f64().unwrap() - 1.0).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() > 30, "{}", errors.len());
    let (median, most) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    assert!(median < 0.03 && most < Source::Between.doubt(), "{median} {most}");
}

#[test]
fn other_splits_and_shapes_were_not_measured() {
    let of = |name: &str, tp| micros(&h200(), name, tp, PROMPT, Launches::Graph);
    assert_eq!(of("llama2-70b", 16), None);
    assert_eq!(of("llama3-8b", 8), None);
    // LLaMA-3 70B differs before the first layer and behind the last one alone.
    assert_eq!(of("llama3-70b", 8), of("llama2-70b", 8));
}

#[test]
fn what_is_no_profile_of_layers_is_refused_in_a_line() {
    let row = r#"{"model":"llama2-7b","tp":8,"phase":"decode","batch":1,"length":128,"gemm":"fp16","kernels":{"attention":1.0},"layer":5.0}"#;
    let file = |unit: &str, row: &str| format!(r#"{{"device":"G","unit":"{unit}","rows":[{row}]}}"#);
    assert!(LayerProfile::parse("p", &file("us", row)).is_ok());
    let refused = [
        ("{".to_owned(), "expected a profile of a GPU"),
        (file("ms", row), "expected times in \"us\""),
        (file("us", ""), "expected rows of phase prefill or decode"),
        (file("us", &row.replace(":5.0", ":0.0")), "expected times and sizes above zero"),
        (file("us", &row.replace("\"batch\":1", "\"batch\":0")), "expected times and sizes above zero"),
        (file("us", &row.replace(",\"layer\":5.0", "")), "found one missing"),
        (file("us", &row.replace(":5.0", ":NaN")), "expected value"),
    ];
    for (text, expected) in refused {
        let error = LayerProfile::parse("p", &text).unwrap_err().to_string();
        assert!(error.starts_with("p: ") && error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_layer_over_four_is_none_over_eight() {
    let file: serde_json::Value = serde_json::from_str(LayerProfile::text("h200").unwrap()).unwrap();
    let row = file["rows"].as_array().unwrap().iter().find(|row| {
        (&row["model"], &row["tp"], &row["phase"], &row["batch"], &row["length"], &row["gemm"])
            == (&"llama2-7b".into(), &4.into(), &"prefill".into(), &8.into(), &1024.into(), &"fp16".into())
    });
    let [four, eight] = [4, 8].map(|tp| micros(&h200(), "llama2-7b", tp, PROMPT, Launches::Graph).unwrap().0);
    assert!((four - row.unwrap()["layer"].as_f64().unwrap()).abs() < 1e-6 && four > 1.5 * eight);
    let between = Phase::Decode { batch: 96, length: 2048 };
    let [four, eight] =
        [4, 8].map(|tp| micros(&h200(), "llama2-7b", tp, between, Launches::Graph).unwrap().0);
    assert!(four > 1.3 * eight, "{four} {eight}");
}
