//! `quincunx reproduce`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Experiment, Series};
use quincunx_sim::{Reproduced, Verdict, reproduce, runs_of};
use serde_json::json;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::progress::bar;
use crate::simulations::envelope;

/// `quincunx reproduce`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx reproduce                     everything that can be reproduced here
  quincunx reproduce epic                one paper
  quincunx reproduce epic/table25        one table
  quincunx reproduce scin --json         for scripts

Times are in microseconds; shares and speedups are ratios. Exit status 1: a figure is out of its tolerance.")]
pub(crate) struct Reproduce {
    /// PAPER or PAPER/ID; all if there is nothing
    #[arg(default_value = "")]
    experiment: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Reproduce {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let experiments = Experiment::find(&self.experiment).map_err(Failure::input)?;
        let expected =
            experiments.iter().flat_map(|experiment| &experiment.series).map(Series::figures).sum();
        let progress = bar(experiments.iter().map(runs_of).sum());
        let stop = interrupt::flag()?;
        let mut rows: Vec<Reproduced> = Vec::new();
        let mut running = Vec::new();
        for experiment in &experiments {
            progress.set_message(format!("{}/{}", experiment.paper, experiment.id));
            let figures = reproduce(experiment, catalog, &stop, &|| progress.inc(1)).map_err(|error| {
                progress.finish_and_clear();
                Failure::input(error)
            })?;
            if !self.json {
                progress.suspend(|| print_table(experiment, &figures));
            }
            rows.extend(figures);
            if is_set(&stop) {
                running.push(format!("{}/{}", experiment.paper, experiment.id));
                break;
            }
        }
        progress.finish_and_clear();
        let missed = rows.iter().filter(|row| row.verdict == Verdict::Missed).count();
        if self.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "paper": row.paper,
                        "id": row.id,
                        "figure": row.figure,
                        "published": row.published,
                        "ours": row.ours,
                        "error": row.error,
                        "verdict": row.verdict.to_string(),
                    })
                })
                .collect();
            println!("{}", envelope("reproduce", &rows));
        } else {
            println!("{} of {} figures met", rows.len() - missed, rows.len());
        }
        Failure::unless_all(expected, rows.len(), &running)?;
        if missed > 0 {
            return Err(Failure::Wrong(format!(
                "expected all {} figures within their tolerance, found {missed} outside; the notes in experiments/ say what is known",
                rows.len()
            )));
        }
        Ok(())
    }
}

fn print_table(experiment: &Experiment, figures: &[Reproduced]) {
    println!("{}/{}: {} ({})", experiment.paper, experiment.id, experiment.title, experiment.source);
    println!("  {:<32} {:>14} {:>14} {:>8}  verdict", "figure", "published", "ours", "error");
    for Reproduced { figure, published, ours, error, verdict, .. } in figures {
        let percent = error * 100.0;
        println!("  {figure:<32} {published:>14.3} {ours:>14.3} {percent:>7.1}%  {verdict}");
    }
    for note in
        experiment.note.iter().chain(experiment.series.iter().filter_map(|series| series.note.as_ref()))
    {
        println!("  {note}");
    }
}
