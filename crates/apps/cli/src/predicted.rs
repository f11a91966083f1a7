//! Predictions as rows of JSON and of tables: one table for what is asked of a model each.

use quincunx_language::{
    Deployment, Inference, InferenceSetup, Phase, PhaseTime, Served, ServingSetup, TrainingSetup,
    TrainingTime,
};
use quincunx_sim::{Prediction, Question};
use quincunx_units::Duration;
use serde_json::{Value, json};

use crate::out::say;
use crate::table::{Align, table};

/// A deployment with the keys that differ in a sweep.
pub(crate) struct Case {
    pub(crate) keys: Vec<(String, String)>,
    pub(crate) deployment: Deployment,
}

/// What a case came to by a design, and by the first one.
pub(crate) struct Row {
    pub(crate) case: usize,
    pub(crate) prediction: Prediction,
    pub(crate) baseline: Prediction,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(before: Duration, now: Duration) -> f64 {
    before.as_secs_f64() / now.as_secs_f64()
}

fn share(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// What a prediction says of one thing that is asked: a value of JSON and, of some, a cell below a title.
struct Field {
    name: &'static str,
    value: Value,
    cell: Option<(&'static str, String)>,
}

fn told(name: &'static str, value: impl Into<Value>) -> Field {
    Field { name, value: value.into(), cell: None }
}

fn shown(name: &'static str, value: impl Into<Value>, title: &'static str, cell: String) -> Field {
    Field { name, value: value.into(), cell: Some((title, cell)) }
}

fn number(name: &'static str, value: f64, title: &'static str, digits: usize) -> Field {
    shown(name, value, title, format!("{value:.digits$}"))
}

fn part(name: &'static str, value: f64, title: &'static str) -> Field {
    shown(name, value, title, share(value))
}

/// A token for all answers, each time.
fn each_second(batch: u64, time: Duration) -> Field {
    number("tokens_per_second", batch as f64 / time.as_secs_f64(), "tokens/s", 0)
}

fn of_inference(asked: &InferenceSetup, found: &Inference, before: &Inference) -> Vec<Field> {
    let Inference { prefill, decode } = found;
    vec![
        shown("batch", asked.batch, "batch", asked.batch.to_string()),
        shown("prompt", asked.prompt, "prompt", asked.prompt.to_string()),
        number("ttft_ms", milliseconds(prefill.time()), "TTFT (ms)", 2),
        part("ttft_share", prefill.share(), "network"),
        number("ttft_speedup", ratio(before.prefill.time(), prefill.time()), "speedup", 3),
        number("tpot_ms", milliseconds(decode.time()), "TPOT (ms)", 3),
        part("tpot_share", decode.share(), "network"),
        number("tpot_speedup", ratio(before.decode.time(), decode.time()), "speedup", 3),
        each_second(asked.batch, decode.time()),
        told("prefill_computation", prefill.source.name()),
        told("decode_computation", decode.source.name()),
    ]
}

fn of_serving(question: &Question<'_>, found: &Served, before: &Served) -> Vec<Field> {
    let rate = question.requests().map_or(0.0, |(count, span)| (count - 1) as f64 / span.as_secs_f64());
    let rate = if rate.is_finite() { rate } else { 0.0 };
    let of = |times, percent| milliseconds(Served::percentile(times, percent));
    let speedup = |now: &[Duration], before: &[Duration]| {
        let [now, before] = [now, before].map(|times| Served::percentile(times, 50));
        if now == Duration::ZERO { 1.0 } else { ratio(before, now) }
    };
    let busy = found.busy.as_secs_f64() / found.all.as_secs_f64();
    vec![
        number("requests_per_second", rate, "requests/s", 2),
        number("ttft_p50_ms", of(&found.first, 50), "TTFT p50 (ms)", 1),
        number("ttft_p99_ms", of(&found.first, 99), "p99", 1),
        number("ttft_p50_speedup", speedup(&found.first, &before.first), "speedup", 3),
        number("tpot_p50_ms", of(&found.next, 50), "TPOT p50 (ms)", 2),
        number("tpot_p99_ms", of(&found.next, 99), "p99", 2),
        number("tpot_p50_speedup", speedup(&found.next, &before.next), "speedup", 3),
        part("share", found.share(), "network"),
        part("busy", busy, "busy"),
        shown("together", found.together, "at once", found.together.to_string()),
        each_second(found.tokens, found.all),
        told("drained_s", found.drained.as_secs_f64()),
    ]
}

fn of_training(asked: &TrainingSetup, found: &TrainingTime, before: &TrainingTime) -> Vec<Field> {
    let TrainingTime { compute, within, bubble, replicas, exposed, source, .. } = found;
    let time = found.time();
    let seconds = |name, time: &Duration, title| number(name, time.as_secs_f64(), title, 3);
    vec![
        seconds("iteration_s", &time, "iteration (s)"),
        seconds("compute_s", compute, "compute"),
        seconds("within_s", within, "within"),
        seconds("bubble_s", bubble, "bubble"),
        seconds("replicas_s", replicas, "replicas"),
        seconds("exposed_s", exposed, "exposed"),
        part("share", found.share(), "network"),
        part("saved", 1.0 - 1.0 / ratio(before.time(), time), "saved"),
        each_second(asked.batch * asked.sequence, time),
        told("computation", source.name()),
    ]
}

/// What is asked of a model, each with a table of its own.
#[derive(Clone, Copy)]
enum Task {
    Inference,
    Serving,
    Training,
}

impl Task {
    const ALL: [Self; 3] = [Self::Inference, Self::Serving, Self::Training];

    /// What a row says of it, if that is asked.
    fn fields(self, row: &Row, case: &Case, question: &Question<'_>) -> Option<Vec<Field>> {
        let Deployment { inference, training, .. } = &case.deployment;
        let (found, before) = (&row.prediction, &row.baseline);
        Some(match self {
            Self::Inference => {
                of_inference(inference.as_ref()?, found.inference.as_ref()?, before.inference.as_ref()?)
            }
            Self::Serving => of_serving(question, found.serving.as_ref()?, before.serving.as_ref()?),
            Self::Training => {
                of_training(training.as_ref()?, found.training.as_ref()?, before.training.as_ref()?)
            }
        })
    }

    /// What stands above its table.
    fn heading(self, row: &Row, case: &Case, question: &Question<'_>) -> Option<String> {
        let Deployment { inference, serving, training, .. } = &case.deployment;
        match self {
            Self::Inference => {
                let (asked, found) = (inference.as_ref()?, row.prediction.inference.as_ref()?);
                let says = |phase, time: &PhaseTime| computation(question, phase, time.source.name());
                Some(format!(
                    "prompts: computation {}\nanswers: computation {}",
                    says(asked.prefill(), &found.prefill),
                    says(asked.decode(), &found.decode)
                ))
            }
            Self::Serving => {
                let ServingSetup { requests, load, batch, tokens } = serving.as_ref()?;
                let (count, _) = question.requests()?;
                Some(format!(
                    "{count} requests of {requests}, {load} times as fast as they were recorded; at most {batch} answers or {tokens} tokens of prompts at once"
                ))
            }
            Self::Training => {
                let (asked, found) = (training.as_ref()?, row.prediction.training.as_ref()?);
                let phase = Phase::Prefill { batch: asked.micro_batch, length: asked.sequence };
                Some(format!("training: computation {}", computation(question, phase, found.source.name())))
            }
        }
    }
}

pub(crate) fn json_of(row: &Row, case: &Case, question: &Question<'_>) -> Value {
    let Row { prediction, baseline, .. } = row;
    let mut object =
        json!({ "design": prediction.design, "model": question.model().name, "baseline": baseline.design });
    for (key, value) in &case.keys {
        object[key] = value.clone().into();
    }
    for Field { name, value, .. } in
        Task::ALL.iter().filter_map(|task| task.fields(row, case, question)).flatten()
    {
        object[name] = value;
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

/// A line of what was asked, and a table for each thing.
pub(crate) fn show(cases: &[Case], questions: &[Question<'_>], rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let (question, case) = (&questions[first.case], &cases[first.case]);
    let Deployment { split, products, .. } = &case.deployment;
    let keys: Vec<&str> = case.keys.iter().map(|(key, _)| key.as_str()).collect();
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
    for task in Task::ALL {
        let Some(heading) = task.heading(first, case, question) else { continue };
        say!("{heading}");
        let mut columns: Vec<(&str, Align)> = keys.iter().map(|key| (*key, Align::Left)).collect();
        columns.push(("design", Align::Left));
        let cells = |row: &Row| {
            Some(
                task.fields(row, &cases[row.case], &questions[row.case])?
                    .into_iter()
                    .filter_map(|field| field.cell),
            )
        };
        columns.extend(cells(first).into_iter().flatten().map(|(title, _)| (title, Align::Right)));
        let line = |row: &Row| -> Option<Vec<String>> {
            let keys = cases[row.case].keys.iter().map(|(_, value)| value.clone());
            let design = [row.prediction.design.clone()];
            Some(keys.chain(design).chain(cells(row)?.map(|(_, cell)| cell)).collect())
        };
        let lines: Vec<_> = rows.iter().filter_map(line).collect();
        say!("{}", table(&columns, &lines).trim_end());
    }
}
