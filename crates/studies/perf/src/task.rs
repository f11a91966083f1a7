//! What can be measured: the collectives that the network does, and what ranks do by messages between their queue pairs.

use quincunx_collective::{Bandwidths, Collective, ParseNameError, Rank};
use quincunx_units::{BitRate, ByteCount, Duration};
use std::fmt;
use std::str::FromStr;

/// What a case does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// A collective of the network's.
    Collective(Collective),
    /// Messages.
    Exchange(Exchange),
}

/// What ranks do by messages to each other; sizes as nccl-tests count them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// Every rank has a part for every rank, itself too. The size is that of its vector.
    AllToAll,
    /// Every rank sends to the one after it, and receives from the one before it. The size is that of a message.
    SendReceive,
    /// The root gets a part of every rank. The size is that of all parts.
    Gather {
        /// Who gets it.
        root: Rank,
    },
    /// Every rank gets a part of the root's. The size is that of all parts.
    Scatter {
        /// Whose.
        root: Rank,
    },
}

impl Exchange {
    /// All of them, with rank 0 as the root.
    pub const ALL: [Self; 4] =
        [Self::AllToAll, Self::SendReceive, Self::Gather { root: Rank(0) }, Self::Scatter { root: Rank(0) }];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllToAll => "all_to_all",
            Self::SendReceive => "send_receive",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
        }
    }

    const fn root(self) -> Option<Rank> {
        match self {
            Self::Gather { root } | Self::Scatter { root } => Some(root),
            Self::AllToAll | Self::SendReceive => None,
        }
    }

    /// As nccl-tests have it: what a rank has for itself crosses no link.
    fn bus_factor(self, ranks: u16) -> f64 {
        match self {
            Self::SendReceive => 1.0,
            _ => f64::from(ranks - 1) / f64::from(ranks),
        }
    }
}

impl Task {
    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective(collective) => collective.name(),
            Self::Exchange(exchange) => exchange.name(),
        }
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<Rank> {
        match self {
            Self::Collective(collective) => collective.root(),
            Self::Exchange(exchange) => exchange.root(),
        }
    }

    /// The same with another root; nothing changes where there is none.
    #[must_use]
    pub const fn with_root(self, root: Rank) -> Self {
        match self {
            Self::Collective(collective) => Self::Collective(collective.with_root(root)),
            Self::Exchange(Exchange::Gather { .. }) => Self::Exchange(Exchange::Gather { root }),
            Self::Exchange(Exchange::Scatter { .. }) => Self::Exchange(Exchange::Scatter { root }),
            Self::Exchange(exchange) => Self::Exchange(exchange),
        }
    }

    /// Whether elements are combined.
    pub const fn reduces(self) -> bool {
        match self {
            Self::Collective(collective) => collective.reduces(),
            Self::Exchange(_) => false,
        }
    }

    /// Bytes that count for bandwidth.
    pub fn counted_size(self, size: ByteCount) -> ByteCount {
        match self {
            Self::Collective(collective) => collective.counted_size(size),
            Self::Exchange(_) => size,
        }
    }

    /// As [`Collective::bandwidths`].
    pub fn bandwidths(self, ranks: u16, size: ByteCount, busiest: ByteCount, time: Duration) -> Bandwidths {
        match self {
            Self::Collective(collective) => collective.bandwidths(ranks, size, busiest, time),
            Self::Exchange(exchange) => {
                let rate = |bytes| {
                    BitRate::of_transfer(bytes, time).map_or(0.0, BitRate::as_gigabytes_per_second_f64)
                };
                let algorithm = rate(size);
                Bandwidths { algorithm, bus: algorithm * exchange.bus_factor(ranks), network: rate(busiest) }
            }
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name; the root, where there is one, is rank 0.
impl FromStr for Task {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        if let Some(exchange) = Exchange::ALL.into_iter().find(|exchange| exchange.name() == text) {
            return Ok(Self::Exchange(exchange));
        }
        text.parse().map(Self::Collective).map_err(|error: ParseNameError| ParseNameError {
            expected: "all_reduce, reduce, broadcast, barrier, reduce_scatter, all_gather, dispatch, combine, all_to_all, send_receive, gather, scatter",
            ..error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_what_they_name() {
        let exchanges = Exchange::ALL.map(Task::Exchange);
        for task in Collective::PRIMITIVES.map(Task::Collective).into_iter().chain(exchanges) {
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        let error = "alltoall".parse::<Task>().unwrap_err().to_string();
        assert!(error.contains("all_to_all") && error.ends_with("found \"alltoall\""), "{error}");
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        assert_eq!(Exchange::ALL.map(|exchange| exchange.bus_factor(8)), [0.875, 1.0, 0.875, 0.875]);
    }

    #[test]
    fn a_root_is_set_where_there_is_one() {
        let roots = Exchange::ALL.map(|exchange| Task::Exchange(exchange).with_root(Rank(3)).root());
        assert_eq!(roots, [None, None, Some(Rank(3)), Some(Rank(3))]);
    }
}
