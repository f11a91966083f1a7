//! What a deployment asks, and what it comes to by a design.

use super::doubt::Doubt;
use super::error::PredictionError;
use super::needs::SwitchNeeds;
use super::network::{AUTO, Network};
use crate::{KnownTimes, ProgressFn};
use quincunx_design::Catalog;
use quincunx_language::{
    Decoder, Deployment, Exchange, Group, Inference, IterationTime, Phase, Request as Asked, Served, Source,
    Timing, TrainingTime, infer, serve, stretched, train,
};
use quincunx_scenario::Fabric;
use quincunx_units::{BitRate, Duration};
use std::collections::BTreeMap;

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

/// How many times as long things take as they are said to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// What accelerators compute.
    pub computation: f64,
    /// What they exchange on the network that designs are compared on.
    pub network: f64,
}

impl Default for Stretch {
    fn default() -> Self {
        Self { computation: 1.0, network: 1.0 }
    }
}

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

    /// Ranks of the network.
    pub fn ranks(&self) -> u16 {
        self.network.scenario.ranks()
    }

    /// The rate of an accelerator's links; none on a fabric whose links differ.
    pub fn link_rate(&self) -> Option<BitRate> {
        match &self.network.scenario.fabric {
            Fabric::Memory(fabric) => Some(fabric.link.rate),
            fabric => fabric.packet_link().map(|link| link.rate),
        }
    }

    /// Those that are asked for, and in place of [`AUTO`] all that it is one of; each once.
    pub fn all_designs(&self) -> Vec<String> {
        let expand = |design: &String| if design == AUTO { self.candidates() } else { vec![design.clone()] };
        let mut all: Vec<String> = Vec::new();
        for design in self.designs().iter().flat_map(expand) {
            if !all.contains(&design) {
                all.push(design);
            }
        }
        all
    }

    /// The designs that `auto` is one of: those of the fabric's kind that leave what a collective is to leave.
    pub fn candidates(&self) -> Vec<String> {
        self.network.candidates()
    }

    /// What a design needs of switches, or both of `A/B`; nothing if they forward only.
    ///
    /// # Errors
    /// If the design does not run there.
    pub fn needs(&self, design: &str) -> Result<Option<SwitchNeeds>, PredictionError> {
        let both = design.split('/').map(|name| self.network.needs(self.network.design(name)?));
        let mut found: Option<SwitchNeeds> = None;
        for needs in both {
            match (needs?, &mut found) {
                (None, _) => {}
                (Some(needs), Some(found)) => found.memory = found.memory.max(needs.memory),
                (Some(needs), found) => *found = Some(needs),
            }
        }
        Ok(found)
    }

    /// How far what it comes to may be off.
    pub fn doubt(&self, found: &Prediction) -> Doubt {
        let Prediction { inference, training, serving, .. } = found;
        let of_inference = inference.iter().flat_map(|found| [found.prefill.source, found.decode.source]);
        let of_training = training.iter().map(|found| found.source);
        // Requests are of all lengths: most are between measured ones.
        let of_serving = serving
            .iter()
            .map(|_| if self.timing.profile.is_some() { Source::Between } else { Source::Roofline });
        let worst = of_inference.chain(of_training).chain(of_serving).max().unwrap_or(Source::Roofline);
        Doubt::of(worst, self.network.scenario.kind())
    }

    /// Of candidates and what they came to, the design that is the fastest: for prompts and for answers each, where both are asked for.
    ///
    /// # Errors
    /// If none runs there.
    pub fn choose(
        &self,
        candidates: &[(String, Result<Prediction, PredictionError>)],
    ) -> Result<String, PredictionError> {
        let found: Vec<&Prediction> =
            candidates.iter().filter_map(|(_, found)| found.as_ref().ok()).collect();
        let least = |of: &dyn Fn(&Prediction) -> Option<Duration>| {
            let times = found.iter().filter_map(|found| Some((of(found)?, &found.design)));
            times
                .reduce(|best, one| if one.0 < best.0 { one } else { best })
                .map(|(_, design)| design.clone())
        };
        let first = least(&|found| Some(found.inference.as_ref()?.prefill.time()));
        let next = least(&|found| Some(found.inference.as_ref()?.decode.time()));
        // Of a pair, the one for prompts and the one for answers.
        let part = |design: &str, place: usize| design.split('/').nth(place).unwrap_or(design).to_owned();
        let both = first.zip(next).map(|(first, next)| {
            let (first, next) = (part(&first, 0), part(&next, 1));
            if first == next { first } else { format!("{first}/{next}") }
        });
        // Half of the requests have their first token, and those that follow it, in as much.
        let served = || {
            least(&|found| {
                let Served { first, next, .. } = found.serving.as_ref()?;
                Some(Served::percentile(first, 50) + Served::percentile(next, 50))
            })
        };
        let trained = || least(&|found| Some(found.training.as_ref()?.time()));
        both.or_else(served).or_else(trained).ok_or_else(|| {
            let reason = |(design, found): &(String, Result<Prediction, PredictionError>)| {
                Some(format!("{design}: {}", found.as_ref().err()?))
            };
            let reasons: Vec<String> = candidates.iter().filter_map(reason).collect();
            PredictionError::NoChoice { reasons: reasons.join("; ") }
        })
    }

    /// What it comes to by `design`, one of its designs or candidates.
    ///
    /// # Errors
    /// If a collective has no time, or a group has another number of ranks than its network.
    pub fn answer(&self, design: &str, progress: ProgressFn<'_>) -> Result<Prediction, PredictionError> {
        self.answer_if(design, Stretch::default(), progress)
    }

    /// The same if everything takes so many times as long as it is said to.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn answer_if(
        &self,
        design: &str,
        stretch: Stretch,
        progress: ProgressFn<'_>,
    ) -> Result<Prediction, PredictionError> {
        let timing = Timing { stretch: stretch.computation, ..self.timing.clone() };
        let Deployment { split, inference, serving, training, .. } = self.deployment;
        let (first, second) = design.split_once('/').unwrap_or((design, design));
        let mut time = |design: &str, exchange: &Exchange| {
            let name = &self.model.name;
            let time = match &self.scale_up {
                Some(up) if exchange.group == Group::Tensor => {
                    // What is within a server is the same by all designs.
                    return up.time(name, &up.designs[0], exchange, self.known, &mut *progress);
                }
                _ => self.network.time(name, design, exchange, self.known, &mut *progress)?,
            };
            Ok(stretched(time, stretch.network))
        };
        let inference = match inference {
            None => None,
            Some(asked) => Some(Inference {
                prefill: infer(&self.model, split, &timing, asked.prefill(), |exchange| {
                    time(first, exchange)
                })?,
                decode: infer(&self.model, split, &timing, asked.decode(), |exchange| {
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
                    let found = infer(&self.model, split, &timing, phase, |exchange| time(design, exchange))?;
                    let found = IterationTime { time: found.time(), communication: found.communication };
                    known.insert(key, found);
                    Ok(found)
                })?)
            }
        };
        let training = match training {
            None => None,
            Some(asked) => Some(train(&self.model, split, &timing, asked, |exchange| time(first, exchange))?),
        };
        Ok(Prediction { design: design.into(), inference, serving, training })
    }
}
