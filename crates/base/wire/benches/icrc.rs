//! The invariant CRC: which CRC crate, what a datagram costs beside a plain copy of its payload, and what sharing one
//! payload's CRC between several destinations saves.
//!
//! `cargo bench -p quincunx-wire --bench icrc`
//!
//! On an AMD EPYC with AVX-512 and VPCLMULQDQ; time for one, median:
//!
//! | | 64 B | 1 KiB | 4 KiB |
//! |---|---|---|---|
//! | headers and payload, crc32fast | 18 ns | 50 ns | 103 ns |
//! | headers and payload, crc-fast | 64 ns | 71 ns | 125 ns |
//! | emit | 46 ns | 69 ns | 157 ns |
//! | emit shared | 46 ns | 55 ns | 89 ns |
//! | parse | 55 ns | 67 ns | 119 ns |
//! | copy of the payload | 2 ns | 10 ns | 42 ns |
//!
//! With crc32fast for all of the CRC it was, in a program that had both versions of this crate and took turns, 51, 81 and 224 ns to emit, 67, 82 and 184 shared, 59, 84 and 137 to
//! parse (the least of 40 rounds; 45, 67, 149; 43, 52, 91; 51, 63, 115 now).
#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quincunx_wire::{
    Gid, Operation, Psn, QpNumber, RoceHeader, SharedPayload, UdpPath, datagram_length, emit_datagram,
    emit_shared_datagram, parse_datagram,
};
use std::hint::black_box;

/// The masked headers that stand before the payload.
const PREFIX: [u8; 48] = [0x5a; 48];
const SIZES: [usize; 3] = [64, 1024, 4096];

fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 131) as u8).collect()
}

/// Prefix and payload with each crate: the smaller figure decides which one computes the CRC where vectors are shorter.
fn crates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("icrc");
    for size in SIZES {
        let payload = payload(size);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::new("crc32fast", size), &payload, |bencher, payload| {
            bencher.iter(|| {
                let mut crc = crc32fast::Hasher::new();
                crc.update(black_box(&PREFIX));
                crc.update(black_box(payload));
                crc.finalize()
            });
        });
        group.bench_with_input(BenchmarkId::new("crc-fast", size), &payload, |bencher, payload| {
            bencher.iter(|| {
                let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
                crc.update(black_box(&PREFIX));
                crc.update(black_box(payload));
                crc.finalize()
            });
        });
    }
}

/// Whole datagrams.
fn datagrams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("datagram");
    let (source, destination) = (Gid::from([127, 0, 0, 1]), Gid::from([127, 0, 0, 2]));
    let header = RoceHeader::new(source, destination, QpNumber::new(17), Psn::new(1), Operation::WriteMiddle);
    let path = UdpPath { source, destination, source_port: header.source_port, traffic_class: 0 };
    for size in SIZES {
        let payload = payload(size);
        let mut out = vec![0; datagram_length(&header.operation, size)];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("emit", size), |bencher| {
            bencher.iter(|| emit_datagram(black_box(&header), black_box(&payload), &mut out));
        });
        let shared = SharedPayload::new(&payload);
        group.bench_function(BenchmarkId::new("emit shared", size), |bencher| {
            bencher.iter(|| emit_shared_datagram(black_box(&header), black_box(&shared), &mut out));
        });
        group.bench_function(BenchmarkId::new("parse", size), |bencher| {
            bencher
                .iter(|| parse_datagram(black_box(&path), black_box(&out)).map(|(_, payload)| payload.len()));
        });
        let mut copy = vec![0; size];
        group.bench_function(BenchmarkId::new("copy", size), |bencher| {
            bencher.iter(|| copy.copy_from_slice(black_box(&payload)));
        });
    }
}

criterion_group!(benches, crates, datagrams);
criterion_main!(benches);
