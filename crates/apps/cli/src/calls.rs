//! `quincunx group calls`: what the ranks of a group have called lately, when, and who comes last.

use clap::Args;
use quincunx_control_grpc::{ControlClient, GroupCalls, GroupName, Lateness, TimedCall};
use quincunx_trace::{TraceWriter, Track};
use quincunx_units::{Duration, Instant};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::Failure;
use crate::groups::{group_json, title};
use crate::out::say;
use crate::results::described;
use crate::table::{Align, or_dash, table};

#[derive(Args)]
#[command(after_help = "Examples:
  quincunx group calls train
  quincunx group calls train --last 100
  quincunx group calls train --trace train.pftrace    # for ui.perfetto.dev: all ranks in one picture

Each rank keeps its last 512 collectives with the line of the program that has called them. Ranks of a machine have one clock; others
are set against each other by the manager's, and by the collectives themselves: nobody ends one before all have called it.
The second table says how late each rank calls what the others wait for. `python3 -m quincunx.flight_recorder` writes what --json prints for PyTorch's analyser.")]
pub(crate) struct Calls {
    /// The group's name or number
    #[arg(value_name = "NAME|NUMBER")]
    group: GroupName,
    /// So many of the latest collectives
    #[arg(long, default_value_t = 10)]
    last: usize,
    /// Write all that is known to this file for ui.perfetto.dev
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
}

