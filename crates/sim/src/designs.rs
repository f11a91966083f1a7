//! The designs that each kind of fabric has, by the names that users give them.

use quincunx_scenario::Fabric;
use std::fmt;

/// The designs of a kind of fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Designs {
    /// Those that leave what the collective is to leave.
    pub exact: &'static [&'static str],
    /// Those that quantise, and so leave something else.
    pub quantised: &'static [&'static str],
}

impl Designs {
    /// Those of the fabric's kind. Not each of them can do every collective, or runs on every fabric of the kind: who tries is
    /// told why.
    pub const fn of(fabric: &Fabric) -> Self {
        match fabric {
            Fabric::Packet(_) => Self {
                exact: &["epic-1", "epic-2", "epic-3", "ring", "tree", "direct", "multiwrite"],
                quantised: &[],
            },
            Fabric::Memory(_) => {
                Self { exact: &["scin", "nvls", "ring", "direct"], quantised: &["scin-inq", "ring-rq"] }
            }
            Fabric::Mesh(_) | Fabric::MemoryMesh(_) => {
                Self { exact: &["multiwrite", "unicast-multipath", "direct"], quantised: &[] }
            }
            Fabric::Servers(_) => Self { exact: &["multiwrite", "direct"], quantised: &[] },
        }
    }
}

impl fmt::Display for Designs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.exact.iter().chain(self.quantised).copied().collect();
        f.write_str(&names.join(", "))
    }
}
