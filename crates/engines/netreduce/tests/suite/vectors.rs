//! What the committed vectors say that the switch answers. The hardware's benches read the same file.

use crate::lines::{Lines, answer, switch};
use quincunx_netreduce::Shape;

const VECTORS: &str = include_str!("../../../../../vectors/allreduce-switch.txt");

#[test]
fn the_vectors_are_what_the_switch_answers() {
    let mut ports = 3;
    let mut switch = switch(Shape::of_ports(ports)).unwrap();
    let mut found = String::new();
    for told in VECTORS.lines().filter_map(|line| line.strip_prefix("> ")) {
        let mut answers = Lines(String::new());
        answer(&mut switch, &mut ports, told, &mut answers).unwrap();
        found += &format!("> {told}\n{}", answers.0);
    }
    assert!(found == VECTORS, "write them again: cargo run -p quincunx-netreduce --example vectors");
}

#[test]
fn the_vectors_show_every_answer() {
    for answer in ["out ", "drop 0 gap", "drop 0 pending", "drop 2 bad ICRC", "drop 2 unknown", "refused "] {
        assert!(VECTORS.lines().any(|line| line.starts_with(answer)), "{answer}");
    }
}
