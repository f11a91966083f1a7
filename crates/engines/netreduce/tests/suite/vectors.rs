//! What the committed vectors say that the switch answers. The hardware's benches read the same file.

use crate::lines::{Lines, ScriptedSwitch};
use quincunx_netreduce::Shape;

const VECTORS: &str = include_str!("../../../../../vectors/allreduce-switch.txt");

#[test]
fn the_vectors_are_what_the_switch_answers() {
    let mut switch = ScriptedSwitch::new(Shape::of_ports(3)).unwrap();
    let mut found = String::new();
    for told in VECTORS.lines().filter_map(|line| line.strip_prefix("> ")) {
        let mut answers = Lines(String::new());
        switch.answer(told, &mut answers).unwrap();
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

#[test]
fn frames_that_go_on_in_steps_are_answered_as_whole_ones() {
    let mut switch = ScriptedSwitch::new(Shape::of_ports(3)).unwrap();
    let mut tell = |line: &str| {
        let mut answers = Lines(String::new());
        switch.answer(line, &mut answers).unwrap();
        answers.0
    };
    let mut found = String::new();
    for line in VECTORS.lines().filter_map(|line| line.strip_prefix("> ")) {
        let answers = match line.strip_prefix("frame ") {
            None => tell(line),
            Some(rest) => {
                let dropped = tell(&format!("learn {rest}")) + &tell(&format!("find {rest}"));
                let (port, _) = rest.split_once(' ').unwrap();
                if dropped.is_empty() { tell(&format!("pass {port}")) } else { dropped }
            }
        };
        found += &format!("> {line}\n{answers}");
    }
    assert!(found == VECTORS, "{found}");
}

#[test]
fn a_destination_is_what_it_was_when_it_was_looked_up() {
    let mut switch = ScriptedSwitch::new(Shape::of_ports(3)).unwrap();
    let mut tell = |line: &str| {
        let mut answers = Lines(String::new());
        switch.answer(line, &mut answers).unwrap();
        answers.0
    };
    let (from_0, from_1) = ("020000000001020000000000080000", "020000000000020000000001080001");
    assert_eq!(tell(&format!("learn 1 {from_1}")), "");
    assert_eq!(tell(&format!("find 0 {from_0}")), "");
    assert_eq!(tell(&format!("learn 2 {from_1}")), "");
    assert_eq!(tell(&format!("find 0 {from_0}")), "");
    assert_eq!(tell("pass 0"), format!("out 1 {from_0}\n"));
    assert_eq!(tell("pass 0"), format!("out 2 {from_0}\n"));
    assert_eq!(tell(&format!("find 0 {from_0}")), "");
    assert_eq!(tell("lose 0"), "");
}
