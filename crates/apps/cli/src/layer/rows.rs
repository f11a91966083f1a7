//! What `quincunx sim layer` prints of a measured layer: a line of its table, and a row of its JSON.

use quincunx_sim::layer::{LayerMeasurement, OverTime, PartMeasurement, SeriesOf};
use quincunx_units::Duration;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Bins of what is told over time, at most.
const BINS: usize = 64;

const COLUMNS: [(&str, &str); 12] = [
    ("ranks", ""),
    ("time", "(us)"),
    ("outside", "(us)"),
    ("SMs", "(%)"),
    ("up", "(%)"),
    ("down", "(%)"),
    ("table", "(KiB)"),
    ("mean", "(KiB)"),
    ("waiting", "(req)"),
    ("mean", "(req)"),
    ("wait", "(us)"),
    ("speedup", ""),
];

/// The two lines above the table.
pub(super) fn header() -> String {
    let cells = |of: fn(&(&str, &str)) -> String| COLUMNS.iter().map(of).collect::<String>();
    let names = cells(|(name, _)| format!("{name:>9}"));
    let units = format!("{:<20} {:<12}{}", "", "", cells(|(_, unit)| format!("{unit:>9}")));
    format!("{:<20} {:<12}{names}\n{}", "design", "model", units.trim_end())
}

/// A mean over sub-layers, in per cent.
fn mean(found: &LayerMeasurement, of: impl Fn(&PartMeasurement) -> f64) -> f64 {
    found.parts.iter().map(of).sum::<f64>() / found.parts.len().max(1) as f64 * 100.0
}

fn speedup(found: &LayerMeasurement, baseline: Option<(&str, &LayerMeasurement)>) -> Option<f64> {
    baseline.map(|(_, baseline)| baseline.time.as_secs_f64() / found.time.as_secs_f64())
}

/// A line of the table.
pub(super) fn line(
    design: &str,
    found: &LayerMeasurement,
    baseline: Option<(&str, &LayerMeasurement)>,
) -> String {
    let merges = found.parts.iter().any(|part| part.outcome.counted.contains_key("ended"));
    let merged = |text: Option<String>| text.filter(|_| merges).unwrap_or_else(|| "-".into());
    let way = |way: usize| format!("{:.1}", mean(found, |part| part.outcome.directions[way]));
    let kibibytes = |bytes: f64| format!("{:.1}", bytes / 1024.0);
    let waiting = found.waiting();
    let cells = [
        found.ranks.to_string(),
        format!("{:.1}", found.time.as_micros_f64()),
        format!("{:.1}", found.outside.as_micros_f64()),
        format!("{:.1}", mean(found, |part| part.outcome.sm_utilisation)),
        way(0),
        way(1),
        merged(Some(kibibytes(found.peak_table() as f64))),
        merged(found.mean_table().map(kibibytes)),
        merged(waiting.map(|(_, peak)| format!("{peak:.0}"))),
        merged(waiting.map(|(mean, _)| format!("{mean:.1}"))),
        merged(Some(format!("{:.2}", found.mean_wait().as_micros_f64()))),
        speedup(found, baseline).map_or("-".into(), |speedup| format!("{speedup:.3}")),
    ];
    let cells: String = cells.iter().map(|cell| format!("{cell:>9}")).collect();
    format!("{design:<20} {:<12}{cells}", found.model)
}

/// A row of the JSON: of the part of a model on a fabric.
pub(super) fn row(
    (part, fabric): (&str, &str),
    design: &str,
    found: &LayerMeasurement,
    baseline: Option<(&str, &LayerMeasurement)>,
) -> Value {
    let waiting = found.waiting();
    let sub_layers = found.parts.iter().enumerate().map(|(number, part)| {
        let mut row = sub_layer(part);
        let other = baseline.map(|(_, baseline)| baseline.parts[number].outcome.time);
        let time = part.outcome.time.as_secs_f64();
        row["speedup"] = json!(other.map(|other| other.as_secs_f64() / time));
        row
    });
    json!({
        "design": design,
        "model": found.model,
        "part": part,
        "fabric": fabric,
        "ranks": found.ranks,
        "time_us": found.time.as_micros_f64(),
        "outside_us": found.outside.as_micros_f64(),
        "peak_table_bytes": found.peak_table(),
        "mean_table_bytes": found.mean_table(),
        "peak_waiting_requests": waiting.map(|(_, peak)| peak),
        "mean_waiting_requests": waiting.map(|(mean, _)| mean),
        "mean_wait_us": found.mean_wait().as_micros_f64(),
        "operations_per_second": found.throughput(),
        "baseline": baseline.map(|(name, _)| name),
        "speedup": speedup(found, baseline),
        "sub_layers": sub_layers.collect::<Vec<_>>(),
    })
}

