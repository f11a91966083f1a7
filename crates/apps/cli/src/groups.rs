//! A group in words and as JSON, for all commands that speak of one.

use quincunx_control::{GroupState, LockUse, SharedMemory};
use quincunx_control_grpc::GroupStatus;
use serde_json::{Value, json};

pub(crate) fn state(group: &GroupStatus) -> &'static str {
    match group.summary.state {
        GroupState::Installing => "installing",
        GroupState::Ready => "ready",
        GroupState::Suspended(_) => "suspended",
        GroupState::Failed(_) => "failed",
    }
}

/// One line on what is not as it was asked for; empty if all is.
pub(crate) fn reason(group: &GroupStatus) -> String {
    group.reason().unwrap_or_default()
}

pub(crate) fn title(group: &GroupStatus) -> String {
    let number = group.summary.group;
    if group.name.is_empty() {
        format!("group {number}")
    } else {
        format!("group {number} \"{}\"", group.name)
    }
}

pub(crate) fn group_json(group: &GroupStatus) -> Value {
    let summary = &group.summary;
    let switches = summary.switches.iter().map(
        |held| json!({ "name": held.node, "endpoints": held.endpoints, "memory_bytes": held.memory.bytes() }),
    );
    let shared = |shared: &SharedMemory| {
        let LockUse { granted, refused, in_vain, held_by, held } = shared.uses;
        json!({
            "switch": shared.switch,
            "with": shared.with.iter().map(|group| group.0).collect::<Vec<_>>(),
            "granted": granted,
            "refused": refused,
            "in_vain": in_vain,
            "last_held_by": held_by.map(|group| group.0),
            "held_s": held.as_secs_f64(),
            "duty_percent": shared.duty,
        })
    };
    json!({
        "locks": summary.shared.as_ref().map(|all| all.iter().map(shared).collect::<Vec<_>>()),
        "group": summary.group.0,
        "name": group.name,
        "tenant": group.tenant,
        "state": state(group),
        "asked": group.asked,
        "runs": summary.design,
        "fallback": summary.fallback.is_some(),
        "reason": reason(group),
        "stalled_us": group.stalled.map(|stalled| stalled.as_micros_f64()),
        "members": summary.members,
        "switches": switches.collect::<Vec<_>>(),
    })
}
