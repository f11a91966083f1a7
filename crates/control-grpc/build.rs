//! Compiles the control plane's messages with a protobuf compiler written in Rust: no `protoc` is needed.

use std::error::Error;

const PROTO: &str = "../../proto/quincunx/control/v1/control.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["../../proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
