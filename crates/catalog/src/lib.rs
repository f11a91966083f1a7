//! The designs that Quincunx brings: one line each. Whoever starts a program takes this catalog, or adds designs of its own to it; the
//! rooms below take a catalog and name no design.
#![no_std]

use quincunx_design::Catalog;

/// All designs, in the order in which people see them.
pub static CATALOG: Catalog = Catalog::new(
    &[
        &quincunx_epic::EPIC_1,
        &quincunx_epic::EPIC_2,
        &quincunx_epic::EPIC_3,
        &quincunx_epic::EPIC_MIXED,
        &quincunx_scin::SCIN,
        &quincunx_nvls::NVLS,
        &quincunx_cais::CAIS,
        &quincunx_ring::RING,
        &quincunx_ring::TREE,
        &quincunx_ring::DOUBLE_TREE,
        &quincunx_ring::HALVING_DOUBLING,
        &quincunx_ring::DIRECT,
        &quincunx_netreduce::NETREDUCE,
        &quincunx_switchml::SWITCHML,
        &quincunx_atp::ATP,
        &quincunx_multiwrite::MULTIWRITE,
        &quincunx_multiwrite::UNICAST_MULTIPATH,
        &quincunx_multiwrite::DIRECT,
        &quincunx_multiwrite::WRITES,
        &quincunx_scin::SCIN_INQ,
        &quincunx_ring::RING_RQ,
    ],
    &quincunx_epic::CLOSED_FORMS,
);

/// The design that a group falls back to when switches have no room for it: among hosts alone.
pub const FALLBACK: &str = "ring";
