//! Networks in files, whose links differ and whose hosts may have several.

use crate::failures::{every, none};
use crate::tenants::{job, small};
use crate::{preset, tried};
use quincunx_flows::TenancyMeasurement;
use quincunx_scenario::{Failures, Tenancy, TenancyPolicy};
use std::path::PathBuf;

/// A job of so many accelerators, which computes for 1 s and adds up 10 Gbit, on the network of a file with that text.
fn on(name: &str, gpus: u32, fabric: &str) -> Tenancy {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("flows-{name}.toml"));
    std::fs::write(&path, fabric).unwrap();
    Tenancy { fabric: path.to_str().unwrap().into(), link: None, ..small(&job("a", gpus, ""), "") }
}

fn found(tenancy: &Tenancy, policy: TenancyPolicy) -> Result<TenancyMeasurement, String> {
    tenancy.check()?;
    tried(tenancy, policy, 8, None).map_err(|error| error.to_string())
}

fn seconds(tenancy: &Tenancy, policy: TenancyPolicy) -> f64 {
    found(tenancy, policy).unwrap().jobs[0].completion().as_secs_f64()
}

fn node(name: &str, kind: &str) -> String {
    format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n")
}

fn link(ends: [&str; 2], rate: &str, more: &str) -> String {
    let [a, b] = ends;
    format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\nlatency = \"0s\"\n{more}\n")
}

/// Two hosts at a switch, by links of these rates.
fn pair(rates: [&str; 2], more: &str) -> String {
    let nodes = ["switch", "host", "host"].iter().zip(["s", "a", "b"]).map(|(kind, name)| node(name, kind));
    let [a, b] = rates;
    let links = link(["a", "s"], a, more) + &link(["b", "s"], b, "");
    format!("kind = \"packet\"\n{}{links}", nodes.collect::<String>())
}

#[test]
fn each_link_has_its_own_rate_and_the_slowest_decides() {
    let tenancy = on("rates", 2, &pair(["10Gbit/s", "5Gbit/s"], ""));
    assert_eq!(seconds(&tenancy, TenancyPolicy::Ring), 1.0 + 8.0);
    assert_eq!(seconds(&tenancy, TenancyPolicy::Spatial), 1.0 + 4.0);
}

#[test]
fn the_longest_latency_of_a_link_counts_for_all() {
    // Two steps over two links each, of which one is short.
    let text = pair(["10Gbit/s", "10Gbit/s"], "").replacen("latency = \"0s\"", "latency = \"1s\"", 1);
    assert_eq!(seconds(&on("latency", 2, &text), TenancyPolicy::Ring), 1.0 + 4.0 + 4.0);
}

#[test]
fn cables_side_by_side_carry_together() {
    let tenancy = on("cables", 2, &pair(["5Gbit/s", "10Gbit/s"], "count = 2"));
    assert_eq!(seconds(&tenancy, TenancyPolicy::Ring), 1.0 + 4.0);
}

#[test]
fn a_host_of_several_links_takes_the_one_that_is_nearer() {
    // Both are at the fast switch of their server, too, which the network behind it knows nothing of.
    let nodes = [("s", "switch"), ("fast", "switch"), ("a", "host"), ("b", "host")];
    let nodes: String = nodes.iter().map(|(name, kind)| node(name, kind)).collect();
    let links: String = [("t", "10Gbit/s"), ("fast", "40Gbit/s")]
        .iter()
        .flat_map(|(switch, rate)| ["a", "b"].map(|host| link([host, switch], rate, "")))
        .collect();
    let other = node("t", "switch") + &link(["s", "t"], "10Gbit/s", "");
    let far = links.replacen("\"a\", \"t\"", "\"a\", \"s\"", 1);
    let tenancy = on("several", 2, &format!("kind = \"packet\"\n{nodes}{other}{far}"));
    assert_eq!(seconds(&tenancy, TenancyPolicy::Ring), 1.0 + 1.0);
}

#[test]
fn a_host_of_several_links_works_on_with_one() {
    let nodes = [("s", "switch"), ("t", "switch"), ("a", "host"), ("b", "host")];
    let nodes: String = nodes.iter().map(|(name, kind)| node(name, kind)).collect();
    let links = ["s", "t"].map(|switch| ["a", "b"].map(|host| link([host, switch], "10Gbit/s", "")).concat());
    let mut tenancy = on("two", 2, &format!("kind = \"packet\"\n{nodes}{}", links.concat()));
    tenancy.job[0].iterations = 100;
    tenancy.failures = Some(Failures { link: every("60s"), ..none() });
    let found = found(&tenancy, TenancyPolicy::Ring).unwrap();
    let restarts = found.jobs[0].restarts;
    // But where both of one fail within a second.
    let links = found.failed.links as u32;
    assert!(found.failed.interrupted > 5 && restarts * 5 < links, "{:?}, {restarts} restarts", found.failed);
}

#[test]
fn a_file_that_has_a_shape_is_that_shape() {
    let text =
        "kind = \"packet\"\ntopology = \"leaf-spine-2x1x2\"\n[link]\nrate = \"10Gbit/s\"\nlatency = \"0s\"\n";
    assert_eq!(seconds(&on("shape", 4, text), TenancyPolicy::Ring), 1.0 + 4.0);
}

#[test]
fn a_file_in_the_place_of_a_presets_shape_brings_its_links() {
    let path = on("preset", 2, &pair(["10Gbit/s", "10Gbit/s"], "")).fabric;
    let file = format!("fabric={path}");
    assert_eq!(preset("epic-128", &[&file]).link, None);
    let changes = [file, "link.rate=1Gbit/s".to_owned()].map(|change| change.parse().unwrap());
    let error = Tenancy::find("epic-128", &changes).unwrap_err().to_string();
    assert!(error.contains("leave [link] out"), "{error}");
}

#[test]
fn what_is_no_network_of_switches_is_refused() {
    let mut alone = on("joined", 2, &pair(["10Gbit/s", "10Gbit/s"], ""));
    alone.link = small(&job("a", 2, ""), "").link;
    assert!(found(&alone, TenancyPolicy::Ring).unwrap_err().contains("[link] beside"));
    let neither = Tenancy { link: None, ..small(&job("a", 2, ""), "") };
    assert!(found(&neither, TenancyPolicy::Ring).unwrap_err().contains("say its `rate`"));
    let ring = "kind = \"packet\"\ntopology = \"ring-4\"\n[link]\nrate = \"10Gbit/s\"\nlatency = \"0s\"\n";
    let error = found(&on("ring", 2, ring), TenancyPolicy::Ring).unwrap_err();
    assert!(error.contains("hosts and switches with links"), "{error}");
    let hosts = pair(["10Gbit/s", "10Gbit/s"], "") + &node("c", "host") + &link(["b", "c"], "10Gbit/s", "");
    let error = found(&on("behind", 2, &hosts), TenancyPolicy::Ring).unwrap_err();
    assert!(error.contains("\"c\""), "{error}");
    let memory = Tenancy { fabric: "crates/no-such-file.toml".into(), ..neither };
    assert!(found(&memory, TenancyPolicy::Ring).unwrap_err().contains("no-such-file"));
}
