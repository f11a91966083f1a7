//! `import` as people use it: what it prints is a fabric, what it left out stands beside it, and what it cannot read is one line.

use crate::simulations::{error, json, quincunx};

fn sample(name: &str) -> String {
    format!("{}/../../scenario/import/tests/files/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn what_is_printed_is_a_fabric_that_runs_and_what_is_left_out_stands_on_standard_error() {
    let done = quincunx(&["import", &sample("simai-rail.topo")]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.lines().count() == 1, "{said}");
    assert!(
        said.starts_with("not in the fabric: ") && said.contains("simai-rail.topo:1: the GPU \"H100\""),
        "{said}"
    );
    let path = std::env::temp_dir().join(format!("quincunx-import-{}.toml", std::process::id()));
    std::fs::write(&path, &done.stdout).unwrap();
    let fabric = path.to_string_lossy().into_owned();
    let designs = ["epic-3", "ring"];
    let run = [
        "sim",
        "all_reduce",
        "--fabric",
        &fabric,
        "--design",
        &designs.join(","),
        "--size",
        "64KiB",
        "--json",
    ];
    let printed = json(&quincunx(&run));
    let shown = quincunx(&["sim", "--show", &fabric]);
    assert_eq!(shown.stdout, done.stdout, "a file is shown as it is");
    std::fs::remove_file(&path).unwrap();
    for (row, design) in printed["rows"].as_array().unwrap().iter().zip(designs) {
        assert_eq!((row["design"].as_str(), row["wrong"].as_u64()), (Some(design), Some(0)));
    }
    // Of a ring over two servers of two, each rank's next is in its server or across; NVLinks carry the one, the network the other.
    let links = printed["rows"][1]["links"].as_array().unwrap();
    let carries = |name: &str| {
        let both = links.iter().filter(|link| {
            let found = link["name"].as_str().unwrap();
            found.contains("host-0") && found.contains(name)
        });
        both.filter_map(|link| link["bytes"].as_u64()).sum::<u64>()
    };
    assert!(carries("nvswitch-4") > 64 << 10 && carries("switch-6") > 64 << 10, "{links:?}");
}

/// The figures that docs/architects.md has.
#[test]
fn the_example_of_128_gpus_takes_as_long_as_its_page_says() {
    let done = quincunx(&[
        "import",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/fabrics/rail-128.topo"),
    ]);
    assert!(done.status.success());
    let path = std::env::temp_dir().join(format!("quincunx-rail-{}.toml", std::process::id()));
    std::fs::write(&path, &done.stdout).unwrap();
    let run = format!("sim all_reduce --fabric {} --design epic-3,ring --size 1MiB --json", path.display());
    let printed = json(&quincunx(&run.split(' ').collect::<Vec<_>>()));
    std::fs::remove_file(&path).unwrap();
    let times: Vec<f64> =
        printed["rows"].as_array().unwrap().iter().map(|row| row["time_us"].as_f64().unwrap()).collect();
    let page = include_str!("../../../../../docs/architects.md");
    let said = format!("takes {:.1} us by `epic-3` and {:.0} us by `ring`", times[0], times[1]);
    assert!(page.contains(&said), "{said}");
}

#[test]
fn what_cannot_be_imported_is_one_line_and_nothing_is_printed() {
    for (path, named) in [
        ("/nowhere/topo.xml".to_owned(), "expected to read /nowhere/topo.xml"),
        ("/dev/zero".to_owned(), "256 MiB"),
        (sample("README.md"), "README.md: expected a network of ASTRA-sim"),
    ] {
        let done = quincunx(&["import", &path]);
        assert!(done.stdout.is_empty());
        assert!(error(&done).contains(named), "{path}: {}", error(&done));
    }
}
