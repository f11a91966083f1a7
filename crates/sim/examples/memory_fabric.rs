//! Times of AllReduces on the memory fabric of eight accelerators and four switches, by each design.

use quincunx_collective::{Collective, DataType, LengthOnly, ReduceOp, Reduction};
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_sim::memory_fabric::{Design, MemoryFabric, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = MemoryFabric::dgx8();
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F16 };
    for length in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20] {
        for design in [Design::Scin, Design::Ring, Design::Nvls] {
            let span = Span { offset: 0, length };
            let request = InPlaceRequest { collective: Collective::AllReduce, reduction, span };
            let memories = vec![LengthOnly::new(length); usize::from(fabric.accelerators)];
            let begun = std::time::Instant::now();
            let outcome = run(&fabric, design, request, memories)?;
            println!(
                "{length:>9} {design:?} {} {:?} {} packets, {:?}",
                outcome.time,
                outcome.unsynchronized,
                outcome.packets,
                begun.elapsed()
            );
        }
    }
    Ok(())
}
