//! What the tests ask the catalog.

use core::mem::discriminant;

use quincunx_collective::Collective;
use quincunx_conformance::Fabric;
use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;

pub(crate) fn fabric(name: &str) -> Fabric {
    name.parse().unwrap()
}

pub(crate) fn design_on(name: &str, fabric: FabricKind) -> &'static dyn AnyDesign {
    CATALOG.find(name, fabric).unwrap()
}

/// Whether a design offers a collective, whatever the root.
pub(crate) fn offers(design: &dyn AnyDesign, fabric: FabricKind, collective: Collective) -> bool {
    design.collectives(fabric).iter().any(|offered| discriminant(offered) == discriminant(&collective))
}
