//! What the commands print, as far as a report shows it. Keys that a report does not show are left alone.

use crate::ReportError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Output {
    pub(crate) schema: u32,
    pub(crate) command: String,
    pub(crate) rows: Vec<serde_json::Value>,
    /// Of `reproduce`: lines of figures, whose points the rows judge.
    #[serde(default)]
    pub(crate) curves: Vec<Curve>,
    /// Of `sim jobs`: where, what others sent meanwhile, and what links carried.
    #[serde(default)]
    pub(crate) fabric: String,
    #[serde(default)]
    pub(crate) traffic: Vec<serde_json::Value>,
    #[serde(default)]
    pub(crate) links: Vec<serde_json::Value>,
    /// Of `sim cluster`: what jobs came to together, and what switches and links were used for.
    #[serde(default)]
    pub(crate) runs: Vec<serde_json::Value>,
    /// Of `plan`.
    #[serde(default)]
    pub(crate) advice: Option<Advice>,
    /// By which version it was run, with which arguments, on which machine and when; older files do not say.
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    #[serde(default)]
    pub(crate) machine: Machine,
    #[serde(default)]
    pub(crate) time: String,
}

/// What `plan` says.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Advice {
    #[serde(default)]
    pub(crate) words: String,
}

/// What times were measured on.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Machine {
    #[serde(default)]
    pub(crate) processor: Option<String>,
    #[serde(default)]
    pub(crate) cores: u32,
}

/// A line of a figure, as `reproduce` prints it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Curve {
    pub(crate) paper: String,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) label: String,
    pub(crate) design: String,
    pub(crate) baseline: Option<String>,
    pub(crate) kind: String,
    /// What its figures say, with their unit.
    pub(crate) quantity: String,
    /// The key that differs from point to point.
    pub(crate) axis: String,
    pub(crate) points: Vec<CurvePoint>,
    /// What is published for all points together.
    pub(crate) summary: Option<Summary>,
}

/// A point of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CurvePoint {
    pub(crate) value: String,
    /// The same as a number, if it is one.
    pub(crate) x: Option<f64>,
    /// None if it was not run to its end.
    pub(crate) ours: Option<f64>,
    pub(crate) published: Option<f64>,
}

/// One figure for all points.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Summary {
    /// The largest, the mean.
    pub(crate) pick: String,
    pub(crate) ours: Option<f64>,
    pub(crate) published: f64,
}

/// A row of `perf` or `sim`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(non_snake_case, reason = "the names of the columns are a contract")]
pub(crate) struct Measured {
    pub(crate) design: String,
    pub(crate) collective: String,
    pub(crate) size: u64,
    pub(crate) time_us: f64,
    /// Of several seeds.
    #[serde(default)]
    pub(crate) time_stderr_us: Option<f64>,
    pub(crate) algbw_GBps: f64,
    pub(crate) busbw_GBps: f64,
    pub(crate) netbw_GBps: f64,
    /// None if memory held no numbers.
    pub(crate) wrong: Option<u64>,
    #[serde(default)]
    pub(crate) links: Vec<LinkUtilisation>,
    /// The width of the bins of links, if they have any.
    #[serde(default)]
    pub(crate) bin_us: f64,
    /// Where the fastest of several was asked for: all of them, the chosen one first.
    #[serde(default)]
    pub(crate) candidates: Vec<Candidate>,
}

/// A design that was tried.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Candidate {
    pub(crate) design: String,
    /// None where it refuses.
    #[serde(default)]
    pub(crate) time_us: Option<f64>,
    pub(crate) verdict: String,
}

/// A row of `sim traffic`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(non_snake_case, reason = "the names of the columns are a contract")]
pub(crate) struct Traffic {
    pub(crate) pattern: String,
    pub(crate) load: f64,
    pub(crate) accepted: f64,
    pub(crate) accepted_GBps: f64,
    pub(crate) packets: u64,
    pub(crate) latency_mean_us: f64,
    pub(crate) latency_p50_us: f64,
    pub(crate) latency_p99_us: f64,
    pub(crate) latency_max_us: f64,
}