impl Calls {
    pub(crate) fn run(self, client: &ControlClient, json: bool) -> Result<(), Failure> {
        let calls = client.ask_calls(&self.group).map_err(Failure::input)?;
        if let Some(path) = &self.trace {
            let written = File::create(path).and_then(|file| write_trace(&calls, BufWriter::new(file)));
            written.map_err(|error| {
                Failure::Input(format!(
                    "expected to write {}, found \"{error}\"; name another file",
                    path.display()
                ))
            })?;
        }
        if json {
            let mut object = described("group calls");
            object["calls"] = in_json(&calls);
            say!("{object}");
        } else {
            crate::out::print(&in_words(&calls, self.last));
        }
        Ok(())
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

/// The latest collectives, a line each, and how late each rank comes.
fn in_words(calls: &GroupCalls, last: usize) -> String {
    use Align::{Left, Right};
    let by_number = calls.by_number();
    let mut text = title(&calls.group) + "\n";
    let row = |(number, of_ranks): (&u64, &BTreeMap<u16, TimedCall>)| {
        let mut order: Vec<(u64, u16)> = of_ranks.iter().map(|(rank, timed)| (timed.called, *rank)).collect();
        order.sort_unstable();
        let (&(first, _), &(latest, who)) = (order.first()?, order.last()?);
        let ended = of_ranks.values().map(|timed| timed.ended).max().flatten();
        let is_over = of_ranks.values().all(|timed| timed.ended.is_some());
        let call = &of_ranks.values().next()?.call;
        Some(vec![
            number.to_string(),
            call.to_string(),
            format!("{}/{}", of_ranks.len(), calls.ranks.len()),
            who.to_string(),
            millis(latest - first),
            or_dash(
                &ended
                    .filter(|_| is_over)
                    .map_or_else(String::new, |ended| millis(ended.saturating_sub(first))),
            ),
        ])
    };
    let rows: Vec<_> = by_number.iter().rev().take(last).filter_map(row).collect();
    if by_number.is_empty() {
        return text + "no rank has called anything\n";
    }
    let columns = [
        ("number", Right),
        ("collective", Left),
        ("ranks", Right),
        ("last", Right),
        ("late(ms)", Right),
        ("took(ms)", Right),
    ];
    text += &table(&columns, &rows.into_iter().rev().collect::<Vec<_>>());
    let clocks = calls.clocks();
    let row = |(rank, late): (usize, Lateness)| {
        let (of_rank, node) = (&calls.ranks[rank], &calls.group.summary.members[rank]);
        let is_known = of_rank.record.is_some();
        let of = |duration: Duration| if is_known { millis(duration.as_nanos()) } else { "-".into() };
        let newest = of_rank.calls().last();
        vec![
            rank.to_string(),
            node.clone(),
            newest.map_or_else(
                || if is_known { "0".into() } else { "no answer".into() },
                |timed| timed.call.number.to_string(),
            ),
            late.calls.to_string(),
            late.last.to_string(),
            of(late.mean),
            of(late.longest),
            if is_known { millis(clocks[rank].error) } else { "-".into() },
        ]
    };
    let lateness = calls.lateness();
    let rows: Vec<_> = lateness.iter().copied().enumerate().map(row).collect();
    let columns = [
        ("rank", Right),
        ("node", Left),
        ("newest", Right),
        ("calls", Right),
        ("last", Right),
        ("late, mean(ms)", Right),
        ("longest(ms)", Right),
        ("clock, +-(ms)", Right),
    ];
    text += &format!("\n{}", table(&columns, &rows));
    // Who is waited for more often than all others together.
    if let Some((rank, late)) = lateness.iter().enumerate().find(|(_, late)| 2 * late.last > late.calls) {
        let (node, mean) = (&calls.group.summary.members[rank], millis(late.mean.as_nanos()));
        text += &format!(
            "\nthe others wait for rank {rank} ({node}): it came last in {} of {} collectives, {mean} ms after the first on average\n",
            late.last, late.calls
        );
    }
    text
}

fn in_json(calls: &GroupCalls) -> Value {
    let (clocks, lateness) = (calls.clocks(), calls.lateness());
    let timed = |timed: &TimedCall| {
        let TimedCall { call, called, begun, ended } = timed;
        json!({
            "number": call.number,
            "collective": call.collective.name(),
            "root": call.collective.root().map(|root| root.0),
            "op": call.reduction.map(|(op, _)| op.to_string()),
            "type": call.reduction.map(|(_, data_type)| data_type.to_string()),
            "bytes": call.bytes,
            "file": call.place.as_ref().map(|place| &*place.file),
            "line": call.place.as_ref().map(|place| place.line),
            "called_ns": called,
            "begun_ns": begun,
            "ended_ns": ended,
        })
    };
    let rank = |(rank, of_rank): (usize, &quincunx_control_grpc::RankCalls)| {
        let Lateness { calls: counted, last, mean, longest } = lateness[rank];
        json!({
            "rank": rank,
            "node": calls.group.summary.members[rank],
            "answers": of_rank.record.is_some(),
            "clock_ahead_ns": clocks[rank].ahead,
            "clock_error_ns": clocks[rank].error,
            "late": { "calls": counted, "last": last, "mean_us": mean.as_micros_f64(), "longest_us": longest.as_micros_f64() },
            "calls": of_rank.calls().iter().map(timed).collect::<Vec<_>>(),
        })
    };
    json!({
        "group": group_json(&calls.group),
        "ranks": calls.ranks.iter().enumerate().map(rank).collect::<Vec<_>>(),
    })
}

/// A track for each rank, and below it the collectives from their beginning to their end, on as many tracks as run at once, and when they were
/// called. What has not ended goes to the last moment that is known of any rank.
fn write_trace<W: Write>(calls: &GroupCalls, out: W) -> io::Result<W> {
    let by_number = calls.by_number();
    let all = || by_number.values().flat_map(BTreeMap::values);
    let begin = all().map(|timed| timed.called).min().unwrap_or_default();
    let latest = all().flat_map(|timed| [timed.called, timed.begun, timed.ended.unwrap_or_default()]).max();
    let at = |nanos: u64| Instant::ZERO + Duration::from_nanos(nanos.saturating_sub(begin));
    let mut trace = TraceWriter::new(out);
    for (rank, node) in (0..).zip(&calls.group.summary.members) {
        let of_rank: Vec<&TimedCall> =
            by_number.values().filter_map(|of_ranks| of_ranks.get(&rank)).collect();
        let parent = trace.track(&format!("rank {rank} ({node})"), None)?;
        let called = trace.track("called", Some(parent))?;
        for timed in &of_rank {
            trace.instant(called, at(timed.called), &format!("{} {}", timed.call.number, timed.call))?;
        }
        // Each with when it is free again.
        let mut lanes: Vec<(Track, u64)> = Vec::new();
        for timed in of_rank {
            let (from, name) = (timed.begun, format!("{} {}", timed.call.number, timed.call));
            let to = timed.ended.or(latest).unwrap_or(from).max(from);
            let name = if timed.ended.is_some() { name } else { format!("{name} (has not ended)") };
            let lane = match lanes.iter().position(|(_, free)| *free <= from) {
                Some(lane) => lane,
                None => {
                    lanes.push((trace.track("collectives", Some(parent))?, 0));
                    lanes.len() - 1
                }
            };
            lanes[lane].1 = to;
            trace.slice(lanes[lane].0, at(from), at(to), &name)?;
        }
    }
    trace.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::{Collective, DataType, GroupId, ReduceOp};
    use quincunx_control::{Call, GroupState, GroupSummary, Place};
    use quincunx_control_grpc::{CallRecord, GroupStatus, RankCalls};

    /// Ranks with one clock, of which the second comes 5 ms late each time, and has not called the last.
    fn calls() -> GroupCalls {
        let timed = |rank: u64, number: u64| {
            let sum = (ReduceOp::Sum.into(), DataType::F32);
            let place = Some(Place { file: "train.py".into(), line: 88 });
            let call = Call { place, ..Call::new(number, Collective::AllReduce, sum, 64) };
            let (called, end) = (number * 10_000_000 + rank * 5_000_000, number * 10_000_000 + 5_040_000);
            TimedCall { call, called, begun: called + 1000, ended: (number < 3).then_some(end) }
        };
        let ranks = (0..2).map(|rank| {
            let calls = (1..=3 - rank).map(|number| timed(rank, number)).collect();
            let record = CallRecord { calls, ..CallRecord::default() };
            RankCalls { is_attached: true, record: Some(record), machine: 1, ahead: 0, error: 0 }
        });
        let summary = GroupSummary {
            group: GroupId(3),
            design: "epic-3".into(),
            fallback: None,
            state: GroupState::Ready,
            owner: String::new(),
            members: ["a", "b"].map(String::from).into(),
            switches: Vec::new(),
            conflicts: 0,
            lease: None,
            recreated: None,
            shared: None,
        };
        let [name, tenant, asked] = ["train", "", "epic-3"].map(String::from);
        GroupCalls {
            group: GroupStatus { summary, name, tenant, asked, stalled: None },
            ranks: ranks.collect(),
        }
    }

    #[test]
    fn the_latest_calls_and_who_comes_last_are_tables_and_a_sentence() {
        assert_eq!(
            in_words(&calls(), 2),
            "group 3 \"train\"\n\
             number  collective                                         ranks  last  late(ms)  took(ms)\n\
             \x20    2  all_reduce of 64 bytes, sum of f32 at train.py:88    2/2     1     5.000     5.040\n\
             \x20    3  all_reduce of 64 bytes, sum of f32 at train.py:88    1/2     0     0.000         -\n\n\
             rank  node  newest  calls  last  late, mean(ms)  longest(ms)  clock, +-(ms)\n\
             \x20  0  a          3      2     0           0.000        0.000          0.000\n\
             \x20  1  b          2      2     2           5.000        5.000          0.000\n\n\
             the others wait for rank 1 (b): it came last in 2 of 2 collectives, 5.000 ms after the first on average\n"
        );
        assert!(
            in_words(&calls(), 0).contains("the others wait for rank 1 (b)"),
            "without any of the latest"
        );
        let silent = GroupCalls { ranks: vec![RankCalls::silent(true); 2], ..calls() };
        assert_eq!(in_words(&silent, 2), "group 3 \"train\"\nno rank has called anything\n");
    }

    #[test]
    fn json_has_what_the_flight_recorder_needs() {
        let json = in_json(&calls());
        assert_eq!(json["ranks"][1]["calls"][0]["called_ns"], 15_000_000);
        assert_eq!(json["ranks"][1]["late"]["last"], 2);
        let last = &json["ranks"][0]["calls"][2];
        assert_eq!(
            (&last["file"], &last["line"], &last["ended_ns"]),
            (&json!("train.py"), &json!(88), &Value::Null)
        );
    }

    #[test]
    fn a_trace_has_each_ranks_calls_below_it() {
        let written = write_trace(&calls(), Vec::new()).unwrap();
        let tracks = quincunx_trace::read(&written).unwrap();
        let names: Vec<&str> = tracks.iter().map(|track| track.name.as_str()).collect();
        assert_eq!(names, ["rank 0 (a)", "called", "collectives", "rank 1 (b)", "called", "collectives"]);
        assert_eq!([tracks[2].slices.len(), tracks[5].slices.len()], [3, 2]);
    }
}
