//! What a store is, and what is kept in it.

use quincunx_control::{Change, GroupRecord};
use std::fmt;

/// The form of what is kept; another program's, or another version's, is refused.
pub(super) const VERSION: u32 = 1;

/// Why there is no store, or it does not take something. All on one line.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite.
    #[error(
        "expected to keep groups in {path}, found \"{reason}\"; name a file in a folder that one may write to"
    )]
    Sqlite {
        /// The file.
        path: String,
        /// What it said.
        reason: String,
    },
    /// etcd.
    #[error("expected to keep groups in {place}, found \"{reason}\"; see whether etcd runs there")]
    Etcd {
        /// Where.
        place: String,
        /// What it said, or what came instead.
        reason: String,
    },
    /// This program knows no etcd.
    #[error(
        "expected a file to keep groups in, found {place}, and this program is built without etcd; name a file, or build it with --features etcd"
    )]
    LeftOut {
        /// Where.
        place: String,
    },
    /// etcd is not on loopback, and there are no credentials for it.
    #[error(
        "expected credentials for {place}, which is not on loopback, found none; name a certificate, its key and etcd's authority in one file with --store-identity"
    )]
    Bare {
        /// Where.
        place: String,
    },
    /// Another manager has it.
    #[error(
        "expected {place} for this manager alone, found another one that has it; stop that, name another one, or wait for it with --standby"
    )]
    Taken {
        /// Where.
        place: String,
    },
    /// It was this manager's, and is not any more.
    #[error(
        "expected to hold {place}, found that the lease is over: another manager may have it; start this one again with --standby"
    )]
    Lost {
        /// Where.
        place: String,
    },
    /// What is there makes no sense.
    #[error(
        "expected groups of version {VERSION} in {place}, found {found}; move it away, and nodes forget what they had"
    )]
    Contents {
        /// Where.
        place: String,
        /// What is there.
        found: String,
    },
}

/// What was kept.
#[derive(Debug)]
pub(crate) struct StoredState {
    /// Group numbers below this have been given away.
    pub(crate) numbers: u32,
    /// Groups that were ready, with their names.
    pub(crate) groups: Vec<(GroupRecord, String)>,
    /// Whose certificates are not heard.
    pub(crate) revoked: Vec<String>,
}

impl Default for StoredState {
    fn default() -> Self {
        Self { numbers: 1, groups: Vec::new(), revoked: Vec::new() }
    }
}

/// Where a manager keeps things, as long as it is the only one that does.
pub(crate) trait Store: fmt::Debug + Send {
    /// Keeps a change; `name` is what operators call its group.
    fn keep(&self, change: &Change, name: &str) -> Result<(), StoreError>;

    /// Keeps that somebody's certificates are not heard, or are again.
    fn keep_revoked(&self, who: &str, lift: bool) -> Result<(), StoreError>;
}
