//! A case with its names understood: what ranks bring in, and what must come of it.

use quincunx_collective::{Collective, DataType, Numbers, Op, Payload, Rank as RankNumber, Reduction};
use quincunx_collective::{exact, pattern};
use std::fmt;
use std::ops::Range;

use crate::error::WorkerError;
use crate::plan::Case;

/// A case with its names understood.
pub(crate) struct Job {
    pub(crate) collective: Collective,
    /// What was asked for ...
    pub(crate) op: Op,
    /// ... and what is done on the way to it.
    pub(crate) reduction: Reduction,
    /// Whose vectors it puts together.
    ranks: Range<u16>,
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl Job {
    pub(crate) fn new(case: &Case, ranks: Range<u16>) -> Result<Self, WorkerError> {
        let wrong = |error: &dyn fmt::Display| WorkerError::plan(error);
        let collective: Collective = case.collective.parse().map_err(|error| wrong(&error))?;
        let collective = collective.with_root(RankNumber(case.root));
        let op = case.op.parse::<Op>().map_err(|error| wrong(&error))?;
        let reduction = Reduction {
            op: op.on_the_way(),
            data_type: case.data_type.parse::<DataType>().map_err(|error| wrong(&error))?,
        };
        let element = reduction.data_type.size();
        let whole = case.bytes as usize / element * element;
        let part = whole / ranks.len() / element * element;
        let (input, output) = match collective {
            Collective::Barrier => (0, 0),
            Collective::ReduceScatter => (part * ranks.len(), part),
            Collective::AllGather => (part, part * ranks.len()),
            _ => (whole, whole),
        };
        Ok(Self { collective, op, reduction, ranks, input, output })
    }

    /// What a rank brings in.
    pub(crate) fn vector(&self, rank: RankNumber) -> Numbers {
        if self.collective.reduces() {
            exact(rank, self.input, self.reduction)
        } else {
            pattern(rank, self.input, self.reduction.data_type)
        }
    }

    /// What is left to do with a result: ranks divide an average.
    pub(crate) fn finish(&self, output: &mut Numbers) {
        if self.op == Op::Average && self.collective.reduces() {
            output.divide(self.ranks.len() as u16, self.reduction.data_type);
        }
    }

    /// What this rank must get; computed vector by vector, so that memory stays at a few vectors. `None`: nothing.
    pub(crate) fn expected(&self, me: RankNumber) -> Option<Numbers> {
        let sum = |from: usize, length: usize| {
            let mut sum = Numbers::zeroed(length);
            for rank in self.ranks.clone() {
                let vector = self.vector(RankNumber(rank));
                let piece = vector.view(from..from + length);
                if rank == self.ranks.start {
                    sum.write(0, piece);
                } else {
                    sum.reduce(0, piece, self.reduction);
                }
            }
            self.finish(&mut sum);
            sum
        };
        match self.collective {
            Collective::AllReduce => Some(sum(0, self.input)),
            Collective::Reduce { root } => (root == me).then(|| sum(0, self.input)),
            Collective::Broadcast { root } => Some(self.vector(root)),
            Collective::Barrier | Collective::Dispatch | Collective::Combine => None,
            Collective::ReduceScatter => Some(sum(me.index() * self.output, self.output)),
            Collective::AllGather => {
                let mut all = Numbers::zeroed(self.output);
                for (place, rank) in self.ranks.clone().enumerate() {
                    let vector = self.vector(RankNumber(rank));
                    all.write(place * self.input, vector.view(0..self.input));
                }
                Some(all)
            }
        }
    }
}
