//! EPIC's tables of one job of 128 GPUs (appendix L), to the last digit that is printed; experiments hold them to their tolerance, too.

use crate::{measured, preset};
use quincunx_flows::JobOutcome;
use quincunx_scenario::TenancyPolicy::{self, Edt, Ring, Spatial, Temporal};

/// A job's time as a table prints it, by its place in the preset.
fn printed(name: &str, job: usize, policy: TenancyPolicy, units: u32, decimals: usize) -> String {
    let time = measured(&preset(name, &[]), policy, units, Some(job)).mean(JobOutcome::completion);
    format!("{time:.decimals$}")
}

/// A row of a table: with 4, 8, 16 and 32 units.
fn row(name: &str, job: usize, policy: TenancyPolicy, decimals: usize) -> [String; 4] {
    [4, 8, 16, 32].map(|units| printed(name, job, policy, units, decimals))
}

#[test]
fn gpt_3_175b_is_table_36() {
    let row = |policy| row("epic-128", 0, policy, 0);
    assert_eq!(row(Ring), ["253"; 4]);
    assert_eq!(row(Edt), ["179"; 4]);
    assert_eq!(row(Spatial), ["179", "158", "137", "137"]);
    assert_eq!(row(Temporal), ["158", "137", "137", "137"]);
}

#[test]
fn gpt_3_13b_is_table_37() {
    let row = |policy| row("epic-128", 1, policy, 2);
    assert_eq!(row(Ring), ["33.55"; 4]);
    assert_eq!(row(Edt), ["20.66"; 4]);
    assert_eq!(row(Spatial), ["20.66", "19.10", "17.54", "17.54"]);
    assert_eq!(row(Temporal), ["19.10", "17.54", "17.54", "17.54"]);
}

#[test]
fn llama_7b_is_table_39() {
    let row = |policy| row("epic-128", 3, policy, 2);
    assert_eq!(row(Ring), ["37.78"; 4]);
    assert_eq!(row(Edt), ["21.29"; 4]);
    assert_eq!(row(Spatial), ["21.29", "20.49", "19.68", "19.68"]);
    assert_eq!(row(Temporal), ["20.49", "19.68", "19.68", "19.68"]);
}

#[test]
fn with_scale_up_gpt_3_175b_is_table_40() {
    assert_eq!(printed("epic-128-scaleup", 0, Ring, 4, 0), "106");
    let row = |policy| row("epic-128-scaleup", 0, policy, 1);
    assert_eq!(row(Edt), ["84.6"; 4]);
    assert_eq!(row(Spatial), ["84.6", "63.6", "63.6", "63.6"]);
    assert_eq!(row(Temporal), ["84.6", "63.6", "63.6", "63.6"]);
}

#[test]
fn with_scale_up_gpt_3_13b_is_table_41() {
    let row = |policy| row("epic-128-scaleup", 1, policy, 2);
    assert_eq!(row(Ring), ["7.94"; 4]);
    assert_eq!(row(Edt), ["6.38"; 4]);
    assert_eq!(row(Spatial), ["6.38", "4.82", "4.82", "4.82"]);
    assert_eq!(row(Temporal), ["6.38", "4.82", "4.82", "4.82"]);
}

#[test]
fn with_scale_up_llama_65b_is_table_42_where_that_agrees_with_table_41() {
    assert_eq!(row("epic-128-scaleup", 2, Ring, 1), ["47.6"; 4]);
    assert_eq!(row("epic-128-scaleup", 2, Edt, 1), ["39.8"; 4]);
    for policy in [Spatial, Temporal] {
        assert_eq!([16, 32].map(|units| printed("epic-128-scaleup", 2, policy, units, 1)), ["32.0"; 2]);
    }
}
