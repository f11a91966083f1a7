//! A simulator of hardware, which tests put in the place of a switch of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Missing, program};

/// IncEngine in the shape that its benches build, too: eight ports, and a window of four packets of up to 1 KiB.
const BLOCK: [&str; 7] =
    ["inc_engine", "PORTS=8", "SLOTS=8", "MTU=1024", "BREAKABLE=1", "INSIDE_F32=0", "RANKS=16"];

/// Where the simulator's program is. Builds it if its sources have changed.
///
/// # Errors
/// If the machine has not what that takes.
///
/// # Panics
/// If it cannot be built.
pub fn hardware_simulator() -> Result<PathBuf, Missing> {
    for (name, package) in [("verilator", "verilator"), ("g++", "g++"), ("python3", "python3")] {
        program(name, package)?;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut command = Command::new("python3");
    let built = command.arg("rtl/bench/simulators.py").args(BLOCK).current_dir(root).output();
    let built = built.expect("python3 is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(String::from_utf8_lossy(&built.stdout).trim().into())
}
