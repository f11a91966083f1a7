//! What the committed vectors say that a Mode-II switch answers. The hardware's benches read the same file.

use crate::lines::ScriptedSwitch;

const VECTORS: &str = include_str!("../../../../../vectors/inc-engine.txt");

#[test]
fn the_vectors_are_what_the_switch_answers() {
    let (mut switch, mut found) = (None, String::new());
    for told in VECTORS.lines().filter_map(|line| line.strip_prefix("> ")) {
        let answers = ScriptedSwitch::answer(&mut switch, told).expect("a line that makes sense");
        found += &format!("> {told}\n{answers}");
    }
    assert!(found == VECTORS, "write them again: cargo run -p quincunx-epic --example vectors");
}

#[test]
fn the_vectors_show_sums_drops_and_switches_below_others() {
    for line in ["out ", "drop ", "> group 8 8 - ", "> group 9 8 7 "] {
        assert!(VECTORS.lines().any(|found| found.starts_with(line)), "{line}");
    }
}
