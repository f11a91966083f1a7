//! What groups of a job set: packets and windows that are small, so that short vectors fill them, and with every other job keys of its design
//! that are not as they are by default.

use quincunx_collective::SplitMix64;
use quincunx_design::{AnyDesign, Placement, Settings};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A job's own keys.
pub(crate) type Own = BTreeMap<String, Value>;

/// So that vectors of a job are many packets, and its windows full.
const SMALL: [(&str, u32); 4] =
    [("group.mtu", 256), ("group.message", 2), ("group.window", 4), ("hosts.chunk", 1024)];

/// Jobs that set any set a key one time in so many.
const ONE_IN: u64 = 5;

/// Keys, each with one of how many jobs set it, and values of which none is the default. What a design lacks or refuses is left out.
fn settable() -> [(&'static str, u64, Vec<Value>); 16] {
    [
        // Of a design of several modes, always: it is what that design is for.
        ("group.modes", 1, ["III/I", "I/III", "II/III", "II/I"].map(Value::from).to_vec()),
        ("group.selective", ONE_IN, vec![json!(false)]),
        ("group.confirm", ONE_IN, vec![json!(false)]),
        ("group.overlap", ONE_IN, vec![json!(false)]),
        ("group.eager", ONE_IN, vec![json!(false)]),
        ("group.run_ahead", ONE_IN, vec![json!(true)]),
        ("group.reproducible", ONE_IN, vec![json!(true)]),
        ("group.resend_results", ONE_IN, vec![json!(false)]),
        ("group.standard_verbs", ONE_IN, vec![json!(true)]),
        ("group.synchronize_rates", ONE_IN, vec![json!(false)]),
        ("group.verify", ONE_IN, vec![json!(true)]),
        ("group.congestion_window", ONE_IN, vec![json!(true)]),
        ("group.channels", ONE_IN, vec![json!(2)]),
        ("group.acknowledge_every", ONE_IN, vec![json!(1), json!(3)]),
        ("group.message", ONE_IN, vec![json!(1), json!(3)]),
        ("group.window", ONE_IN, vec![json!(1), json!(2)]),
    ]
}

/// Draws a job's keys.
pub(crate) fn draw(draws: &mut SplitMix64, design: &dyn AnyDesign) -> Own {
    let mut own = Own::new();
    if draws.draw().is_multiple_of(2) {
        return own;
    }
    for (key, one_in, values) in settable() {
        let value = &values[draws.draw() as usize % values.len()];
        let is_drawn = draws.draw().is_multiple_of(one_in);
        if !is_drawn || design.about().pinned_keys.contains(&key) {
            continue;
        }
        own.insert(key.to_owned(), value.clone());
        // Some keys do not go together.
        let goes = of(design, &own).is_ok_and(|all| design.plan(&all, &Placement::smallest()).is_ok());
        if !goes {
            own.remove(key);
        }
    }
    own
}

/// Of half of the jobs in several modes, windows of one message, for vectors of a packet or two: what a mode above hears of one below hangs on
/// single frames then. Whether the job is one of these.
pub(crate) fn tighten(draws: &mut SplitMix64, design: &dyn AnyDesign, own: &mut Own) -> bool {
    let draw = draws.draw();
    if !own.contains_key("group.modes") || !draw.is_multiple_of(2) {
        return false;
    }
    let tight = [
        ("group.window", json!(1)),
        ("group.message", json!(1 + draw / 2 % 2)),
        ("group.selective", json!((draw / 4).is_multiple_of(2))),
    ];
    set_if_it_goes(design, own, tight)
}

/// A window of so many messages, if the job may have one.
pub(crate) fn widen(design: &dyn AnyDesign, own: &mut Own, window: u32) {
    if !design.about().pinned_keys.contains(&"group.window") {
        set_if_it_goes(design, own, [("group.window", json!(window))]);
    }
}

/// Sets keys that go together with a job's own; whether they do.
fn set_if_it_goes<const N: usize>(design: &dyn AnyDesign, own: &mut Own, keys: [(&str, Value); N]) -> bool {
    let mut with_them = own.clone();
    with_them.extend(keys.map(|(key, value)| (key.to_owned(), value)));
    let goes = of(design, &with_them).is_ok_and(|all| design.plan(&all, &Placement::smallest()).is_ok());
    if goes {
        *own = with_them;
    }
    goes
}

/// All that a job's groups set.
///
/// # Errors
/// If the design refuses a key of the job's own.
pub(crate) fn of(design: &dyn AnyDesign, own: &Own) -> Result<Settings, quincunx_design::Refusal> {
    let mut settings = design.defaults();
    for (key, value) in SMALL {
        if !design.about().pinned_keys.contains(&key) {
            // What a design refuses keeps its default.
            let _ = design.set(&mut settings, key, &value.into());
        }
    }
    own.iter().try_for_each(|(key, value)| design.set(&mut settings, key, value))?;
    Ok(settings)
}
