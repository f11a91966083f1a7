//! The committed corpus of the fuzz targets, put through the same checks on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod common;
#[path = "../../../fuzz/checks/parse_datagram.rs"]
mod parse_datagram;
#[path = "../../../fuzz/checks/parse_frame.rs"]
mod parse_frame;

/// Puts every seed of `target` through `check`.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = common::repository("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut replayed = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        check(&std::fs::read(&path).expect("a seed"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", folder.display());
}

#[test]
fn the_datagrams_pass() {
    replay("parse_datagram", parse_datagram::check);
}

#[test]
fn the_frames_pass() {
    replay("parse_frame", parse_frame::check);
}
