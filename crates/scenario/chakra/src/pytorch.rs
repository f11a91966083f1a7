//! Makes a trace of what PyTorch records of a rank on processors: its execution trace, which says what there is and how large tensors are, and
//! Kineto's timeline of the same iteration, which says how long things took. They name each thing by one number (`rf_id`, `Record function id`).
//!
//! What an operator calls is part of it: nodes are those that the program itself has called, one after the other, and collectives, which another
//! thread carries out. An operator begins when the one before is over, and behind a collective that was over when it began. Time between
//! operators is the program's own and counts with the one behind it, but for the time of a collective meanwhile: that is a wait. A collective
//! begins behind the last operator that had begun before it, and is one of all ranks: which group it is of, these files do not say.

use crate::{Cost, Node, Operation, Trace, TraceError, Work, order};
use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct ExecutionTrace {
    nodes: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    id: u64,
    name: String,
    /// Whose part it is.
    ctrl_deps: u64,
    #[serde(default)]
    inputs: Inputs,
    attrs: Vec<Attribute>,
}

#[derive(Deserialize, Default)]
struct Inputs {
    #[serde(default)]
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    value: Value,
}

#[derive(Deserialize)]
struct Timeline {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    /// In microseconds.
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Value,
}

/// A hundred days: the sum of two is a time, too.
const LONGEST_MICROS: f64 = 100.0 * 86_400.0 * 1e6;

/// From when to when, in picoseconds.
type Interval = (u64, u64);

/// The backends' names of collectives, behind the colon.
const COLLECTIVES: [(&str, Operation); 8] = [
    ("all_reduce", Operation::Collective(Collective::AllReduce)),
    ("allreduce", Operation::Collective(Collective::AllReduce)),
    ("broadcast", Operation::Collective(Collective::Broadcast { root: Rank(0) })),
    ("reduce", Operation::Collective(Collective::Reduce { root: Rank(0) })),
    ("all_gather", Operation::Collective(Collective::AllGather)),
    ("reduce_scatter", Operation::Collective(Collective::ReduceScatter)),
    ("barrier", Operation::Collective(Collective::Barrier)),
    ("all_to_all", Operation::AllToAll),
];

/// Which collective a backend's annotation is: `gloo:all_reduce`.
fn operation(name: &str) -> Option<Operation> {
    let (backend, name) = name.split_once(':')?;
    let is_backend = ["gloo", "mpi", "ucc", "quincunx"].contains(&backend);
    COLLECTIVES.into_iter().find_map(|(known, operation)| (is_backend && known == name).then_some(operation))
}

/// Bytes of all tensors among an operator's inputs, which are lists of tensor, storage, offset, elements, bytes of each, and device.
fn bytes(value: &Value) -> u64 {
    match value.as_array().map(Vec::as_slice) {
        Some([_, _, _, elements, each, Value::String(_)]) => {
            elements.as_u64().unwrap_or(0).saturating_mul(each.as_u64().unwrap_or(0))
        }
        Some(parts) => parts.iter().map(bytes).fold(0, u64::saturating_add),
        None => 0,
    }
}

