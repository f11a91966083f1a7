//! `quincunx model`.

use clap::{Args, Subcommand};
use quincunx_language::{
    Decoder, Exchange, Memory, Phase, Products, Split, TrainingSetup, exchanges, training_exchanges,
};
use serde_json::{Value, json};

use crate::Failure;
use crate::out::say;
use crate::results::{Printed, envelope};
use crate::table::{Align, table};

/// `quincunx model`.
#[derive(Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a model's size, what an accelerator keeps of it, and every collective of a step with its bytes
    Show(Show),
    /// List the models that there are
    List,
}

#[derive(Args)]
#[command(after_help = "Examples:
  quincunx model show llama2-70b --tp 8
  quincunx model show ./config.json --tp 8 --pp 4 --dp 16 --zero 1 --batch 512 --length 4096 --train
  quincunx model show mixtral-8x7b --tp 8 --ep 8

A collective's bytes are those that nccl-tests count. Tokens to experts and back are what a rank sends. Without --train the passes of a prompt and
of a token; with it an iteration, whose --batch is that of all replicas.")]
struct Show {
    /// A model's name, or the path of its config.json
    model: String,
    /// Accelerators that share each layer
    #[arg(long, default_value_t = 1)]
    tp: u32,
    /// Stages of layers
    #[arg(long, default_value_t = 1)]
    pp: u32,
    /// Replicas
    #[arg(long, default_value_t = 1)]
    dp: u32,
    /// Accelerators that share the experts of a layer
    #[arg(long, default_value_t = 1)]
    ep: u32,
    /// What replicas share: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 weights too
    #[arg(long, default_value_t = 0)]
    zero: u8,
    /// Share what lies between products, too
    #[arg(long)]
    sequence_parallel: bool,
    /// Sequences
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// Tokens of each
    #[arg(long, default_value_t = 2048)]
    length: u64,
    /// An iteration of training, one sequence a microbatch
    #[arg(long)]
    train: bool,
    #[command(flatten)]
    printed: Printed,
}

impl Model {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Show(show) => show.run(),
            Command::List => {
                list();
                Ok(())
            }
        }
    }
}

fn list() {
    let columns = [
        ("model", Align::Left),
        ("parameters", Align::Right),
        ("layers", Align::Right),
        ("hidden", Align::Right),
    ];
    let row = |name: String| {
        let model = Decoder::find(&name).expect("those that there are can be read");
        vec![name, billions(model.parameters()), model.layers.to_string(), model.hidden.to_string()]
    };
    let rows: Vec<Vec<String>> = Decoder::names().into_iter().map(row).collect();
    say!("{}", table(&columns, &rows).trim_end());
}

impl Show {
    fn run(self) -> Result<(), Failure> {
        let model = Decoder::find(&self.model).map_err(Failure::input)?;
        let Self { tp, pp, dp, ep, zero, sequence_parallel, batch, length, .. } = self;
        let split = Split { tp, pp, dp, ep, zero, sequence_parallel, ..Split::default() };
        split.check(&model).map_err(Failure::Input)?;
        const MOST: u64 = 1 << 32;
        if batch == 0 || length == 0 || batch.saturating_mul(length) > MOST {
            return Err(Failure::Input(format!(
                "expected a batch and a length of one or more, {MOST} tokens at most, found {batch} and {length}; choose others"
            )));
        }
        let (phases, memory) = if self.train {
            if !batch.is_multiple_of(u64::from(dp)) {
                return Err(Failure::Input(format!(
                    "expected a --batch in multiples of {dp} replicas, found {batch}; choose another"
                )));
            }
            let training = TrainingSetup::new(batch, length);
            let memory = Memory::of_training(&model, &split, &training);
            (vec![("training", training_exchanges(&model, &split, &training))], memory)
        } else {
            let [prefill, decode] = [Phase::Prefill { batch, length }, Phase::Decode { batch, length }];
            let memory = Memory::of_inference(&model, &split, decode, Products::Fp16);
            let of = |phase| exchanges(&model, &split, phase);
            (vec![("prefill", of(prefill)), ("decode", of(decode))], memory)
        };
        if self.printed.is_for_programs() {
            self.printed.print(&object(&model, &phases, &memory));
            return Ok(());
        }
        say!(
            "{}: {} parameters, {} of them for a token; {} layers of {} values",
            model.name,
            billions(model.parameters()),
            billions(model.active_parameters()),
            model.layers,
            model.hidden
        );
        let gb = |bytes: quincunx_units::ByteCount| format!("{:.1} GB", bytes.bytes() as f64 / 1e9);
        let parts = [
            ("weights", memory.weights),
            ("gradients", memory.gradients),
            ("optimizer", memory.optimizer),
            ("activations", memory.activations),
            ("keys and values", memory.kept),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, bytes)| bytes.bytes() > 0)
            .map(|(name, bytes)| format!("{name} {}", gb(bytes)))
            .collect();
        say!("an accelerator of {} keeps {}: {}", split.accelerators(), gb(memory.all()), parts.join(", "));
        let columns = [
            ("phase", Align::Left),
            ("group", Align::Left),
            ("ranks", Align::Right),
            ("collective", Align::Left),
            ("what", Align::Left),
            ("bytes", Align::Right),
            ("times", Align::Right),
        ];
        let row = |phase: &str, exchange: &Exchange| {
            vec![
                phase.to_owned(),
                exchange.group.name().into(),
                exchange.ranks.to_string(),
                exchange.operation(),
                exchange.what.into(),
                exchange.bytes.to_string(),
                exchange.times.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = phases
            .iter()
            .flat_map(|(phase, all)| all.iter().map(move |exchange| row(phase, exchange)))
            .collect();
        match rows.is_empty() {
            true => say!("nothing is exchanged"),
            false => say!("{}", table(&columns, &rows).trim_end()),
        }
        Ok(())
    }
}

fn object(model: &Decoder, phases: &[(&str, Vec<Exchange>)], memory: &Memory) -> Value {
    let row = |phase: &str, exchange: &Exchange| {
        json!({
            "phase": phase,
            "group": exchange.group.name(),
            "ranks": exchange.ranks,
            "collective": exchange.operation(),
            "exchanged": exchange.what,
            "bytes": exchange.bytes.bytes(),
            "times": exchange.times,
        })
    };
    let rows: Vec<Value> =
        phases.iter().flat_map(|(phase, all)| all.iter().map(move |exchange| row(phase, exchange))).collect();
    let mut object = envelope("model show", &rows);
    object["model"] = json!({
        "name": model.name,
        "parameters": model.parameters(),
        "active_parameters": model.active_parameters(),
        "layers": model.layers,
        "hidden": model.hidden,
    });
    object["memory"] = json!({
        "weights": memory.weights.bytes(),
        "gradients": memory.gradients.bytes(),
        "optimizer": memory.optimizer.bytes(),
        "activations": memory.activations.bytes(),
        "keys_and_values": memory.kept.bytes(),
    });
    object
}

/// Parameters as people say them.
fn billions(parameters: u64) -> String {
    match parameters {
        ..1_000_000_000 => format!("{:.0} M", parameters as f64 / 1e6),
        _ => format!("{:.1} B", parameters as f64 / 1e9),
    }
}
