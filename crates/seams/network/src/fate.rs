//! What becomes of one frame.

use quincunx_units::{Duration, Instant};

/// Why a frame does not arrive in its turn, and when it arrives instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Delay {
    /// It arrives so much later than it would have.
    HeldBack(Duration),
    /// It arrives after so many later frames of its direction.
    OvertakenBy(u64),
    /// It arrives at this time, whatever the link can do; at once if it is sent later than that.
    Until(Instant),
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Fate {
    /// It arrives in its turn.
    #[default]
    Delivered,
    /// It does not arrive.
    Lost,
    /// It arrives out of its turn, or at a prescribed time.
    Late(Delay),
    /// It arrives twice, each time in its turn or not.
    Doubled {
        /// The delay of the frame itself.
        first: Option<Delay>,
        /// The delay of its copy.
        copy: Option<Delay>,
    },
}

impl Fate {
    /// It arrives twice, the copy right behind the frame.
    pub const DUPLICATED: Self = Self::Doubled { first: None, copy: None };

    /// The delay of each arrival: none, one or two.
    pub fn arrivals(self) -> impl Iterator<Item = Option<Delay>> {
        let (first, copy) = match self {
            Self::Delivered => (Some(None), None),
            Self::Lost => (None, None),
            Self::Late(delay) => (Some(Some(delay)), None),
            Self::Doubled { first, copy } => (Some(first), Some(copy)),
        };
        first.into_iter().chain(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_fate_says_how_often_a_frame_arrives() {
        let late = Delay::OvertakenBy(2);
        let arrivals = |fate: Fate| fate.arrivals().collect::<Vec<_>>();
        assert_eq!(arrivals(Fate::Delivered), [None]);
        assert_eq!(arrivals(Fate::Lost), []);
        assert_eq!(arrivals(Fate::Late(late)), [Some(late)]);
        assert_eq!(arrivals(Fate::Doubled { first: None, copy: Some(late) }), [None, Some(late)]);
    }
}
