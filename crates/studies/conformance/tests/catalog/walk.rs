//! All that could be run.

use core::fmt;

use quincunx_collective::{Collective, DataType};
use quincunx_conformance::Trial;
use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;

use crate::common::fabric;
use crate::settings::{FLOATING, SETTINGS, Setting, base};

/// The fabrics.
pub(crate) const FABRICS: [&str; 6] = ["star-2", "star-3", "tree-2x2", "ring-3", "mesh-2x2", "servers-2x2"];

/// The drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    Des,
    Net,
    Check,
}

pub(crate) const DRIVERS: [Driver; 3] = [Driver::Des, Driver::Net, Driver::Check];

/// What could be run by one driver, by names.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) design: &'static str,
    pub(crate) fabric: &'static str,
    pub(crate) collective: &'static str,
    pub(crate) setting: &'static str,
    pub(crate) is_lossy: bool,
    pub(crate) driver: Driver,
}

/// What could be run by all drivers: a design that offers a collective on a fabric, in a setting.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) design: &'static dyn AnyDesign,
    pub(crate) fabric: (&'static str, Scenario),
    pub(crate) collective: Collective,
    pub(crate) setting: &'static Setting,
    /// Decides whether something is lost where either is run, and what.
    pub(crate) number: usize,
}

impl Case {
    pub(crate) fn cell(&self, driver: Driver, is_lossy: bool) -> Cell {
        Cell {
            design: self.design.name(),
            fabric: self.fabric.0,
            collective: self.collective.name(),
            setting: self.setting.name,
            is_lossy,
            driver,
        }
    }

    /// Which runs a driver makes of it: without a loss, with one.
    pub(crate) fn runs(&self, driver: Driver) -> Vec<bool> {
        match driver {
            Driver::Des => vec![false, true],
            Driver::Net | Driver::Check => vec![self.number.is_multiple_of(2)],
        }
    }

    /// Vectors of two packets, or tokens of one.
    pub(crate) fn trial(&self) -> Trial {
        let trial = Trial::new(self.design, self.fabric.1.clone(), self.collective);
        let mut trial = self
            .setting
            .apply(base(trial))
            .with_time_outs()
            .of_length(if self.collective.is_routed() { 16 } else { 12 });
        if self.setting.name == FLOATING || self.setting.keys().any(|key| key == "group.reproducible") {
            trial.reduction.data_type = DataType::F32;
        }
        trial
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { design, fabric, collective, setting, .. } = self;
        write!(f, "{} of {} on {}, {}", collective, design.name(), fabric.0, setting.name)
    }
}

/// All cases on a fabric.
pub(crate) fn cases(name: &'static str) -> Vec<Case> {
    let fabric = fabric(name);
    let mut cases = Vec::new();
    for design in CATALOG.on(fabric.kind()) {
        let values = design.defaults();
        let settings = || SETTINGS.iter().filter(|setting| setting.keys().all(|key| values.has(key)));
        for (row, &collective) in design.collectives(fabric.kind()).iter().enumerate() {
            for (column, setting) in settings().enumerate() {
                let fabric = (name, fabric.clone());
                cases.push(Case { design, fabric, collective, setting, number: row + column });
            }
        }
    }
    cases
}

/// What no driver runs at all: designs without a fabric here, and without a collective.
pub(crate) fn outside() -> Vec<Cell> {
    let cell = |design, fabric, collective, driver| Cell {
        design,
        fabric,
        collective,
        setting: "as it is",
        is_lossy: false,
        driver,
    };
    let kinds: Vec<FabricKind> = FABRICS.iter().map(|name| fabric(name).kind()).collect();
    let mut cells = Vec::new();
    for driver in DRIVERS {
        for design in CATALOG.above_queue_pairs() {
            for (kind, _) in design.about().offers.iter().filter(|(kind, _)| kind.has_queue_pairs()) {
                let named = match kind {
                    FabricKind::Memory | FabricKind::MemoryMesh => "memory",
                    _ => "any",
                };
                if design.collectives(*kind).is_empty() {
                    cells.push(cell(design.name(), named, "none", driver));
                } else if !kinds.contains(kind) {
                    cells.push(cell(design.name(), named, "all", driver));
                }
            }
        }
        cells.extend(
            CATALOG
                .on(FabricKind::Memory)
                .map(AnyDesign::name)
                .map(|name| cell(name, "memory", "all", driver)),
        );
    }
    cells
}
