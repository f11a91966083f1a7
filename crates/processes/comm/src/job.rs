//! A collective as the node's thread runs it: cut into chunks that follow each other, each a collective of its own.

use crate::buffers::{Sink, Source};
use crate::handle::Promise;
use quincunx_collective::{Collective, DataType, Numbers, Op, Payload, Rank, Reduction, Routes};
use quincunx_engine::Terms;
use quincunx_runtime::{CallSite, Finished, NewCall};
use std::time::Instant;

/// Bytes of the longest vector, all ranks' parts together, that is exchanged at once.
const CHUNK: usize = 1 << 20;

/// A job of a group's queue. The buffers come first: they are given back before anybody hears of the end.
pub(crate) struct Job {
    /// What the application has called, where and when.
    pub(crate) called: Collective,
    pub(crate) site: Option<CallSite>,
    pub(crate) at: Instant,
    /// What runs.
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    /// Whether the result is divided by the number of ranks.
    pub(crate) averages: bool,
    pub(crate) source: Box<dyn Source>,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) promise: Promise,
    pub(crate) deadline: Instant,
    /// Bytes of a vector, or of a rank's part.
    pub(crate) length: usize,
    /// Where the next chunk begins.
    pub(crate) next: usize,
    /// Whether the first chunk has begun: a Barrier has one without bytes.
    pub(crate) begun: bool,
    pub(crate) under_way: usize,
    /// Of a Dispatch or a Combine, which is one chunk whatever its length.
    pub(crate) tokens: Option<TokenBuffers>,
}

/// The buffers of a Dispatch or a Combine.
#[derive(Debug)]
pub(crate) struct TokenBuffers {
    /// Whom the tokens of a Dispatch are for.
    pub(crate) routes: Option<Routes>,
    /// Bytes.
    pub(crate) input: usize,
    /// Bytes.
    pub(crate) output: usize,
    /// In a Dispatch's output, every so many bytes: where a token says that it is there.
    pub(crate) marks: Option<Marks>,
}

/// Where tokens say that they are there: an output that was used before must say nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    /// Bytes of a place.
    pub(crate) stride: usize,
    /// Where in each.
    pub(crate) at: usize,
    /// Bytes of the mark.
    pub(crate) length: usize,
}

/// Which bytes of a vector or of each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) from: usize,
    pub(crate) length: usize,
}

/// Elements of any type lie in multiples of this, and packets are multiples of four bytes.
const GRAIN: usize = DataType::LONGEST;

