//! Streams of collectives side by side on SCIN's simulated DGX: several that the switches run, and one that the accelerators
//! run themselves, which shares the ports with them as ordinary traffic does (SCIN 3.2, 3.4).

use quincunx_collective::{Collective, DataType, LengthOnly, ReduceOp, Reduction};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_scenario::{Fabric, Scenario};
use quincunx_sim::memory_fabric::{MemoryFabric, Stream, run_streams};
use quincunx_units::Duration;
use std::error::Error;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// How long AllReduces of these designs and lengths take when they begin together, each on a part of memory of its own.
fn times(fabric: &MemoryFabric, wanted: &[(&str, usize)]) -> Result<Vec<Duration>, Box<dyn Error>> {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F16 };
    let mut end = 0;
    let mut streams = Vec::new();
    for &(design, length) in wanted {
        let span = Span { offset: end, length };
        let request = InPlaceRequest { collective: Collective::AllReduce, reduction, span };
        let design = CATALOG.find(design, FabricKind::Memory)?;
        streams.push(Stream { design, settings: design.defaults(), request });
        end += length;
    }
    let memories = vec![LengthOnly::new(end); usize::from(fabric.accelerators)];
    let outcome = run_streams(fabric, &streams, memories)?;
    Ok(outcome.streams.iter().map(|stream| stream.time).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Fabric::Memory(fabric) = Scenario::find("scin-dgx8", &[], CATALOG)?.fabric else { return Ok(()) };
    let fabric = MemoryFabric::from(&fabric);
    println!("| SCIN, together | 1 stream | 2 streams | 4 streams |\n|---|---|---|---|");
    for (name, total) in [("16 KiB", 16 * KIB), ("1 MiB", MIB), ("16 MiB", 16 * MIB)] {
        let mut line = format!("| {name} |");
        for streams in [1, 2, 4] {
            let side_by_side = times(&fabric, &vec![("scin", total / streams); streams])?;
            let last = side_by_side.into_iter().max().unwrap_or_default();
            line += &format!(" {:.2} us |", last.as_micros_f64());
        }
        println!("{line}");
    }
    println!(
        "\n| ring, SCIN | ring alone | beside SCIN | SCIN alone | beside the ring |\n|---|---|---|---|---|"
    );
    for (name, ring, scin) in [("1 MiB, 4 MiB", MIB, 4 * MIB), ("8 MiB, 32 MiB", 8 * MIB, 32 * MIB)] {
        let wanted = [("ring", ring), ("scin", scin)];
        let both = times(&fabric, &wanted)?;
        let mut line = format!("| {name} |");
        for (stream, both) in wanted.into_iter().zip(both) {
            let alone = times(&fabric, &[stream])?[0].as_micros_f64();
            let both = both.as_micros_f64();
            line += &format!(" {alone:.1} us | {both:.1} us ({:+.0} %) |", 100.0 * (both / alone - 1.0));
        }
        println!("{line}");
    }
    Ok(())
}