impl Trace {
    /// Makes a trace of PyTorch's execution trace and Kineto's timeline of the same rank and iteration, each with its place, for messages.
    ///
    /// # Errors
    /// If one of them is no such file, or they have nothing in common.
    pub fn of_pytorch(observed: (&str, &[u8]), timeline: (&str, &[u8])) -> Result<Self, TraceError> {
        let ExecutionTrace { nodes } = parse(observed, "an execution trace of PyTorch")?;
        let Timeline { events } = parse(timeline, "a timeline of Kineto")?;
        let intervals = intervals(timeline.0, &events)?;
        let threads: Vec<u64> = nodes
            .iter()
            .filter(|node| node.name.ends_with("execution_trace|thread]"))
            .map(|node| node.id)
            .collect();
        let timed = nodes.iter().filter(|node| threads.contains(&node.ctrl_deps)).filter_map(|node| {
            let id = node.attrs.iter().find(|one| one.name == "rf_id")?.value.as_u64()?;
            Some((*intervals.get(&id)?, node))
        });
        let (mut collectives, mut operators): (Vec<_>, Vec<_>) =
            timed.partition(|(_, node)| operation(&node.name).is_some());
        if operators.is_empty() {
            return Err(TraceError::Nothing { place: observed.0.into(), timeline: timeline.0.into() });
        }
        collectives.sort_by_key(|(interval, node)| (*interval, node.id));
        operators.sort_by_key(|(interval, node)| (*interval, node.id));
        let mut made = Vec::new();
        for (at, &((begin, end), node)) in operators.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &operators[before]);
            let over = before.map_or(begin, |((_, over), _)| (*over).min(begin));
            let waited: u64 = collectives
                .iter()
                .map(|((from, to), _)| to.min(&begin).saturating_sub(*from.max(&over)))
                .sum();
            let behind = collectives.iter().filter(|((_, over_at), _)| {
                *over_at <= begin && before.is_none_or(|((started, _), _)| over_at > started)
            });
            let data =
                before.map(|(_, node)| node.id).into_iter().chain(behind.map(|(_, node)| node.id)).collect();
            let picos = (end - over).saturating_sub(waited);
            let work = Work::Compute(Cost::default());
            made.push(Node {
                duration: Duration::from_picos(picos),
                is_on_host: true,
                ..plain(node, data, work)
            });
        }
        for ((begin, _), node) in &collectives {
            let Some(operation) = operation(&node.name) else { continue };
            let launched = operators.iter().rfind(|((started, _), _)| started <= begin);
            let size = node.inputs.values.iter().map(bytes).fold(0, u64::saturating_add);
            let size = ByteCount::new(size.min(i64::MAX as u64));
            let data = launched.map(|(_, node)| node.id).into_iter().collect();
            made.push(plain(node, data, Work::Collective { operation, size, group: None }));
        }
        order::check(observed.0, &made)?;
        Ok(Self::new(made))
    }
}

fn plain(node: &Recorded, data: Vec<u64>, work: Work) -> Node {
    let (id, name) = (node.id, node.name.clone());
    Node { id, name, control: Vec::new(), data, duration: Duration::ZERO, is_on_host: false, work }
}

fn parse<'a, T: Deserialize<'a>>(
    (place, text): (&str, &'a [u8]),
    expected: &'static str,
) -> Result<T, TraceError> {
    serde_json::from_slice(text).map_err(|error| TraceError::Json {
        place: place.into(),
        expected,
        found: error.to_string(),
    })
}

/// When each recorded function ran, from the first one on.
fn intervals(place: &str, events: &[Event]) -> Result<BTreeMap<u64, Interval>, TraceError> {
    let function = |event: &Event| event.args.get("Record function id").and_then(Value::as_u64);
    // Zero is no function, but what has none.
    let timed: Vec<(u64, &Event)> =
        events.iter().filter_map(|event| Some((function(event).filter(|&id| id > 0)?, event))).collect();
    let first = timed.iter().map(|(_, event)| event.ts).fold(f64::INFINITY, f64::min);
    let mut intervals = BTreeMap::new();
    for (id, Event { ts, dur, .. }) in timed {
        let picos = |micros: f64| {
            let wrong = || TraceError::Node {
                place: place.into(),
                id,
                expected: "a time of 0 to 100 days in microseconds".into(),
                found: micros.to_string(),
                remedy: "correct it where the timeline was made",
            };
            let is_time = (0.0..=LONGEST_MICROS).contains(&micros);
            is_time.then_some((micros * 1e6).round() as u64).ok_or_else(wrong)
        };
        let begin = picos(ts - first)?;
        intervals.insert(id, (begin, begin + picos(*dur)?));
    }
    Ok(intervals)
}
