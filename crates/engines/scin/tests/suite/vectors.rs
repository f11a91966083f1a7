//! What the committed vectors say that the in-switch accelerator answers. The hardware's benches read the same file.

use crate::lines::ScriptedIsa;

const VECTORS: &str = include_str!("../../../../../vectors/scin-isa.txt");

#[test]
fn the_vectors_are_what_the_accelerator_answers() {
    let mut isa = ScriptedIsa::new(4, 0).expect("an accelerator");
    let mut found = String::new();
    for told in VECTORS.lines().filter_map(|line| line.strip_prefix("> ")) {
        found += &format!("> {told}\n{}", isa.answer(told).expect("a line that makes sense"));
    }
    assert!(found == VECTORS, "write them again: cargo run -p quincunx-scin --example vectors");
}

#[test]
fn the_vectors_show_every_answer() {
    for answer in ["flag ", "memory ", "refused expected sources", "refused expected an instruction for"] {
        assert!(VECTORS.lines().any(|line| line.starts_with(answer)), "{answer}");
    }
}
