//! A model on a cluster, as `predict` and `plan` are told it: a file or a preset, and what differs.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_language::Deployment;
use quincunx_scenario::{Document, Fabric, Override, Scenario};

use crate::Failure;
use crate::predicted::Case;

/// A file or a preset, and what differs.
#[derive(Args)]
pub(crate) struct Asked {
    /// A preset or a file; without one, with --fabric, what people ask first of a model on such a network
    #[arg(value_name = "FILE|PRESET")]
    pub(crate) deployment: Option<String>,
    /// A model's name or its config.json; short for --set model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Accelerators that share each layer; short for --set split.tp
    #[arg(long)]
    pub(crate) tp: Option<u32>,
    /// Sequences at once; short for --set inference.batch
    #[arg(long)]
    pub(crate) batch: Option<u32>,
    /// Tokens of a prompt; short for --set inference.prompt
    #[arg(long)]
    pub(crate) prompt: Option<u32>,
    /// Requests that come and go: conversations, or a trace of Azure's or BurstGPT's; short for --set serving.requests
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) requests: Option<String>,
    /// How many times as fast as recorded they come; short for --set serving.load
    #[arg(long)]
    pub(crate) load: Option<f64>,
    /// A preset, a shape or a file of a fabric; short for --set network.fabric
    #[arg(long, visible_alias = "cluster")]
    pub(crate) fabric: Option<String>,
    /// Designs, several with commas, A/B: A for prompts and B for answers; auto: the fastest, and why [default: the file's `network.designs`]
    #[arg(long, value_delimiter = ',')]
    pub(crate) design: Vec<String>,
    /// Set a key of the file: split.pp=2, products=fp8, network.set.link.rate=50GB/s
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Override>,
}

/// What is asked of accelerators around switches if nobody says more: the answers of a server.
const ON_MEMORY: &str = r#"
model = "llama2-70b"
gpu = "h200"
profile = "h200"
[network]
designs = ["auto"]
[inference]
batch = 8
prompt = 1024
"#;

/// The same of hosts: training, each with a whole model.
const ON_PACKETS: &str = r#"
model = "llama3-8b"
gpu = "h200"
[split]
recompute = true
[network]
designs = ["auto"]
[training]
sequence = 4096
overlap = true
"#;

/// Sequences of an iteration, for each replica.
const SEQUENCES: u64 = 16;

impl Asked {
    /// What is asked, where `keys` have these values.
    pub(crate) fn case(&self, keys: &[(String, String)], catalog: Catalog) -> Result<Case, Failure> {
        let changes = self.changes(keys)?;
        let (name, mut document) = match (&self.deployment, &self.fabric) {
            (Some(name), _) => (name.as_str(), Deployment::document(name).map_err(Failure::input)?),
            (None, Some(fabric)) => (fabric.as_str(), first_question(fabric, catalog)?),
            (None, None) => {
                return Err(Failure::Input(format!(
                    "expected a file, a preset ({}) or --fabric, found none; name one",
                    Deployment::presets().join(", ")
                )));
            }
        };
        for change in &changes {
            document.set(change).map_err(Failure::input)?;
        }
        let deployment = Deployment::read(name, &document).map_err(Failure::input)?;
        Ok(Case { keys: keys.to_vec(), deployment })
    }

    /// What differs, and `keys` after it.
    pub(crate) fn changes(&self, keys: &[(String, String)]) -> Result<Vec<Override>, Failure> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let short = [
            ("model", self.model.clone()),
            ("split.tp", number(self.tp)),
            ("inference.batch", number(self.batch)),
            ("inference.prompt", number(self.prompt)),
            ("serving.requests", self.requests.clone()),
            ("serving.load", self.load.map(|load| format!("{load:?}"))),
            ("network.fabric", self.fabric.clone()),
        ];
        let mut changes = Vec::new();
        for (key, value) in short.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            changes.push(format!("{key}={value}").parse().map_err(Failure::input)?);
        }
        if !self.design.is_empty() {
            let designs = self.design.iter().map(|design| design.as_str().into()).collect();
            changes.push(Override { key: "network.designs".into(), value: toml::Value::Array(designs) });
        }
        changes.extend(self.set.iter().cloned());
        for (key, value) in keys {
            changes.push(format!("{key}={value}").parse().map_err(Failure::input)?);
        }
        Ok(changes)
    }
}

/// What people ask first of a model on all of a fabric's ranks.
fn first_question(fabric: &str, catalog: Catalog) -> Result<Document, Failure> {
    let scenario = Scenario::find(fabric, &[], catalog).map_err(Failure::input)?;
    let ranks = u64::from(scenario.ranks());
    let (text, keys) = match scenario.fabric {
        Fabric::Memory(_) => (ON_MEMORY, vec![("split.tp", ranks)]),
        _ => (ON_PACKETS, vec![("split.dp", ranks), ("training.batch", ranks * SEQUENCES)]),
    };
    let mut document = Document::parse(fabric, text).map_err(Failure::input)?;
    for (key, value) in keys {
        let change = format!("{key}={value}").parse::<Override>().map_err(Failure::input)?;
        document.set(&change).map_err(Failure::input)?;
    }
    Ok(document)
}
