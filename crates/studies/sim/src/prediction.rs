//! What a model's step takes on a network by a design: computation by measured layers or a roofline, collectives by simulation.
//!
//! Collectives are simulated at lengths of powers of two from 1 KiB to 16 MiB (of packets 64 MiB), each once, and kept by all that decides it. Between two of them time is a
//! line, and beyond the last one that line goes on; a test holds both against simulations of their own. Where frames may be lost or marked each length
//! is simulated. Messages between stages, and
//! tokens on their way to experts, take what their bytes take at the rate of an accelerator's links, and the links' latency: no engine runs.

use crate::times::{LONGEST, along, is_steady};
use crate::{Contents, MeasureError, Outputs, ProgressFn, Request, measure};
use quincunx_cluster::Wiring;
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog};
use quincunx_language::{
    AcceleratorError, Decoder, Deployment, Exchange, Group, Inference, IterationTime, NetworkSetup, Phase,
    Request as Asked, Served, Timing, TrainingTime, infer, serve, train,
};
use quincunx_scenario::{Fabric, Scenario, ScenarioError};
use quincunx_units::{ByteCount, Duration};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What a deployment comes to by a design.
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    /// The design, or one for prompts and one for answers: `scin-inq/scin`.
    pub design: String,
    /// Prompts and answers, if they are asked for.
    pub inference: Option<Inference>,
    /// Requests that come and go, if they are asked for.
    pub serving: Option<Served>,
    /// An iteration, if it is asked for.
    pub training: Option<TrainingTime>,
}

/// Why there is none.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PredictionError {
    /// The file, or one of its fabrics.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The model, or what it runs on.
    #[error("{0}")]
    Deployment(String),
    /// The accelerator.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// A network with another number of ranks.
    #[error(
        "expected a network of {expected} ranks for the {group} groups of {model}, found {found} on {fabric}; change its size, or `split`"
    )]
    Ranks {
        /// Whose groups.
        group: &'static str,
        /// How many take part in one.
        expected: u32,
        /// How many there are.
        found: u16,
        /// Where.
        fabric: String,
        /// Of which model.
        model: String,
    },
    /// Messages on a fabric that has no rate for them.
    #[error(
        "expected a tree or a memory fabric for messages of {group} groups, found another, {fabric}; choose one"
    )]
    NoRate {
        /// Whose.
        group: &'static str,
        /// Where.
        fabric: String,
    },
    /// A collective has no time.
    #[error("{collective} of {size} by {design} on {fabric}: {error}")]
    Run {
        /// Which.
        collective: Collective,
        /// Its length.
        size: ByteCount,
        /// By which design.
        design: String,
        /// Where.
        fabric: String,
        /// What went wrong.
        error: Box<MeasureError>,
    },
}

impl PredictionError {
    /// Whether somebody has stopped it.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Run { error, .. } if matches!(**error, MeasureError::Stopped(_)))
    }
}

/// Times of collectives by what decides them, so that none is simulated twice.
#[derive(Default, Debug)]
pub struct KnownTimes(Mutex<BTreeMap<String, Duration>>);

impl KnownTimes {
    /// Those that somebody has kept: lines of a key, a tab and picoseconds. Others are passed over, for they are simulated again.
    pub fn read(text: &str) -> Self {
        let pair = |line: &str| {
            let (key, picos) = line.rsplit_once('\t')?;
            Some((key.to_owned(), Duration::from_picos(picos.parse().ok()?)))
        };
        Self(Mutex::new(text.lines().filter_map(pair).collect()))
    }

    /// The same, to be kept.
    pub fn text(&self) -> String {
        let known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.iter().map(|(key, time)| format!("{key}\t{}\n", time.as_picos())).collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, key: &str) -> Option<Duration> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(key).copied()
    }

    fn set(&self, key: String, time: Duration) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, time);
    }
}

/// The longest one on a fabric of packets, whose rings of 16 and 32 hosts that wait for acknowledges take less a byte the longer their pieces are: 512 MiB
/// of 16 take 89.0 ms, 89.6 as a line from 32 and 64 MiB on, 91.6 as one from 8 and 16 MiB on.
const LONGEST_OF_PACKETS: ByteCount = ByteCount::new(64 << 20);

/// The shortest vector that is simulated: shorter ones are a packet, too.
const LEAST: ByteCount = ByteCount::new(1 << 10);

