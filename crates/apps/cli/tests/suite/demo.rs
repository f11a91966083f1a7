//! What the documentation says that the demo prints is what it prints: the simulated rows to the last digit, and of those on real processes
//! all but their times.

use crate::simulations::quincunx;
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use std::collections::BTreeMap;

/// The smallest and the largest size that are simulated here; larger ones take long without optimisation.
const SIZES: &str = "4KiB:64KiB:16";
const LARGEST: u64 = 65_536;

/// The rows of the demo's page, in words.
fn rows() -> Vec<Vec<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/demo.md");
    let text = std::fs::read_to_string(page).expect("the page is there");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(words).filter(|words| words.iter().any(|word| word == "f32")).collect()
}

#[test]
fn simulated_rows_are_those_of_today() {
    let mut fabrics: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for row in rows().into_iter().filter(|row| row.len() == 13) {
        fabrics.entry(row[0].clone()).or_default().push(row[1..].to_vec());
    }
    assert_eq!(fabrics.len(), 2, "two fabrics are simulated");
    for (fabric, mut rows) in fabrics {
        rows.retain(|row| row[2].parse::<u64>().unwrap() <= LARGEST);
        let mut designs: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        designs.dedup();
        let output = quincunx(&[
            "sim",
            "all_reduce",
            "--fabric",
            &fabric,
            "--design",
            &designs.join(","),
            "--size",
            SIZES,
        ]);
        let printed = String::from_utf8_lossy(&output.stdout);
        let today: Vec<Vec<String>> = printed
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter(|words| words.get(1).is_some_and(|word| word == "all_reduce"))
            .collect();
        assert_eq!(rows, today, "{fabric}; `make demo-docs` writes the page");
    }
}

#[test]
fn each_design_and_collective_on_real_processes_has_a_row_and_each_result_is_right() {
    let found: Vec<(String, String)> = rows()
        .iter()
        .filter(|row| row.len() == 12)
        .inspect(|row| assert_eq!(row[11], "0", "{row:?}"))
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    // A star alone serves those whose frames are added up as they pass.
    let left_out = ["netreduce", "switchml", "atp", "multiwrite"];
    let expected: Vec<(String, String)> = CATALOG
        .on(FabricKind::Tree)
        .filter(|design| !left_out.contains(&design.name()))
        .flat_map(|design| {
            let collectives = design.collectives(FabricKind::Tree).iter();
            collectives.map(|collective| (design.name().to_owned(), collective.name().to_owned()))
        })
        .collect();
    assert_eq!(found, expected, "`make demo-docs` writes the page");
}
