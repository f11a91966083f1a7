//! The settings that designs are run in.

use quincunx_conformance::Trial;
use quincunx_design::Value;

/// Parameters that differ from those of [`base`].
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    values: &'static [(&'static str, Plain)],
}

/// A parameter's value.
#[derive(Clone, Copy)]
enum Plain {
    Text(&'static str),
    Number(u32),
    Yes,
    No,
}

use Plain::{No, Number, Text, Yes};

const fn setting(name: &'static str, values: &'static [(&'static str, Plain)]) -> Setting {
    Setting { name, values }
}

/// All of them. A design is run in those of which it has all parameters; each parameter of a design is in one at least, or in [`FIXED`].
pub(crate) const SETTINGS: [Setting; 30] = [
    setting("as it is", &[]),
    setting("going back", &[("group.selective", No)]),
    setting("messages", &[("group.message", Number(2))]),
    setting("window 1", &[("group.window", Number(1))]),
    setting("acknowledges", &[("group.message", Number(4)), ("group.acknowledge_every", Number(2))]),
    setting("rates", &[("group.dcqcn", Text("10Gbit/s"))]),
    setting("channels", &[("group.channels", Number(2))]),
    setting("packets", &[("group.mtu", Text("4B"))]),
    setting("reproducible", &[("group.reproducible", Yes)]),
    setting("run ahead", &[("group.run_ahead", Yes)]),
    setting("ranks repair", &[("group.resend_results", No)]),
    setting("slots", &[("group.slots", Number(4))]),
    setting("silent", &[("group.synchronize_rates", No)]),
    setting("mixed", &[("group.modes", Text("II/I"))]),
    setting("standard verbs", &[("group.standard_verbs", Yes)]),
    setting("checked", &[("group.verify", Yes)]),
    setting("in turn", &[("group.overlap", No)]),
    setting("control first", &[("group.eager", No)]),
    setting("chunk", &[("hosts.chunk", Text("4B")), ("hosts.window", Number(2))]),
    setting("lockstep", &[("hosts.lockstep", Yes)]),
    setting("at rank 0", &[("hosts.barrier_at_root", Yes)]),
    setting("unannounced", &[("relay.announce", No), ("relay.patience", Text("0s"))]),
    setting("full relays", &[("relay.relays", Text("full"))]),
    setting("pieces", &[("relay.piece", Text("4B"))]),
    setting(
        "relay costs",
        &[("relay.preparation", Text("1us")), ("relay.message", Text("1us")), ("relay.copy", Text("1us"))],
    ),
    setting("buffers", &[("aggregation.flows", Number(3)), ("aggregation.frames", Number(8))]),
    setting(
        "switch takes time",
        &[
            ("aggregation.sum_latency", Text("1us")),
            ("aggregation.repeat_latency", Text("2us")),
            ("aggregation.forward_latency", Text("500ns")),
        ],
    ),
    setting(
        "server sends, one aggregator",
        &[("aggregation.server_sends", Yes), ("aggregation.aggregators", Number(1))],
    ),
    setting(FLOATING, &[("aggregation.floating", Yes)]),
    setting("congestion", &[("group.congestion_window", Yes)]),
];

/// A setting of binary32 numbers.
pub(crate) const FLOATING: &str = "floating";

/// Parameters that have one value in all runs, and why.
pub(crate) const FIXED: [(&str, &str); 6] = [
    (
        "group.retry_timeout",
        "drivers differ in how long things take: longer than a run, or short enough to repair what is lost",
    ),
    ("group.unproved", "what it lets through is wrong"),
    (
        "aggregation.fraction_bits",
        "integers, which are what is added up here, have none; of binary32 numbers the engine's tests have the bounds",
    ),
    (
        "group.retry_count",
        "nobody counts as dead: the checker has no time, in which peers could be silent for long",
    ),
    (
        "group.confirm",
        "without it ranks that ask for something else go unnoticed: for figures of papers alone",
    ),
    (
        "hosts.confirm",
        "without it ranks that ask for something else go unnoticed: for figures of papers alone",
    ),
];

impl Setting {
    /// Its parameters.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(key, _)| *key)
    }

    /// A trial in this setting.
    pub(crate) fn apply(&self, trial: Trial) -> Trial {
        self.values.iter().fold(trial, |trial, (key, value)| {
            let value = match *value {
                Text(text) => Value::from(text),
                Number(number) => Value::from(number),
                Yes => Value::from(true),
                No => Value::from(false),
            };
            trial.with(key, value)
        })
    }
}

/// Two messages of a packet on their way, of whole numbers; a time-out repairs what nothing else does.
pub(crate) fn base(trial: Trial) -> Trial {
    let trial = trial
        .of_integers()
        .with_if_known("group.mtu", "8B")
        .with_if_known("group.window", 2)
        .with_if_known("group.reproducible", false)
        .with_if_known("hosts.chunk", "8B");
    // A switch adds up frames with a header of 20 bytes, two to a message.
    if trial.design.defaults().has("aggregation.frames") {
        let trial =
            trial.with("group.mtu", "24B").with("group.message", 2).with("aggregation.floating", false);
        return trial.with("aggregation.flows", 2).with("aggregation.frames", 4);
    }
    trial
}
