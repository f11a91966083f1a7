//! `quincunx reproduce`.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Elsewhere, Experiment, FigureKind, Found, Series, Tolerance};
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
  quincunx reproduce cais --afresh       also layers that an earlier run has kept in ~/.cache/quincunx/layers

Times are in microseconds; shares and speedups are ratios. Each figure has a kind:
  predicted    the paper's, an engine ran, and no parameter was set by it
  formula      the paper's, but a closed form or a bound answers it
  calibrated   the paper's, but it or another of its table has set a parameter
  derived      ours, not the paper's; never counted
  identity     true by construction; never counted
Totals are of each paper and kind; a figure is independent if no other says the same number. What is run elsewhere
(a language model, hardware) is counted with what its own runner has found, which experiments/ keeps.
Exit status 1: a figure that is counted is out of its tolerance.")]
pub(crate) struct Reproduce {
    /// PAPER or PAPER/ID; all if there is nothing
    #[arg(default_value = "")]
    experiment: String,
    /// Run layers of models that an earlier run has kept, too
    #[arg(long)]
    afresh: bool,
    #[command(flatten)]
    printed: Printed,
}

impl Reproduce {
    /// Nothing, or what earlier runs of this very program have left.
    fn remembered(&self) -> Remembered {
        let kept = folder().filter(|_| !self.afresh).zip(env::current_exe().ok());
        kept.map_or_else(Remembered::default, |(folder, program)| Remembered::in_folder(&folder, &program))
    }

    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let experiments = Experiment::find(&self.experiment).map_err(Failure::input)?;
        let elsewhere = Elsewhere::find(&self.experiment).map_err(Failure::input)?;
        let expected =
            experiments.iter().flat_map(|experiment| &experiment.series).map(Series::figures).sum();
        let progress = bar(experiments.iter().map(runs_of).sum());
        let stop = interrupt::flag()?;
        let (mut rows, mut curves): (Vec<Reproduced>, Vec<Value>) = (Vec::new(), Vec::new());
        let (mut running, remembered) = (Vec::new(), self.remembered());
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
        let (layers, ran) = (remembered.count(), remembered.ran());
        if layers > ran {
            eprintln!("{} of {layers} layers were kept by an earlier run; --afresh runs all", layers - ran);
        }
        let totals = totals(&rows, &elsewhere);
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
                        "by_absolute_alone": row.by_absolute_alone,
                        "independent": row.independent,
                    })
                })
                .collect();
            let mut object = envelope("reproduce", &printed);
            object["totals"] = totals_for_programs(&totals);
            object["elsewhere"] = elsewhere.iter().map(run_elsewhere).collect();
            object["curves"] = curves.into();
            self.printed.print(&object);
        } else {
            for Elsewhere { paper, id, title, kind, found, runner, .. } in &elsewhere {
                let Found { met, missed } = found;
                say!("{paper}/{id}: {title}\n  {kind}: {met} met, {missed} missed, by `{runner}`");
            }
            print_totals(&totals);
        }
        Failure::unless_all(expected, rows.len(), &running)?;
        let counted = totals.iter().filter(|total| total.kind.is_counted());
        let (met, missed) = counted.fold((0, 0), |sum, of| (sum.0 + of.met, sum.1 + of.missed));
        if missed > 0 {
            return Err(Failure::Wrong(format!(
                "expected all {} figures that are counted within their tolerance, found {missed} outside; see the notes in experiments/",
                met + missed
            )));
        }
        Ok(())
    }
}

/// Where layers of models are kept from one run to the next; nowhere for who has no home.
fn folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(caches.join("quincunx").join("layers"))
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

/// How far a paper's figures of a kind are met.
struct Total {
    paper: String,
    kind: FigureKind,
    met: usize,
    missed: usize,
    /// Those of them, met or missed, whose number no other figure says.
    independent: usize,
}

