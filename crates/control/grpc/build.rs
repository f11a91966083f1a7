//! Compiles the control plane's messages, and what is said to etcd, with a protobuf compiler written in Rust: no `protoc` is needed. The
//! descriptors of our own are kept, too: the server tells them to whoever asks what it serves.

use prost::Message;
use std::error::Error;
use std::path::Path;

const INCLUDE: &str = "../../../proto";
const PROTO: &str = "../../../proto/quincunx/control/v1/control.proto";
const ETCD: &str = "../../../proto/etcdserverpb/etcd.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    println!("cargo:rerun-if-changed={ETCD}");
    let descriptors = protox::compile([PROTO], [INCLUDE])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("control.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    tonic_prost_build::configure().build_server(false).compile_fds(protox::compile([ETCD], [INCLUDE])?)?;
    Ok(())
}
