//! What is compiled from `proto/` lies in `src/generated`: who builds this room needs no protobuf compiler, and does not wait for one.

use prost::Message;
use std::fs;
use std::path::{Path, PathBuf};

const ROOM: &str = env!("CARGO_MANIFEST_DIR");
const AGAIN: &str = "QUINCUNX_PROTO=write cargo test -p quincunx-control-grpc --test suite generated";

/// The protobuf files, which of our programs serve what they say, and their descriptors' name.
const FILES: [(&str, bool, Option<&str>); 2] = [
    ("quincunx/control/v1/control.proto", true, Some("control.bin")),
    ("etcdserverpb/etcd.proto", false, None),
];

/// Compiles all into a folder.
fn compile(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (file, is_served, descriptors) in FILES {
        let include = Path::new(ROOM).join("../../../proto");
        let mut compiled = protox::compile([include.join(file)], [include]).unwrap();
        let configured = tonic_prost_build::configure().out_dir(folder).build_server(is_served);
        configured.compile_fds(compiled.clone()).unwrap();
        if let Some(name) = descriptors {
            // Comments are for who reads the sources; no client of the reflection asks for them.
            compiled.file.iter_mut().for_each(|file| file.source_code_info = None);
            fs::write(folder.join(name), compiled.encode_to_vec()).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
}

#[test]
fn what_is_generated_is_what_the_protobuf_files_say_today() {
    let written = Path::new(ROOM).join("src/generated");
    if std::env::var("QUINCUNX_PROTO").is_ok_and(|word| word == "write") {
        compile(&written);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let _ = fs::remove_dir_all(&folder);
    compile(&folder);
    let names = |folder: &Path| {
        files(folder).iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&written), names(&folder), "{AGAIN}");
    for (written, made) in files(&written).iter().zip(files(&folder)) {
        assert!(
            fs::read(written).unwrap() == fs::read(&made).unwrap(),
            "expected {} as it is compiled today; {AGAIN}",
            written.display()
        );
    }
}
