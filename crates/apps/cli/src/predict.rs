//! `quincunx predict`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_language::{Deployment, Inference, Phase, PhaseTime, TrainingTime};
use quincunx_scenario::Override;
use quincunx_sim::{Prediction, PredictionError, Question};
use quincunx_units::Duration;
use serde_json::{Value, json};
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::kept::Kept;
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::run_all;
use crate::table::{Align, table};

/// `quincunx predict`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx predict scin-llama2
  quincunx predict scin-llama2 --model llama2-7b --batch 1 --prompt 128 --set products=fp8
  quincunx predict scin-llama2 --model ./config.json --tp 8 --set profile=my-gpu.json
  quincunx predict epic-gpt3-13b --set training.overlap=true
  quincunx predict scin-llama2 --sweep inference.batch=1,8,32 --sweep network.set.link.rate=50GB/s,112.5GB/s --csv
  quincunx predict --show scin-llama2 > mine.toml               # a file to start from

A step of a language model: what its accelerators compute, by measured layers where a profile has some and by a roofline elsewhere, and what they
exchange, each collective simulated at its length on the network by the design, or continued from 16 MiB. Of inference the time to the first token
(prompt) and from one token to the next, in which nothing hides communication; of training an iteration, with its pipeline's bubble and what
replicas exchange behind the last backward pass, or beside it (training.overlap). Speedups are over the design that is named first.
Simulated times are kept from one call to the next, below $XDG_CACHE_HOME or ~/.cache, by all that decides them and by the program's build.

Presets: scin-llama2 (inference), epic-gpt3-13b, epic-gpt3-175b, epic-llama-7b, epic-llama-65b (training). Models: those that
`quincunx model list` has, or the config.json of another.")]
pub(crate) struct Predict {
    /// A preset or a file
    #[arg(value_name = "FILE|PRESET", required_unless_present = "show")]
    deployment: Option<String>,
    /// A model's name or its config.json; short for --set model
    #[arg(long)]
    model: Option<String>,
    /// Accelerators that share each layer; short for --set split.tp
    #[arg(long)]
    tp: Option<u32>,
    /// Sequences at once; short for --set inference.batch
    #[arg(long)]
    batch: Option<u32>,
    /// Tokens of a prompt; short for --set inference.prompt
    #[arg(long)]
    prompt: Option<u32>,
    /// A preset, a shape or a file of a fabric; short for --set network.fabric
    #[arg(long)]
    fabric: Option<String>,
    /// Designs, several with commas, A/B: A for prompts and B for answers [default: the file's `network.designs`]
    #[arg(long, value_delimiter = ',')]
    design: Vec<String>,
    /// Set a key of the file: split.pp=2, products=fp8, network.set.link.rate=50GB/s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Predict for each of these values of a key; of several keys, for all combinations
    #[arg(long, value_name = "KEY=A,B,C")]
    sweep: Vec<String>,
    /// Simulate everything, and keep nothing for the next call
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    printed: Printed,
    /// Print a preset as a file, and predict nothing
    #[arg(long, value_name = "PRESET", exclusive = true)]
    show: Option<String>,
}

/// A deployment with the keys that differ in a sweep.
struct Case {
    keys: Vec<(String, String)>,
    deployment: Deployment,
}

/// What a case came to by a design.
struct Row {
    case: usize,
    prediction: Prediction,
    baseline: Prediction,
}