/// A row of `sim layer`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Layer {
    pub(crate) design: String,
    pub(crate) model: String,
    pub(crate) ranks: u16,
    /// Which part of the model, and on what.
    #[serde(default)]
    pub(crate) part: String,
    #[serde(default)]
    pub(crate) fabric: String,
    pub(crate) time_us: f64,
    pub(crate) outside_us: f64,
    pub(crate) peak_table_bytes: u64,
    #[serde(default)]
    pub(crate) mean_table_bytes: Option<f64>,
    pub(crate) mean_wait_us: f64,
    pub(crate) baseline: Option<String>,
    pub(crate) speedup: Option<f64>,
    pub(crate) sub_layers: Vec<SubLayer>,
}

/// A sub-layer of such a row; what lies over time is bin by bin, and empty where there is no such thing.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SubLayer {
    pub(crate) sub_layer: String,
    pub(crate) time_us: f64,
    #[serde(default)]
    pub(crate) speedup: Option<f64>,
    pub(crate) sm_utilisation: f64,
    pub(crate) uplink_utilisation: f64,
    pub(crate) downlink_utilisation: f64,
    #[serde(default)]
    pub(crate) bin_us: f64,
    #[serde(default)]
    pub(crate) uplinks_over_time: Vec<f64>,
    #[serde(default)]
    pub(crate) downlinks_over_time: Vec<f64>,
    /// By kernel: SMs of an accelerator.
    #[serde(default)]
    pub(crate) sms_over_time: BTreeMap<String, Vec<f64>>,
    #[serde(default)]
    pub(crate) table_mean_over_time: Vec<f64>,
    #[serde(default)]
    pub(crate) table_fullest_over_time: Vec<f64>,
    #[serde(default)]
    pub(crate) waiting_over_time: Vec<f64>,
    #[serde(default)]
    pub(crate) wait_us_over_time: Vec<Option<f64>>,
}

/// A row of `sim train`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Training {
    pub(crate) design: String,
    pub(crate) model: String,
    pub(crate) batch: u32,
    pub(crate) ranks: u16,
    pub(crate) time_us: f64,
    pub(crate) compute_us: f64,
    pub(crate) communication_us: f64,
    pub(crate) hidden_us: f64,
    pub(crate) samples_per_second: f64,
    pub(crate) baseline: Option<String>,
    pub(crate) speedup: Option<f64>,
}

/// A job of `sim cluster`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) policy: String,
    pub(crate) units: u32,
    pub(crate) job: String,
    pub(crate) jct_s: f64,
    pub(crate) ended_s: f64,
    pub(crate) in_network: Option<f64>,
}

/// A run of `sim cluster`, in equal parts of its time; files of earlier versions have none.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TenancyRun {
    pub(crate) policy: String,
    pub(crate) units: u32,
    /// Where each job has the cluster by itself.
    #[serde(default)]
    pub(crate) job: Option<String>,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) part_s: f64,
    #[serde(default)]
    pub(crate) switches: Vec<UsedPart>,
    #[serde(default)]
    pub(crate) links: Vec<UsedPart>,
    #[serde(default)]
    pub(crate) held: Vec<HeldSwitch>,
}

/// A switch or a link of it: the share of it that was used in each part.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct UsedPart {
    pub(crate) name: String,
    pub(crate) shares: Vec<f64>,
}

/// A switch that a job held, from when to when in seconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HeldSwitch {
    pub(crate) switch: String,
    pub(crate) job: String,
    pub(crate) spans_s: Vec<[f64; 2]>,
}

