//! Runs seeds quickly while the room is worked on: `cargo run -p quincunx-world --example seeds -- 0 200`; one number tells that seed's story;
//! `hunt 300` says with which of the first 300 seeds each planted bug is found.

use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_units::Duration;
use quincunx_world::{Coverage, Planted, Setup, Telling, generate, run};

const SETUP: Setup = Setup { catalog: CATALOG, fallback: Some(FALLBACK) };
/// For how long faults happen.
fn lasts() -> Duration {
    std::env::var("LASTS").ok().and_then(|text| text.parse().ok()).unwrap_or(quincunx_world::USUAL)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let named = arguments.iter().find(|text| Planted::names(CATALOG).contains(&text.as_str()));
    if arguments.first().is_some_and(|first| first == "hunt") {
        return hunt(numbers[0], named);
    }
    if let [seed] = numbers[..] {
        let mut plan = generate(seed, lasts(), CATALOG);
        plan.mutation = named.cloned();
        println!("{}", plan.to_text());
        let outcome = run(&plan, SETUP, Telling::Story).expect("a plan of our own");
        outcome.story.iter().for_each(|line| println!("{line}"));
        println!("{:?} {} {}", outcome.violation, outcome.time, outcome.steps);
        return;
    }
    let mut all = Coverage::default();
    let (mut time, mut steps) = (0.0, 0);
    let start = std::time::Instant::now();
    for seed in numbers[0]..numbers[1] {
        let plan = generate(seed, lasts(), CATALOG);
        let outcome = run(&plan, SETUP, Telling::Nothing).expect("a plan of our own");
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

fn hunt(seeds: u64, named: Option<&String>) {
    std::panic::set_hook(Box::new(|_| {}));
    for name in Planted::names(CATALOG) {
        if named.is_some_and(|named| named != name) {
            continue;
        }
        let found = (0..seeds).find_map(|seed| {
            let mut plan = generate(seed, lasts(), CATALOG);
            plan.mutation = Some(name.to_owned());
            let outcome = run(&plan, SETUP, Telling::Nothing).expect("a plan of our own");
            outcome.violation.map(|violation| (seed, violation))
        });
        match found {
            Some((seed, violation)) => {
                println!("{name:<32} {seed:>5}  {}: {}", violation.promise.name(), violation.what);
            }
            None => println!("{name:<32}     -  not found"),
        }
    }
}