impl Predict {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        if let Some(name) = &self.show {
            let text = Deployment::text(name).map_err(Failure::input)?;
            say!("{}", text.trim_end());
            return Ok(());
        }
        let cases = self.cases()?;
        let kept = if self.fresh { Kept::none() } else { Kept::open() };
        let known = &kept.times;
        let questions: Vec<Question<'_>> = cases
            .iter()
            .map(|case| Question::new(&case.deployment, catalog, known).map_err(Failure::input))
            .collect::<Result<_, _>>()?;
        let stop = interrupt::flag()?;
        let runs: Vec<(usize, &str)> = questions
            .iter()
            .enumerate()
            .flat_map(|(case, question)| question.designs().iter().map(move |design| (case, design.as_str())))
            .collect();
        let progress = bar(runs.len());
        let run = |(case, design): (usize, &str)| {
            let found = questions[case].answer(design, &mut |at| {
                progress.set_message(format!("{design}: at {}", position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            found
        };
        let stopped =
            |place: usize, error: &PredictionError| error.is_stop().then(|| runs[place].1.to_owned());
        let mut rows: Vec<Row> = Vec::new();
        let done = |place: usize, prediction: Prediction| {
            let (case, _) = runs[place];
            let first = rows.iter().find(|row| row.case == case);
            let baseline = first.map_or_else(|| prediction.clone(), |row| row.prediction.clone());
            rows.push(Row { case, prediction, baseline });
        };
        let interrupted = run_all(runs.clone(), &stop, run, stopped, done);
        progress.finish_and_clear();
        kept.close();
        let interrupted = interrupted.map_err(Failure::input)?;
        if self.printed.is_for_programs() {
            let rows: Vec<Value> =
                rows.iter().map(|row| json_of(row, &cases[row.case], &questions[row.case])).collect();
            self.printed.print(&envelope("predict", &rows));
        } else {
            show(&cases, &questions, &rows);
        }
        Failure::unless_all(runs.len(), rows.len(), &interrupted)
    }

    /// All combinations of what differs.
    fn cases(&self) -> Result<Vec<Case>, Failure> {
        let name = self.deployment.as_deref().expect("clap asks for it");
        let mut axes = Vec::new();
        for sweep in &self.sweep {
            let (key, values) =
                sweep.split_once('=').filter(|(_, values)| !values.is_empty()).ok_or_else(|| {
                    Failure::Input(format!(
                        "expected KEY=A,B,C in --sweep, found \"{sweep}\"; write --sweep inference.batch=1,8"
                    ))
                })?;
            axes.push((key, values.split(',').collect::<Vec<_>>()));
        }
        let count: usize = axes.iter().map(|(_, values)| values.len()).product();
        (0..count)
            .map(|number| {
                let mut rest = number;
                let mut keys = Vec::new();
                // The last key differs from each case to the next.
                for (key, values) in axes.iter().rev() {
                    keys.push(((*key).to_owned(), values[rest % values.len()].to_owned()));
                    rest /= values.len();
                }
                keys.reverse();
                let mut document = Deployment::document(name).map_err(Failure::input)?;
                for change in self.changes(&keys)? {
                    document.set(&change).map_err(Failure::input)?;
                }
                let deployment = Deployment::read(name, &document).map_err(Failure::input)?;
                Ok(Case { keys, deployment })
            })
            .collect()
    }

    fn changes(&self, keys: &[(String, String)]) -> Result<Vec<Override>, Failure> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let short = [
            ("model", self.model.clone()),
            ("split.tp", number(self.tp)),
            ("inference.batch", number(self.batch)),
            ("inference.prompt", number(self.prompt)),
            ("network.fabric", self.fabric.clone()),
        ];
        let mut changes = Vec::new();
        for (key, value) in short.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            changes.push(format!("{key}={value}").parse().map_err(Failure::input)?);
        }
        if !self.design.is_empty() {
            let designs = self.design.iter().map(|design| design.as_str().into()).collect();
            changes.push(Override { key: "network.designs".into(), value: toml::Value::Array(designs) });
        }
        changes.extend(self.set.iter().cloned());
        for (key, value) in keys {
            changes.push(format!("{key}={value}").parse().map_err(Failure::input)?);
        }
        Ok(changes)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(before: Duration, now: Duration) -> f64 {
    before.as_secs_f64() / now.as_secs_f64()
}

fn json_of(row: &Row, case: &Case, question: &Question<'_>) -> Value {
    let Row { prediction, baseline, .. } = row;
    let mut object =
        json!({ "design": prediction.design, "model": question.model().name, "baseline": baseline.design });
    for (key, value) in &case.keys {
        object[key] = value.clone().into();
    }
    if let (Some(found), Some(before), Some(asked)) =
        (&prediction.inference, &baseline.inference, case.deployment.inference)
    {
        let decode = found.decode.time();
        object["batch"] = asked.batch.into();
        object["prompt"] = asked.prompt.into();
        object["ttft_ms"] = milliseconds(found.prefill.time()).into();
        object["ttft_share"] = found.prefill.share().into();
        object["ttft_speedup"] = ratio(before.prefill.time(), found.prefill.time()).into();
        object["tpot_ms"] = milliseconds(decode).into();
        object["tpot_share"] = found.decode.share().into();
        object["tpot_speedup"] = ratio(before.decode.time(), decode).into();
        object["tokens_per_second"] = (asked.batch as f64 / decode.as_secs_f64()).into();
        object["prefill_computation"] = found.prefill.source.name().into();
        object["decode_computation"] = found.decode.source.name().into();
    }
    if let (Some(found), Some(before), Some(asked)) =
        (&prediction.training, &baseline.training, case.deployment.training)
    {
        let time = found.time();
        object["iteration_s"] = time.as_secs_f64().into();
        object["compute_s"] = found.compute.as_secs_f64().into();
        object["within_s"] = found.within.as_secs_f64().into();
        object["bubble_s"] = found.bubble.as_secs_f64().into();
        object["replicas_s"] = found.replicas.as_secs_f64().into();
        object["exposed_s"] = found.exposed.as_secs_f64().into();
        object["share"] = found.share().into();
        object["tokens_per_second"] = ((asked.batch * asked.sequence) as f64 / time.as_secs_f64()).into();
        object["saved"] = (1.0 - 1.0 / ratio(before.time(), time)).into();
        object["computation"] = found.source.name().into();
    }
    object["exchanges"] = exchanges(prediction).collect();
    object
}

/// Everything that is exchanged, for programs.
fn exchanges(prediction: &Prediction) -> impl Iterator<Item = Value> {
    let phases = prediction.inference.iter().flat_map(|Inference { prefill, decode }| {
        [("prefill", &prefill.exchanges), ("decode", &decode.exchanges)]
    });
    let training = prediction.training.iter().map(|training| ("training", &training.exchanges));
    phases.chain(training).flat_map(|(phase, all)| {
        all.iter().map(move |(exchange, time)| {
            json!({
                "phase": phase,
                "what": exchange.what,
                "group": exchange.group.name(),
                "ranks": exchange.ranks,
                "collective": exchange.operation(),
                "bytes": exchange.bytes.bytes(),
                "times": exchange.times,
                "each_us": time.as_micros_f64(),
            })
        })
    })
}

/// What the computation of a phase is from, and how far off a roofline is where that can be said.
fn computation(question: &Question<'_>, phase: Phase, source: &str) -> String {
    let timing = question.timing();
    let device = timing.profile.as_ref().map_or("", |profile| &profile.device);
    if source != "roofline" {
        return format!("{source}, {device}");
    }
    let model = timing.error(Some(question.model()), phase).ok().flatten();
    match model.or_else(|| timing.error(None, phase).ok().flatten()) {
        Some(error) => format!(
            "roofline; against {} layers measured on {device} off by {:+.0} % in the middle, {:+.0} to {:+.0} %",
            error.rows,
            error.median * 1e2,
            error.range[0] * 1e2,
            error.range[1] * 1e2
        ),
        None => "roofline, held against no measurement".into(),
    }
}

fn share(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

fn show(cases: &[Case], questions: &[Question<'_>], rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let (question, case) = (&questions[first.case], &cases[first.case]);
    let Deployment { split, products, inference, training, .. } = &case.deployment;
    let keys: Vec<&str> = case.keys.iter().map(|(key, _)| key.as_str()).collect();
    let with_keys = |row: &Row, cells: Vec<String>| -> Vec<String> {
        cases[row.case].keys.iter().map(|(_, value)| value.clone()).chain(cells).collect()
    };
    let columns = |titles: &[&'static str]| -> Vec<(String, Align)> {
        let keys = keys.iter().map(|key| ((*key).to_owned(), Align::Left));
        let rest = titles
            .iter()
            .map(|title| ((*title).to_owned(), if *title == "design" { Align::Left } else { Align::Right }));
        keys.chain(rest).collect()
    };
    let print = |columns: Vec<(String, Align)>, rows: Vec<Vec<String>>| {
        let columns: Vec<(&str, Align)> =
            columns.iter().map(|(name, align)| (name.as_str(), *align)).collect();
        say!("{}", table(&columns, &rows).trim_end());
    };
    // What a sweep has in a column is not said above it.
    let model = if keys.contains(&"model") { "models" } else { question.model().name.as_str() };
    say!(
        "{model} over {} accelerators (tp {}, pp {}, dp {}, ep {}), {}",
        split.accelerators(),
        split.tp,
        split.pp,
        split.dp,
        split.ep,
        products.name()
    );
    if let (Some(asked), Some(found)) = (inference, &first.prediction.inference) {
        let says = |phase, time: &PhaseTime| computation(question, phase, time.source.name());
        say!("prompts: computation {}", says(asked.prefill(), &found.prefill));
        say!("answers: computation {}", says(asked.decode(), &found.decode));
        let titles = [
            "design",
            "batch",
            "prompt",
            "TTFT (ms)",
            "network",
            "speedup",
            "TPOT (ms)",
            "network",
            "speedup",
            "tokens/s",
        ];
        let cells = |row: &Row| {
            let asked = cases[row.case].deployment.inference?;
            let (found, before) = (row.prediction.inference.as_ref()?, row.baseline.inference.as_ref()?);
            let [first, next] = [&found.prefill, &found.decode];
            Some(with_keys(
                row,
                vec![
                    row.prediction.design.clone(),
                    asked.batch.to_string(),
                    asked.prompt.to_string(),
                    format!("{:.2}", milliseconds(first.time())),
                    share(first.share()),
                    format!("{:.3}", ratio(before.prefill.time(), first.time())),
                    format!("{:.3}", milliseconds(next.time())),
                    share(next.share()),
                    format!("{:.3}", ratio(before.decode.time(), next.time())),
                    format!("{:.0}", asked.batch as f64 / next.time().as_secs_f64()),
                ],
            ))
        };
        print(columns(&titles), rows.iter().filter_map(cells).collect());
    }
    if let (Some(asked), Some(found)) = (training, &first.prediction.training) {
        let phase = Phase::Prefill { batch: asked.micro_batch, length: asked.sequence };
        say!("training: computation {}", computation(question, phase, found.source.name()));
        let titles = [
            "design",
            "iteration (s)",
            "compute",
            "within",
            "bubble",
            "replicas",
            "exposed",
            "network",
            "saved",
            "tokens/s",
        ];
        let cells = |row: &Row| {
            let asked = cases[row.case].deployment.training?;
            let (found, before) = (row.prediction.training.as_ref()?, row.baseline.training.as_ref()?);
            let TrainingTime { compute, within, bubble, replicas, exposed, .. } = found;
            let time = found.time();
            let mut cells = vec![row.prediction.design.clone(), format!("{:.3}", time.as_secs_f64())];
            let parts = [compute, within, bubble, replicas, exposed];
            cells.extend(parts.map(|part| format!("{:.3}", part.as_secs_f64())));
            cells.push(share(found.share()));
            cells.push(share(1.0 - 1.0 / ratio(before.time(), time)));
            cells.push(format!("{:.0}", (asked.batch * asked.sequence) as f64 / time.as_secs_f64()));
            Some(with_keys(row, cells))
        };
        print(columns(&titles), rows.iter().filter_map(cells).collect());
    }
}