/// What designs are compared on: everything of a deployment but them.
pub struct Question<'a> {
    deployment: &'a Deployment,
    model: Decoder,
    timing: Timing,
    network: Network,
    scale_up: Option<Network>,
    /// What is asked, and for how many tokens there is room.
    requests: Option<(Vec<Asked>, u64)>,
    known: &'a KnownTimes,
}

/// A fabric, and what decides its times in one line.
struct Network {
    fabric: String,
    scenario: Scenario,
    key: String,
    catalog: Catalog,
    designs: Vec<String>,
}

impl Network {
    fn new(setup: &NetworkSetup, catalog: Catalog) -> Result<Self, PredictionError> {
        let mut document = Scenario::document(&setup.fabric)?;
        document.merge(&setup.set)?;
        let key = document.get::<toml::Table>()?.to_string().replace(['\n', '\t'], " ");
        let scenario = Scenario::read(document, catalog)?;
        scenario.refuse_training()?;
        let designs: Vec<String> =
            setup.designs.iter().flat_map(|design| design.split('/')).map(str::to_owned).collect();
        let all: Vec<&'static dyn AnyDesign> =
            designs.iter().map(|design| scenario.design(catalog, design)).collect::<Result<_, _>>()?;
        scenario.refuse_unused(&all)?;
        Ok(Self { fabric: setup.fabric.clone(), scenario, key, catalog, designs })
    }

    /// How long an exchange takes.
    fn time(
        &self,
        model: &str,
        design: &str,
        exchange: &Exchange,
        known: &KnownTimes,
        progress: ProgressFn<'_>,
    ) -> Result<Duration, PredictionError> {
        let group = exchange.group.name();
        let collective = match exchange.collective {
            Some(collective) if !matches!(collective, Collective::Dispatch | Collective::Combine) => {
                collective
            }
            _ => return self.message(exchange.bytes, group),
        };
        let found = self.scenario.ranks();
        if u32::from(found) != exchange.ranks {
            let (expected, fabric, model) = (exchange.ranks, self.fabric.clone(), model.into());
            return Err(PredictionError::Ranks { group, expected, found, fabric, model });
        }
        let request = Request {
            scenario: self.scenario.clone(),
            design: self.scenario.design(self.catalog, design)?,
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F16 },
            size: exchange.bytes,
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        };
        let longest = match self.scenario.fabric {
            Fabric::Packet(_) => LONGEST_OF_PACKETS,
            _ => LONGEST,
        };
        let mut simulated = |size: ByteCount| self.simulated(&request, size, known, &mut *progress);
        let bytes = exchange.bytes.bytes().max(LEAST.bytes());
        if !is_steady(&request) || (bytes.is_power_of_two() && bytes <= longest.bytes()) {
            return simulated(ByteCount::new(bytes));
        }
        let upper = ByteCount::new(bytes.checked_next_power_of_two().unwrap_or(u64::MAX)).min(longest);
        let lower = upper / 2;
        Ok(along([(lower, simulated(lower)?), (upper, simulated(upper)?)], ByteCount::new(bytes)))
    }

    /// How long a request takes at a length, unless that is known.
    fn simulated(
        &self,
        request: &Request,
        size: ByteCount,
        known: &KnownTimes,
        progress: ProgressFn<'_>,
    ) -> Result<Duration, PredictionError> {
        let design = request.design.name();
        let key = format!("{} {design} {} {}", self.key, request.collective, size.bytes());
        if let Some(time) = known.get(&key) {
            return Ok(time);
        }
        let request = Request { size, ..request.clone() };
        let measured = measure(&request, Outputs::default(), progress);
        let time = measured.map(|measured| measured.time).map_err(|error| PredictionError::Run {
            collective: request.collective,
            size,
            design: design.into(),
            fabric: self.fabric.clone(),
            error: Box::new(error),
        })?;
        known.set(key, time);
        Ok(time)
    }

    /// What a message takes by the rate of its sender's links: from one end to the other, by a switch.
    fn message(&self, bytes: ByteCount, group: &'static str) -> Result<Duration, PredictionError> {
        let no_rate = || PredictionError::NoRate { group, fabric: self.fabric.clone() };
        match &self.scenario.fabric {
            Fabric::Memory(fabric) => {
                let each = bytes / u64::from(fabric.switches);
                Ok(fabric.link.rate.time_for(each) + fabric.link.latency * 2)
            }
            fabric @ Fabric::Packet(_) => {
                let wiring = Wiring::of(fabric).ok_or_else(no_rate)?;
                let link = wiring.links().first().ok_or_else(no_rate)?.properties;
                Ok(link.rate.time_for(bytes) + link.latency * 2)
            }
            _ => Err(no_rate()),
        }
    }
}

