//! Writes the seeds of the fuzz targets: the first frame of each opcode in each capture of `vectors/`.
//!
//! `cargo run -p quincunx-wire --example seed_corpus`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{repository, vector};
use quincunx_wire::{HEADERS_BELOW_BTH, parse_frame};
use std::collections::BTreeSet;

fn main() -> std::io::Result<()> {
    for capture in ["rxe", "rxe-rc-send"] {
        let mut seen = BTreeSet::new();
        for frame in vector(&format!("{capture}.pcap")) {
            let (_, header, _) = parse_frame(&frame).expect("a vector parses");
            let opcode = header.operation.opcode();
            if !seen.insert(opcode) {
                continue;
            }
            for (target, bytes) in
                [("parse_frame", &frame[..]), ("parse_datagram", &frame[HEADERS_BELOW_BTH..])]
            {
                let folder = repository("fuzz/corpus").join(target);
                std::fs::create_dir_all(&folder)?;
                std::fs::write(folder.join(format!("{capture}-opcode-{opcode:02x}")), bytes)?;
            }
        }
    }
    Ok(())
}
