//! How far predictions may be off.

use quincunx_design::FabricKind;
use quincunx_language::Source;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How far times may be off, each as a share of itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Doubt {
    /// Of what accelerators compute.
    pub computation: f64,
    /// Of what they exchange.
    pub network: f64,
    /// How many published figures say so of the network.
    pub figures: usize,
}

/// How far predicted figures are off the published ones, of a kind of fabric.
#[derive(Deserialize)]
struct Known {
    figures: usize,
    nine_in_ten: f64,
}

/// What `tools/known_errors.py` makes of `quincunx reproduce --json`.
static KNOWN: LazyLock<BTreeMap<String, Known>> =
    LazyLock::new(|| toml::from_str(include_str!("known_errors.toml")).expect("the tool's file"));

impl Doubt {
    /// Of layers whose times are from `source`, and of collectives on a kind of fabric: what nine of ten figures do not exceed that papers have
    /// published of such, and that engines have predicted here.
    ///
    /// # Panics
    /// If there are no figures of any fabric.
    pub fn of(source: Source, fabric: FabricKind) -> Self {
        let kind = if fabric == FabricKind::Memory { "memory" } else { "packets" };
        let Known { figures, nine_in_ten } = KNOWN.get(kind).expect("both kinds are in the tool's file");
        Self { computation: source.doubt(), network: *nine_in_ten, figures: *figures }
    }
}
