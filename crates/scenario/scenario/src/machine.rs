//! What the accelerators of a memory fabric are, for those who run compute kernels on them: the keys below `machine`.

use crate::fabric::Contradiction;
use crate::gpu::{DataSheet, GpuModel};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

/// An accelerator at the granularity of thread blocks, and how kernels are cut for it.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSetup {
    /// The GPU that it is, where nothing else is said.
    pub gpu: GpuModel,
    /// Streaming multiprocessors; default: the GPU's.
    pub sms: Option<u16>,
    /// Blocks that an SM holds at once.
    pub blocks_per_sm: u8,
    /// Rate of every kernel, relative to what the data sheet and the efficiencies below give, where `tensor` or `memory` does not say it.
    #[serde(deserialize_with = "number")]
    pub scale: f64,
    /// Rate of matrix products on all SMs together; default: the data sheet's times `tensor_efficiency` and `scale`.
    pub tensor: Option<FlopRate>,
    /// Rate of matrix products, relative to the data sheet's, where `tensor` is not set.
    #[serde(deserialize_with = "number")]
    pub tensor_efficiency: f64,
    /// A file with measured times of kernels on the whole GPU. What products have reached there is what all SMs reach here, by their number, the
    /// efficiencies below are those that were measured, and `scale` is 1.
    pub profile: Option<PathBuf>,
    /// Rate of attention, relative to that of matrix products.
    #[serde(deserialize_with = "number")]
    pub attention_efficiency: f64,
    /// Rate of LayerNorm, relative to the memory's.
    #[serde(deserialize_with = "number")]
    pub norm_efficiency: f64,
    /// Rate of LayerNorm's gradient, relative to the memory's.
    #[serde(deserialize_with = "number")]
    pub norm_backward_efficiency: f64,
    /// Rate of element-wise operations, activations and sums, relative to the memory's.
    #[serde(deserialize_with = "number")]
    pub element_efficiency: f64,
    /// Rate of the accelerator's own memory; default: the GPU's times `scale`.
    pub memory: Option<BitRate>,
    /// Bytes of L2 that cache other accelerators' memory; default: the GPU's.
    pub l2: Option<ByteCount>,
    /// Bytes of an element, in memory and on links.
    pub element: u8,
    /// Most rows of a tile of a product.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// Part of the inner dimension that a block loads at once.
    pub tile_inner: u32,
    /// Parts of the inner dimension that are loaded ahead of the one that is computed.
    pub prefetch: u16,
    /// Rows of a block of a normalisation.
    pub norm_rows: u32,
    /// From when a kernel may be launched to its first block.
    pub launch: Duration,
    /// Most by which an accelerator's launch may take longer than `launch`.
    pub skew: Duration,
    /// Share by which a block's time varies, up or down.
    pub jitter: Probability,
    /// Most by which an accelerator serves one of several kernels more slowly than the others, or these more slowly than it.
    pub drift: Probability,
    /// Time that a kernel computes from one such rate to the next.
    pub drift_time: Duration,
    /// Blocks of a group wait for each other before they are dispatched.
    pub pre_launch: bool,
    /// Blocks of a group wait for each other before their first request that may be merged.
    pub pre_access: bool,
    /// Blocks that ask for their group's go-ahead before an SM is free for them.
    pub claims_ahead: u16,
    /// Time that a block waits for its group before it continues alone.
    pub sync_timeout: Duration,
    /// Accelerators that are ahead wait for the others.
    pub throttle: bool,
    /// Most bytes of an accelerator's outstanding loads.
    pub load_window: ByteCount,
    /// Most bytes of a row block that an accelerator has asked for and not all others.
    pub loads_ahead: ByteCount,
    /// Most bytes that an accelerator has sent to be added at one home, or is sending, and not all others have sent.
    pub sums_ahead: ByteCount,
    /// SMs of communication kernels.
    pub communication_sms: u16,
    /// Transfers that copy engines have under way.
    pub copy_engines: u16,
}

