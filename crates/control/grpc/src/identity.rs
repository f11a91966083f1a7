//! Who calls, as the certificate of a connection says, and what that one may do. Certificates carry names as URIs:
//! `quincunx:node/leaf1`, `quincunx:tenant/blue`, `quincunx:operator/alice`; a host's may have a node's and a tenant's.

use quincunx_control::{NodeDescription, Role, Speaker};
use std::fmt;
use tonic::transport::CertificateDer;
use webpki::EndEntityCert;

/// What the names in certificates begin with.
const SCHEME: &str = "quincunx:";

/// Who calls. What it may do follows from that alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Identity {
    /// A process of this machine, at a manager without TLS: it may do everything.
    pub(crate) is_local: bool,
    /// May see and end everything.
    pub(crate) operator: Option<String>,
    /// May see and end its own groups, and run hosts whose names begin with its own and a slash.
    pub(crate) tenant: Option<String>,
    /// May attach under this name: as a host if it is a tenant's, too.
    pub(crate) node: Option<String>,
}

/// What somebody may not do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}, found {found}; {remedy}")]
pub(crate) struct Forbidden {
    expected: String,
    found: String,
    remedy: &'static str,
}

impl Identity {
    /// Whoever reaches a manager without TLS, which is on loopback.
    pub(crate) fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Whom a certificate names that TLS has found to be good. Names that make no sense are none.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Self {
        let mut identity = Self::default();
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return identity };
        for uri in certificate.valid_uri_names() {
            let name = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
            let Some((kind, name)) = name.filter(|(_, name)| is_name(name)) else { continue };
            let field = match kind {
                "operator" => &mut identity.operator,
                "tenant" => &mut identity.tenant,
                "node" => &mut identity.node,
                _ => continue,
            };
            *field = Some(name.to_owned());
        }
        identity
    }

    /// The tenant whose groups it makes; empty: nobody's in particular.
    pub(crate) fn owner(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }

    /// Whether it may see and end all that there is.
    pub(crate) fn is_operator(&self) -> bool {
        self.is_local || self.operator.is_some()
    }

    /// Whether it may see and end what is `owner`'s.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.is_operator() || self.tenant.as_deref().is_some_and(|tenant| tenant == owner)
    }

    /// Whether it may ask for groups at all: switches may not.
    pub(crate) fn check_asks(&self) -> Result<(), Forbidden> {
        if self.is_operator() || self.tenant.is_some() {
            return Ok(());
        }
        Err(Forbidden {
            expected: "the certificate of a tenant or an operator".into(),
            found: self.to_string(),
            remedy: "ask with a certificate that `quincunx manager init --tenant NAME` makes",
        })
    }

    /// Whether it may change what is everybody's, as switches are.
    pub(crate) fn check_operates(&self) -> Result<(), Forbidden> {
        if self.is_operator() {
            return Ok(());
        }
        Err(Forbidden {
            expected: "the certificate of an operator".into(),
            found: self.to_string(),
            remedy: "ask with a certificate that `quincunx manager init --operator NAME` makes",
        })
    }

    /// Whether it may attach such a node.
    pub(crate) fn check_attaches(&self, node: &NodeDescription) -> Result<(), Forbidden> {
        self.check_is(&node.name)?;
        if node.role == Role::Switch && self.tenant.is_some() {
            return Err(Forbidden {
                expected: "a host with a tenant's certificate".into(),
                found: format!("switch \"{}\" with {self}", start_of(&node.name)),
                remedy: "attach it with a certificate that `quincunx manager init --node NAME` makes",
            });
        }
        Ok(())
    }

    /// Whom it may speak for.
    pub(crate) fn speaker(&self) -> Speaker {
        Speaker { is_anybody: self.is_local, node: self.node.clone(), tenant: self.tenant.clone() }
    }

    /// Whether it may speak for the node of that name.
    pub(crate) fn check_is(&self, node: &str) -> Result<(), Forbidden> {
        if self.speaker().speaks_for(node) {
            return Ok(());
        }
        Err(Forbidden {
            expected: format!("the certificate of node \"{}\"", start_of(node)),
            found: self.to_string(),
            remedy: "nodes speak for themselves alone; a tenant's hosts have names such as TENANT/NAME (QUINCUNX_JOB=TENANT/NAME, --name)",
        })
    }
}

/// `tenant blue, node gpu1`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [("operator", &self.operator), ("tenant", &self.tenant), ("node", &self.node)];
        let named = names.iter().filter_map(|(kind, name)| Some(format!("{kind} {}", name.as_ref()?)));
        let named: Vec<String> = named.collect();
        match (self.is_local, named.is_empty()) {
            (true, _) => f.write_str("this machine"),
            (_, true) => f.write_str("a certificate that names nobody"),
            _ => f.write_str(&named.join(", ")),
        }
    }
}

/// Whether certificates may name somebody so.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain)
}

/// A name as a certificate carries it.
pub(crate) fn uri(kind: &str, name: &str) -> String {
    format!("{SCHEME}{kind}/{name}")
}

/// The first certificate of a PEM text.
pub(crate) fn from_pem(text: &str) -> Option<CertificateDer<'static>> {
    use rustls_pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(text.as_bytes()).ok()
}

/// How a name begins that may be of any length and hold anything, in one line.
fn start_of(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_default).collect()
}
