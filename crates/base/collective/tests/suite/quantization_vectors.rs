//! Holds `vectors/quantization.json`, which Python and others replay, to what the code gives.

use crate::example;
#[test]
fn the_vectors_are_what_the_code_gives() {
    let found = include_str!("../../../../../vectors/quantization.json");
    let remedy =
        "cargo run -p quincunx-collective --example quantization_vectors > vectors/quantization.json";
    for (number, (expected, found)) in example::vectors().lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "line {}: if this change is meant, run `{remedy}`", number + 1);
    }
    assert_eq!(example::vectors().len(), found.len(), "if this change is meant, run `{remedy}`");
}
