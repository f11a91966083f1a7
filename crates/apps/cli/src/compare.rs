//! `quincunx compare`: two results of the same command, row by row.

use clap::Args;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::out::say;
use crate::results::{Printed, envelope};

/// What rows are compared by: the first of these that both have.
const MEASURES: [&str; 5] = ["time_us", "ours", "latency_mean_us", "iteration_us", "seconds"];

/// Numbers that say what was run, and not what came of it.
const GIVEN: [&str; 12] = [
    "size",
    "count",
    "root",
    "ranks",
    "hosts",
    "load",
    "gpus",
    "packets",
    "losses",
    "duplicate",
    "reorder",
    "published",
];

/// `quincunx compare`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim all_reduce --design epic-3,ring --size 4K:16M:4 --seeds 8 --json > before.json
  quincunx sim all_reduce --design epic-3,ring --size 4K:16M:4 --seeds 8 --set group.window=256 --json > after.json
  quincunx compare before.json after.json
  quincunx compare before.json after.json --csv > ratios.csv

Rows belong together that say the same of what was run: design, collective, size and so on, whatever fabric and parameters. The ratio is the second time by
the first, less than one where the second is faster; its error is the standard error, where rows have one (several --seeds).")]
pub(crate) struct Compare {
    /// What a command has printed with --json
    first: PathBuf,
    /// What it has printed another time
    second: PathBuf,
    #[command(flatten)]
    printed: Printed,
}

/// A row, and what it says of what was run.
type Named = (String, Map<String, Value>);

/// Two rows that belong together.
struct Pair {
    what: String,
    measure: &'static str,
    first: f64,
    second: f64,
    /// Of the ratio.
    error: Option<f64>,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.second / self.first
    }
}

impl Compare {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let [first, second] = [read(&self.first)?, read(&self.second)?];
        let (pairs, alone) = pair(&first, second);
        if pairs.is_empty() {
            return Err(Failure::Input(format!(
                "expected rows of the same designs, collectives and sizes in {} and {}, found none in both; compare results of one command",
                self.first.display(),
                self.second.display()
            )));
        }
        if self.printed.is_for_programs() {
            let rows: Vec<Value> = pairs.iter().map(row).collect();
            let mut object = envelope("compare", &rows);
            object["alone"] = alone.into();
            self.printed.print(&object);
        } else {
            print(&pairs);
            if alone > 0 {
                say!("{alone} rows are in one of the two alone");
            }
        }
        Ok(())
    }
}

/// The rows of a file, each by what it says of what was run.
fn read(path: &Path) -> Result<Vec<Named>, Failure> {
    let wrong = |found: String| {
        Failure::Input(format!(
            "expected a command's --json output in {}, found {found}; name such a file",
            path.display()
        ))
    };
    let text = quincunx_scenario::read_text(path).map_err(|error| wrong(format!("\"{error}\"")))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("\"{error}\"")))?;
    let Some(rows) = value["rows"].as_array() else { return Err(wrong("no rows".into())) };
    let rows = rows.iter().filter_map(Value::as_object).map(|row| (what(row), row.clone()));
    Ok(rows.collect())
}

/// What a row says of what was run: its words, and the numbers that were given.
fn what(row: &Map<String, Value>) -> String {
    let word = |(key, value): (&String, &Value)| match value {
        Value::String(text) if key != "verdict" => Some(text.clone()),
        Value::Number(number) if GIVEN.contains(&&**key) && *value != -1 => Some(format!("{key}={number}")),
        _ => None,
    };
    row.iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// Pairs in the order of the first, and how many rows have no other. Rows that say the same of themselves belong together in their order.
fn pair(first: &[Named], second: Vec<Named>) -> (Vec<Pair>, usize) {
    let all = first.len() + second.len();
    let mut others: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
    for (what, row) in second.into_iter().rev() {
        others.entry(what).or_default().push(row);
    }
    let pairs: Vec<Pair> = first
        .iter()
        .filter_map(|(what, row)| {
            let other = others.get_mut(what)?.pop()?;
            let number = |row: &Map<String, Value>, key: &str| row.get(key).and_then(Value::as_f64);
            let (measure, first, second) = MEASURES
                .iter()
                .find_map(|&measure| Some((measure, number(row, measure)?, number(&other, measure)?)))?;
            let share = |row: &Map<String, Value>, value: f64| Some(number(row, "time_stderr_us")? / value);
            let error = share(row, first)
                .zip(share(&other, second))
                .map(|(one, two)| second / first * one.hypot(two));
            Some(Pair { what: what.clone(), measure, first, second, error })
        })
        .collect();
    let alone = all - 2 * pairs.len();
    (pairs, alone)
}

fn row(pair: &Pair) -> Value {
    serde_json::json!({
        "what": pair.what,
        "measure": pair.measure,
        "first": pair.first,
        "second": pair.second,
        "ratio": pair.ratio(),
        "ratio_stderr": pair.error,
    })
}

fn print(pairs: &[Pair]) {
    let width = pairs.iter().map(|pair| pair.what.len()).max().unwrap_or_default();
    say!("{:width$}  {:>15}  {:>14}  {:>14}  {:>7}  error", "what", "measure", "first", "second", "ratio");
    for pair in pairs {
        let Pair { what, measure, first, second, error } = pair;
        let error = error.map_or_else(|| "-".to_owned(), |error| format!("{error:.3}"));
        say!("{what:width$}  {measure:>15}  {first:>14.3}  {second:>14.3}  {:>7.3}  {error}", pair.ratio());
    }
}
