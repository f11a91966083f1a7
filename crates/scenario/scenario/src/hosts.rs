//! Some of a fabric's hosts, as files write them: `0-15`, `0-7,16,20-23`, `0-56:8` (every eighth), in the order of ranks.

use std::fmt;
use std::str::FromStr;

/// Hosts by number, each once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostList(Vec<u16>);

/// Why a text names no hosts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostListError {
    /// Not the notation.
    #[error("expected hosts such as 0-15, 0-7,16 or 0-56:8, found \"{0}\"")]
    Form(String),
    /// A number stands there twice.
    #[error("expected each host once, found {host} twice in \"{found}\"")]
    Twice {
        /// The host.
        host: u16,
        /// The text.
        found: String,
    },
}

impl HostList {
    /// The first so many.
    pub fn first(count: u16) -> Self {
        Self((0..count).collect())
    }

    /// Their numbers, in the order of ranks.
    pub fn numbers(&self) -> &[u16] {
        &self.0
    }
}

/// Each number by itself.
impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u16::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for HostList {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<Self, HostListError> {
        let form = || HostListError::Form(text.into());
        let number = |digits: &str| digits.trim().parse::<u16>().map_err(|_| form());
        let mut hosts = Vec::new();
        for part in text.split(',') {
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, Some(number(step)?)),
                None => (part, None),
            };
            match (range.split_once('-'), step) {
                (Some(_), Some(0)) | (None, Some(_)) => return Err(form()),
                (Some((first, last)), step) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if last < first {
                        return Err(form());
                    }
                    hosts.extend((first..=last).step_by(step.unwrap_or(1).into()));
                }
                (None, None) => hosts.push(number(range)?),
            }
        }
        let mut seen = vec![false; usize::from(u16::MAX) + 1];
        match hosts.iter().find(|&&host| std::mem::replace(&mut seen[usize::from(host)], true)) {
            Some(&host) => Err(HostListError::Twice { host, found: text.into() }),
            None => Ok(Self(hosts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_steps_and_single_hosts_are_in_the_order_of_ranks() {
        let hosts = |text: &str| text.parse::<HostList>().unwrap().numbers().to_vec();
        assert_eq!(hosts("0-3"), [0, 1, 2, 3]);
        assert_eq!(hosts("8-9, 1,4-4"), [8, 9, 1, 4]);
        assert_eq!(hosts("0-24:8"), [0, 8, 16, 24]);
        assert_eq!(hosts("0-25:8,3"), [0, 8, 16, 24, 3]);
    }

    #[test]
    fn what_names_no_hosts_is_refused_on_one_line() {
        for text in ["", "a", "3-1", "0-7:0", "3:2", "0-", "-1", "65536", "1,,2"] {
            assert_eq!(text.parse::<HostList>().unwrap_err(), HostListError::Form(text.into()), "{text}");
        }
        let twice = "0-3,2".parse::<HostList>().unwrap_err().to_string();
        assert_eq!(twice, "expected each host once, found 2 twice in \"0-3,2\"");
    }
}
