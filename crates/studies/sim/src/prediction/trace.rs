//! A step of a language model as a Chakra trace, which every rank runs: [`measure_traces`](crate::measure_traces) replays it on any fabric.

use super::error::PredictionError;
use super::question::{Prediction, Question};
use quincunx_chakra::{Cost, Node, Operation, Trace, Work};
use quincunx_collective::Collective;
use quincunx_language::{Exchange, Group, TrainingTime};
use quincunx_units::{ByteCount, Duration};

/// The nodes so far, each after the one before; ids are places, from one on.
#[derive(Default)]
struct Chain(Vec<Node>);

impl Chain {
    fn add(&mut self, name: String, duration: Duration, work: Work) {
        let id = self.0.len() as u64 + 1;
        let data = self.0.last().map(|last| last.id).into_iter().collect();
        self.0.push(Node { id, name, control: Vec::new(), data, duration, is_on_host: false, work });
    }

    fn exchange(&mut self, name: String, exchange: &Exchange) -> Result<(), PredictionError> {
        let collective = match exchange.collective {
            Some(collective) if !matches!(exchange.group, Group::Expert | Group::Pipeline) => collective,
            _ => return Err(PredictionError::Untraceable { what: "messages of experts or stages" }),
        };
        // Of an AllGather, Chakra has what a rank brings in.
        let parts = if collective == Collective::AllGather { u64::from(exchange.ranks) } else { 1 };
        let size = ByteCount::new(exchange.bytes.bytes() / parts);
        let work = Work::Collective { operation: Operation::Collective(collective), size, group: None };
        self.add(name, Duration::ZERO, work);
        Ok(())
    }

    /// What is computed, in as many pieces as there are exchanges, and each exchange behind its piece.
    fn phase(
        &mut self,
        name: &str,
        compute: Duration,
        exchanges: &[Exchange],
    ) -> Result<(), PredictionError> {
        let rounds = exchanges.iter().map(|exchange| exchange.times).max().unwrap_or(1);
        let piece = compute / rounds;
        for round in 0..rounds {
            let rest = if round == 0 { compute - piece * rounds } else { Duration::ZERO };
            self.add(format!("{name} {round}"), piece + rest, Work::Compute(Cost::default()));
            for exchange in exchanges.iter().filter(|exchange| exchange.times > round) {
                self.exchange(format!("{} {round}", exchange.operation()), exchange)?;
            }
        }
        Ok(())
    }
}

impl Question<'_> {
    /// The trace of `prediction`: a prompt and a token of its answer behind it, or an iteration.
    ///
    /// # Errors
    /// If it has parts that a trace of one group cannot say.
    pub fn trace(&self, prediction: &Prediction) -> Result<Trace, PredictionError> {
        let cannot = |what| Err(PredictionError::Untraceable { what });
        let Prediction { inference, serving, training, .. } = prediction;
        if serving.is_some() {
            return cannot("requests that come and go");
        }
        let mut chain = Chain::default();
        let only = |exchanges: &[(Exchange, Duration)]| -> Vec<Exchange> {
            exchanges.iter().map(|(exchange, _)| *exchange).collect()
        };
        let tensor = inference.iter().flat_map(|found| &found.prefill.exchanges);
        let all: Vec<&(Exchange, Duration)> =
            tensor.chain(training.iter().flat_map(|found| &found.exchanges)).collect();
        if all.windows(2).any(|pair| pair[0].0.group != pair[1].0.group) {
            return cannot("groups of several kinds");
        }
        if let Some(found) = inference {
            chain.phase("prefill", found.prefill.compute, &only(&found.prefill.exchanges))?;
            chain.phase("decode", found.decode.compute, &only(&found.decode.exchanges))?;
        }
        if let Some(TrainingTime { compute, replicas, exposed, exchanges, .. }) = training {
            if exposed != replicas {
                return cannot("gradients that are exchanged beside the backward pass (`training.overlap`)");
            }
            let exchanges = only(exchanges);
            let is_behind = |exchange: &&Exchange| exchange.group == Group::Data;
            let beside: Vec<Exchange> = exchanges.iter().filter(|one| !is_behind(one)).copied().collect();
            chain.phase("compute", *compute, &beside)?;
            for exchange in exchanges.iter().filter(is_behind) {
                for _ in 0..exchange.times {
                    chain.exchange(exchange.operation(), exchange)?;
                }
            }
        }
        Ok(Trace::new(chain.0))
    }
}
