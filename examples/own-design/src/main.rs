//! The `quincunx` command with one design more.

use own_design::PARAMETER_SERVER;
use std::process::ExitCode;

fn main() -> ExitCode {
    let catalog = quincunx_designs::CATALOG.with(&[&PARAMETER_SERVER]);
    quincunx_cli::main(catalog, Some(quincunx_designs::FALLBACK))
}
