//! The `quincunx` program: the command with the project's own designs.

use std::process::ExitCode;

fn main() -> ExitCode {
    quincunx_cli::main(quincunx_designs::CATALOG, Some(quincunx_designs::FALLBACK))
}
