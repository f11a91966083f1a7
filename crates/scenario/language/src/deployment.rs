//! A model on a cluster, as a file or a preset says it: which model, how it is split, on what it runs, and what is asked of it.

use crate::serving::longest;
use crate::{
    Accelerator, Decoder, InferenceSetup, Launches, LayerProfile, Memory, Phase, Products, Request, Requests,
    ServingSetup, Split, Timing, TrainingSetup,
};
use include_dir::{Dir, include_dir};
use quincunx_scenario::{Document, Override, ScenarioError, read_text};
use quincunx_units::ByteCount;
use serde::Deserialize;
use std::ops::RangeInclusive;
use toml::Table;

static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/deployments");

/// A model on a cluster.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// A line for people.
    pub summary: Option<String>,
    /// A model's name, or the path of its `config.json`.
    pub model: String,
    /// Who has which part.
    #[serde(default)]
    pub split: Split,
    /// An accelerator's name.
    pub gpu: Option<String>,
    /// In place of a name: its rates.
    pub accelerator: Option<Accelerator>,
    /// What was measured: `h100`, `h200`, or the path of a profile.
    pub profile: Option<String>,
    /// What products are made of.
    #[serde(default)]
    pub products: Products,
    /// How kernels follow each other, where they were measured.
    #[serde(default)]
    pub launches: Launches,
    /// What is between those that designs are compared for.
    pub network: NetworkSetup,
    /// What is between those of a layer, if that is another network.
    pub scale_up: Option<NetworkSetup>,
    /// Prompts and answers.
    pub inference: Option<InferenceSetup>,
    /// Requests that come and go.
    pub serving: Option<ServingSetup>,
    /// Iterations.
    pub training: Option<TrainingSetup>,
}

/// A network, and what runs on it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSetup {
    /// A preset, a shape or a file of a fabric.
    pub fabric: String,
    /// Keys of the fabric and of designs that differ.
    #[serde(default)]
    pub set: Table,
    /// Designs; the first is what the others are compared with. `A/B`: A for prompts, B for answers.
    pub designs: Vec<String>,
}

/// More than anybody asks for: sizes are still counted in 64 bits.
const MOST_TOKENS: u64 = 1 << 32;

/// When the last request may come: all times are counted in 64 bits of picoseconds, with as much again for what is served late.
const MOST_PICOS: f64 = u64::MAX as f64 / 2.0;

/// How much slower and faster than they were recorded requests may come.
const LOADS: RangeInclusive<f64> = 1e-3..=1e3;

impl Deployment {
    /// The preset of that name, or the file at that path, with these keys changed.
    ///
    /// # Errors
    /// If there is none, or it makes no sense; the message names the key.
    pub fn find(name: &str, changes: &[Override]) -> Result<Self, ScenarioError> {
        let mut document = Self::document(name)?;
        changes.iter().try_for_each(|change| document.set(change))?;
        Self::read(name, &document)
    }

    /// The preset of that name, or the file at that path, to be changed.
    ///
    /// # Errors
    /// If there is none, or it is no TOML.
    pub fn document(name: &str) -> Result<Document, ScenarioError> {
        match name.contains('/') || name.ends_with(".toml") {
            true => Document::read(name),
            false => Document::parse(name, Self::text(name)?),
        }
    }

