//! What is refused, in a line, before anything runs.

use crate::{preset, tried};
use quincunx_scenario::{Tenancy, TenancyPolicy};

/// What a preset with one text in place of another is refused with.
fn refusal(text: &str, other: &str) -> String {
    let preset = Tenancy::text("epic-2048-scaleup").unwrap();
    assert!(preset.contains(text), "{text}");
    let error = Tenancy::parse("c.toml", &preset.replacen(text, other, 1), &[]).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn a_key_that_makes_no_sense_is_named() {
    for (text, other, named) in [
        ("slots =", "colour = \"red\"\nslots =", "colour"),
        ("memory_units = [4]", "memory_units = [0]", "`memory_units`"),
        ("memory_units = [4]", "memory_units = []", "`memory_units`"),
        ("jobs = 1000", "jobs = 0", "`jobs`"),
        ("jobs = 1000", "jobs = 1000000000", "1000000000"),
        ("models = [\"gpt-3-175b\"", "models = [\"gpt-9\"", "\"gpt-9\""),
        ("gpus = 16", "gpus = 12", "multiples of 8"),
        ("share = 0.25", "share = 0.3", "add up to 1"),
        ("volume = \"published\"", "", "`design` and `fallback`"),
        ("slots = \"path\"", "", "`unit`"),
        ("slots =", "policies = []\nslots =", "`policies`"),
        ("slots =", "policies = [\"mine\"]\nslots =", "mine"),
        ("100Gbit/s", "fast", "fast"),
        ("members = 8", "members = 0", "`scale_up.members`"),
        ("parameters = 175e9", "parameters = nan", "gpt-3-175b"),
        ("layers = 96", "layers = 0", "gpt-3-175b"),
        ("name = \"gpt-3-13b\"", "name = \"gpt-3-175b\"", "twice"),
        ("[trace]", "[failures]\nrepair = \"1h\"\n[trace]", "`server`"),
        ("[trace]", "[failures]\nserver = \"1w\"\nrepair = \"1h\"\n[trace]", "1w"),
        ("[trace]", "[failures]\nserver = \"0h\"\nrepair = \"1h\"\n[trace]", "above zero"),
        ("[trace]", "[failures]\nserver = \"1h\"\n[trace]", "repair"),
        ("[trace]", "[[job]]\nmodel = \"gpt-3-13b\"\ngpus = 8\niterations = 0\n[trace]", "`iterations`"),
    ] {
        let error = refusal(text, other);
        assert!(error.contains(named), "{other}: {error}");
    }
}

#[test]
fn a_cluster_that_there_is_not_is_told_with_those_that_there_are() {
    let error = Tenancy::find("epic-129", &[]).unwrap_err().to_string();
    assert!(error.contains("epic-128") && error.contains("epic-2048-scaleup"), "{error}");
}

#[test]
fn a_job_that_is_larger_than_the_cluster_is_refused_before_it_waits_for_ever() {
    let tenancy = preset("epic-128", &["fabric=clos-2x4x8x4x4"]);
    let error = tried(&tenancy, TenancyPolicy::Ring, 4, Some(0)).unwrap_err().to_string();
    assert!(error.contains("at most 64 accelerators") && error.contains("128"), "{error}");
}

#[test]
fn a_job_that_outlasts_time_is_refused_and_not_told_as_213_days() {
    // In the middle, and in its last flow.
    for iterations in [3, 1] {
        let mut tenancy = preset("epic-128", &["link.rate=10kbit/s"]);
        tenancy.job.iter_mut().for_each(|job| job.iterations = iterations);
        tenancy.model.iter_mut().for_each(|model| model.tp = 1);
        let error = tried(&tenancy, TenancyPolicy::Ring, 4, Some(1)).unwrap_err().to_string();
        assert!(error.contains("213 days"), "{error}");
    }
}

#[test]
fn a_fabric_that_is_none_is_refused() {
    let tenancy = preset("epic-128", &["fabric=clos-2x4"]);
    let error = tried(&tenancy, TenancyPolicy::Ring, 4, Some(0)).unwrap_err().to_string();
    assert!(error.contains("clos-PxLxHxSxC"), "{error}");
}

#[test]
fn a_design_without_switches_is_none_for_trees() {
    let changes = ["volume=plan", "design=ring", "fallback=ring"];
    let error =
        tried(&preset("epic-128", &changes), TenancyPolicy::Ring, 4, Some(0)).unwrap_err().to_string();
    assert!(error.contains("a part in switches"), "{error}");
}
