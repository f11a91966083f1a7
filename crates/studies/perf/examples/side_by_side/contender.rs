//! Who takes part, and how often each repeats what it does.

use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_units::ByteCount;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A design of ours or a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contender {
    /// `epic-3`, `ring` and the like: this project's, over RoCEv2 frames.
    Ours(&'static dyn AnyDesign),
    /// `tcp-ring`: reduce-scatter and all-gather over the kernel's TCP.
    TcpRing,
    /// `openmpi`: the algorithm that OpenMPI chooses.
    OpenMpi,
    /// `openmpi-ring`: OpenMPI told to take its ring for AllReduce.
    OpenMpiRing,
    /// `openmpi-switch`: OpenMPI whose collectives our component takes (`openmpi/`), by epic-3.
    OpenMpiSwitch,
}

impl Contender {
    /// Whether `mpirun` starts it.
    pub(crate) fn is_mpi(&self) -> bool {
        matches!(self, Self::OpenMpi | Self::OpenMpiRing | Self::OpenMpiSwitch)
    }
}

impl PartialEq for Contender {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "tcp-ring" => Self::TcpRing,
            "openmpi" => Self::OpenMpi,
            "openmpi-ring" => Self::OpenMpiRing,
            "openmpi-switch" => Self::OpenMpiSwitch,
            _ => {
                Self::Ours(CATALOG.find(text, FabricKind::Tree).map_err(|error| {
                    format!("{error}; or tcp-ring, openmpi, openmpi-ring, openmpi-switch")
                })?)
            }
        })
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(design) => f.pad(design.name()),
            Self::TcpRing => f.pad("tcp-ring"),
            Self::OpenMpi => f.pad("openmpi"),
            Self::OpenMpiRing => f.pad("openmpi-ring"),
            Self::OpenMpiSwitch => f.pad("openmpi-switch"),
        }
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How often a collective is repeated in one turn, the same for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repetitions {
    /// Timed.
    pub(crate) timed: u32,
    /// Before them.
    pub(crate) warm_up: u32,
}

/// Repetitions in a turn: those of 32 MiB, at least 3 and at most 400, so that turns are short and alternate often.
pub(crate) fn repetitions(size: ByteCount) -> Repetitions {
    let timed = ((32 << 20) / size.bytes().max(1)).clamp(3, 400) as u32;
    Repetitions { timed, warm_up: (timed / 10).max(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_has_one_name() {
        for name in ["epic-1", "epic-3", "ring", "tcp-ring", "openmpi", "openmpi-ring", "openmpi-switch"] {
            assert_eq!(name.parse::<Contender>().unwrap().to_string(), name);
        }
        assert!("mpi".parse::<Contender>().unwrap_err().contains("openmpi-ring"));
    }

    #[test]
    fn small_ones_are_repeated_often_and_large_ones_at_all() {
        assert_eq!(repetitions(ByteCount::new(0)), Repetitions { timed: 400, warm_up: 40 });
        assert_eq!(repetitions(ByteCount::new(1 << 20)), Repetitions { timed: 32, warm_up: 3 });
        assert_eq!(repetitions(ByteCount::new(1 << 30)), Repetitions { timed: 3, warm_up: 2 });
    }
}
