//! What a design is: data, of which help, catalog and refusals are made.

use crate::{FabricKind, Model};
use quincunx_collective::Collective;
use quincunx_wire::Framing;

/// What a design is.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// What people call it: `epic-3`.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The version of its parameters and roles, for nodes of several builds.
    pub version: u32,
    /// Where it runs, and what it offers there; the root of those that have one is any.
    pub offers: &'static [(FabricKind, &'static [Collective])],
    /// What its frames must be on real links. With RoCE v1 they pass through switches' processes on their way.
    pub framing: Framing,
    /// Its queue pairs send each message as a datagram, which nobody sends again for it.
    pub sends_datagrams: bool,
    /// Keys that presets and drivers leave as they are, for they are its frames and buffers: only who names one sets it.
    pub pinned_keys: &'static [&'static str],
    /// Designs whose parts in switches it can use beside its own: a switch that offers one of them can be in its trees.
    pub uses_parts_of: &'static [&'static str],
    /// Whether it offers writes of the application's own.
    pub writes: bool,
    /// Whether it leaves the collective's own result, whatever its parameters are. Otherwise its plan has another [form](crate::Form).
    pub is_exact: bool,
    /// On a memory fabric: whether the switches run it, so that accelerators only wait. Accelerators that work have one fence and one
    /// adder each, so that no two streams may need them.
    pub runs_in_switches: bool,
    /// On a memory fabric: the unit that switches must have for it; none if they forward only. Streams of one unit share one in each
    /// switch, with the same parameters, also those of several designs.
    pub unit: Option<&'static str>,
    /// What the checker must know.
    pub model: Model,
}

impl About {
    /// A design of which no more is to be said: it adds up exactly, above queue pairs or in accelerators alone.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        offers: &'static [(FabricKind, &'static [Collective])],
    ) -> Self {
        Self {
            name,
            summary,
            version: 1,
            offers,
            framing: Framing::RoceV2,
            sends_datagrams: false,
            pinned_keys: &[],
            uses_parts_of: &[],
            writes: false,
            is_exact: true,
            runs_in_switches: false,
            unit: None,
            model: Model::PLAIN,
        }
    }

    /// Whether it runs on a kind of fabric.
    pub fn runs_on(&self, fabric: FabricKind) -> bool {
        self.offers.iter().any(|(kind, _)| *kind == fabric)
    }

    /// Whether it runs above queue pairs somewhere, and so among real hosts.
    pub fn has_queue_pairs(&self) -> bool {
        self.offers.iter().any(|(kind, _)| kind.has_queue_pairs())
    }

    /// What it offers on a kind of fabric; nothing where it does not run.
    pub fn collectives(&self, fabric: FabricKind) -> &'static [Collective] {
        self.offers.iter().find(|(kind, _)| *kind == fabric).map_or(&[], |(_, offered)| offered)
    }

    /// Whether it offers a collective on a kind of fabric, with whatever root.
    pub fn offers(&self, collective: Collective, fabric: FabricKind) -> bool {
        self.collectives(fabric).iter().any(|offered| offered.name() == collective.name())
    }

    /// Whether it offers a collective on any kind of fabric; some are for programs of one's own alone.
    pub fn offers_any(&self) -> bool {
        self.offers.iter().any(|(_, offered)| !offered.is_empty())
    }
}
