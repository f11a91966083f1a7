//! `quincunx reproduce`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Experiment, FigureKind, Series};
use quincunx_sim::layer::Remembered;
use quincunx_sim::{Curve, Reproduced, Verdict, reproduce_curves, runs_of};
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::out::say;
use crate::progress::bar;
use crate::results::{Printed, envelope};

/// `quincunx reproduce`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx reproduce                     everything that can be reproduced here
  quincunx reproduce epic                one paper
  quincunx reproduce epic/table25        one table
  quincunx reproduce scin --json         for scripts

Times are in microseconds; shares and speedups are ratios. Each figure has a kind:
  predicted    the paper's, and no parameter was set by it
  calibrated   the paper's, but it or another of its table has set a parameter
  derived      ours, not the paper's; never counted
  identity     true by construction; never counted
Exit status 1: a figure that is counted is out of its tolerance.")]
pub(crate) struct Reproduce {
    /// PAPER or PAPER/ID; all if there is nothing
    #[arg(default_value = "")]
    experiment: String,
    #[command(flatten)]
    printed: Printed,
}

impl Reproduce {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let experiments = Experiment::find(&self.experiment).map_err(Failure::input)?;
        let expected =
            experiments.iter().flat_map(|experiment| &experiment.series).map(Series::figures).sum();
        let progress = bar(experiments.iter().map(runs_of).sum());
        let stop = interrupt::flag()?;
        let (mut rows, mut curves): (Vec<Reproduced>, Vec<Value>) = (Vec::new(), Vec::new());
        let (mut running, remembered) = (Vec::new(), Remembered::default());
        for experiment in &experiments {
            progress.set_message(format!("{}/{}", experiment.paper, experiment.id));
            let done = || progress.inc(1);
            let reproduced =
                reproduce_curves(experiment, catalog, quincunx_schedules::ALL, &remembered, &stop, &done);
            let (figures, lines) = reproduced.map_err(|error| {
                progress.finish_and_clear();
                Failure::input(error)
            })?;
            curves.extend(lines.iter().map(|line| curve(experiment, line)));
            if !self.printed.is_for_programs() {
                progress.suspend(|| print_table(experiment, &figures));
            }
            rows.extend(figures);
            if is_set(&stop) {
                running.push(format!("{}/{}", experiment.paper, experiment.id));
                break;
            }
        }
        progress.finish_and_clear();
        if self.printed.is_for_programs() {
            let printed: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "paper": row.paper,
                        "id": row.id,
                        "figure": row.figure,
                        "kind": row.kind.name(),
                        "published": row.published,
                        "ours": row.ours,
                        "error": row.error,
                        "verdict": row.verdict.to_string(),
                    })
                })
                .collect();
            let mut object = envelope("reproduce", &printed);
            object["totals"] = totals(&rows);
            object["curves"] = curves.into();
            self.printed.print(&object);
        } else {
            print_totals(&rows);
        }
        Failure::unless_all(expected, rows.len(), &running)?;
        let (met, missed) = FigureKind::ALL
            .into_iter()
            .filter(|kind| kind.is_counted())
            .map(|kind| met_and_missed(&rows, kind))
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        if missed > 0 {
            return Err(Failure::Wrong(format!(
                "expected all {} figures that are counted within their tolerance, found {missed} outside; see the notes in experiments/",
                met + missed
            )));
        }
        Ok(())
    }
}

/// A line of a figure, as `quincunx report` draws it.
fn curve(experiment: &Experiment, curve: &Curve) -> Value {
    let points = curve.points.iter().map(|point| {
        json!({
            "value": point.value,
            "x": point.x,
            "ours": point.ours,
            "published": point.published,
        })
    });
    let summary = curve
        .summary
        .as_ref()
        .map(|summary| json!({ "pick": summary.pick, "ours": summary.ours, "published": summary.published }));
    json!({
        "paper": experiment.paper,
        "id": experiment.id,
        "title": experiment.title,
        "source": experiment.source,
        "label": curve.label,
        "design": curve.design,
        "baseline": curve.baseline,
        "kind": curve.kind.name(),
        "quantity": curve.quantity,
        "axis": curve.axis,
        "points": points.collect::<Vec<_>>(),
        "summary": summary,
    })
}

/// Figures of a kind that are within their tolerance, and those outside.
fn met_and_missed(rows: &[Reproduced], kind: FigureKind) -> (usize, usize) {
    let of = |verdict| rows.iter().filter(|row| row.kind == kind && row.verdict == verdict).count();
    (of(Verdict::Met), of(Verdict::Missed))
}

/// What scripts get beside the rows: met and missed of each kind that is counted.
fn totals(rows: &[Reproduced]) -> Value {
    let counted = FigureKind::ALL.into_iter().filter(|kind| kind.is_counted());
    let total = |kind: FigureKind| {
        let (met, missed) = met_and_missed(rows, kind);
        (kind.name().to_owned(), json!({ "met": met, "missed": missed }))
    };
    Value::Object(counted.map(total).collect::<Map<_, _>>())
}

fn print_totals(rows: &[Reproduced]) {
    for kind in FigureKind::ALL {
        let (met, missed) = met_and_missed(rows, kind);
        let all = met + missed;
        match kind.is_counted() {
            _ if all == 0 => {}
            true => say!("{kind:<10} {met:>4} of {all} figures met, {missed} missed"),
            false => say!("{kind:<10} {all:>4} figures, not counted"),
        }
    }
}

fn print_table(experiment: &Experiment, figures: &[Reproduced]) {
    say!("{}/{}: {} ({})", experiment.paper, experiment.id, experiment.title, experiment.source);
    say!("  {:<32} {:<10} {:>14} {:>14} {:>8}  verdict", "figure", "kind", "published", "ours", "error");
    for Reproduced { figure, kind, published, ours, error, verdict, .. } in figures {
        let percent = error * 100.0;
        say!("  {figure:<32} {kind:<10} {published:>14.3} {ours:>14.3} {percent:>7.1}%  {verdict}");
    }
    for note in
        experiment.note.iter().chain(experiment.series.iter().filter_map(|series| series.note.as_ref()))
    {
        say!("  {note}");
    }
}
