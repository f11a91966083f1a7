//! What makes no fabric is one line, with the place.

use crate::{refusal, sample};
use quincunx_import::import;

/// A sample with some of it changed, and what is said of it.
fn changed(name: &str, cases: &[(&str, &str, &str)]) {
    let text = sample(name);
    for (from, to, named) in cases {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text, "{from}");
        let message = refusal(&other);
        assert!(message.contains(named) && !message.contains('\n'), "{from} as {to}: {message}");
        assert!(
            message.starts_with("file:") && message.contains("expected") && message.contains("found"),
            "{message}"
        );
    }
}

#[test]
fn what_is_none_of_the_formats() {
    for (text, named) in [
        ("", "an empty file"),
        ("\u{feff} \n", "an empty file"),
        ("hello", "a network of ASTRA-sim"),
        ("[1, 2]", "a network of ASTRA-sim"),
        ("<system", "NCCL's topology as XML"),
        ("<graphs version=\"1\"/>", "NCCL_GRAPH_DUMP_FILE"),
        ("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology/>", "hwloc's"),
        ("<topology/>", "found <topology>"),
        ("1 2", "nodes switches links"),
        ("{\"logical-dims\": [\"8\"]}", "TOPOLOGY_FILE"),
    ] {
        let message = refusal(text);
        assert!(message.contains(named) && !message.contains('\n'), "{text}: {message}");
    }
}

#[test]
fn a_topology_of_nccl_that_makes_no_fabric() {
    changed(
        "hgx-h100.xml",
        &[
            ("count=\"5\"", "count=\"6\"", "file:5: expected 18 NVLinks"),
            ("count=\"5\"", "count=\"-5\"", "file:6: expected a number of NVLinks"),
            ("count=\"5\"", "count=\"4000000000\"", "a number of NVLinks"),
            ("sm=\"90\"", "sm=\"80\"", "as the first one of sm 90 has"),
            ("sm=\"90\"", "sm=\"x\"", "compute capability"),
            ("rank=\"1\"", "rank=\"0\"", "its rank a second time"),
            ("0000:18:00.0", "0000:d9:00.0", "its address a second time"),
            ("</gpu>", "</gpus>", "NCCL's topology as XML"),
        ],
    );
    let alone = sample("hgx-h100.xml").replacen("<gpu ", "<npu ", 1).replacen("</gpu>", "</npu>", 1);
    assert!(refusal(&alone).contains("two <gpu> at least, and 4096 at most, found 1"));
    let crowded = sample("hgx-h100.xml").replacen("<cpu ", &format!("<cpu {}", "a=\"\" ".repeat(4096)), 1);
    assert!(refusal(&crowded).contains("4096 attributes of an element"), "an element with many attributes");
    let mut cold = sample("hgx-h100.xml");
    let from = cold.find("<nvlink").unwrap();
    cold.replace_range(from..cold.find("</gpu>").unwrap(), "");
    assert!(refusal(&cold).contains("18 NVLinks to switches at each GPU"), "a GPU whose links are down");
}

#[test]
fn a_list_of_links_that_makes_no_fabric() {
    changed(
        "simai-rail.topo",
        &[
            ("10 2 2 4", "10 2 2 14", "two nodes more than switches"),
            ("10 2 2 4", "9999999999 2 2 4", "at most 65534 nodes"),
            ("10 2 2 4", "99999999999999999999 2 2 4", "file:1: expected `nodes switches links`"),
            ("10 2 2 4 12", "10 2 2 4 13", "13 links of five words"),
            ("10 2 2 4 12", "10 2 2 4 18446744073709551615", "links of five words"),
            (
                "\n4 5 6",
                "\n4 4 6",
                "file:2: expected a switch's number below 10, each once, found \"4\" a second time",
            ),
            ("\n4 5 6", "\n4 5 10", "found \"10\""),
            ("0 4 2880Gbps", "0 0 2880Gbps", "file:3: expected a link between two nodes"),
            ("0 4 2880Gbps", "0 11 2880Gbps", "a node's number below 10"),
            ("2880Gbps", "fastbps", "a rate such as 400Gbps"),
            ("2880Gbps", "0Gbps", "a rate such as 400Gbps"),
            ("0.000025ms", "-1ms", "a latency such as 0.0005ms"),
            ("0.000025ms 0", "0.000025ms 2", "an error rate from 0 to 1"),
            ("0.000025ms 0", "0.000025ms NaN", "an error rate from 0 to 1"),
        ],
    );
}

#[test]
fn a_network_of_astra_sim_that_makes_no_fabric() {
    changed(
        "astra-hgx-h100.yml",
        &[
            ("Switch, Switch", "Switch, Ring", "found Ring of 2 NPUs as dimension 2 of 2"),
            ("Switch, Switch", "Ring, Switch", "found Ring of 4 NPUs as dimension 1 of 2"),
            ("Switch, Switch", "Switch, Torus", "Ring, FullyConnected or Switch in `topology`"),
            ("npus_count: [ 4, 2 ]", "npus_count: [ 4, 0 ]", "a number of NPUs in `npus_count`"),
            ("npus_count: [ 4, 2 ]", "npus_count: [ 4000000000, 4000000000 ]", "at most 65534 nodes"),
            (
                "[ Switch, Switch ]\nnpus_count: [ 4, 2 ]",
                "[ FullyConnected, Switch ]\nnpus_count: [ 800, 1 ]",
                "319600 links",
            ),
            ("npus_count: [ 4, 2 ]", "npus_count: [ 4 ]", "as many values of `npus_count` as of `topology`"),
            ("npus_count: [ 4, 2 ]", "npus_count: {}", "a list in `npus_count`"),
            ("npus_count", "npus", "expected `npus_count`, found no such key"),
            ("400.0", "tbd", "GB/s above 0 in `bandwidth`"),
            ("400.0", ".inf", "non-finite float"),
            ("936.25", "-1", "nanoseconds in `latency`"),
        ],
    );
    let torus = "{\"topology-name\": \"Torus2D\", \"units-count\": [8, 6], \"link-bandwidth\": [25, 25], \"link-latency\": [500, 500]}";
    assert!(refusal(torus).contains("found \"Torus2D\""));
    let alone = sample("astra-ring.yml").replacen("[ 4 ]", "[ 1 ]", 1);
    assert!(refusal(&alone).contains("two NPUs at least"));
    // Each alias doubles what the one before stands for.
    let bomb: String = (1..40).fold("a0: &a0 [1, 1]\n".to_owned(), |text, at| {
        format!("{text}a{at}: &a{at} [*a{}, *a{}]\n", at - 1, at - 1)
    });
    assert!(import("file", &bomb).is_err());
}