impl<'a> Question<'a> {
    /// What `deployment` asks of designs of `catalog`. Times that are `known` are not simulated again.
    ///
    /// # Errors
    /// If its model, its networks or its designs make no sense, or its model does not fit into memory.
    pub fn new(
        deployment: &'a Deployment,
        catalog: Catalog,
        known: &'a KnownTimes,
    ) -> Result<Self, PredictionError> {
        let model = deployment.decoder().map_err(PredictionError::Deployment)?;
        let timing = deployment.timing().map_err(PredictionError::Deployment)?;
        deployment.fits(&model, timing.accelerator.capacity).map_err(PredictionError::Deployment)?;
        let network = Network::new(&deployment.network, catalog)?;
        let scale_up = deployment.scale_up.as_ref().map(|up| Network::new(up, catalog)).transpose()?;
        let requests =
            deployment.requests(&model, timing.accelerator.capacity).map_err(PredictionError::Deployment)?;
        Ok(Self { deployment, model, timing, network, scale_up, requests, known })
    }

    /// The model.
    pub const fn model(&self) -> &Decoder {
        &self.model
    }

    /// What says how long layers take.
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// How many requests come, if they are asked for, and from the first to the last of them.
    pub fn requests(&self) -> Option<(usize, Duration)> {
        let (requests, _) = self.requests.as_ref()?;
        let load = self.deployment.serving.as_ref()?.load;
        let span = requests.last()?.arrival.as_picos() as f64 / load;
        Some((requests.len(), Duration::from_picos(span.round() as u64)))
    }

    /// The designs that are compared, in the order of the file.
    pub fn designs(&self) -> &[String] {
        &self.deployment.network.designs
    }

    /// What it comes to by `design`, one of its designs.
    ///
    /// # Errors
    /// If a collective has no time, or a group has another number of ranks than its network.
    pub fn answer(&self, design: &str, progress: ProgressFn<'_>) -> Result<Prediction, PredictionError> {
        let Deployment { split, inference, serving, training, .. } = self.deployment;
        let (first, second) = design.split_once('/').unwrap_or((design, design));
        let mut time = |design: &str, exchange: &Exchange| {
            let name = &self.model.name;
            match &self.scale_up {
                Some(up) if exchange.group == Group::Tensor => {
                    up.time(name, &up.designs[0], exchange, self.known, &mut *progress)
                }
                _ => self.network.time(name, design, exchange, self.known, &mut *progress),
            }
        };
        let inference = match inference {
            None => None,
            Some(asked) => Some(Inference {
                prefill: infer(&self.model, split, &self.timing, asked.prefill(), |exchange| {
                    time(first, exchange)
                })?,
                decode: infer(&self.model, split, &self.timing, asked.decode(), |exchange| {
                    time(second, exchange)
                })?,
            }),
        };
        let serving = match serving.as_ref().zip(self.requests.as_ref()) {
            None => None,
            Some((asked, (requests, room))) => {
                // Batches and lengths come again and again.
                let mut known: BTreeMap<(bool, u64, u64), IterationTime> = BTreeMap::new();
                Some(serve(requests, asked, *room, |phase| {
                    let (key, design) = match phase {
                        Phase::Prefill { batch, length } => ((true, batch, length), first),
                        Phase::Decode { batch, length } => ((false, batch, length), second),
                    };
                    if let Some(time) = known.get(&key) {
                        return Ok::<_, PredictionError>(*time);
                    }
                    let found =
                        infer(&self.model, split, &self.timing, phase, |exchange| time(design, exchange))?;
                    let found = IterationTime { time: found.time(), communication: found.communication };
                    known.insert(key, found);
                    Ok(found)
                })?)
            }
        };
        let training = match training {
            None => None,
            Some(asked) => {
                Some(train(&self.model, split, &self.timing, asked, |exchange| time(first, exchange))?)
            }
        };
        Ok(Prediction { design: design.into(), inference, serving, training })
    }
}
