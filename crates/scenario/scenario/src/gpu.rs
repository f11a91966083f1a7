//! The GPUs that accelerators are modelled on, by name: what their data sheets say.

use quincunx_units::{BitRate, ByteCount, FlopRate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A GPU, or one with half of its SMs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GpuModel {
    /// H100 SXM.
    H100,
    /// Half of its SMs, and all of its memory and L2 (CAIS IV-B reduces the SMs alone).
    H100Half,
    /// H200 SXM.
    H200,
    /// The same half of it.
    H200Half,
}

/// What a GPU has, as its data sheet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSheet {
    /// Streaming multiprocessors.
    pub sms: u16,
    /// What all of them together reach in products of matrices.
    pub tensor: FlopRate,
    /// Traffic to its memory.
    pub memory: BitRate,
    /// Bytes of its L2.
    pub l2: ByteCount,
}

impl GpuModel {
    /// The GPU with all of its SMs.
    pub const fn whole(self) -> Self {
        match self {
            Self::H100 | Self::H100Half => Self::H100,
            Self::H200 | Self::H200Half => Self::H200,
        }
    }

    /// Its data sheet (NVIDIA, "H100 Tensor Core GPU", 2022, and "H200 Tensor Core GPU", 2023): 132 SMs at 1.83 GHz, of which each multiplies and adds 2,048
    /// BF16 elements a cycle, dense; 50 MB of L2. They differ in memory.
    pub const fn data_sheet(self) -> DataSheet {
        const fn some<T: Copy>(value: Option<T>) -> T {
            match value {
                Some(value) => value,
                None => panic!("above zero"),
            }
        }
        let gigabytes = match self {
            Self::H100 | Self::H100Half => 3350,
            Self::H200 | Self::H200Half => 4800,
        };
        let sms = match self {
            Self::H100 | Self::H200 => 132,
            Self::H100Half | Self::H200Half => 66,
        };
        DataSheet {
            sms,
            tensor: some(FlopRate::new(sms as u64 * 2 * 2048 * 1_830_000_000)),
            memory: some(BitRate::new(gigabytes * 8_000_000_000)),
            l2: ByteCount::new(50 << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_has_half_the_sms_and_all_of_the_memory() {
        let [whole, half] = [GpuModel::H100, GpuModel::H100Half].map(GpuModel::data_sheet);
        assert_eq!(whole.sms, 2 * half.sms);
        assert_eq!(whole.tensor.operations_per_second(), 2 * half.tensor.operations_per_second());
        assert_eq!((whole.memory, whole.l2), (half.memory, half.l2));
    }
}
