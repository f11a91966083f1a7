//! Guests with the Linux kernel's software RoCE (`tools/rxe-guest`): what they are built from.

use crate::{Missing, namespaces};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit status of `build.sh` where packages are missing, and where no guest can be built whatever is installed.
const LACKS_PACKAGES: i32 = 77;
const CANNOT: i32 = 78;

/// The packages, as `tools/rxe-guest/README.md` names them, and the one that says which kernel to fetch.
const PACKAGES: [&str; 9] = [
    "qemu-system-x86",
    "ibverbs-utils",
    "ibverbs-providers",
    "rdma-core",
    "perftest",
    "busybox-static",
    "cpio",
    "kmod",
    "linux-image-amd64",
];

/// One of the scripts.
pub fn guest_tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tools/rxe-guest").join(name)
}

/// Fills the folder `rxe-guest` in `scratch` with what guests boot from, and with `program`, if they are to have one of ours; returns the
/// folder.
///
/// # Errors
/// Without root, namespaces or the packages, or where no guest can be built.
///
/// # Panics
/// If `build.sh` fails otherwise.
pub fn guest_image(scratch: &Path, program: Option<&str>) -> Result<PathBuf, Missing> {
    namespaces()?;
    let image = scratch.join("rxe-guest");
    let build = Command::new(guest_tool("build.sh")).arg(&image).args(program).stdin(Stdio::null()).output();
    let built = build.expect("bash is there");
    let said = String::from_utf8_lossy(&built.stderr).trim().to_owned();
    match built.status.code() {
        Some(0) => Ok(image),
        Some(LACKS_PACKAGES) => Err(Missing::packages(&PACKAGES, said)),
        Some(CANNOT) => Err(Missing::nothing(said)),
        _ => panic!("build.sh: {}: {said}", built.status),
    }
}
