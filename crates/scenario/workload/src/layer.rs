//! Layers of convolutional networks: parameters, arithmetic and traffic to memory, counted from their shapes. Values are FP32.

use quincunx_units::ByteCount;
use serde::Deserialize;

/// Bytes of a value.
const VALUE: u64 = 4;

/// A line of a model's file.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// A convolution.
    Conv(Conv),
    /// A fully connected layer.
    Dense(Dense),
    /// A pooling layer.
    Pool(Pool),
}

/// A convolution of square images by a square kernel.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv {
    /// Its name in the publication.
    pub name: String,
    /// Channels that it reads.
    #[serde(rename = "in")]
    pub inputs: u64,
    /// Channels that it writes.
    #[serde(rename = "out")]
    pub outputs: u64,
    /// Side of the kernel.
    pub kernel: u64,
    /// From one output to the next, in inputs.
    pub stride: u64,
    /// Side of the images that it reads.
    pub from: u64,
    /// Side of the images that it writes.
    pub to: u64,
    /// What is done to its outputs.
    pub then: Vec<Then>,
}

/// A fully connected layer.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// Its name in the publication.
    pub name: String,
    /// Values of a sample that it reads.
    #[serde(rename = "in")]
    pub inputs: u64,
    /// Values of a sample that it writes.
    #[serde(rename = "out")]
    pub outputs: u64,
    /// What is done to its outputs.
    pub then: Vec<Then>,
}

/// A pooling layer.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name in the publication.
    pub name: String,
    /// Channels.
    #[serde(rename = "out")]
    pub channels: u64,
    /// Side of the images that it reads.
    pub from: u64,
    /// Side of the images that it writes.
    pub to: u64,
    /// What is done to its outputs.
    #[serde(default)]
    pub then: Vec<Then>,
}

/// What is done to each value that a layer writes, bound by memory alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// A bias for each channel is added; its gradient is a sum.
    Bias,
    /// Batch normalisation, with a scale and a shift for each channel.
    Norm,
    /// What is below zero becomes zero.
    Relu,
    /// Local response normalisation.
    Lrn,
    /// The block's input is added (a residual connection).
    Add,
}

impl Then {
    /// Parameters of a channel.
    const fn parameters(self) -> u64 {
        match self {
            Self::Bias => 1,
            Self::Norm => 2,
            Self::Relu | Self::Lrn | Self::Add => 0,
        }
    }

    /// How often memory is read or written for a value in the forward pass, and in the backward pass: as often as is needed where each
    /// is a kernel of its own.
    const fn accesses(self) -> [u64; 2] {
        match self {
            // Read and write; read the gradient.
            Self::Bias => [2, 1],
            // Read for the statistics, read and write; read value and gradient for the sums, both again, and write.
            Self::Norm => [3, 5],
            // Read and write; read value and gradient, and write.
            Self::Relu => [2, 3],
            // Read and write; read both, and the gradient, and write.
            Self::Lrn => [2, 4],
            // Read both, and write; the same for the sum of their gradients.
            Self::Add => [3, 3],
        }
    }
}

/// What a pass through a layer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    /// Operations of its convolutions or products; a multiplication and an addition are two.
    pub(crate) operations: u64,
    /// Bytes that these read and write at least.
    pub(crate) bytes: ByteCount,
    /// Bytes read and written by what is done to the outputs.
    pub(crate) then: ByteCount,
}

impl Layer {
    /// Its name in the publication.
    pub fn name(&self) -> &str {
        match self {
            Self::Conv(layer) => &layer.name,
            Self::Dense(layer) => &layer.name,
            Self::Pool(layer) => &layer.name,
        }
    }

    /// What is done to its outputs.
    pub fn then(&self) -> &[Then] {
        match self {
            Self::Conv(layer) => &layer.then,
            Self::Dense(layer) => &layer.then,
            Self::Pool(layer) => &layer.then,
        }
    }

    /// Weights, biases, scales and shifts.
    pub fn parameters(&self) -> u64 {
        self.weights() + self.then().iter().map(|then| then.parameters() * self.channels()).sum::<u64>()
    }

    /// Bytes of its gradient.
    pub fn gradient(&self) -> ByteCount {
        ByteCount::new(self.parameters() * VALUE)
    }

    /// Operations of the forward pass for a sample as its sums are written down; a multiplication and an addition are two.
    pub fn operations(&self) -> u64 {
        match self {
            Self::Conv(layer) => 2 * self.weights() * layer.to * layer.to,
            Self::Dense(_) => 2 * self.weights(),
            Self::Pool(_) => 0,
        }
    }

    fn weights(&self) -> u64 {
        match self {
            Self::Conv(layer) => layer.kernel * layer.kernel * layer.inputs * layer.outputs,
            Self::Dense(layer) => layer.inputs * layer.outputs,
            Self::Pool(_) => 0,
        }
    }

    fn channels(&self) -> u64 {
        match self {
            Self::Conv(layer) => layer.outputs,
            Self::Dense(layer) => layer.outputs,
            Self::Pool(layer) => layer.channels,
        }
    }

    /// Values of a sample that it reads and that it writes.
    fn values(&self) -> [u64; 2] {
        match self {
            Self::Conv(layer) => {
                [layer.inputs * layer.from * layer.from, layer.outputs * layer.to * layer.to]
            }
            Self::Dense(layer) => [layer.inputs, layer.outputs],
            Self::Pool(layer) => {
                [layer.channels * layer.from * layer.from, layer.channels * layer.to * layer.to]
            }
        }
    }

    /// Operations where tiles of so many outputs a side are computed at once: (tile + kernel - 1)^2 multiplications for the tile^2 kernel^2
    /// of the sums (Lavin and Gray, arXiv:1509.09308, section 4.1).
    fn tiled_operations(&self, tile: u64) -> u64 {
        match self {
            Self::Conv(Conv { kernel: kernel @ (3 | 5), stride: 1, .. }) => {
                let side = tile + kernel - 1;
                self.operations() * (side * side) / (tile * tile * kernel * kernel)
            }
            _ => self.operations(),
        }
    }

    /// What the forward pass does for a batch.
    pub(crate) fn forward(&self, batch: u64, tile: u64) -> Work {
        let [inputs, outputs] = self.values().map(|values| values * batch);
        let accesses: u64 = self.then().iter().map(|then| then.accesses()[0]).sum();
        Work {
            operations: self.tiled_operations(tile) * batch,
            bytes: ByteCount::new((inputs + outputs + self.weights()) * VALUE),
            then: ByteCount::new(outputs * accesses * VALUE),
        }
    }

    /// What the backward pass does for a batch: gradients of the weights, and of the inputs, unless these are samples. Each is as much as the
    /// forward pass; pooling reads its inputs, too.
    pub(crate) fn backward(&self, batch: u64, tile: u64, is_first: bool) -> Work {
        let Work { operations, bytes, .. } = self.forward(batch, tile);
        let accesses: u64 = self.then().iter().map(|then| then.accesses()[1]).sum();
        let passes = if is_first { 1 } else { 2 };
        Work {
            operations: operations * passes,
            bytes: bytes * passes,
            then: ByteCount::new(self.values()[1] * batch * accesses * VALUE),
        }
    }
}
