//! The ring of accelerators on a memory fabric that quantises what it sends, at every hop (RQ; SCIN 2.1, item 3).
//!
//! The vector is of binary32 values. At each step of the reduce-scatter a rank quantises its chunk, writes codes and scales
//! to its successor, and the successor dequantises them and adds its own values, so that a chunk is quantised once for each
//! rank that it passes. What the last rank has is quantised once more, and passed on as it is in the all-gather. The result
//! is [`BlockQuantization::rq_all_reduce`] to the bit.
//!
//! Steps are those of the ring ([`SharedRing`](crate::SharedRing)): data, fence, flag. Behind the vector lie a place for what goes
//! out, and one for what comes in at each step.

use quincunx_collective::{
    BlockQuantization, Collective, DataType, Payload, Quantized, Rank, ReduceOp, Reduction,
};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, Span, WordId,
};

/// What is added, whatever the caller's type: quantised vectors stand for binary32 values.
const ADD: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// A rank's place in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QuantizedRingConfig {
    /// Ranks.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// What shares of links are cut at, best whole packets.
    pub granule: usize,
    /// How chunks are quantised.
    pub quantization: BlockQuantization,
    /// Memory for quantised chunks: as much as [`QuantizedRing::scratch_bytes`].
    pub scratch: Span,
    /// The flag that comes by the first link; those of the others follow it.
    pub first_flag: WordId,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum QuantizedRingRejected {
    /// One at a time.
    #[error("expected an idle ring, found one that still runs a collective; wait for its end")]
    Busy,
    /// Nothing but sums of binary32 values everywhere.
    #[error("expected all_reduce of sums of f32 on a ring that quantises, found {0}, {1:?}")]
    Unsupported(Collective, Reduction),
    /// Too little scratch memory.
    #[error("expected {expected} bytes of scratch memory, found {found}")]
    Scratch {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Running {
    span: Span,
    /// From 0 to 2 (n - 1): the first half scatters sums, the second gathers them.
    step: usize,
    /// The flags of this step are set.
    flagged: bool,
    /// What has arrived is being dequantised and added.
    computing: bool,
}

/// A rank of the ring.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QuantizedRing {
    config: QuantizedRingConfig,
    running: Option<Running>,
    /// Steps of all collectives that are done: what the predecessor's flags are held against.
    done: u64,
}

impl QuantizedRing {
    /// A rank that has not run yet.
    pub const fn new(config: QuantizedRingConfig) -> Self {
        Self { config, running: None, done: 0 }
    }

    /// Scratch memory for vectors of `values` values: the longest quantised chunk, for each step and for what goes out.
    pub fn scratch_bytes(ranks: u16, quantization: BlockQuantization, values: usize) -> usize {
        place_bytes(ranks, quantization, values) * (2 * usize::from(ranks - 1) + 1)
    }

    fn ranks(&self) -> usize {
        usize::from(self.config.ranks)
    }

    /// The chunk that lies `back` ranks before this one's, as values: first and number. Chunks are cut at blocks.
    fn chunk(&self, span: Span, back: usize) -> (usize, usize) {
        let (ranks, block) = (self.ranks(), self.config.quantization.block());
        let (values, index) = (values_in(span), (self.config.rank.index() + 2 * ranks - back) % ranks);
        let start = |chunk: usize| values.min(block * (values.div_ceil(block) * chunk / ranks));
        (start(index), start(index + 1) - start(index))
    }

    /// The place for what goes out, and then those for what comes in at each step.
    fn place(&self, span: Span, number: usize) -> usize {
        let bytes = place_bytes(self.config.ranks, self.config.quantization, values_in(span));
        self.config.scratch.offset + number * bytes
    }

    /// Quantises a chunk to the place for what goes out.
    fn quantize<P: Payload>(&self, span: Span, (first, values): (usize, usize), memory: &mut P) {
        let start = span.offset + first * DataType::F32.size();
        let vector = memory.view(start..start + values * DataType::F32.size());
        let Quantized { codes, scales } = P::quantize(self.config.quantization, vector);
        let place = self.place(span, 0);
        memory.write(place, codes.view(0..codes.length()));
        memory.write(place + codes.length(), scales.view(0..scales.length()));
    }

    /// What the codes and scales at a place stand for.
    fn dequantize<P: Payload>(&self, span: Span, number: usize, values: usize, memory: &P) -> P {
        let quantization = self.config.quantization;
        let start = self.place(span, number);
        let behind = start + quantization.code_bytes(values);
        let (codes, scales) =
            (memory.view(start..behind), memory.view(behind..behind + quantization.scale_bytes(values)));
        P::dequantize(quantization, values, Quantized { codes, scales })
    }

    /// Sends what a step sends: a chunk that is quantised here, or one that came at the step before and is passed on.
    fn send<P: Payload>(&self, running: &Running, memory: &mut dyn SharedMemory<P>) {
        let Running { span, step, .. } = *running;
        let (quantization, chunk) = (self.config.quantization, self.chunk(span, step));
        let last_scattered = self.ranks() - 1;
        let mut source = 0;
        if step <= last_scattered {
            self.quantize(span, chunk, memory.memory());
        } else {
            source = step;
        }
        if step == last_scattered {
            // The rank that holds the sum has no more of it than the others get.
            let values = self.dequantize(span, 0, chunk.1, memory.memory());
            memory
                .memory()
                .write(span.offset + chunk.0 * DataType::F32.size(), values.view(0..values.length()));
        }
        let length = quantization.code_bytes(chunk.1) + quantization.scale_bytes(chunk.1);
        let source = Span { offset: self.place(span, source), length };
        let (target, links) = (self.place(span, 1 + step), memory.links());
        for link in 0..links {
            let share = source.part(usize::from(link), usize::from(links), self.config.granule);
            memory.write(PortId(link), self.successor(), share, target + share.offset - source.offset);
        }
        memory.fence();
    }

    fn successor(&self) -> Rank {
        Rank((self.config.rank.0 + 1) % self.config.ranks)
    }

    fn flag(&self, link: u16) -> WordId {
        WordId(self.config.first_flag.0 + link)
    }

    /// Begins to compute with what has arrived, if it has.
    fn proceed<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) {
        let Some(running) = self.running else { return };
        let arrived = |link| memory.word(self.flag(link)) > self.done;
        if running.computing || !running.flagged || !(0..memory.links()).all(arrived) {
            return;
        }
        self.running = Some(Running { computing: true, ..running });
        let (_, values) = self.chunk(running.span, running.step + 1);
        // As long as adding as many values of binary16, which the vectors would be of without quantization.
        let adds = running.step < self.ranks() - 1;
        memory.compute(if adds { values * DataType::F16.size() } else { 0 });
    }

    /// Takes in what has arrived and goes to the next step; whether there is none.
    fn next_step<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) -> bool {
        let Some(running @ Running { computing: true, .. }) = self.running else { return false };
        let Running { span, step, .. } = running;
        let (first, values) = self.chunk(span, step + 1);
        let arrived = self.dequantize(span, 1 + step, values, memory.memory());
        let (start, view) = (span.offset + first * DataType::F32.size(), arrived.view(0..arrived.length()));
        if step < self.ranks() - 1 {
            memory.memory().reduce(start, view, ADD);
        } else {
            memory.memory().write(start, view);
        }
        self.done += 1;
        let running = Running { span, step: step + 1, flagged: false, computing: false };
        if running.step == 2 * (self.ranks() - 1) {
            self.running = None;
            return true;
        }
        self.running = Some(running);
        self.send(&running, memory);
        self.proceed(memory);
        false
    }
}

