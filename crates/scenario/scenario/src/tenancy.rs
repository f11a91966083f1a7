//! A cluster and the jobs that train on it, as a file or a preset says them: who computes and sends how much, who gets switches, and what is
//! counted (EPIC 7.5, L).

use crate::scenario::names_of;
use crate::{Document, Override, ScenarioError, read_text};
use include_dir::{Dir, include_dir};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate, MeanTime};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};

static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/clusters");

/// A cluster and its jobs.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenancy {
    /// A line for people.
    pub summary: Option<String>,
    /// The network by its shape, `clos-4x4x8x4x4`, `leaf-spine-8x4x8`, or a file with hosts, switches and links, as `quincunx import` makes them.
    /// Each host is an accelerator.
    pub fabric: String,
    /// Every link, each way; a file's have their own.
    pub link: Option<TenancyLink>,
    /// Servers whose accelerators are joined by something faster; none: each is by itself.
    pub scale_up: Option<ScaleUp>,
    /// Who gets switches; the four that EPIC compares if not said.
    #[serde(default = "TenancyPolicy::published")]
    pub policies: Vec<TenancyPolicy>,
    /// Memory of each switch in units; of a list, one run for each.
    #[serde(deserialize_with = "one_or_several")]
    pub memory_units: Vec<u32>,
    /// What a group takes of it.
    #[serde(default)]
    pub slots: Slots,
    /// Bytes of a unit, where groups take bytes.
    pub unit: Option<ByteCount>,
    /// How many bits of a link a collective takes.
    #[serde(default)]
    pub volume: Volume,
    /// Which of several ways of equal length a flow takes.
    #[serde(default)]
    pub routing: Routing,
    /// Which of the free accelerators a job gets.
    #[serde(default)]
    pub placement: JobPlacement,
    /// How long groups ask for locks that are not free, by the policy that has them, before a collective runs among hosts.
    #[serde(default)]
    pub patience: Duration,
    /// What groups with switches run, by a design's name.
    pub design: Option<String>,
    /// What groups without run.
    pub fallback: Option<String>,
    /// Whether each job has the cluster by itself.
    #[serde(default)]
    pub apart: bool,
    /// Models that are trained.
    #[serde(default)]
    pub model: Vec<LanguageModel>,
    /// Jobs, one by one.
    #[serde(default)]
    pub job: Vec<TrainingJob>,
    /// Jobs by chance.
    pub trace: Option<JobTrace>,
    /// What fails; nothing if not said.
    pub failures: Option<Failures>,
}

/// What fails, and what that costs. Times to the next failure and to repair are exponential.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// Mean time to the failure of a link, cables side by side together; none: links never fail.
    pub link: Option<MeanTime>,
    /// To that of a switch.
    pub switch: Option<MeanTime>,
    /// To that of a server with all its accelerators, or of an accelerator where there are no servers.
    pub server: Option<MeanTime>,
    /// Mean time until it is whole again.
    pub repair: MeanTime,
    /// How long collectives stand still whose way or tree is broken, until they go on by another.
    #[serde(default)]
    pub recovery: Duration,
    /// How long a job takes to begin an iteration again, once it has other accelerators.
    #[serde(default)]
    pub restart: Duration,
    /// Whether a group that has lost its tree asks for another at its next collective; false: it runs among hosts until its job ends.
    #[serde(default = "yes")]
    pub adaptive: bool,
}

/// A link.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenancyLink {
    /// Bits a second.
    pub rate: BitRate,
    /// Time to the other end; counted once for each step of a collective and link.
    #[serde(default)]
    pub latency: Duration,
}

/// Servers of accelerators.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleUp {
    /// Accelerators of a server.
    pub members: u16,
    /// What each exchanges with the others there, in bits a second each way.
    pub rate: BitRate,
}

/// Who gets switches, and for how long (EPIC L.2: settings 0 to 3, and 6.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TenancyPolicy {
    /// Nobody.
    Ring,
    /// Trees that share no link, for a job's life.
    Edt,
    /// Trees with memory of their own, for a job's life.
    Spatial,
    /// The same for one use of a group's.
    Temporal,
    /// Trees with memory for a job's life that others may have, too: a group locks all of it for a collective, or runs that among its hosts.
    Contention,
}

