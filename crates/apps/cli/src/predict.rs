//! `quincunx predict`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_language::Deployment;
use quincunx_sim::{AUTO, Prediction, Question, ignore_progress};
use serde_json::Value;

use crate::Failure;
use crate::answers::{Answers, questions};
use crate::asked::Asked;
use crate::interrupt;
use crate::kept::Kept;
use crate::out::say;
use crate::predicted::{Case, Row, json_of, show};
use crate::results::{Printed, envelope};
use crate::train::write;

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
  quincunx predict scin-llama2 --design ring --chakra llama        # a trace for every rank, for sim chakra and other simulators
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
    #[command(flatten)]
    asked: Asked,
    /// Predict for each of these values of a key; of several keys, for all combinations
    #[arg(long, value_name = "KEY=A,B,C")]
    sweep: Vec<String>,
    /// Simulate everything, and keep nothing for the next call
    #[arg(long)]
    fresh: bool,
    /// Write the step as Chakra traces, one a rank, to PREFIX.RANK.et; of one design
    #[arg(long, value_name = "PREFIX", conflicts_with = "sweep")]
    chakra: Option<String>,
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
        let cases = self.cases(catalog)?;
        let kept = if self.fresh { Kept::none() } else { Kept::open() };
        let questions = questions(&cases, catalog, &kept.times)?;
        let stop = interrupt::flag()?;
        let mut runs = Vec::new();
        for (case, question) in questions.iter().enumerate() {
            runs.extend(question.all_designs().into_iter().map(|design| (case, design)));
        }
        let answers = Answers::find(&questions, &runs, &stop)?;
        kept.close();
        let mut rows: Vec<Row> = Vec::new();
        let mut reasons = Vec::new();
        for (case, question) in questions.iter().enumerate() {
            for design in question.designs() {
                let (prediction, reason) = match design.as_str() {
                    AUTO => match chosen(&answers, case, question)? {
                        Some((prediction, reason)) => (prediction, Some(reason)),
                        None => continue,
                    },
                    _ => match answers.get(case, design) {
                        Some(found) => (found.clone().map_err(Failure::input)?, None),
                        None => continue,
                    },
                };
                reasons.extend(reason);
                let first = rows.iter().find(|row| row.case == case);
                let baseline = first.map_or_else(|| prediction.clone(), |row| row.prediction.clone());
                rows.push(Row { case, prediction, baseline });
            }
        }
        if let Some(prefix) = &self.chakra {
            let [row] = &rows[..] else {
                return Err(Failure::Input(format!(
                    "expected one design with --chakra, found {}; write one at a time",
                    rows.len()
                )));
            };
            let trace = questions[0].trace(&row.prediction).map_err(Failure::input)?;
            write(prefix, &trace, questions[0].ranks())?;
        }
        if self.printed.is_for_programs() {
            let rows: Vec<Value> =
                rows.iter().map(|row| json_of(row, &cases[row.case], &questions[row.case])).collect();
            self.printed.print(&envelope("predict", &rows));
        } else {
            show(&cases, &questions, &rows);
            reasons.dedup();
            reasons.iter().for_each(|reason| say!("{reason}"));
        }
        let asked = questions.iter().map(|question| question.designs().len()).sum();
        Failure::unless_all(asked, rows.len(), &answers.interrupted)
    }

    /// All combinations of what differs.
    fn cases(&self, catalog: Catalog) -> Result<Vec<Case>, Failure> {
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
                self.asked.case(&keys, catalog)
            })
            .collect()
    }
}

/// The fastest of all candidates, and why; nothing if not all are done.
fn chosen(
    answers: &Answers,
    case: usize,
    question: &Question<'_>,
) -> Result<Option<(Prediction, String)>, Failure> {
    let candidates = answers.of(case, &question.candidates());
    if candidates.len() < question.candidates().len() {
        return Ok(None);
    }
    let design = question.choose(&candidates).map_err(Failure::input)?;
    // What it takes is known by now.
    let prediction = question.answer(&design, &mut ignore_progress).map_err(Failure::input)?;
    let others = candidates.iter().map(|(name, found)| match found {
        Ok(found) => {
            let times = found.figures().into_iter().zip(prediction.figures());
            let more = times.map(|((figure, time), (_, best))| {
                format!("{figure} {:+.1} %", (time.as_secs_f64() / best.as_secs_f64() - 1.0) * 1e2)
            });
            format!("  {name}: {}", more.collect::<Vec<_>>().join(", "))
        }
        Err(error) => format!("  {name}: {error}"),
    });
    let reason =
        format!("{AUTO} is {design}, against which takes\n{}", others.collect::<Vec<_>>().join("\n"));
    Ok(Some((prediction, reason)))
}