    /// The text of a preset.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn text(name: &str) -> Result<&'static str, ScenarioError> {
        let file = PRESETS.get_file(format!("{name}.toml"));
        file.and_then(include_dir::File::contents_utf8).ok_or_else(|| ScenarioError::Unknown {
            what: "a deployment",
            known: Self::presets().join(", "),
            found: name.into(),
        })
    }

    /// The names of all presets.
    pub fn presets() -> Vec<String> {
        let stem =
            |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
        let mut names: Vec<_> = PRESETS.files().map(stem).collect();
        names.sort();
        names
    }

    /// Reads a document, which came from `place`.
    ///
    /// # Errors
    /// If a key is unknown or missing, or the whole makes no sense.
    pub fn read(place: &str, document: &Document) -> Result<Self, ScenarioError> {
        let deployment: Self = document.get()?;
        deployment.check().map_err(|error| ScenarioError::Key { place: place.into(), error })?;
        Ok(deployment)
    }

    fn check(&self) -> Result<(), String> {
        if self.network.designs.is_empty() || self.scale_up.as_ref().is_some_and(|up| up.designs.len() != 1) {
            return Err(
                "expected designs in `network.designs`, and one in `scale_up.designs`, found another number; name them"
                    .into(),
            );
        }
        if let Some(InferenceSetup { batch, prompt, context }) = self.inference {
            let length = prompt.max(context.unwrap_or(prompt));
            if [batch, prompt, context.unwrap_or(1)].contains(&0)
                || batch.saturating_mul(length) > MOST_TOKENS
            {
                return Err(format!(
                    "expected a batch and tokens of one or more, {MOST_TOKENS} together at most, in [inference], found {batch} of {length}; correct them"
                ));
            }
        }
        if let Some(TrainingSetup { batch, sequence, micro_batch, .. }) = self.training {
            let dp = u64::from(self.split.dp.max(1));
            let all = [batch, sequence, micro_batch];
            if all.contains(&0) || batch.saturating_mul(sequence) > MOST_TOKENS {
                return Err(format!(
                    "expected a batch, tokens and a `micro_batch` of one or more, {MOST_TOKENS} tokens at most, in [training], found {all:?}; correct them"
                ));
            }
            if !batch.is_multiple_of(dp.saturating_mul(micro_batch)) {
                return Err(format!(
                    "expected a batch in multiples of {dp} replicas with {micro_batch} sequences each, found {batch}; choose another"
                ));
            }
        }
        if let Some(ServingSetup { load, batch, tokens, .. }) = self.serving {
            if !(LOADS.contains(&load) && batch > 0 && tokens > 0) {
                return Err(format!(
                    "expected a `load` of {} to {} and a batch and tokens of one or more in [serving], found {load}, {batch} and {tokens}; correct them",
                    LOADS.start(),
                    LOADS.end()
                ));
            }
            let Split { pp, dp, .. } = self.split;
            if pp > 1 || dp > 1 {
                return Err(format!(
                    "expected one stage and one replica for [serving], found `split.pp` {pp} and `split.dp` {dp}; serve with one, and divide the load"
                ));
            }
        }
        if self.inference.is_none() && self.serving.is_none() && self.training.is_none() {
            return Err("expected [inference], [serving] or [training], found none; say what is asked".into());
        }
        self.accelerator.as_ref().map_or(Ok(()), Accelerator::check)
    }

    /// Its model, whose parts it has so many of.
    ///
    /// # Errors
    /// If there is none, or it cannot be split so.
    pub fn decoder(&self) -> Result<Decoder, String> {
        let model = Decoder::find(&self.model).map_err(|error| error.to_string())?;
        self.split.check(&model)?;
        Ok(model)
    }

    /// What says how long layers take.
    ///
    /// # Errors
    /// If there is no such accelerator, or no such profile.
    pub fn timing(&self) -> Result<Timing, String> {
        let accelerator = match (self.accelerator, &self.gpu) {
            (Some(_), Some(gpu)) => {
                return Err(format!(
                    "expected either `gpu` or [accelerator], found both, \"{gpu}\" among them; take one out"
                ));
            }
            (Some(accelerator), None) => accelerator,
            (None, gpu) => {
                Accelerator::find(gpu.as_deref().unwrap_or("h200")).map_err(|error| error.to_string())?
            }
        };
        let profile = match &self.profile {
            None => None,
            Some(name) => Some(match LayerProfile::text(name) {
                Some(text) => LayerProfile::parse(name, text).map_err(|error| error.to_string())?,
                None => {
                    let text = read_text(name).map_err(|error| {
                        format!("expected a profile (h100, h200) or a file, found {name}: {error}; name one")
                    })?;
                    LayerProfile::parse(name, &text).map_err(|error| error.to_string())?
                }
            }),
        };
        accelerator.rate(self.products).map_err(|error| error.to_string())?;
        Ok(Timing { accelerator, profile, products: self.products, launches: self.launches, stretch: 1.0 })
    }

    /// The requests that are asked for, and how many tokens there is room for.
    ///
    /// # Errors
    /// If there are none, or the longest does not fit beside the model.
    pub fn requests(
        &self,
        model: &Decoder,
        capacity: Option<ByteCount>,
    ) -> Result<Option<(Vec<Request>, u64)>, String> {
        let Some(serving) = &self.serving else { return Ok(None) };
        let requests = Requests::find(&serving.requests).map_err(|error| error.to_string())?.all;
        let of = |length| {
            Memory::of_inference(model, &self.split, Phase::Decode { batch: 1, length }, self.products)
        };
        let last = requests.last().map_or(0, |last| last.arrival.as_picos()) as f64;
        if last / serving.load > MOST_PICOS {
            return Err(format!(
                "expected requests of {:.0} days at most, found more at a load of {}; raise `serving.load`, or cut the trace",
                MOST_PICOS / 86400e12,
                serving.load
            ));
        }
        let (longest, each) = (longest(&requests), of(1).kept.bytes());
        let room = match capacity {
            None => u64::MAX,
            Some(capacity) => capacity.bytes().saturating_sub(of(0).weights.bytes()) / each.max(1),
        };
        if longest > room {
            return Err(format!(
                "expected memory for the {longest} tokens of the longest request beside {}, found it for {room}; raise `split.tp`, or take the request out",
                model.name
            ));
        }
        Ok(Some((requests, room)))
    }

    /// What each accelerator keeps, at most.
    pub fn memory(&self, model: &Decoder) -> Memory {
        let of_inference = self.inference.map(|inference| {
            let [prefill, decode] = [inference.prefill(), inference.decode()]
                .map(|phase| Memory::of_inference(model, &self.split, phase, self.products));
            if prefill.all() > decode.all() { prefill } else { decode }
        });
        // Of requests that come and go, what is left beside weights says how many there are at once.
        let of_serving = self.serving.as_ref().map(|_| {
            Memory::of_inference(model, &self.split, Phase::Decode { batch: 1, length: 0 }, self.products)
        });
        let of_training = self.training.map(|training| Memory::of_training(model, &self.split, &training));
        let all = of_inference.into_iter().chain(of_serving).chain(of_training);
        all.max_by_key(|memory| memory.all()).unwrap_or_default()
    }

    /// Refuses a model that does not fit into memory.
    ///
    /// # Errors
    /// What was expected and found, and what to do.
    pub fn fits(&self, model: &Decoder, capacity: Option<ByteCount>) -> Result<Memory, String> {
        let memory = self.memory(model);
        let Some(capacity) = capacity.filter(|&capacity| memory.all() > capacity) else { return Ok(memory) };
        let gb = |bytes: ByteCount| bytes.bytes() as f64 / 1e9;
        Err(format!(
            "expected {} in {:.0} GB of an accelerator, found {:.0} GB (weights {:.0}, gradients {:.0}, optimizer {:.0}, activations {:.0}, keys and values {:.0}); raise `split.tp`, `split.pp` or `split.zero`, or lower the batch",
            model.name,
            gb(capacity),
            gb(memory.all()),
            gb(memory.weights),
            gb(memory.gradients),
            gb(memory.optimizer),
            gb(memory.activations),
            gb(memory.kept)
        ))
    }
}
