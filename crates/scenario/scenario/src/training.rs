//! What is trained on a fabric and on which accelerators: the keys below `train`. Which models there are, `quincunx-workload` knows.

use crate::fabric::Contradiction;
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use schemars::JsonSchema;
use serde::Deserialize;

/// Data-parallel training: every rank has the whole model and a batch of its own, and gradients are added up over all ranks.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// The model's name: `resnet-50`.
    pub model: Option<String>,
    /// Samples of each rank in an iteration; default: as the model's file says.
    pub batch: Option<u32>,
    /// Ranks send gradients during the backward pass; otherwise after it.
    pub overlap: bool,
    /// Most bytes of ready gradients that one collective sends together; a longer gradient goes alone. Zero: one collective for each layer.
    pub fusion: ByteCount,
    /// Interval at which an idle rank checks for ready gradients; zero: it sends as soon as a gradient is ready.
    pub cycle: Duration,
    /// Rate of copying gradients between the accelerator's memory and the host's, before and after sending. Default: no copies, as the network
    /// accesses the accelerator's memory or copies overlap the transfer.
    pub copy: Option<BitRate>,
    /// Rate at which a processor of each rank adds up vectors, while its part of the network waits: MPI does so between two steps of a ring.
    /// Default: nobody waits for it, as accelerators or switches add up what passes.
    pub reduction: Option<BitRate>,
    /// Every rank's accelerator.
    pub gpu: Gpu,
}

/// What decides how long a layer takes: the longer of its arithmetic and its traffic to memory.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gpu {
    /// Rate that convolutions and matrix products reach, in operations that remain after the savings of `tile`.
    pub rate: FlopRate,
    /// Rate of the accelerator's own memory.
    pub memory: BitRate,
    /// The side of the tiles of outputs that convolutions of stride one by kernels of side three and five are computed in, which saves
    /// multiplications (Winograd's algorithm: Lavin and Gray, arXiv:1509.09308); 1: none are saved.
    pub tile: u32,
}

impl Default for Training {
    /// As NCCL below Horovod: overlapped, fused up to 64 MiB, every 5 ms (`HOROVOD_FUSION_THRESHOLD` and `HOROVOD_CYCLE_TIME`, the defaults
    /// until release 0.21).
    fn default() -> Self {
        Self {
            model: None,
            batch: None,
            overlap: true,
            fusion: ByteCount::new(64 << 20),
            cycle: Duration::from_millis(5),
            copy: None,
            reduction: None,
            gpu: Gpu::default(),
        }
    }
}

impl Default for Gpu {
    /// A GeForce RTX 2080 in FP32: 448 GB/s to memory; 39 % of the 10.07 TFLOP/s that 2,944 cores reach at 1.71 GHz (NVIDIA Turing
    /// architecture whitepaper). That share is calibrated on a public measurement, 192.91 images a second of ResNet-50 at batch 64
    /// (github.com/ggg17226/rtx2080-dl-benchmark: TensorFlow 1.11, cuDNN 7.3). Tiles of 4 x 4 are Lavin and Gray's F(4 x 4, 3 x 3), for the
    /// kernels and strides that cuDNN's `WINOGRAD_NONFUSED` takes.
    fn default() -> Self {
        Self {
            rate: FlopRate::new(3_960_000_000_000).expect("it is above zero"),
            memory: BitRate::new(448 * 8 * 1_000_000_000).expect("it is above zero"),
            tile: 4,
        }
    }
}

impl Training {
    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        if self.batch == Some(0) {
            return Err(("a `train.batch` of one or more", "0".into(), "nothing would be trained"));
        }
        if !(1..=16).contains(&self.gpu.tile) {
            let found = self.gpu.tile.to_string();
            return Err(("a `train.gpu.tile` of 1 to 16", found, "1 computes every output for itself"));
        }
        Ok(())
    }
}
