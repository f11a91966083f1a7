//! SCIN's figures 9, 10 and 11, and NVLS beside them: what the paper says, and what comes out here.

use quincunx_collective::{Collective, DataType, LengthOnly, ReduceOp, Reduction};
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_sim::memory_fabric::{Design, IsaSetup, MemoryFabric, Outcome, run};
use quincunx_units::ByteCount;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn all_reduce(fabric: &MemoryFabric, design: Design, length: usize) -> Outcome<LengthOnly> {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F16 };
    let span = Span { offset: 0, length };
    let request = InPlaceRequest { collective: Collective::AllReduce, reduction, span };
    let scales = fabric.isa.quantization.scale_bytes(length);
    let whole = if design == Design::ScinInq { length + scales } else { length };
    let memories = vec![LengthOnly::new(whole); usize::from(fabric.accelerators)];
    run(fabric, design, request, memories).expect("a set-up of the paper")
}

/// Share of the payload bound, without synchronisation.
fn utilisation(fabric: &MemoryFabric, length: usize) -> f64 {
    let time = all_reduce(fabric, Design::Scin, length).unsynchronized.expect("SCIN's switches say when");
    length as f64 / time.as_secs_f64() / 1e9 / fabric.payload_bound().as_gigabytes_per_second_f64()
}

fn speedup(fabric: &MemoryFabric, design: Design, length: usize) -> f64 {
    let ring = all_reduce(fabric, Design::Ring, length).time;
    // Codes take half the bytes of binary16.
    let length = if design == Design::ScinInq { length / 2 } else { length };
    ring.as_secs_f64() / all_reduce(fabric, design, length).time.as_secs_f64()
}

fn main() {
    let prototype = all_reduce(&MemoryFabric::prototype(), Design::Scin, 4 * KIB);
    println!("fig9: 2.62us, {}", prototype.unsynchronized.expect("SCIN's switches say when"));
    let dgx = MemoryFabric::dgx8();
    println!("fig10a: of the bound at 16 MiB 1, {:.3}", utilisation(&dgx, 16 * MIB));
    for fabric in [dgx, MemoryFabric::dgx16()] {
        for length in [4 * KIB, 64 * KIB, MIB, 16 * MIB] {
            let of = |design| speedup(&fabric, design, length);
            let [scin, inq, nvls] = [Design::Scin, Design::ScinInq, Design::Nvls].map(of);
            println!(
                "fig10b: {} accelerators, {length} B: SCIN {scin:.2}, INQ {inq:.2}, NVLS {nvls:.2}",
                fabric.accelerators
            );
        }
    }
    let tables = |waves: u16, total: usize| {
        let wave = ByteCount::new((total / usize::from(waves)) as u64);
        MemoryFabric { isa: IsaSetup { waves, wave, ..dgx.isa }, ..dgx }
    };
    for total in [16, 32, 64, 128, 256, 512, 1024] {
        let used = utilisation(&tables(1, total * KIB), 16 * MIB);
        println!("fig11a: no waves, {total} KiB: {used:.3} (about 2/3 at 64)");
    }
    for waves in [1, 2, 4, 8, 16, 32] {
        println!(
            "fig11b: {waves} waves of 64 KiB together: {:.3}",
            utilisation(&tables(waves, 64 * KIB), 16 * MIB)
        );
    }
}
