//! `quincunx predict`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_language::Deployment;
use quincunx_scenario::Override;
use quincunx_sim::{Prediction, PredictionError, Question};
use serde_json::Value;
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::kept::Kept;
use crate::out::say;
use crate::predicted::{Case, Row, json_of, show};
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::run_all;

/// `quincunx predict`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx predict scin-llama2
  quincunx predict scin-llama2 --model llama2-7b --batch 1 --prompt 128 --set products=fp8
  quincunx predict scin-llama2 --model ./config.json --tp 8 --set profile=my-gpu.json
  quincunx predict serving-llama2 --sweep serving.load=0.5,1,2,4
  quincunx predict serving-llama2 --requests AzureLLMInferenceTrace_conv.csv --load 2.5
  quincunx predict epic-gpt3-13b --set training.overlap=true
  quincunx predict scin-llama2 --sweep inference.batch=1,8,32 --sweep network.set.link.rate=50GB/s,112.5GB/s --csv
  quincunx predict --show scin-llama2 > mine.toml               # a file to start from

A step of a language model: what its accelerators compute, by measured layers where a profile has some and by a roofline elsewhere, and what they
exchange, each collective simulated at its length on the network by the design, or continued from 16 MiB. Of inference the time to the first token
(prompt) and from one token to the next, in which nothing hides communication; of requests that come and go both, as half of them and all but one in a
hundred have it; of training an iteration, with its pipeline's bubble and what
replicas exchange behind the last backward pass, or beside it (training.overlap). Speedups are over the design that is named first.
Simulated times are kept from one call to the next, below $XDG_CACHE_HOME or ~/.cache, by all that decides them and by the program's build.

Presets: scin-llama2 (inference), serving-llama2 (requests), epic-gpt3-13b, epic-gpt3-175b, epic-llama-7b, epic-llama-65b (training). Models: those that
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
    /// Requests that come and go: conversations, or a trace of Azure's or BurstGPT's; short for --set serving.requests
    #[arg(long, value_name = "NAME|FILE")]
    requests: Option<String>,
    /// How many times as fast as recorded they come; short for --set serving.load
    #[arg(long)]
    load: Option<f64>,
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
            ("serving.requests", self.requests.clone()),
            ("serving.load", self.load.map(|load| format!("{load:?}"))),
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