/// Of each paper and kind that there is, in the order of papers.
fn totals(rows: &[Reproduced], elsewhere: &[Elsewhere]) -> Vec<Total> {
    let names = rows.iter().map(|row| &row.paper).chain(elsewhere.iter().map(|file| &file.paper));
    let papers: BTreeSet<&String> = names.collect();
    let each = papers.into_iter().flat_map(|paper| FigureKind::ALL.map(|kind| (paper, kind)));
    let total = |(paper, kind): (&String, FigureKind)| {
        let of: Vec<_> = rows.iter().filter(|row| row.paper == *paper && row.kind == kind).collect();
        let found = || elsewhere.iter().filter(|file| file.paper == *paper && file.kind == kind);
        let count = |verdict| of.iter().filter(|row| row.verdict == verdict).count();
        let met = count(Verdict::Met) + found().map(|file| file.found.met).sum::<usize>();
        let missed = count(Verdict::Missed) + found().map(|file| file.found.missed).sum::<usize>();
        let independent = of.iter().filter(|row| row.independent).count() + met + missed - of.len();
        Total { paper: paper.clone(), kind, met, missed, independent }
    };
    each.map(total).filter(|total| total.met + total.missed > 0).collect()
}

/// The sums over all papers of a kind.
fn sum(totals: &[Total], kind: FigureKind) -> Total {
    let of = |number: fn(&Total) -> usize| {
        totals.iter().filter(|total| total.kind == kind).map(number).sum::<usize>()
    };
    let (met, missed, independent) =
        (of(|total| total.met), of(|total| total.missed), of(|total| total.independent));
    Total { paper: "all".into(), kind, met, missed, independent }
}

/// What scripts get beside the rows: of each kind that is counted, and of the papers that have some.
fn totals_for_programs(totals: &[Total]) -> Value {
    let value =
        |total: &Total| json!({ "met": total.met, "missed": total.missed, "independent": total.independent });
    let counted = || FigureKind::ALL.into_iter().filter(|kind| kind.is_counted());
    let mut all: Map<_, _> =
        counted().map(|kind| (kind.name().to_owned(), value(&sum(totals, kind)))).collect();
    let mut papers: Map<String, Value> = Map::new();
    for total in totals.iter().filter(|total| total.kind.is_counted()) {
        let kinds = papers.entry(total.paper.clone()).or_insert_with(|| json!({}));
        kinds[total.kind.name()] = value(total);
    }
    all.insert("papers".into(), papers.into());
    Value::Object(all)
}

/// A file that is run elsewhere.
fn run_elsewhere(file: &Elsewhere) -> Value {
    json!({
        "paper": file.paper,
        "id": file.id,
        "kind": file.kind.name(),
        "met": file.found.met,
        "missed": file.found.missed,
        "runner": file.runner,
    })
}

fn print_totals(totals: &[Total]) {
    let papers: BTreeSet<&str> = totals.iter().map(|total| total.paper.as_str()).collect();
    let sums = FigureKind::ALL.map(|kind| sum(totals, kind));
    let all = sums.iter().filter(|total| papers.len() > 1 && total.met + total.missed > 0);
    for Total { paper, kind, met, missed, independent } in totals.iter().chain(all) {
        let count = met + missed;
        if kind.is_counted() {
            say!(
                "{paper:<10} {kind:<10} {met:>4} of {count} met, {missed} missed, {independent} independent"
            );
        } else {
            say!("{paper:<10} {kind:<10} {count:>4} figures, not counted");
        }
    }
}

fn print_table(experiment: &Experiment, figures: &[Reproduced]) {
    say!("{}/{}: {} ({})", experiment.paper, experiment.id, experiment.title, experiment.source);
    say!("  {:<32} {:<10} {:>14} {:>14} {:>8}  verdict", "figure", "kind", "published", "ours", "error");
    for Reproduced { figure, kind, published, ours, error, verdict, by_absolute_alone, .. } in figures {
        let percent = error * 100.0;
        let by = if *by_absolute_alone { " by the absolute tolerance alone" } else { "" };
        say!("  {figure:<32} {kind:<10} {published:>14.3} {ours:>14.3} {percent:>7.1}%  {verdict}{by}");
    }
    let Tolerance { relative, absolute, why, .. } = &experiment.tolerance;
    let or = absolute.map_or_else(String::new, |time| format!(" or {time}"));
    say!("  within {} %{or}: {why}", (relative * 1e4).round() / 100.0);
    for note in
        experiment.note.iter().chain(experiment.series.iter().filter_map(|series| series.note.as_ref()))
    {
        say!("  {note}");
    }
}
