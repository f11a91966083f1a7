//! The ways in which a switch can realise its node of an IncTree, and which of them switches of one tree have.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// How an EPIC switch realises the IncTree (EPIC 4.2 to 4.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// Connection terminated: connections end at the switch, which combines whole messages.
    I,
    /// Connection translated: headers are rewritten; the hosts retransmit.
    II,
    /// Connection augmented: packets pass through pipes; every hop retransmits.
    III,
}

impl Mode {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::I, Self::II, Self::III];

    /// As the paper writes it.
    pub const fn numeral(self) -> &'static str {
        match self {
            Self::I => "I",
            Self::II => "II",
            Self::III => "III",
        }
    }
}

/// The modes of a tree's switches, level by level from the root: `III/I` is a root in Mode-III above switches in Mode-I. The last one is that
/// of all levels below, too.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Levels(Vec<Mode>);

impl Levels {
    /// The mode of switches with so many switches between them and the root, the root's own counted: 0 is the root.
    pub fn mode(&self, depth: usize) -> Mode {
        self.0[depth.min(self.0.len() - 1)]
    }
}

/// A text that names no modes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected modes from the root down, such as III/I, found \"{0}\"")]
pub struct UnknownModes(String);

impl FromStr for Levels {
    type Err = UnknownModes;

    fn from_str(text: &str) -> Result<Self, UnknownModes> {
        let mode = |numeral| Mode::ALL.into_iter().find(|mode| mode.numeral() == numeral);
        let modes: Option<Vec<Mode>> = text.split('/').map(mode).collect();
        modes.map(Self).ok_or_else(|| UnknownModes(text.into()))
    }
}

impl TryFrom<String> for Levels {
    type Error = UnknownModes;

    fn try_from(text: String) -> Result<Self, UnknownModes> {
        text.parse()
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numerals: Vec<&str> = self.0.iter().map(|mode| mode.numeral()).collect();
        f.write_str(&numerals.join("/"))
    }
}

impl From<Levels> for String {
    fn from(levels: Levels) -> Self {
        format!("{levels}")
    }
}
