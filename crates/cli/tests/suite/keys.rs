//! The reference of keys is made from the designs themselves, and shows presets as examples.

use crate::simulations::quincunx;
use quincunx_designs::CATALOG;
use std::fmt::Write as _;

/// Examples: of packets, of memory, of a workload.
const PRESETS: [&str; 3] = ["epic-star8", "scin-dgx8", "two-servers"];

fn shown(name: &str) -> String {
    let output = quincunx(&["sim", "--show", name]);
    assert!(output.status.success(), "{name}");
    String::from_utf8(output.stdout).expect("text")
}

fn page() -> String {
    let mut text = String::from(
        "# Keys\nFor files and `--set`: every key of every design, with its default and what it means; before them three presets, as examples of what a\n\
         file of a fabric says. Sizes are in bytes with `KiB`, `MiB` or `KB`, rates in bits a second (`100Gbit/s`), times have their unit (`20ms`, `1us`).\n\
         Made by `QUINCUNX_KEYS=write cargo test -p quincunx-cli --test suite keys`.\n",
    );
    for preset in PRESETS {
        write!(text, "\n## The preset {preset}\n```\n{}\n```\n", shown(preset).trim_end()).expect("a string");
    }
    let mut names: Vec<&str> = CATALOG.iter().map(|design| design.name()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        write!(text, "\n## The design {name}\n```\n{}\n```\n", shown(name).trim_end()).expect("a string");
    }
    text
}

#[test]
fn the_reference_has_each_key_of_each_design_as_it_is_today() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
    if std::env::var("QUINCUNX_KEYS").is_ok_and(|word| word == "write") {
        std::fs::write(place, page()).expect("docs can be written");
    }
    let written = std::fs::read_to_string(place).unwrap_or_default();
    assert!(
        written == page(),
        "expected docs/keys.md as designs have it; QUINCUNX_KEYS=write cargo test -p quincunx-cli --test suite keys"
    );
}
