//! Times one collective on EPIC's star or ring: `time DESIGN COLLECTIVE SIZE [LOSS] [LINKS]`, for example
//! `cargo run --release -p quincunx-sim --example time epic-3 all_reduce 4MiB 1% 1`. Prints what a profiler's user
//! wants: virtual and real time, frames and steps a second.

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_control::Design;
use quincunx_sim::packet_fabric::{Case, Contents, LossyLinks, Setup, simulate};
use quincunx_units::{ByteCount, Probability};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [design, collective, size, rest @ ..] = &arguments[..] else {
        return Err("expected DESIGN COLLECTIVE SIZE [LOSS] [LINKS] [ring]".into());
    };
    let design: Design = design.parse()?;
    let on_ring = rest.last().is_some_and(|word| word == "ring");
    let mut setup = if on_ring { Setup::epic_ring8() } else { Setup::epic_star8() };
    let loss =
        rest.first().filter(|word| *word != "ring").map(|loss| loss.parse::<Probability>()).transpose()?;
    let links =
        rest.get(1).filter(|word| *word != "ring").map(|links| links.parse()).transpose()?.unwrap_or(1);
    setup.lossy = loss.map(|loss| LossyLinks { links, loss });
    let case = Case {
        design,
        collective: collective.parse::<Collective>()?,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        size: size.parse::<ByteCount>()?,
        contents: Contents::LengthOnly,
        seed: std::env::var("SEED").map_or(Ok(1), |seed| seed.parse())?,
    };
    let begun = Instant::now();
    let row = simulate(&setup, &case)?;
    let seconds = begun.elapsed().as_secs_f64();
    let gibibits = case.size.bytes() as f64 * 8.0 / (1u64 << 30) as f64 / row.time.as_secs_f64();
    println!(
        "{design} {collective} {size}: {:.3} us, {gibibits:.2} Gibit/s; {} frames, {} lost, {} dropped, {} steps in {seconds:.3} s: {:.2} M frames/s",
        row.time.as_micros_f64(),
        row.frames,
        row.lost,
        row.dropped,
        row.steps,
        row.frames as f64 / seconds / 1e6,
    );
    Ok(())
}
