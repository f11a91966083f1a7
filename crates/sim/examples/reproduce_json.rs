//! All figures of all experiments as JSON.
use quincunx_designs::CATALOG;
use quincunx_scenario::Experiment;
use std::sync::atomic::AtomicBool;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for experiment in Experiment::find(&filter).unwrap() {
        let stop = AtomicBool::new(false);
        match quincunx_sim::reproduce(&experiment, CATALOG, &stop, &|| ()) {
            Ok(rows) => print(&rows),
            Err(error) => eprintln!("ERROR {error}"),
        }
    }
}

fn print(rows: &[quincunx_sim::Reproduced]) {
    for row in rows {
        println!("{}\t{}\t{}\t{}\t{}\t{}", row.paper, row.id, row.figure, row.published, row.ours, row.verdict);
    }
}