/// What a group takes of a switch's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slots {
    /// What the design needs where the group adds up, and nothing elsewhere.
    #[default]
    Sums,
    /// A unit at each switch of its tree, those included that only forward (EPIC L.2).
    Path,
}

/// How many bits of a link an AllReduce takes for each bit of its vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Volume {
    /// What the plan of the design sends there.
    #[default]
    Plan,
    /// Two in the network and four in a ring, whatever its length: what EPIC's tables 36 to 42 come to.
    Published,
}

/// Which of several shortest ways a flow takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// The one with the fewest flows and trees on its fullest link.
    #[default]
    Pinned,
    /// One by a hash, as ECMP has it.
    Hashed,
}

/// Which of the free accelerators a job gets; those that share layers are neighbours where that can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPlacement {
    /// The first in a row, by their numbers, or else the first.
    #[default]
    Packed,
    /// In the smallest part of the network that has room: a server, what a switch joins, a pod; of equal parts in the fullest.
    Nearest,
    /// One of each switch in turn.
    Spread,
    /// By chance, as the seed has it.
    Random,
}

/// A Transformer in training, and how it is split.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageModel {
    /// `gpt-3-175b`.
    pub name: String,
    /// Where its numbers are published.
    pub source: Option<String>,
    /// Parameters.
    pub parameters: f64,
    /// Layers.
    pub layers: u32,
    /// Values of a token.
    pub hidden: u32,
    /// Tokens of a sequence.
    pub sequence: u32,
    /// Sequences of an iteration for each replica of the model.
    pub batch: u32,
    /// Bytes of a value.
    #[serde(default = "two")]
    pub value: u32,
    /// Accelerators that share each layer (tensor parallelism).
    pub tp: u16,
    /// Operations of an accelerator a second, as they are reached.
    pub compute: FlopRate,
}

/// A job.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingJob {
    /// What people call it; the model's name if not said.
    pub name: Option<String>,
    /// What it trains.
    pub model: String,
    /// Accelerators.
    pub gpus: u32,
    /// Iterations.
    #[serde(default = "three")]
    pub iterations: u32,
    /// When it is there.
    #[serde(default)]
    pub at: Duration,
}

/// Jobs by chance: size and model of each are drawn.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobTrace {
    /// How many.
    pub jobs: u32,
    /// Sizes with their shares.
    #[serde(default)]
    pub size: Vec<SizeShare>,
    /// In place of sizes: a file with one of each job, `gpus` in the first line, or `worker.csv` of Alibaba's Lingjun data set.
    pub sizes_of: Option<String>,
    /// Models, each equally likely.
    pub models: Vec<String>,
    /// Iterations of each.
    #[serde(default = "three")]
    pub iterations: u32,
    /// Mean time from one job to the next, by an exponential distribution; none: all are there at once.
    #[serde(default)]
    pub apart: Duration,
}

/// How many jobs have a size.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Accelerators.
    pub gpus: u32,
    /// Their share of all jobs.
    pub share: f64,
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of units, or a list of them")]
    enum Units {
        One(u32),
        Several(Vec<u32>),
    }
    Ok(match Units::deserialize(deserializer)? {
        Units::One(units) => vec![units],
        Units::Several(units) => units,
    })
}

const fn two() -> u32 {
    2
}

const fn three() -> u32 {
    3
}

const fn yes() -> bool {
    true
}

/// Shapes have neither a folder nor an ending.
fn is_fabric_file(fabric: &str) -> bool {
    fabric.contains(['/', '.'])
}

/// The names of all placements, in their order.
const PLACEMENTS: &str = "packed nearest spread random";

impl JobPlacement {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Packed, Self::Nearest, Self::Spread, Self::Random];

    /// As files and the command line have it.
    pub fn name(self) -> &'static str {
        PLACEMENTS.split(' ').nth(self as usize).expect("each placement has a name")
    }
}

impl std::str::FromStr for JobPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("expected a placement ({names}), found \"{text}\"; name one of them"))
    }
}

/// The names of all policies, in their order.
const POLICIES: &str = "ring edt spatial temporal contention";