fn sub_layer(part: &PartMeasurement) -> Value {
    let outcome = &part.outcome;
    let kernels = outcome.kernels.iter().map(|kernel| {
        json!({
            "name": kernel.name,
            "rank": kernel.rank,
            "from_us": kernel.from.as_micros_f64(),
            "to_us": kernel.to.as_micros_f64(),
        })
    });
    let counted =
        outcome.counted.iter().map(|(name, (all, most))| (name.clone(), json!({ "all": all, "most": most })));
    let mut row = json!({
        "sub_layer": part.sub_layer.to_string(),
        "time_us": outcome.time.as_micros_f64(),
        "sm_utilisation": outcome.sm_utilisation,
        "link_utilisation": outcome.link_utilisation,
        "uplink_utilisation": outcome.directions[0],
        "downlink_utilisation": outcome.directions[1],
        "kernels": kernels.collect::<Vec<_>>(),
        "counted": counted.collect::<Map<_, _>>(),
        "packets": outcome.packets,
        "drops": outcome.drops,
        "steps": outcome.steps,
    });
    if let Some(found) = &outcome.over_time {
        add_over_time(&mut row, found.clone().coarse(BINS));
    }
    row
}

/// Values that a reader can tell apart, and no more digits.
fn rounded(values: Vec<f64>) -> Value {
    values.into_iter().map(|value| (value * 1e3).round() / 1e3).collect()
}

/// What a sub-layer looked like, bin by bin of time.
fn add_over_time(row: &mut Value, found: OverTime) {
    let link = |wanted: bool| found.mean(|of| matches!(of, SeriesOf::Link { up, .. } if up == wanted));
    row["bin_us"] = json!(found.interval.as_micros_f64());
    row["uplinks_over_time"] = rounded(link(true));
    row["downlinks_over_time"] = rounded(link(false));
    row["loads_over_time"] = rounded(found.mean(|of| matches!(of, SeriesOf::Loads { .. })));
    let names: BTreeSet<&String> = found.kernels.iter().flatten().collect();
    let sms = names.into_iter().map(|name| {
        let is_it = |rank: u16, kernel: u16| found.kernels[usize::from(rank)][usize::from(kernel)] == *name;
        let sum = found.sum(|of| matches!(of, SeriesOf::Sms { rank, kernel } if is_it(rank, kernel)));
        let each = sum.iter().map(|sum| sum / found.kernels.len() as f64).collect();
        (name.clone(), rounded(each))
    });
    row["sms_over_time"] = Value::Object(sms.collect());
    let is_table = |of| matches!(of, SeriesOf::Table { .. });
    let tables = found.mean(is_table);
    if tables.is_empty() {
        return;
    }
    row["table_mean_over_time"] = rounded(tables);
    row["table_fullest_over_time"] = rounded(found.peak(is_table));
    row["waiting_over_time"] = rounded(found.mean(|of| matches!(of, SeriesOf::Waiting { .. })));
    let wait = |wait: Option<Duration>| json!(wait.map(|wait| (wait.as_micros_f64() * 1e3).round() / 1e3));
    row["wait_us_over_time"] = found.waits().into_iter().map(wait).collect();
    let ports = found.series.iter().filter_map(|series| {
        let SeriesOf::Table { switch, port } = series.of else { return None };
        let peak = series.peaks.iter().copied().fold(0.0, f64::max);
        let mean = (found.over_all(&series.means) * 1e3).round() / 1e3;
        Some(json!({ "switch": switch, "port": port, "peak_seen": peak, "mean": mean }))
    });
    row["tables"] = ports.collect();
}
