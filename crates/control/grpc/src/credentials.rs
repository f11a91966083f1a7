//! A certificate, its key and the authority that is trusted, in one PEM file: what a manager, a node, a tenant or an operator shows.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity as TlsIdentity, ServerTlsConfig};

/// The name that a manager's certificate has, wherever it runs: nodes trust an authority, not a host.
pub(crate) const MANAGER_NAME: &str = "manager.quincunx";

/// What one end of a connection shows, and whom it trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its certificate, then those that vouch for it.
    chain: String,
    key: String,
    /// The authority's certificate: it vouches for whoever is at the other end.
    authority: String,
}

/// Why they cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file.
    #[error("expected to read {path}, found \"{reason}\"; name a file that `quincunx manager init` has made")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// What is in it.
    #[error(
        "expected a certificate, its key and the authority's certificate in {path}, found {found}; name a file that `quincunx manager init` has made"
    )]
    Content {
        /// The file.
        path: String,
        /// What is there.
        found: String,
    },
}

impl Credentials {
    /// Reads a file: certificate, private key, certificates that vouch for it, and last the authority's.
    ///
    /// # Errors
    /// If it cannot be read, or has not all of these.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| CredentialsError::Read { path: name.clone(), reason: error.to_string() })?;
        Self::parse(&text, &name)
    }

    /// The same from its text; `name` is for errors.
    ///
    /// # Errors
    /// If it has not all that it must.
    pub fn parse(text: &str, name: &str) -> Result<Self, CredentialsError> {
        let (mut certificates, mut keys) = (Vec::new(), Vec::new());
        for (label, block) in blocks(text) {
            if label == "CERTIFICATE" {
                certificates.push(block);
            } else if label.ends_with("PRIVATE KEY") {
                keys.push(block);
            }
        }
        let (count, key_count) = (certificates.len(), keys.len());
        match (certificates.pop(), keys.pop()) {
            (Some(authority), Some(key)) if count > 1 && key_count == 1 => {
                Ok(Self { chain: certificates.concat(), key, authority })
            }
            _ => Err(CredentialsError::Content {
                path: name.to_owned(),
                found: format!("{count} certificates and {key_count} keys"),
            }),
        }
    }

    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(TlsIdentity::from_pem(&self.chain, &self.key))
            .client_ca_root(Certificate::from_pem(&self.authority))
    }

    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(TlsIdentity::from_pem(&self.chain, &self.key))
            .ca_certificate(Certificate::from_pem(&self.authority))
            .domain_name(MANAGER_NAME)
    }

    /// The same for a connection that speaks no gRPC of its own.
    ///
    /// # Errors
    /// If certificate and key do not fit, or are of no kind that is known.
    pub(crate) fn raw_client(&self) -> io::Result<Arc<ClientConfig>> {
        let wrong = |error: &dyn fmt::Display| {
            io::Error::other(format!(
                "expected credentials that are good, found \"{error}\"; make new ones with `quincunx manager init`"
            ))
        };
        let certificates = |text: &str| {
            let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
            all.map_err(|error| wrong(&error))
        };
        let mut authorities = RootCertStore::empty();
        for authority in certificates(&self.authority)? {
            authorities.add(authority).map_err(|error| wrong(&error))?;
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| wrong(&error))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| wrong(&error))?.with_root_certificates(authorities);
        let mut config =
            config.with_client_auth_cert(certificates(&self.chain)?, key).map_err(|error| wrong(&error))?;
        // gRPC is HTTP/2.
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// The serial number of the certificate that is shown, in hexadecimal digits: what [`ControlClient::revoke`](crate::ControlClient::revoke)
    /// takes behind `serial/`.
    pub fn serial(&self) -> Option<String> {
        crate::identity::from_pem(&self.chain).map(|certificate| crate::revoked::serial_of(&certificate))
    }

    /// The tenant that it names, if it names no node beside.
    pub fn names_a_tenant_alone(&self) -> Option<String> {
        let certificate = crate::identity::from_pem(&self.chain)?;
        let crate::Identity { tenant, node: None, .. } = crate::Identity::of_certificate(&certificate) else {
            return None;
        };
        tenant
    }

    /// Whose hosts a process with these may run; `None`: they are no tenant's.
    pub fn tenant(&self) -> Option<String> {
        let certificate = crate::identity::from_pem(&self.chain)?;
        crate::Identity::of_certificate(&certificate).tenant
    }
}

/// Without the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The blocks of a PEM text, each with its label.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, begun)) = rest.split_once("-----BEGIN ") {
        let Some((label, body)) = begun.split_once("-----") else { break };
        let Some((body, after)) = body.split_once(&format!("-----END {label}-----")) else { break };
        blocks.push((label, format!("-----BEGIN {label}-----{body}-----END {label}-----\n")));
        rest = after;
    }
    blocks
}
