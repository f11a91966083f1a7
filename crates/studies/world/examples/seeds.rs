//! Runs seeds quickly while the room is worked on: `cargo run -p quincunx-world --example seeds -- 0 200`; with a third number it tells that seed's story.

use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_world::{Coverage, Setup, Telling, generate, run};

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let setup = Setup { catalog: CATALOG, fallback: Some(FALLBACK) };
    let lasts = quincunx_units::Duration::from_secs(20);
    if let [seed] = numbers[..] {
        let plan = generate(seed, lasts, CATALOG);
        println!("{}", plan.to_text());
        let outcome = run(&plan, setup, Telling::Story).expect("a plan of our own");
        outcome.story.iter().for_each(|line| println!("{line}"));
        println!("{:?} {} {}", outcome.violation, outcome.time, outcome.steps);
        return;
    }
    let mut all = Coverage::default();
    let (mut time, mut steps) = (0.0, 0);
    let start = std::time::Instant::now();
    for seed in numbers[0]..numbers[1] {
        let plan = generate(seed, lasts, CATALOG);
        let outcome = run(&plan, setup, Telling::Nothing).expect("a plan of our own");
        all.add(&outcome.coverage);
        time += outcome.time.as_secs_f64();
        steps += outcome.steps;
        if let Some(violation) = outcome.violation {
            println!("{seed}: {} at {}: {}", violation.promise.name(), violation.at, violation.what);
        }
    }
    let real = start.elapsed().as_secs_f64();
    println!("{all}\n{time:.0} s in {real:.1} s ({:.0} times), {steps} steps", time / real);
}
