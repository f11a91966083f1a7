//! What survives a manager: which group numbers are given away, the groups that are ready, and whose certificates are not heard. Everything is
//! kept before the manager does what follows from it; one manager at a time keeps anything.

#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod kept;

pub use kept::StoreError;
pub(crate) use kept::{Store, StoredState};

use crate::{Credentials, ManagerAddress};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often a manager that stands by looks whether the store is free.
const POLL: Duration = Duration::from_millis(100);

/// Where groups are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StorePlace {
    /// In an SQLite file, which its manager has locked.
    File(PathBuf),
    /// In etcd, whose lease its manager holds.
    Etcd {
        /// Its members; one that answers is enough.
        members: Vec<ManagerAddress>,
        /// What all keys begin with: one for each fabric.
        prefix: String,
        /// What the manager shows to etcd, and whom it trusts; without, etcd is on loopback.
        credentials: Option<Credentials>,
    },
}

/// No place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a file, or etcd://HOST:PORT[,HOST:PORT]/PREFIX, found \"{found}\"; write it so")]
pub struct StorePlaceError {
    found: String,
}

/// The port of etcd that an address without one means.
const ETCD_PORT: u16 = 2379;

impl FromStr for StorePlace {
    type Err = StorePlaceError;

    fn from_str(text: &str) -> Result<Self, StorePlaceError> {
        let wrong = || StorePlaceError { found: text.chars().take(80).collect() };
        let Some(rest) = text.strip_prefix("etcd://") else {
            return if text.is_empty() { Err(wrong()) } else { Ok(Self::File(text.into())) };
        };
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let member = |text| ManagerAddress::parse(text, ETCD_PORT).map_err(|_| wrong());
        let members = members.split(',').map(member).collect::<Result<_, _>>()?;
        let prefix = if prefix.is_empty() { "quincunx" } else { prefix };
        if !prefix.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(wrong());
        }
        Ok(Self::Etcd { members, prefix: prefix.trim_end_matches('/').into(), credentials: None })
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Etcd { members, prefix, .. } => {
                let members: Vec<String> = members.iter().map(ToString::to_string).collect();
                write!(f, "etcd://{}/{prefix}", members.join(","))
            }
        }
    }
}

/// Opens a store, and reads what was kept. With `standby` it waits for the manager that has it to end, without end; `lost` hears when the
/// store is not this manager's any more.
pub(crate) fn open(
    place: &StorePlace,
    standby: bool,
    lost: &mpsc::Sender<StoreError>,
) -> Result<(Box<dyn Store>, StoredState), StoreError> {
    let mut told = false;
    loop {
        let opened: Result<(Box<dyn Store>, StoredState), StoreError> = match place {
            StorePlace::File(path) => {
                file::FileStore::open(path).map(|(store, stored)| (Box::new(store) as _, stored))
            }
            #[cfg(not(feature = "etcd"))]
            StorePlace::Etcd { .. } => {
                let _ = lost;
                return Err(StoreError::LeftOut { place: place.to_string() });
            }
            #[cfg(feature = "etcd")]
            StorePlace::Etcd { members, prefix, credentials } => {
                let place = place.to_string();
                etcd::EtcdStore::open(place, members, prefix, credentials.as_ref(), lost)
                    .map(|(store, stored)| (Box::new(store) as _, stored))
            }
        };
        match opened {
            Err(StoreError::Taken { place }) if standby => {
                if !told {
                    tracing::info!(place, "stands by: another manager has the store");
                    told = true;
                }
                std::thread::sleep(POLL);
            }
            // Of an etcd that is away for a while, too: who stands by has time.
            Err(error @ StoreError::Etcd { .. }) if standby && told => {
                tracing::warn!(%error, "stands by");
                std::thread::sleep(POLL);
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::GroupId;
    use quincunx_control::memory::Region;
    use quincunx_control::{GroupFailure, GroupRecord, GroupRequest, RecreatedGroup};
    use quincunx_designs::CATALOG;
    use quincunx_units::{ByteCount, Duration};
    use quincunx_wire::QpNumber;

    /// A group with all that one can have.
    pub(super) fn record(group: u32) -> Box<GroupRecord> {
        let [offset, length] = [u64::from(group) * 8, 8].map(ByteCount::new);
        let design = CATALOG.named("epic-2").unwrap();
        let members = ["a", "b"].map(str::to_owned).to_vec();
        let request = GroupRequest {
            owner: "blue".to_owned(),
            lease: Some(Duration::from_secs(3)),
            ..GroupRequest::new(members, design, ByteCount::new(64))
        };
        let queue_pairs = |numbers: [u32; 2]| numbers.map(QpNumber::new).into();
        let nodes = [
            ("a".to_owned(), (queue_pairs([16, 17]), None)),
            ("s".to_owned(), (queue_pairs([18, 19]), Some(Region { offset, length }))),
        ];
        Box::new(GroupRecord {
            group: GroupId(group),
            request,
            design: "epic-2".to_owned(),
            fallback: None,
            nodes: nodes.into(),
            switches: vec!["s".to_owned()],
            links: vec![["a", "s"].map(str::to_owned)],
            conflicts: 1,
            recreated: Some(RecreatedGroup {
                earlier: vec![GroupId(1), GroupId(2)],
                first: 7,
                failure: GroupFailure { node: "t".to_owned(), reason: "gone".to_owned() },
            }),
            contends: true,
        })
    }

    #[cfg(not(feature = "etcd"))]
    #[test]
    fn a_program_without_etcd_says_so_in_a_line() {
        let (lost, _) = mpsc::channel(1);
        let error = open(&"etcd://127.0.0.1/one".parse().unwrap(), true, &lost).unwrap_err().to_string();
        assert!(error.contains("etcd://127.0.0.1:2379/one") && error.contains("--features etcd"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn places_are_files_and_members_of_etcd() {
        for (text, expected) in [
            ("groups.sqlite", "groups.sqlite"),
            ("etcd://10.0.0.1", "etcd://10.0.0.1:2379/quincunx"),
            ("etcd://a:1,[fd00::1]:2/fabrics/one/", "etcd://a:1,[fd00::1]:2/fabrics/one"),
        ] {
            let place: StorePlace = text.parse().unwrap();
            assert_eq!(place.to_string(), expected);
            assert_eq!(expected.parse(), Ok(place));
        }
        for text in ["", "etcd://", "etcd:///x", "etcd://a:b/x", "etcd://a/x y"] {
            let error = text.parse::<StorePlace>().unwrap_err().to_string();
            assert!(error.starts_with("expected a file, or etcd://"), "{text}: {error}");
        }
    }
}
