//! `perf` through the library that programs use: messages between ranks, and collectives on one memory.

use crate::processes::{quincunx, rows};

#[test]
fn messages_arrive_where_they_belong() {
    for (exchange, root) in [("all_to_all", -1), ("send_receive", -1), ("gather", 2), ("scatter", 1)] {
        let asked = if root < 0 { String::new() } else { format!("--root {root}") };
        let output = quincunx(&format!(
            "perf {exchange} {asked} --ranks 4 --sizes 40:400KiB:100 --iterations 3 --json"
        ));
        let rows = rows(&output);
        assert_eq!(rows.len(), 3, "{exchange}");
        for row in &rows {
            assert!(row["wrong"] == 0 && row["root"] == root && row["redop"] == "none", "{row}");
            assert!(row["netbw_GBps"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        }
    }
}

#[test]
fn a_collective_on_one_memory_has_the_result_of_one_on_two() {
    for collective in [
        "all_reduce --op avg",
        "reduce --root 1",
        "broadcast --root 2",
        "reduce_scatter --op avg",
        "all_gather",
    ] {
        let output = quincunx(&format!(
            "perf {collective} --in-place --ranks 3 --design epic-3,ring --dtype f64 --size 3MiB --iterations 3 --json"
        ));
        let rows = rows(&output);
        assert_eq!(rows.len(), 2, "{collective}");
        assert!(rows.iter().all(|row| row["wrong"] == 0 && row["in_place"] == true), "{rows:?}");
    }
}

#[test]
fn types_and_operations_beyond_those_of_chips_are_right() {
    let reductions = [
        ("f64", "prod"),
        ("i64", "bxor"),
        ("u8", "avg"),
        ("e4m3", "sum"),
        ("e5m2", "max"),
        ("i16", "band"),
        ("u64", "min"),
        ("u32", "bor"),
        ("i8", "avg"),
    ];
    for (data_type, op) in reductions {
        let output = quincunx(&format!(
            "perf all_reduce --ranks 3 --design epic-2,ring --dtype {data_type} --op {op} --size 4000 --iterations 1 --json"
        ));
        let rows = rows(&output);
        assert!(
            rows.len() == 2 && rows.iter().all(|row| row["wrong"] == 0 && row["redop"] == op),
            "{rows:?}"
        );
    }
}

#[test]
fn block_formats_are_added_up_and_averaged_by_switches_and_among_hosts() {
    for (data_type, op) in [("mxfp8", "sum"), ("nvfp4", "sum"), ("nvfp4", "avg")] {
        for task in ["all_reduce", "reduce_scatter", "all_gather"] {
            let op = if task == "all_gather" { "sum" } else { op };
            let output = quincunx(&format!(
                "perf {task} --ranks 3 --design epic-1,epic-2,epic-3,ring --dtype {data_type} --op {op} --size 96KiB --iterations 1 --json"
            ));
            let rows = rows(&output);
            assert!(rows.len() == 4 && rows.iter().all(|row| row["wrong"] == 0), "{rows:?}");
        }
    }
}

/// Fabrics where a group's tree is one of several, and ordinary messages go over all of them.
const SWITCHED: [&str; 3] = ["leaf-spine-2x2x2", "rail-2x2x1", "fat-tree-4"];

#[test]
fn messages_and_one_memory_are_right_where_switches_have_several_ways() {
    for fabric in SWITCHED {
        for task in ["all_reduce --in-place", "all_gather --in-place", "all_to_all"] {
            let design = if task == "all_to_all" { "" } else { "--design epic-3" };
            let run = format!("perf {task} {design} --fabric {fabric} --size 64KiB --iterations 2 --json");
            let rows = rows(&quincunx(&run));
            assert!(rows.len() == 1 && rows[0]["wrong"] == 0, "{run}: {rows:?}");
            // A ring of four ranks or more would take a link one and a half times at least.
            let share = rows[0]["netbw_GBps"].as_f64().zip(rows[0]["algbw_GBps"].as_f64());
            assert!(
                task != "all_reduce --in-place" || share.is_some_and(|(net, all)| net < 1.2 * all),
                "{run}: {rows:?}"
            );
        }
    }
}
