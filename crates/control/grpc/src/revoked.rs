//! Whose certificates are not heard any more: by the name that they carry, or one by its serial number.

use std::collections::BTreeSet;
use tonic::Status;
use tonic::transport::CertificateDer;
use webpki::EndEntityCert;

use crate::Identity;
use crate::identity::is_name;

/// Who is revoked: `tenant/blue`, `node/leaf1`, `operator/bob`, `serial/5f0c...`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Revoked(BTreeSet<String>);

/// What names nobody.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected tenant/NAME, node/NAME, operator/NAME or serial/HEX, found \"{found}\"; say whose certificate it is"
)]
pub(crate) struct NobodyNamed {
    found: String,
}

impl Revoked {
    pub(crate) fn new(all: impl IntoIterator<Item = String>) -> Self {
        Self(all.into_iter().collect())
    }

    /// Holds a name to what it may be.
    pub(crate) fn check(who: &str) -> Result<(), NobodyNamed> {
        let is_right = match who.split_once('/') {
            Some(("tenant" | "node" | "operator", name)) => is_name(name),
            Some(("serial", number)) => {
                !number.is_empty()
                    && number.len() <= 40
                    && number.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'))
            }
            _ => false,
        };
        let found = || who.chars().take(80).flat_map(char::escape_default).collect();
        if is_right { Ok(()) } else { Err(NobodyNamed { found: found() }) }
    }

    /// Whether that is news.
    pub(crate) fn change(&mut self, who: &str, lift: bool) -> bool {
        if lift { self.0.remove(who) } else { self.0.insert(who.to_owned()) }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    /// By which of its names somebody is revoked, if he is.
    pub(crate) fn find(&self, who: &Identity, serial: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let names = [("tenant", &who.tenant), ("node", &who.node), ("operator", &who.operator)];
        let names = names.iter().filter_map(|(kind, name)| Some(format!("{kind}/{}", name.as_ref()?)));
        let serial = (!serial.is_empty()).then(|| format!("serial/{serial}"));
        names.chain(serial).find_map(|name| self.0.get(&name).map(String::as_str))
    }
}

/// What whoever shows a revoked certificate hears.
pub(crate) fn refusal(revoked: &str) -> Status {
    Status::unauthenticated(format!(
        "expected a certificate that counts, found one that is revoked ({revoked}); ask the operator for another"
    ))
}

/// The serial number of a certificate, in hexadecimal digits; empty if it has none.
pub(crate) fn serial_of(certificate: &CertificateDer<'_>) -> String {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return String::new() };
    certificate.serial().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_nobody_is_refused() {
        for right in ["tenant/blue", "node/leaf-1", "operator/a.b", "serial/00ff"] {
            assert_eq!(Revoked::check(right), Ok(()));
        }
        for wrong in ["", "blue", "tenant/", "tenant/a b", "serial/", "serial/FF", "serial/xyz", "host/a"] {
            assert!(Revoked::check(wrong).is_err(), "{wrong}");
        }
    }
}