impl TenancyPolicy {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Ring, Self::Edt, Self::Spatial, Self::Temporal, Self::Contention];

    /// The four settings of EPIC's L.2, in their order.
    pub fn published() -> Vec<Self> {
        Self::ALL[..4].to_vec()
    }

    /// As files and the command line have it.
    pub fn name(self) -> &'static str {
        POLICIES.split(' ').nth(self as usize).expect("each policy has a name")
    }
}

impl std::str::FromStr for TenancyPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        let names = Self::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("expected a policy ({names}), found \"{text}\"; name one of them"))
    }
}

/// The most jobs of a file: what is over that is a mistake, and would be written down one by one first.
const MOST_JOBS: u32 = 1_000_000;

impl Tenancy {
    /// The preset of that name, or the file at that path, with these keys changed.
    ///
    /// # Errors
    /// If there is none, or it makes no sense; the message names the key.
    pub fn find(name: &str, changes: &[Override]) -> Result<Self, ScenarioError> {
        // A name without a folder or an ending is no file's.
        if !name.contains(['/', '.']) {
            return Self::parse(name, Self::text(name)?, changes);
        }
        let text = read_text(name)
            .map_err(|error| ScenarioError::Unreadable { path: name.into(), error: error.to_string() })?;
        Self::parse(name, &text, changes)
    }

    /// The names of all presets.
    pub fn presets() -> Vec<String> {
        names_of(&PRESETS)
    }

    /// The preset of that name as a document, to be changed.
    ///
    /// # Errors
    /// If there is none.
    pub fn document(name: &str) -> Result<Document, ScenarioError> {
        Document::parse(name, Self::text(name)?)
    }