impl Job {
    /// Whether all chunks have begun.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun && self.next >= self.length
    }

    /// What the application has asked for: how elements combine, and what they are.
    const fn operation(&self) -> (Op, DataType) {
        let Reduction { op, data_type } = self.reduction;
        (if self.averages { Op::Average } else { Op::Reduce(op) }, data_type)
    }

    /// What is noted of it.
    pub(crate) fn call(&self) -> NewCall {
        NewCall {
            collective: self.called,
            reduction: self.operation(),
            bytes: self.length as u64,
            site: self.site.clone(),
            called: self.at,
        }
    }

    /// The next chunk.
    pub(crate) fn take_chunk(&mut self, ranks: usize) -> Chunk {
        let parts = match self.collective {
            Collective::ReduceScatter | Collective::AllGather => ranks,
            _ => 1,
        };
        let longest =
            if self.tokens.is_some() { self.length } else { (CHUNK / parts).next_multiple_of(4096) };
        let from = self.next;
        let length = longest.min(self.length - from);
        self.next += length;
        self.begun = true;
        Chunk { from, length }
    }

    /// What ranks must agree on of the job that a chunk, the last one taken, is of. The job has as many bytes at all ranks if all its chunks
    /// have, and end together.
    pub(crate) fn terms(&self, chunk: Chunk) -> Terms {
        Terms {
            averages: self.averages,
            padding: (chunk.length.next_multiple_of(GRAIN) - chunk.length) as u8,
            continues: !self.is_begun(),
            ..Terms::WHOLE
        }
    }

    /// Buffers for a chunk, with what this rank brings in. `spare` are some that may be used again.
    pub(crate) fn fill(&mut self, chunk: Chunk, (me, ranks): (Rank, usize), spare: &mut Spare) -> Finished {
        if let Some(tokens) = &self.tokens {
            let (mut input, mut output) = (spare.take(tokens.input), spare.take(tokens.output));
            self.source.read(0, input.bytes_mut());
            if let Some(Marks { stride, at, length }) = tokens.marks {
                for place in output.bytes_mut().chunks_exact_mut(stride) {
                    place[at..][..length].fill(0);
                }
            }
            return Finished { input, output };
        }
        let Chunk { from, length } = chunk;
        let padded = length.next_multiple_of(GRAIN);
        let (input, output) = match self.collective {
            Collective::Barrier => (0, 0),
            // Whole elements, mostly without padding; zeros at the end change nothing that is written.
            Collective::ReduceScatter => (padded * ranks, padded),
            Collective::AllGather => (padded, padded * ranks),
            _ => (padded, padded),
        };
        let mut input = spare.take(input);
        let output = spare.take(output);
        let bytes = input.bytes_mut();
        match self.collective {
            Collective::Barrier => {}
            Collective::Broadcast { root } if root != me => {}
            Collective::ReduceScatter => {
                for rank in 0..ranks {
                    self.source.read(rank * self.length + from, &mut bytes[rank * padded..][..length]);
                    bytes[rank * padded + length..][..padded - length].fill(0);
                }
            }
            _ => {
                self.source.read(from, &mut bytes[..length]);
                bytes[length..].fill(0);
            }
        }
        Finished { input, output }
    }

    /// Takes the result of a chunk.
    pub(crate) fn empty(&mut self, chunk: Chunk, (me, ranks): (Rank, usize), buffers: &mut Finished) {
        let Chunk { from, length } = chunk;
        let padded = length.next_multiple_of(GRAIN);
        let output = &mut buffers.output;
        if self.tokens.is_some() {
            return self.sink.write(0, output.bytes());
        }
        if self.averages {
            output.divide(ranks as u16, self.reduction.data_type);
        }
        match self.collective {
            Collective::Barrier => {}
            Collective::Reduce { root } if root != me => {}
            // The root has what it sends, and may have no other place for it.
            Collective::Broadcast { root } if root == me && self.sink.length() == 0 => {}
            Collective::AllGather if padded == 0 => {}
            Collective::AllGather => {
                for (rank, part) in output.bytes().chunks_exact(padded).enumerate() {
                    self.sink.write(rank * self.length + from, &part[..length]);
                }
            }
            _ => self.sink.write(from, &output.bytes()[..length]),
        }
    }

    /// Bytes that a chunk copies, both ways.
    pub(crate) fn copied(&self, chunk: Chunk, ranks: usize) -> u64 {
        if let Some(TokenBuffers { input, output, .. }) = self.tokens {
            return (input + output) as u64;
        }
        let parts = match self.collective {
            Collective::ReduceScatter | Collective::AllGather => ranks + 1,
            _ => 2,
        };
        (chunk.length * parts) as u64
    }
}

/// Buffers whose collective has ended, to be used again: fresh memory costs a page fault for each page.
#[derive(Default)]
pub(crate) struct Spare(Vec<Numbers>);

/// As many are kept.
const KEPT: usize = 12;

impl Spare {
    fn take(&mut self, length: usize) -> Numbers {
        match self.0.iter().position(|one| one.length() == length) {
            Some(index) => self.0.swap_remove(index),
            None => Numbers::zeroed(length),
        }
    }

    pub(crate) fn keep(&mut self, buffers: Finished) {
        for one in [buffers.input, buffers.output] {
            if self.0.len() == KEPT {
                self.0.remove(0);
            }
            if one.length() > 0 {
                self.0.push(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Nothing;
    use crate::handle::pair;
    use quincunx_collective::ReduceOp;

    fn job(length: usize, averages: bool) -> Job {
        Job {
            called: Collective::AllReduce,
            site: None,
            at: Instant::now(),
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
            averages,
            source: Box::new(vec![0_u8; length]),
            sink: Box::new(Nothing),
            promise: pair().0,
            deadline: Instant::now(),
            length,
            next: 0,
            begun: false,
            under_way: 0,
            tokens: None,
        }
    }

    /// The length of each chunk's buffers, and what ranks agree on beside it.
    fn chunks(mut job: Job) -> Vec<(usize, Terms)> {
        let mut chunks = Vec::new();
        while !job.is_begun() {
            let chunk = job.take_chunk(4);
            let buffers = job.fill(chunk, (Rank(0), 4), &mut Spare::default());
            chunks.push((buffers.input.length(), job.terms(chunk)));
        }
        chunks
    }

    #[test]
    fn jobs_that_differ_in_length_alone_differ_in_a_chunk() {
        // In the padding of one element, in whether a chunk follows, in nothing at all.
        let lengths = [0, 4, 8, 12, CHUNK, CHUNK + 4, CHUNK + 8, 2 * CHUNK];
        let mut all: Vec<_> = lengths.map(|length| chunks(job(length, false))).into();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        // Whatever one job has in full as its last chunk another one has as one that more follows.
        assert_ne!(all[4][0], all[5][0]);
    }

    #[test]
    fn an_average_is_no_sum() {
        assert_ne!(chunks(job(8, true)), chunks(job(8, false)));
    }
}
