//! Holds `vectors/blocks.json`, which Python replays, to what the code gives.

use crate::block_example;

#[test]
fn the_vectors_of_block_formats_are_what_the_code_gives() {
    let found = include_str!("../../../../../vectors/blocks.json");
    let remedy = "cargo run -p quincunx-collective --example block_vectors > vectors/blocks.json";
    for (number, (expected, found)) in block_example::vectors().lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "line {}: if this change is meant, run `{remedy}`", number + 1);
    }
    assert_eq!(block_example::vectors().len(), found.len(), "if this change is meant, run `{remedy}`");
}
