//! The `quincunx` program: the command with the project's own designs.

use mimalloc::MiMalloc;
use nix::sys::prctl::set_thp_disable;
use std::process::ExitCode;

/// Clusters, explorations and simulations live on small values that come and go, on every processor.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Commands of which a machine runs dozens, or one for months. They touch little memory, here and there: in pages of 2 MiB a manager has 36 MB in
/// place of 26, and sixteen ranks of a virtual machine, which clears such pages slowly, take seconds to begin.
const IN_SMALL_PAGES: [&str; 4] = ["rank", "switch", "manager", "agent"];

fn main() -> ExitCode {
    let command = std::env::args_os().nth(1);
    if command.is_some_and(|command| IN_SMALL_PAGES.iter().any(|small| command == *small)) {
        // Whoever has no say in it goes on with large ones.
        let _ = set_thp_disable(true);
    }
    quincunx_cli::main(quincunx_designs::CATALOG, Some(quincunx_designs::FALLBACK))
}
