//! Whole clusters by seed.

mod faults;
mod planted;
mod seeds;
mod stories;
mod upgrade;

use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_world::Setup;

const SETUP: Setup = Setup { catalog: CATALOG, fallback: Some(FALLBACK) };
