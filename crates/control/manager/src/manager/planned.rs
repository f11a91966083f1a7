//! What a group runs, and where.

use super::contending::Contending;
use crate::map::MapLink;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_design::{AnyDesign, Member, Plan, Settings};
use quincunx_fabric::TreeNodeId;

/// What a group runs, and where.
pub(super) struct Planned {
    pub(super) design: &'static dyn AnyDesign,
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    /// The switches by tree node.
    pub(super) names: BTreeMap<TreeNodeId, String>,
    /// Links that the tree leads over, if switches take part.
    pub(super) links: Vec<MapLink>,
    pub(super) conflicts: u32,
    /// If it locks its memory for each invocation: what it has beside its tree.
    pub(super) contending: Option<Contending>,
}

impl Planned {
    /// How many queue pairs each member needs.
    pub(super) fn degrees(&self) -> BTreeMap<Member, u32> {
        let mut degrees = self.plan.degrees();
        if let Some(contending) = &self.contending {
            contending.add_degrees(&mut degrees);
        }
        degrees
    }
}
