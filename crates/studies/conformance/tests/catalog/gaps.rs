//! What is not run, and why.

use core::fmt;

use crate::walk::{Cell, Driver};
use Driver::{Check, Net};

/// Cells that are not run. An empty list is all.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) designs: &'static [&'static str],
    pub(crate) fabrics: &'static [&'static str],
    pub(crate) collectives: &'static [&'static str],
    pub(crate) settings: &'static [&'static str],
    pub(crate) drivers: &'static [Driver],
    /// Without a loss, with one, or both.
    pub(crate) is_lossy: Option<bool>,
    /// The design itself refuses it.
    pub(crate) is_refused: bool,
    pub(crate) reason: &'static str,
}

const GAP: Gap = Gap {
    designs: &[],
    fabrics: &[],
    collectives: &[],
    settings: &[],
    drivers: &[],
    is_lossy: None,
    is_refused: false,
    reason: "",
};

/// The table. What the first row that has a cell says is why it is not run.
pub(crate) static GAPS: [Gap; 24] = [
    Gap {
        fabrics: &["memory"],
        reason: "no driver on real links carries the packets of a memory fabric, and its nodes are of another kind than a cluster's; \
                 simulations are held against references, and the check room explores it",
        ..GAP
    },
    Gap {
        collectives: &["none"],
        reason: "it offers writes of the application's own and no collective: a scenario is a collective; its tests are the engine's, the \
                 check room's and the runtime's",
        ..GAP
    },
    Gap {
        designs: &["epic-1", "epic-2"],
        settings: &["run ahead", "slots", "silent"],
        is_refused: true,
        reason: "only Mode-III has pipes: the design refuses the parameter",
        ..GAP
    },
    Gap {
        designs: &["epic-1", "epic-3"],
        settings: &["ranks repair"],
        is_refused: true,
        reason: "only Mode-II leaves the sending again to ranks: the design refuses the parameter",
        ..GAP
    },
    Gap {
        designs: &["epic-1", "epic-2", "epic-3"],
        settings: &["mixed"],
        is_refused: true,
        reason: "its switches are in one mode: the design refuses the parameter",
        ..GAP
    },
    Gap {
        designs: &["epic-mixed"],
        fabrics: &["star-2", "star-3"],
        drivers: &[Net, Check],
        reason: "a star has one switch, and is that of another design",
        ..GAP
    },
    Gap {
        designs: &["epic-mixed"],
        settings: &[
            "as it is",
            "going back",
            "messages",
            "window 1",
            "acknowledges",
            "rates",
            "congestion",
            "packets",
            "reproducible",
            "run ahead",
            "slots",
            "silent",
            "checked",
            "in turn",
        ],
        drivers: &[Net],
        reason: "where no modes are said all switches are in Mode-III, which is epic-3",
        ..GAP
    },
    Gap {
        designs: &["netreduce", "multiwrite", "unicast-multipath"],
        settings: &["channels"],
        is_refused: true,
        reason: "its ranks write to each other's memory, which does not tell channels apart: the plan is refused",
        ..GAP
    },
    Gap {
        designs: &["direct"],
        fabrics: &["mesh-2x2", "servers-2x2"],
        settings: &["channels"],
        is_refused: true,
        reason: "on a mesh it writes to other ranks' memory, which does not tell channels apart: the plan is refused",
        ..GAP
    },
    Gap {
        designs: &["netreduce"],
        settings: &["packets"],
        is_refused: true,
        reason: "a frame has room for its header of 20 bytes and an element: the design refuses the parameter",
        ..GAP
    },
    Gap {
        designs: &["switchml", "atp"],
        settings: &["acknowledges", "rates"],
        is_refused: true,
        reason: "datagrams are not acknowledged, and nobody tells their senders of congestion: the design refuses the parameter",
        ..GAP
    },
    Gap {
        designs: &["netreduce", "switchml", "atp"],
        fabrics: &["tree-2x2"],
        is_refused: true,
        reason: "one switch adds up what all ranks send: the design refuses more",
        ..GAP
    },
    Gap {
        fabrics: &["star-2"],
        drivers: &[Net],
        reason: "star-3 runs there, and has all that star-2 has",
        ..GAP
    },
    Gap {
        designs: &["epic-3"],
        collectives: &["reduce", "broadcast", "reduce_scatter", "all_gather"],
        settings: &["rates"],
        drivers: &[Check],
        reason: "more states than are looked at: its switches tell ranks that are ahead to slow down, and a rate takes thousands of steps until \
                 it is what it was",
        ..GAP
    },
    Gap {
        settings: &["checked"],
        drivers: &[Check],
        reason: "checksums of what the checker sends, which says whose it is and is no number, are of another length; the check room explores them",
        ..GAP
    },
    Gap {
        fabrics: &["tree-2x2"],
        drivers: &[Check],
        reason: "more states than are looked at: stars are explored here, trees of switches in the check room, which knows what is symmetric",
        ..GAP
    },
    Gap {
        fabrics: &["star-3"],
        designs: &["ring", "tree", "double-tree", "halving-doubling", "direct", "multiwrite"],
        collectives: &["all_reduce", "reduce_scatter", "all_gather"],
        drivers: &[Check],
        reason: "more states than are looked at: switches only forward for these designs; star-2, ring-3 and mesh-2x2 are explored",
        ..GAP
    },
    Gap {
        fabrics: &["star-3"],
        designs: &["epic-1", "epic-2", "epic-3"],
        collectives: &["reduce_scatter", "all_gather"],
        drivers: &[Check],
        is_lossy: Some(true),
        reason: "more states than are looked at; explored on star-2, and without a loss",
        ..GAP
    },
    Gap {
        designs: &["netreduce"],
        settings: &["switch takes time"],
        drivers: &[Check],
        reason: "more states than are looked at: what the switch has added up leaves at any time later",
        ..GAP
    },
    Gap {
        designs: &["netreduce"],
        fabrics: &["star-3"],
        settings: &["floating"],
        drivers: &[Check],
        reason: "more states than are looked at: star-2 is explored, and integers are",
        ..GAP
    },
    Gap {
        designs: &["netreduce", "multiwrite"],
        fabrics: &["star-3"],
        collectives: &["barrier"],
        drivers: &[Check],
        reason: "more states than are looked at: explored on star-2",
        ..GAP
    },
    Gap {
        fabrics: &["servers-2x2"],
        drivers: &[Check],
        reason: "more states than are looked at: four ranks that all write to all others, by way of a switch; the check room explores dispatches \
                 and combines on mesh-2x2, which has the same ways and no switch",
        ..GAP
    },
    Gap {
        designs: &["epic-2"],
        fabrics: &["star-3"],
        collectives: &["all_reduce"],
        settings: &["messages", "acknowledges", "channels"],
        drivers: &[Check],
        is_lossy: Some(true),
        reason: "more states than are looked at: ranks keep what comes early, in any order; star-2 is explored",
        ..GAP
    },
    Gap {
        designs: &["epic-2"],
        fabrics: &["star-3"],
        collectives: &["broadcast"],
        settings: &["channels"],
        drivers: &[Check],
        is_lossy: Some(true),
        reason: "with its confirmation it has more runs than are looked at here; on two ranks all are",
        ..GAP
    },
];

