//! Writes `vectors/blocks.json`: what block formats give, to the bit, for whoever else implements them.
//!
//! `cargo run -p quincunx-collective --example block_vectors > vectors/blocks.json`; the file's format is described in
//! `vectors/README.md`, and the tests of this room hold it to what the code gives today.

use quincunx_collective::{BlockFormat, DataType, Numbers, Payload, ReduceOp, Reduction, noise};
use serde_json::{Value, json};

/// One line a case, so that a change can be read.
pub(crate) fn vectors() -> String {
    let one_each_line = |values: &[Value]| {
        let lines: Vec<String> = values.iter().map(|value| format!("  {value}")).collect();
        lines.join(",\n")
    };
    let (quantize, add) = (one_each_line(&quantize_cases()), one_each_line(&add_cases()));
    format!("{{\"quantize\": [\n{quantize}\n],\n\"add\": [\n{add}\n]}}\n")
}

fn quantize_cases() -> Vec<Value> {
    let scaled = |power: i32| values(4, 48).iter().map(|value| value * 2f32.powi(power)).collect::<Vec<_>>();
    let with = |bad: f32| {
        let mut values = values(3, 48);
        values[20] = bad;
        values
    };
    let inputs: [(&str, Vec<f32>); 13] = [
        ("nothing", Vec::new()),
        ("noise", values(1, 48)),
        ("more than a tile", values(2, 120)),
        ("zeros of both signs", [0.0, -0.0].repeat(9)),
        ("ties of E2M1", [6.0, 0.25, -0.75, 1.25, -1.75, 2.5, -3.5, 5.0].into()),
        ("ties of E4M3", [448.0, 17.0, -19.0, 2f32.powi(-10), 3.0 * 2f32.powi(-10), 424.0].into()),
        ("subnormal scales of E4M3", scaled(-14)),
        ("the smallest scale of E8M0", scaled(-124)),
        ("binary32's subnormal numbers", [1, 0x8000_0001, 0x7f_ffff].map(f32::from_bits).into()),
        ("NaN", with(f32::NAN)),
        ("minus infinity", with(f32::NEG_INFINITY)),
        ("too large for NVFP4", with(2688.0f32.next_up())),
        ("binary32's largest", with(f32::MAX)),
    ];
    let mut cases = Vec::new();
    for (name, input) in &inputs {
        for format in BlockFormat::ALL {
            let tiles = format.quantize(input);
            let restored = format.dequantize(&tiles);
            cases.push(json!({
                "name": name, "format": format.data_type().name(), "input": bits(input),
                "tiles": shown(&tiles), "restored": bits(&restored[..input.len()]),
            }));
        }
    }
    cases
}

fn add_cases() -> Vec<Value> {
    let mut cases = Vec::new();
    for format in BlockFormat::ALL {
        let data_type = format.data_type();
        let [a, b] = [10, 11].map(|seed| noise(seed, format.tile(), data_type));
        // Every byte, as others may send them.
        let any = [20, 21].map(|seed| noise(seed, format.tile(), DataType::U8));
        for [a, b] in [[a, b], any] {
            let mut sum = a.clone();
            sum.reduce(0, b.view(0..b.length()), Reduction { op: ReduceOp::Sum, data_type });
            let [a, b, sum] = [a, b, sum].map(|tiles: Numbers| shown(tiles.bytes()));
            cases.push(json!({ "format": data_type.name(), "a": a, "b": b, "sum": sum }));
        }
    }
    cases
}

fn values(seed: u64, values: usize) -> Vec<f32> {
    let bytes = noise(seed, 4 * values, DataType::F32).into_bytes();
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    // One pattern of NaN, whatever the machine makes of it.
    values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }).collect()
}

/// Bytes in hexadecimal digits.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg_attr(test, allow(dead_code, reason = "tests take the text from the function above"))]
fn main() {
    print!("{}", vectors());
}
