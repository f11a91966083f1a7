//! Writes `vectors/quantization.json`: what block quantization gives, to the bit, for whoever else implements it.
//!
//! `cargo run -p quincunx-collective --example quantization_vectors > vectors/quantization.json`; the file's format is
//! described in `vectors/README.md`, and the tests of this room hold it to what the code gives today.

use quincunx_collective::{BlockQuantization, CodeType, DataType, noise};
use serde_json::{Value, json};

/// One line a case, so that a change can be read.
pub(crate) fn vectors() -> String {
    let one_each_line = |values: &[Value]| {
        let lines: Vec<String> = values.iter().map(|value| format!("  {value}")).collect();
        lines.join(",\n")
    };
    let (quantize, all_reduce) = (one_each_line(&quantize_cases()), one_each_line(&all_reduce_cases()));
    format!("{{\"quantize\": [\n{quantize}\n],\n\"all_reduce\": [\n{all_reduce}\n]}}\n")
}

fn quantize_cases() -> Vec<Value> {
    let tie =
        |largest: f32| (0..80).map(move |index| if index == 0 { largest } else { index as f32 / 2.0 - 20.0 });
    let with = |bad: f32| {
        noise_values(3, 70).into_iter().enumerate().map(move |(at, x)| if at == 40 { bad } else { x })
    };
    let inputs: [(&str, Vec<f32>); 11] = [
        ("noise", noise_values(1, 200)),
        ("one block and a bit", noise_values(2, 65)),
        ("nothing", Vec::new()),
        ("zeros of both signs", [0.0, -0.0].repeat(17)),
        ("ties of INT8", tie(127.0).collect()),
        ("ties of INT4", tie(7.0).map(|value| value.clamp(-7.0, 7.0)).collect()),
        ("subnormal scales", noise_values(4, 100).iter().map(|value| value * 2f32.powi(-26)).collect()),
        ("binary32's subnormal numbers", [1, 0x8000_0001, 0x7f_ffff].map(f32::from_bits).to_vec()),
        ("NaN", with(f32::NAN).collect()),
        ("minus infinity", with(f32::NEG_INFINITY).collect()),
        ("too large for a scale", with(65504.0 * 127.5).collect()),
    ];
    let mut cases = Vec::new();
    for (name, input) in &inputs {
        for (code, block) in [(CodeType::Int8, 32), (CodeType::Int4, 64)] {
            let quantized = quantization(code, block).quantize(input);
            let restored = quantization(code, block).dequantize(&quantized, input.len());
            cases.push(json!({
                "name": name, "code": code_name(code), "block": block, "input": bits(input),
                "codes": quantized.codes, "scales": quantized.scales, "restored": bits(&restored),
            }));
        }
    }
    cases
}

fn all_reduce_cases() -> Vec<Value> {
    let mut cases = Vec::new();
    for (ranks, values) in [(1, 32), (3, 96), (8, 288), (5, 100)] {
        let inputs: Vec<Vec<f32>> = (0..ranks).map(|rank| noise_values(10 + rank, values)).collect();
        for code in CodeType::ALL {
            let quantization = quantization(code, 32);
            cases.push(json!({
                "code": code_name(code), "block": 32,
                "inputs": inputs.iter().map(|input| bits(input)).collect::<Vec<_>>(),
                "inq": bits(&quantization.inq_all_reduce(&inputs)),
                "rq": bits(&quantization.rq_all_reduce(&inputs)),
            }));
        }
    }
    cases
}

fn quantization(code: CodeType, block: usize) -> BlockQuantization {
    BlockQuantization::new(code, block).expect("a block size of the table")
}

fn code_name(code: CodeType) -> &'static str {
    match code {
        CodeType::Int8 => "int8",
        CodeType::Int4 => "int4",
    }
}

fn noise_values(seed: u64, values: usize) -> Vec<f32> {
    let bytes = noise(seed, 4 * values, DataType::F32).into_bytes();
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[cfg_attr(test, allow(dead_code, reason = "tests take the text from the function above"))]
fn main() {
    print!("{}", vectors());
}
