//! Where a manager serves, as people write it: a host's name or an address, IPv4 or IPv6, with or without a port.

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
        let wrong = || AddressError { found: text.chars().take(64).collect() };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, MANAGER_PORT).into());
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, MANAGER_PORT),
        };
        // What looks like IPv4 and is none is a mistake, no name.
        let is_number = host.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if host.is_empty() || is_number || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(Self { host: host.into(), port })
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
}