/// A job of `sim jobs`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(non_snake_case, reason = "the keys have units as people write them")]
pub(crate) struct Job {
    pub(crate) job: String,
    pub(crate) design: String,
    pub(crate) collective: String,
    pub(crate) size: u64,
    pub(crate) ranks: u16,
    pub(crate) begin_us: f64,
    pub(crate) end_us: f64,
    /// Of one collective, on average.
    pub(crate) time_us: f64,
    pub(crate) algbw_GBps: f64,
    pub(crate) busbw_GBps: f64,
    pub(crate) switches: Vec<String>,
    pub(crate) marked: u64,
    pub(crate) lost: u64,
    pub(crate) wrong: Option<u64>,
    pub(crate) runs_us: Vec<[f64; 2]>,
    pub(crate) fell_back: Option<FellBack>,
    pub(crate) slowdown: Option<f64>,
}

/// What was asked for, and why something else ran.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct FellBack {
    pub(crate) asked: String,
    pub(crate) reason: String,
}

/// Traffic beside jobs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(non_snake_case, reason = "the keys have units as people write them")]
pub(crate) struct Stream {
    pub(crate) traffic: String,
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) rate_GBps: Option<f64>,
    pub(crate) latency_mean_us: Option<f64>,
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
}

/// A direction of a link that jobs share.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SharedLink {
    pub(crate) name: String,
    /// Whether it joins a host with its switch.
    pub(crate) access: bool,
    /// Jobs whose trees lead over it.
    pub(crate) trees: Vec<String>,
    pub(crate) utilisation: f64,
}

/// How busy a link was over the run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct LinkUtilisation {
    pub(crate) name: String,
    pub(crate) utilisation: f64,
    /// The same for each bin of time; empty if nobody asked for it.
    #[serde(default)]
    pub(crate) over_time: Vec<f64>,
}

/// A row of `reproduce`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Reproduced {
    pub(crate) paper: String,
    pub(crate) id: String,
    pub(crate) figure: String,
    pub(crate) kind: String,
    pub(crate) published: f64,
    pub(crate) ours: f64,
    pub(crate) error: f64,
    pub(crate) verdict: String,
}

/// An output, by the name of its file.
pub(crate) type Named = (String, Output);

/// All outputs in a folder, and what is wrong with files that are none.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Named>, Vec<ReportError>), ReportError> {
    let failed =
        |path: &Path, error| ReportError::File { what: "read", path: path.display().to_string(), error };
    let entries = std::fs::read_dir(folder).map_err(|error| failed(folder, error))?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let (mut outputs, mut odd) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let foreign = |found: String| ReportError::Foreign { path: format!("{name}.json"), found };
        let read = std::fs::read_to_string(&path).map_err(|error| failed(&path, error));
        let parsed = read.and_then(|text| {
            let output: Output =
                serde_json::from_str(&text).map_err(|error| foreign(format!("\"{error}\"")))?;
            if output.schema == 1 { Ok(output) } else { Err(foreign(format!("schema {}", output.schema))) }
        });
        match parsed {
            Ok(output) => outputs.push((name, output)),
            Err(error) => odd.push(error),
        }
    }
    if outputs.is_empty() && odd.is_empty() {
        return Err(ReportError::Empty(folder.display().to_string()));
    }
    Ok((outputs, odd))
}

/// The rows of `output` as `T`.
pub(crate) fn rows<T: for<'de> Deserialize<'de>>(name: &str, output: &Output) -> Result<Vec<T>, ReportError> {
    parts(name, output, &output.rows)
}

/// Any part of `output` that is a list of `T`.
pub(crate) fn parts<T: for<'de> Deserialize<'de>>(
    name: &str,
    output: &Output,
    parts: &[serde_json::Value],
) -> Result<Vec<T>, ReportError> {
    let part = |value: &serde_json::Value| T::deserialize(value);
    parts.iter().map(part).collect::<Result<_, _>>().map_err(|error| ReportError::Foreign {
        path: format!("{name}.json"),
        found: format!("a row of {} that is not one: {error}", output.command),
    })
}