impl Default for MachineSetup {
    /// Half of an H100, as CAIS has it (section IV-B); what the paper does not give is said in its preset.
    fn default() -> Self {
        Self {
            gpu: GpuModel::H100Half,
            sms: None,
            blocks_per_sm: 2,
            scale: 1.0,
            tensor: None,
            tensor_efficiency: 1.0,
            profile: None,
            attention_efficiency: 1.0,
            norm_efficiency: 1.0,
            norm_backward_efficiency: 1.0,
            element_efficiency: 1.0,
            memory: None,
            l2: None,
            element: 2,
            tile_rows: 128,
            tile_columns: 128,
            tile_inner: 64,
            prefetch: 6,
            norm_rows: 1,
            launch: Duration::from_micros(3),
            skew: Duration::from_micros(1),
            jitter: Probability::new(0.02).expect("it is one"),
            drift: Probability::new(0.0).expect("it is one"),
            drift_time: Duration::from_micros(50),
            claims_ahead: 16,
            pre_launch: true,
            pre_access: true,
            sync_timeout: Duration::from_micros(100),
            throttle: true,
            load_window: ByteCount::new(1280 << 10),
            loads_ahead: ByteCount::new(48 << 10),
            sums_ahead: ByteCount::new(64 << 10),
            communication_sms: 16,
            copy_engines: 16,
        }
    }
}

impl MachineSetup {
    /// What it has: what is said, and the data sheet for the rest.
    pub fn gpu(&self) -> DataSheet {
        let sheet = self.gpu.data_sheet();
        let sms = self.sms.unwrap_or(sheet.sms);
        let peak = sheet.tensor.operations_per_second() as f64 * f64::from(sms) / f64::from(sheet.sms);
        let reached = FlopRate::new((peak * self.tensor_efficiency * self.scale) as u64);
        let memory = BitRate::new((sheet.memory.bits_per_second() as f64 * self.scale) as u64);
        DataSheet {
            sms,
            tensor: self.tensor.or(reached).unwrap_or(sheet.tensor),
            memory: self.memory.or(memory).unwrap_or(sheet.memory),
            l2: self.l2.unwrap_or(sheet.l2),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        for (expected, found) in [
            ("a `machine.tensor_efficiency` above zero", self.tensor_efficiency),
            ("a `machine.scale` above zero", self.scale),
        ] {
            if !(found.is_finite() && found > 0.0) {
                return Err((expected, found.to_string(), "1 is the data sheet's rate"));
            }
        }
        if self.drift_time == Duration::ZERO {
            let found = self.drift_time.to_string();
            return Err(("a `machine.drift_time` above zero", found, "say how long a rate lasts"));
        }
        let shares = [
            self.attention_efficiency,
            self.norm_efficiency,
            self.norm_backward_efficiency,
            self.element_efficiency,
        ];
        if let Some(share) = shares.iter().find(|share| !(**share > 0.0 && **share <= 1.0)) {
            return Err((
                "`machine.{attention,norm,norm_backward,element}_efficiency` above zero, one at most",
                share.to_string(),
                "1 is the rate of products, or of memory",
            ));
        }
        let sms = self.gpu().sms;
        let Self { blocks_per_sm, tile_rows, tile_columns, tile_inner, .. } = self;
        let counts = [
            ("machine.sms", u32::from(sms)),
            ("machine.blocks_per_sm", u32::from(*blocks_per_sm)),
            ("machine.tile_rows", tile_rows / 16),
            ("machine.tile_columns", *tile_columns),
            ("machine.tile_inner", *tile_inner),
            ("machine.norm_rows", self.norm_rows),
            ("machine.element", u32::from(self.element)),
            ("machine.communication_sms", u32::from(self.communication_sms)),
            ("machine.copy_engines", u32::from(self.copy_engines)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            let found = format!("`{key}` without");
            return Err((
                "SMs, blocks and tiles of something (rows: 16 or more)",
                found,
                "name a larger one",
            ));
        }
        if self.communication_sms >= sms {
            let found = format!("{} of {sms}", self.communication_sms);
            return Err(("`machine.communication_sms` below all SMs", found, "leave some to products"));
        }
        Ok(())
    }
}

/// A number, or one that `--set` says, which is text unless it is whole.
fn number<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(f64),
        Text(String),
    }
    match NumberOrText::deserialize(source)? {
        NumberOrText::Number(number) => Ok(number),
        NumberOrText::Text(text) => text.parse().map_err(|_| {
            let found = serde::de::Unexpected::Str(&text);
            serde::de::Error::invalid_value(found, &"a number such as 0.5")
        }),
    }
}
