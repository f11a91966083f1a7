//! The collectives of a step, with their bytes.
//!
//! Tensor parallelism adds up behind attention and behind the FFN (Shoeybi et al., Megatron-LM, 2019), in training as often on the way back.
//! Nothing is counted for the embedding, of which each accelerator may have a copy, nor for the choice of the next token, which takes some bytes.

use crate::phase::VALUE;
use crate::{Decoder, Phase, Split, TrainingSetup};
use quincunx_collective::Collective;
use quincunx_units::ByteCount;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// Those that share a layer.
    Tensor,
    /// Those that share a layer's experts.
    Expert,
    /// A stage and the next one.
    Pipeline,
    /// Those that have the same weights.
    Data,
}

/// A collective, or a message from a stage to the next one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Exchange {
    /// What is exchanged.
    pub what: &'static str,
    /// By whom.
    pub group: Group,
    /// How many of them there are in a group.
    pub ranks: u32,
    /// How; none: a message.
    pub collective: Option<Collective>,
    /// Bytes as nccl-tests count them: a rank's vector, of ReduceScatter and AllGather the whole one. Of Dispatch and Combine what a rank sends.
    pub bytes: ByteCount,
    /// How often: on the way of tokens through all stages; in training on an accelerator of the longest stage, in an iteration.
    pub times: u64,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// Tokens go through the model once.
    Forward(Phase),
    /// An iteration of training.
    Training(TrainingSetup),
}

/// The collectives of a pass of tokens through the model.
pub fn exchanges(model: &Decoder, split: &Split, phase: Phase) -> Vec<Exchange> {
    of(model, split, Step::Forward(phase))
}

/// The collectives of an iteration of training.
pub fn training_exchanges(model: &Decoder, split: &Split, training: &TrainingSetup) -> Vec<Exchange> {
    of(model, split, Step::Training(*training))
}

fn of(model: &Decoder, split: &Split, step: Step) -> Vec<Exchange> {
    let (tokens, passes, layers) = match step {
        Step::Forward(phase) => (phase.tokens(), 1, model.layers),
        Step::Training(training) => (
            training.micro_batch * training.sequence,
            // Forward and backward, and forward once more where nothing was kept.
            training.micro_batches(split) * if split.recompute { 3 } else { 2 },
            split.layers(model),
        ),
    };
    let mut all = Vec::new();
    let vector = ByteCount::new(tokens * model.hidden * VALUE);
    let mut add = |what, group, ranks, collective, bytes: ByteCount, times| {
        if ranks > 1 && times > 0 && bytes.bytes() > 0 {
            all.push(Exchange { what, group, ranks, collective, bytes, times });
        }
    };
    let expert_layers = layers.min(model.expert_layers());
    let apart = if split.experts_are_split() { 0 } else { expert_layers };
    // An FFN whose experts are apart is added up by those that combine.
    let sums = (2 * layers - apart) * passes;
    if split.sequence_parallel {
        add("activations", Group::Tensor, split.tp, Some(Collective::ReduceScatter), vector, sums);
        add("activations", Group::Tensor, split.tp, Some(Collective::AllGather), vector, sums);
    } else {
        add("activations", Group::Tensor, split.tp, Some(Collective::AllReduce), vector, sums);
    }
    if let Some(experts) = model.experts {
        // Of a token's experts those on the accelerator itself cost nothing; the tokens of those that share a layer are shared out.
        let ep = u64::from(split.ep);
        let sent =
            tokens.div_ceil(u64::from(split.tp)) * experts.taken * model.hidden * VALUE * (ep - 1) / ep;
        let times = expert_layers * passes;
        for (what, collective) in
            [("tokens to experts", Collective::Dispatch), ("tokens back", Collective::Combine)]
        {
            add(what, Group::Expert, split.ep, Some(collective), ByteCount::new(sent), times);
        }
    }
    let between = if split.sequence_parallel { vector / u64::from(split.tp) } else { vector };
    let stages = u64::from(split.pp);
    let Step::Training(training) = step else {
        add("activations", Group::Pipeline, split.pp, None, between, stages - 1);
        return all;
    };
    let hops = 2 * training.micro_batches(split) * u64::from(split.interleave);
    add("activations, gradients", Group::Pipeline, split.pp, None, between, hops);
    let [common, experts] = model.share(split).map(|weights| ByteCount::new(weights * VALUE));
    let replicas = (u64::from(split.tp) * u64::from(split.dp) / u64::from(split.ep)) as u32;
    let replicas = if split.experts_are_split() { split.dp } else { replicas };
    for (what, ranks, bytes) in [("gradients", split.dp, common), ("gradients of experts", replicas, experts)]
    {
        match split.zero {
            0 => add(what, Group::Data, ranks, Some(Collective::AllReduce), bytes, 1),
            stage => {
                add(what, Group::Data, ranks, Some(Collective::ReduceScatter), bytes, 1);
                // With shared weights, each pass asks for them.
                let times = if stage == 3 { 2 } else { 1 };
                add("weights", Group::Data, ranks, Some(Collective::AllGather), bytes, times);
            }
        }
    }
    all
}

impl Group {
    /// For those who look.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Expert => "expert",
            Self::Pipeline => "pipeline",
            Self::Data => "data",
        }
    }
}

impl Exchange {
    /// What its operation is called.
    pub fn operation(&self) -> String {
        self.collective.map_or_else(|| "send".into(), |collective| collective.to_string())
    }
}
