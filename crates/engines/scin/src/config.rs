//! What an in-switch accelerator is set up with.

use crate::Mutation;
use alloc::vec::Vec;
use quincunx_collective::{BlockQuantization, Reduction};
use quincunx_engine::shared_memory::WordId;
use quincunx_units::{BitRate, Duration};
use quincunx_wire::flit::{FlitFormat, MAX_TAG, NodeId};

/// How long the compute units take, fully pipelined (SCIN 4.1: 20 cycles, 100 with quantization).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ComputeLatency {
    /// The accumulator's.
    pub regular: Duration,
    /// Of dequantizer, accumulator and quantizer together.
    pub quantized: Duration,
}

/// What an in-switch accelerator is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IsaConfig {
    /// The switch that it is in.
    pub node: NodeId,
    /// Accelerators around it, one a port; at most 64.
    pub accelerators: u16,
    /// One for each wave controller: the word of the accelerators that it uses as flag. The counter of controller c
    /// is word c of the switch.
    pub flags: Vec<WordId>,
    /// Entries of each wave table: waves that may be outstanding. With one there is no wave regulation (SCIN 4.4): a request
    /// for the next wave goes out when the one before has been read out.
    pub waves: u16,
    /// Bytes of an entry.
    pub wave: usize,
    /// How packets are cut.
    pub format: FlitFormat,
    /// What the accumulator does.
    pub reduction: Reduction,
    /// How long it takes.
    pub latency: ComputeLatency,
    /// Bytes of each operand that go through the compute units in a second (SCIN 3.5: the prototype moves a flit a cycle); none if they take
    /// whatever comes at once.
    pub compute_rate: Option<BitRate>,
    /// How vectors of instructions with QuantEnable are quantised; none if there is no quantizer.
    pub quantization: Option<BlockQuantization>,
    /// A rule to break, for the checker alone.
    pub mutation: Option<Mutation>,
}

/// Why a set-up makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// None, or more than a mask has bits.
    #[error("expected 1 to 64 accelerators, found {0}")]
    Accelerators(u16),
    /// None: nothing would ever run.
    #[error("expected at least one wave controller, found none")]
    NoController,
    /// No entry, or an entry that holds no whole number of elements and packets.
    #[error(
        "expected at least one wave of a multiple of the packet's payload of {payload} bytes, found {waves} of {wave} bytes; \
         set isa.waves and isa.wave"
    )]
    Waves {
        /// Bytes.
        payload: usize,
        /// Entries.
        waves: u16,
        /// Bytes.
        wave: usize,
    },
    /// A wave that ends within a block, whose scale factor another wave would need too.
    #[error("expected waves of whole blocks of {block} values, found waves of {wave} bytes of codes")]
    Blocks {
        /// Values.
        block: usize,
        /// Bytes.
        wave: usize,
    },
    /// More packets in the wave tables than tags can name (SCIN 3.4).
    #[error(
        "expected at most 2^24 packets in the wave tables of an accelerator, found {0}; make the tables smaller"
    )]
    Tags(usize),
}

impl IsaConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=64).contains(&self.accelerators) {
            return Err(ConfigError::Accelerators(self.accelerators));
        }
        if self.flags.is_empty() {
            return Err(ConfigError::NoController);
        }
        let payload = self.format.max_payload;
        let whole =
            payload.is_multiple_of(self.reduction.data_type.size()) && self.wave.is_multiple_of(payload);
        if self.waves == 0 || self.wave == 0 || !whole {
            return Err(ConfigError::Waves { payload, waves: self.waves, wave: self.wave });
        }
        if let Some(quantization) = self.quantization
            && !self.wave.is_multiple_of(quantization.code_bytes(quantization.block()))
        {
            return Err(ConfigError::Blocks { block: quantization.block(), wave: self.wave });
        }
        let named = usize::from(self.waves) << self.offset_bits();
        if named > MAX_TAG as usize + 1 {
            return Err(ConfigError::Tags(named));
        }
        Ok(())
    }

    /// Packets of a full wave.
    pub(crate) const fn packets(&self) -> usize {
        self.wave / self.format.max_payload
    }

    /// Bits of a tag that say which packet of a wave it is (SCIN 3.4); what is above them is the entry.
    pub(crate) const fn offset_bits(&self) -> u32 {
        let scales = self.scale_bytes(self.wave).div_ceil(self.format.max_payload);
        (self.packets() + scales).next_power_of_two().trailing_zeros()
    }

    /// Where the scale factors of a wave begin that begins after so many bytes of codes, unless `broken` says that all begin together.
    pub(crate) fn scales_from(&self, codes: u32, broken: Mutation) -> u64 {
        if self.mutation == Some(broken) { 0 } else { self.scale_bytes(codes as usize) as u64 }
    }

    /// Bytes of the scale factors for so many bytes of codes.
    pub(crate) const fn scale_bytes(&self, codes: usize) -> usize {
        match self.quantization {
            Some(quantization) => quantization.scale_bytes(quantization.values(codes)),
            None => 0,
        }
    }
}
