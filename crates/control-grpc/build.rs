//! Compiles the control plane's messages with a protobuf compiler written in Rust: no `protoc` is needed. The descriptors are kept, too: the
//! server tells them to whoever asks what it serves.

use prost::Message;
use std::error::Error;
use std::path::Path;

const PROTO: &str = "../../proto/quincunx/control/v1/control.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["../../proto"])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("control.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