fn values_in(span: Span) -> usize {
    span.length / DataType::F32.size()
}

/// Bytes of the longest quantised chunk.
fn place_bytes(ranks: u16, quantization: BlockQuantization, values: usize) -> usize {
    let longest = values.div_ceil(quantization.block()).div_ceil(usize::from(ranks)) * quantization.block();
    quantization.code_bytes(longest) + quantization.scale_bytes(longest)
}

impl From<QuantizedRingRejected> for KernelRefusal {
    fn from(rejected: QuantizedRingRejected) -> Self {
        Self::of(&rejected)
    }
}

impl<P: Payload> Kernel<P> for QuantizedRing {
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.running.is_some() {
            return Err(QuantizedRingRejected::Busy.into());
        }
        let InPlaceRequest { collective, reduction, span } = request;
        if collective != Collective::AllReduce
            || reduction != ADD
            || !span.length.is_multiple_of(DataType::F32.size())
        {
            return Err(QuantizedRingRejected::Unsupported(collective, reduction).into());
        }
        let QuantizedRingConfig { ranks, quantization, scratch, .. } = self.config;
        let expected = Self::scratch_bytes(ranks, quantization, values_in(span));
        if expected > scratch.length {
            return Err(QuantizedRingRejected::Scratch { expected, found: scratch.length }.into());
        }
        if ranks == 1 {
            // Nothing is sent, but what the codes cannot say is lost all the same.
            let all = (0, values_in(span));
            self.quantize(span, all, memory.memory());
            let values = self.dequantize(span, 0, all.1, memory.memory());
            memory.memory().write(span.offset, values.view(0..values.length()));
            return Ok(true);
        }
        let running = Running { span, step: 0, flagged: false, computing: false };
        self.running = Some(running);
        self.send(&running, memory);
        Ok(false)
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        match (event, &mut self.running) {
            (MemoryEvent::Fenced, Some(running)) => {
                running.flagged = true;
                for link in 0..memory.links() {
                    memory.store(PortId(link), self.successor(), self.flag(link), self.done + 1);
                }
                self.proceed(memory);
            }
            (MemoryEvent::Changed { .. }, Some(_)) => self.proceed(memory),
            (MemoryEvent::Computed, Some(_)) => return self.next_step(memory),
            _ => {}
        }
        false
    }

    fn assert_invariants(&self) {
        let Some(running) = self.running else { return };
        assert!(running.step < 2 * (self.ranks() - 1), "a step of the collective");
        assert!(running.flagged || !running.computing, "computes what its own step has made room for");
    }
}