    /// The text of a preset.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn text(name: &str) -> Result<&'static str, ScenarioError> {
        let file = PRESETS.get_file(format!("{name}.toml"));
        file.and_then(include_dir::File::contents_utf8).ok_or_else(|| ScenarioError::Unknown {
            what: "a cluster",
            known: Self::presets().join(", "),
            found: name.into(),
        })
    }

    /// Reads `text`, which came from `place`, with these keys changed.
    ///
    /// # Errors
    /// If a key is unknown or missing, or the whole makes no sense.
    pub fn parse(place: &str, text: &str, changes: &[Override]) -> Result<Self, ScenarioError> {
        let mut document = Document::parse(place, text)?;
        changes.iter().try_for_each(|change| document.set(change))?;
        // Whoever puts a network of a file in the place of a shape means its links, too.
        let sets = |what: &dyn Fn(&Override) -> bool| changes.iter().any(what);
        let is_file =
            |change: &Override| change.key == "fabric" && change.value.as_str().is_some_and(is_fabric_file);
        if sets(&is_file) && !sets(&|change| change.key.starts_with("link")) {
            document.take("link");
        }
        Self::read(place, &document)
    }

    /// Reads a document, which came from `place`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn read(place: &str, document: &Document) -> Result<Self, ScenarioError> {
        let tenancy: Self = document.get()?;
        tenancy.check().map_err(|error| ScenarioError::Key { place: place.into(), error })?;
        Ok(tenancy)
    }

    /// Whether its network is in a file.
    pub fn has_fabric_file(&self) -> bool {
        is_fabric_file(&self.fabric)
    }

    /// The model of that name.
    pub fn model(&self, name: &str) -> Option<&LanguageModel> {
        self.model.iter().find(|model| model.name == name)
    }

    /// Refuses what makes no sense on any fabric.
    ///
    /// # Errors
    /// What was expected and found, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |expected: &str, found: String, remedy: &str| {
            Err(format!("expected {expected}, found {found}; {remedy}"))
        };
        if self.memory_units.is_empty() || self.memory_units.contains(&0) {
            let found = format!("{:?}", self.memory_units);
            return wrong("`memory_units` of one or more", found, "say how many units a switch has");
        }
        match (self.has_fabric_file(), self.link) {
            (true, Some(_)) => {
                let found = format!("[link] beside {}", self.fabric);
                return wrong("links of the fabric's own file alone", found, "leave [link] out");
            }
            (false, None) => {
                let found = format!("`fabric = \"{}\"` alone", self.fabric);
                return wrong("a [link] of a fabric by its shape", found, "say its `rate`");
            }
            _ => {}
        }
        if self.policies.is_empty() {
            return wrong("a policy at least in `policies`", "none".into(), "name one, or leave the key out");
        }
        if self.volume == Volume::Plan && (self.design.is_none() || self.fallback.is_none()) {
            let expected = "`design` and `fallback`, whose plans say what links carry";
            return wrong(expected, "no name".into(), "name them, or set `volume = \"published\"`");
        }
        if self.slots == Slots::Sums
            && (self.unit.is_none_or(|unit| unit.bytes() == 0) || self.design.is_none())
        {
            let expected = "a `unit` of memory above 0 and a `design` that takes some";
            return wrong(expected, "none".into(), "say both, or set `slots = \"path\"`");
        }
        if self.scale_up.is_some_and(|servers| servers.members == 0) {
            return wrong("`scale_up.members` of one or more", "0".into(), "leave `scale_up` out");
        }
        if self.failures.is_some_and(|Failures { link, switch, server, .. }| {
            link.is_none() && switch.is_none() && server.is_none()
        }) {
            let expected = "`link`, `switch` or `server` in [failures]";
            return wrong(expected, "none".into(), "say what fails, or leave [failures] out");
        }
        let mut names = BTreeSet::new();
        for model in &self.model {
            let name = &model.name;
            if !names.insert(name) {
                return wrong("each model once", format!("\"{name}\" twice"), "rename one");
            }
            let counts =
                [model.layers, model.hidden, model.sequence, model.batch, model.value, model.tp.into()];
            let parameters = model.parameters;
            if counts.contains(&0) || !(parameters.is_finite() && parameters >= 1.0) {
                let found = format!("another in \"{name}\"");
                return wrong("numbers of one or more in a model", found, "give the model's own");
            }
        }
        let knows = |model: &str| match self.model(model) {
            Some(model) => Ok(model),
            None => {
                let known = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
                Err(format!("expected a model ({known}), found \"{model}\"; name one of them, or add it"))
            }
        };
        let fits = |model: &LanguageModel, gpus: u32| {
            let tp = u32::from(model.tp);
            if gpus == 0 || !gpus.is_multiple_of(tp) {
                let expected =
                    format!("accelerators in multiples of {tp}, which share a layer of {}", model.name);
                return Err(format!("expected {expected}, found {gpus}; choose another number"));
            }
            Ok(())
        };
        for job in &self.job {
            fits(knows(&job.model)?, job.gpus)?;
            if job.iterations == 0 {
                return wrong("`iterations` of one or more", "0".into(), "leave the job out");
            }
        }
        let mut jobs = self.job.len() as u64;
        if let Some(trace) = &self.trace {
            jobs += u64::from(trace.jobs);
            let models: Vec<_> =
                trace.models.iter().map(|model| knows(model)).collect::<Result<_, String>>()?;
            let shares: f64 = trace.size.iter().map(|size| size.share).sum();
            let all_positive = trace.size.iter().all(|size| size.share > 0.0 && size.share.is_finite());
            let has_sizes = trace.sizes_of.is_some() || !trace.size.is_empty();
            if models.is_empty() || trace.jobs == 0 || trace.iterations == 0 || !has_sizes {
                let expected = "`jobs`, `iterations`, `models` and sizes or `sizes_of` in [trace]";
                return wrong(expected, "none of one".into(), "say each");
            }
            let is_whole = all_positive && (shares - 1.0).abs() < 1e-6;
            if !(trace.size.is_empty() || is_whole) {
                return wrong(
                    "`share`s of sizes that add up to 1",
                    shares.to_string(),
                    "say each size's share of all jobs",
                );
            }
            for size in &trace.size {
                models.iter().try_for_each(|model| fits(model, size.gpus))?;
            }
        }
        if jobs == 0 || jobs > u64::from(MOST_JOBS) {
            let expected = format!("jobs, {MOST_JOBS} at most");
            return wrong(&expected, jobs.to_string(), "add a [[job]] or a [trace], or take fewer");
        }
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for job in &self.job {
            let name = job.name.as_deref().unwrap_or(&job.model);
            *named.entry(name).or_default() += 1;
        }
        match named.iter().find(|(_, times)| **times > 1) {
            Some((name, _)) => {
                wrong("each job once", format!("\"{name}\" twice"), "give them names of their own")
            }
            None => Ok(()),
        }
    }
}
