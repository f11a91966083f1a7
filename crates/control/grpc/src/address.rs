//! Where a manager serves, as people write it: a host's name or an address, IPv4 or IPv6, with or without a port; or several, of which one
//! serves and the others stand by.

use quincunx_units::Duration;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The port of a manager whose address names none.
pub const MANAGER_PORT: u16 = 4790;

/// A host and a port. Names are looked up when a connection is made, and again when it is made anew.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ManagerAddress {
    host: String,
    port: u16,
}

/// Not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a host and a port, such as manager.example:4790, 10.0.0.9:4790 or [fd00::9]:4790, found \"{found}\"; write it so"
)]
pub struct AddressError {
    /// What was there.
    pub found: String,
}

impl ManagerAddress {
    /// Of an address that names no port, it is `port`.
    pub(crate) fn parse(text: &str, port: u16) -> Result<Self, AddressError> {
        let wrong = || AddressError { found: text.chars().take(64).collect() };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, port).into());
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, port),
        };
        // What looks like IPv4 and is none is a mistake, no name.
        let is_number = host.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if host.is_empty() || is_number || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(Self { host: host.into(), port })
    }

    /// Whether nobody on another machine is there: an address that says so, or the name that has one everywhere.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for ManagerAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for ManagerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text, MANAGER_PORT)
    }
}

/// As it is parsed: addresses of IPv6 in brackets.
impl fmt::Display for ManagerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.parse::<Ipv6Addr>().is_ok() {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Managers of one fabric, at least one, with commas between them: one serves, the others stand by for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Managers(Vec<ManagerAddress>);

impl Managers {
    pub(crate) fn all(&self) -> &[ManagerAddress] {
        &self.0
    }

    /// How long a node does well to go on without any: what a manager takes that is started again, or what those who stand by take to see
    /// that one has stopped.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.0.len() > 1 { 10 } else { 2 })
    }

    /// How long one may be silent that another one would take the place of.
    pub(crate) fn silence(&self) -> Duration {
        if self.0.len() > 1 { Duration::from_secs(2) } else { Duration::from_secs(1 << 20) }
    }

    /// The one that is named first.
    pub fn first(&self) -> &ManagerAddress {
        &self.0[0]
    }
}

impl<T: Into<ManagerAddress>> From<T> for Managers {
    fn from(one: T) -> Self {
        Self(vec![one.into()])
    }
}

impl FromStr for Managers {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Managers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.0.iter().enumerate() {
            write!(f, "{}{address}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_both_kinds_are_read_with_and_without_a_port() {
        for (text, expected) in [
            ("10.0.0.9:1", "10.0.0.9:1"),
            ("10.0.0.9", "10.0.0.9:4790"),
            ("[fd00::9]:1", "[fd00::9]:1"),
            ("[fd00::9]", "[fd00::9]:4790"),
            ("fd00::9", "[fd00::9]:4790"),
            ("manager.example:1", "manager.example:1"),
            ("localhost", "localhost:4790"),
        ] {
            let address: ManagerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected, "{text}");
            assert_eq!(expected.parse(), Ok(address), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_in_a_line() {
        for text in
            ["", ":4790", "a:b", "a:70000", "10.0.0:1", "10.0.0.256", "a b:1", "a/b:1", "fe80::1%eth0"]
        {
            let error = text.parse::<ManagerAddress>().unwrap_err().to_string();
            assert!(
                error.starts_with("expected a host and a port") && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn several_managers_have_commas_between_them() {
        let managers: Managers = "10.0.0.9,[fd00::9]:1".parse().unwrap();
        assert_eq!(managers.to_string(), "10.0.0.9:4790,[fd00::9]:1");
        assert!("10.0.0.9,".parse::<Managers>().is_err());
    }
}
