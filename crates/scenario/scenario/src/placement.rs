//! Which host each rank is on, where a fabric has more than one order of its hosts to offer: the key `placement`, and `--placement`.

use crate::{HostList, HostListError};
use std::fmt;
use std::str::FromStr;

/// The order in which ranks take hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RankPlacement {
    /// `packed`: in the order of hosts, so that the hosts of a switch have ranks in a row.
    #[default]
    Packed,
    /// `spread`: a host of each switch, then the next host of each.
    Spread,
    /// `random:7`: in an order that this seed decides.
    Random(u64),
    /// `0,8,1,9`: in this order, and no others.
    Listed(HostList),
}

/// Why a text is no placement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RankPlacementError {
    /// Neither a name nor hosts.
    #[error("expected packed, spread, random:SEED or hosts such as 0-56:8,1-57:8, found \"{0}\"")]
    Form(String),
    /// Hosts, but not once each.
    #[error(transparent)]
    Hosts(HostListError),
}

impl FromStr for RankPlacement {
    type Err = RankPlacementError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || RankPlacementError::Form(text.into());
        match text {
            "packed" => Ok(Self::Packed),
            "spread" => Ok(Self::Spread),
            _ => match text.strip_prefix("random:") {
                Some(seed) => seed.parse().map(Self::Random).map_err(|_| form()),
                None => text.parse().map(Self::Listed).map_err(|error| match error {
                    HostListError::Form(_) => form(),
                    twice @ HostListError::Twice { .. } => RankPlacementError::Hosts(twice),
                }),
            },
        }
    }
}

impl fmt::Display for RankPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed => f.write_str("packed"),
            Self::Spread => f.write_str("spread"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Listed(hosts) => hosts.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_a_name_or_a_list_of_hosts() {
        let read = |text: &str| text.parse::<RankPlacement>().unwrap();
        assert_eq!([read("packed"), read("spread")], [RankPlacement::Packed, RankPlacement::Spread]);
        assert_eq!(read("random:7"), RankPlacement::Random(7));
        assert_eq!(read("0-2:2,1"), RankPlacement::Listed("0,2,1".parse().unwrap()));
        for text in ["packed", "spread", "random:7", "0,2,1"] {
            assert_eq!(read(text).to_string(), text);
        }
        for text in ["", "pack", "random", "random:", "random:x", "random:-1", "3-1"] {
            let message = text.parse::<RankPlacement>().unwrap_err().to_string();
            assert!(message.starts_with("expected packed, spread, random:SEED or hosts"), "{message}");
        }
        assert!("1,1".parse::<RankPlacement>().unwrap_err().to_string().contains("found 1 twice"));
    }
}