impl Gap {
    /// Whether a cell is one of those that are not run.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        let is_in = |names: &[&str], name: &str| names.is_empty() || names.contains(&name);
        is_in(self.designs, cell.design)
            && is_in(self.fabrics, cell.fabric)
            && is_in(self.collectives, cell.collective)
            && is_in(self.settings, cell.setting)
            && (self.drivers.is_empty() || self.drivers.contains(&cell.driver))
            && self.is_lossy.is_none_or(|is_lossy| is_lossy == cell.is_lossy)
    }
}

/// The row that says why a cell is not run.
pub(crate) fn gap(cell: &Cell) -> Option<&'static Gap> {
    GAPS.iter().find(|gap| gap.has(cell))
}

/// A row in a line: what is not run, and why.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [self.designs, self.fabrics, self.collectives, self.settings];
        let names = lists.iter().filter(|list| !list.is_empty()).map(|list| list.join(" "));
        let drivers =
            self.drivers.iter().map(|driver| format!("driver-{}", format!("{driver:?}").to_lowercase()));
        let lossy = self.is_lossy.map(|is_lossy| if is_lossy { "one loss" } else { "no loss" }.to_owned());
        let all: Vec<String> = names.chain(drivers).chain(lossy).collect();
        write!(f, "{}: {}", all.join(", "), self.reason)
    }
}
