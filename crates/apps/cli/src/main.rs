//! The `quincunx` program: the command with the project's own designs.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Clusters, explorations and simulations live on small values that come and go, on every processor.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    quincunx_cli::main(quincunx_designs::CATALOG, Some(quincunx_designs::FALLBACK))
}
