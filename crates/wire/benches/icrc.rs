//! The invariant CRC: which CRC crate, what a datagram costs, and whether a payload's CRC is worth keeping when one
//! payload goes to several destinations.
//!
//! `cargo bench -p quincunx-wire --bench icrc`
#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quincunx_wire::{
    Operation, Psn, QpNumber, RoceHeader, UdpPath, datagram_length, emit_datagram, parse_datagram,
};
use std::hint::black_box;
use std::net::Ipv4Addr;

/// The masked headers that stand before the payload.
const PREFIX: [u8; 48] = [0x5a; 48];
const SIZES: [usize; 3] = [64, 1024, 4096];

fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 131) as u8).collect()
}

/// Prefix and payload with each crate: the smaller figure decides which one the crate uses.
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

/// A payload's CRC kept, each header's joined to it: by the crate's own joining, and by one multiplication when the
/// shift for this length is known. To be held against "icrc/crc32fast", which computes the whole again.
fn joining(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("joining");
    for size in SIZES {
        let payload = payload(size);
        let mut kept = crc32fast::Hasher::new();
        kept.update(&payload);
        group.bench_with_input(BenchmarkId::new("crc32fast combine", size), &kept, |bencher, kept| {
            bencher.iter(|| {
                let mut crc = crc32fast::Hasher::new();
                crc.update(black_box(&PREFIX));
                crc.combine(black_box(kept));
                crc.finalize()
            });
        });
        let (shift, kept) = (shift(size), kept.finalize());
        group.bench_function(BenchmarkId::new("known shift", size), |bencher| {
            bencher.iter(|| {
                let mut crc = crc32fast::Hasher::new();
                crc.update(black_box(&PREFIX));
                multiply(black_box(shift), crc.finalize()) ^ black_box(kept)
            });
        });
    }
}

/// Product modulo the CRC polynomial; the highest bit is the coefficient of x^0.
fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        product ^= b & ((a >> bit) & 1).wrapping_neg();
        b = (b >> 1) ^ ((b & 1).wrapping_neg() & 0xedb8_8320);
    }
    product
}

/// What appending `size` bytes multiplies a CRC by.
fn shift(size: usize) -> u32 {
    (0..size).fold(0x8000_0000, |shift, _| multiply(shift, 0x0080_0000))
}

/// Whole datagrams.
fn datagrams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("datagram");
    let (source, destination) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
    let header = RoceHeader::new(source, destination, QpNumber::new(17), Psn::new(1), Operation::WriteMiddle);
    let path = UdpPath { source, destination, source_port: header.source_port, traffic_class: 0 };
    for size in SIZES {
        let payload = payload(size);
        let mut out = vec![0; datagram_length(&header.operation, size)];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("emit", size), |bencher| {
            bencher.iter(|| emit_datagram(black_box(&header), black_box(&payload), &mut out));
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

criterion_group!(benches, crates, joining, datagrams);
criterion_main!(benches);
