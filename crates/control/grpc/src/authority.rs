//! An authority of one's own, for newcomers and tests: it issues certificates to managers, nodes, tenants and operators, and knows no more
//! than that. Who has a public-key infrastructure already needs nothing of it but the names that [`Identity`](crate::Identity) reads.

use crate::credentials::MANAGER_NAME;
use crate::identity::{is_name, uri};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use std::time::SystemTime;
use time::{Duration, OffsetDateTime};

/// What the authority is called, in all its certificates.
const NAME: &str = "Quincunx authority";

/// How long the authority is good for; its certificates are for as long as is asked.
const AUTHORITY_DAYS: i64 = 3650;

/// Somebody who gets a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The manager: the only one that nodes take for it.
    Manager,
    /// A node by its name: a switch, or a host of nobody in particular.
    Node(String),
    /// A host of a tenant's.
    Host {
        /// Its name.
        node: String,
        /// Whose it is.
        tenant: String,
    },
    /// A tenant.
    Tenant(String),
    /// An operator.
    Operator(String),
}

/// Why there is no certificate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthorityError {
    /// What it was to be called.
    #[error(
        "expected a name of at most 64 letters, digits, '-', '_' and '.', found {found:?}; choose another"
    )]
    Name {
        /// As given.
        found: String,
    },
    /// The key of the authority, or the system's random numbers.
    #[error(
        "expected to issue a certificate, found \"{reason}\"; see whether the authority's key is what it was"
    )]
    Failed {
        /// Why.
        reason: String,
    },
}

/// The key that vouches for everybody.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = params()?;
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) })
    }

    /// One that was made before, from its certificate and key.
    ///
    /// # Errors
    /// If the key is none.
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let pair = KeyPair::from_pem(key).map_err(failed)?;
        Ok(Self {
            issuer: Issuer::new(params()?, pair),
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Its certificate, which everybody trusts, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its key, which nobody else must have, as PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Credentials for somebody, as [`Credentials::read`](crate::Credentials::read) takes them, good for so many days.
    ///
    /// # Errors
    /// If the name cannot be.
    pub fn issue(&self, subject: &Subject, days: u32) -> Result<String, AuthorityError> {
        let (common, names): (&str, Vec<(&str, &str)>) = match subject {
            Subject::Manager => (MANAGER_NAME, vec![]),
            Subject::Node(node) => (node, vec![("node", node)]),
            Subject::Host { node, tenant } => (node, vec![("node", node), ("tenant", tenant)]),
            Subject::Tenant(tenant) => (tenant, vec![("tenant", tenant)]),
            Subject::Operator(operator) => (operator, vec![("operator", operator)]),
        };
        if let Some((_, found)) = names.iter().find(|(_, name)| !is_name(name)) {
            return Err(AuthorityError::Name { found: (*found).chars().take(80).collect() });
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(common);
        valid_for(&mut params, i64::from(days))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        if *subject == Subject::Manager {
            // A node's certificate is of no use to whoever wants to be taken for the manager, nor the other way round.
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = vec![SanType::DnsName(MANAGER_NAME.try_into().map_err(failed)?)];
        } else {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            for (kind, name) in names {
                params.subject_alt_names.push(SanType::URI(uri(kind, name).try_into().map_err(failed)?));
            }
        }
        let key = KeyPair::generate().map_err(failed)?;
        // The public key of each certificate is its own, and so is the number that is made of it.
        params.serial_number = Some(SerialNumber::from_slice(&params.key_identifier(&key)[..16]));
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok([certificate.pem(), key.serialize_pem(), self.certificate.clone()].concat())
    }
}

/// The authority's own.
fn params() -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished(NAME);
    valid_for(&mut params, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn distinguished(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// From an hour ago, for clocks differ.
fn valid_for(params: &mut CertificateParams, days: i64) -> Result<(), AuthorityError> {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(failed)?.as_secs();
    let now = OffsetDateTime::from_unix_timestamp(seconds as i64).map_err(failed)?;
    params.not_before = now - Duration::hours(1);
    params.not_after =
        now.checked_add(Duration::days(days)).ok_or_else(|| failed("the end of all calendars"))?;
    Ok(())
}

fn failed(error: impl ToString) -> AuthorityError {
    AuthorityError::Failed { reason: error.to_string() }
}
