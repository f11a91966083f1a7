//! The store as an SQLite file: everything is on the disk before the manager does what follows from it. The file is locked as long as its
//! manager lives, so that the next one can wait for its end, however that comes.

use super::kept::{Store, StoreError, StoredState, VERSION};
use crate::{convert, proto};
use prost::Message;
use quincunx_collective::GroupId;
use quincunx_control::Change;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS manager (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS groups (number INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS revoked (who TEXT PRIMARY KEY);
";

/// The file. One manager has it at a time.
#[derive(Debug)]
pub(crate) struct FileStore {
    path: String,
    connection: Connection,
}

impl FileStore {
    /// Opens the file, which need not be there, and reads what was kept.
    pub(crate) fn open(path: &Path) -> Result<(Self, StoredState), StoreError> {
        let name = path.display().to_string();
        let sqlite = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy) => StoreError::Taken { place: name.clone() },
            Some(rusqlite::ErrorCode::NotADatabase) => {
                StoreError::Contents { place: name.clone(), found: "no SQLite file".to_owned() }
            }
            _ => StoreError::Sqlite { path: name.clone(), reason: error.to_string() },
        };
        let connection = Connection::open(path).map_err(sqlite)?;
        // It is locked from the first word on, and nobody waits for it.
        let settings = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; COMMIT;";
        connection.busy_timeout(std::time::Duration::ZERO).map_err(sqlite)?;
        connection.execute_batch(settings).map_err(sqlite)?;
        connection.execute_batch(TABLES).map_err(sqlite)?;
        let read = |key: &str| -> Result<Option<i64>, StoreError> {
            let query = "SELECT value FROM manager WHERE key = ?1";
            connection.query_row(query, [key], |row| row.get(0)).optional().map_err(sqlite)
        };
        let contents = |found: String| StoreError::Contents { place: name.clone(), found };
        match read("version")? {
            None => {
                let insert = "INSERT INTO manager VALUES ('version', ?1)";
                connection.execute(insert, [i64::from(VERSION)]).map_err(sqlite)?;
            }
            Some(version) if version == i64::from(VERSION) => {}
            Some(other) => return Err(contents(format!("version {other}"))),
        }
        let numbers = read("numbers")?.unwrap_or(1);
        let numbers = u32::try_from(numbers).map_err(|_| contents(format!("group number {numbers}")))?;
        let mut groups = Vec::new();
        {
            let mut query =
                connection.prepare("SELECT record FROM groups ORDER BY number").map_err(sqlite)?;
            let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).map_err(sqlite)?;
            for row in rows {
                let bytes = row.map_err(sqlite)?;
                let record =
                    proto::GroupRecord::decode(&bytes[..]).map_err(|error| contents(error.to_string()))?;
                groups.push(convert::decode_record(record).map_err(|error| contents(error.to_string()))?);
            }
        }
        let revoked = {
            let mut query = connection.prepare("SELECT who FROM revoked").map_err(sqlite)?;
            let rows = query.query_map([], |row| row.get::<_, String>(0)).map_err(sqlite)?;
            rows.collect::<Result<Vec<_>, _>>().map_err(sqlite)?
        };
        Ok((Self { path: name, connection }, StoredState { numbers, groups, revoked }))
    }
}

impl Store for FileStore {
    fn keep_revoked(&self, who: &str, lift: bool) -> Result<(), StoreError> {
        let change = match lift {
            true => "DELETE FROM revoked WHERE who = ?1",
            false => "INSERT OR REPLACE INTO revoked VALUES (?1)",
        };
        let done = self.connection.execute(change, [who]);
        done.map(drop)
            .map_err(|error| StoreError::Sqlite { path: self.path.clone(), reason: error.to_string() })
    }

    fn keep(&self, change: &Change, name: &str) -> Result<(), StoreError> {
        let done = match change {
            Change::Numbers(numbers) => {
                let upsert =
                    "INSERT INTO manager VALUES ('numbers', ?1) ON CONFLICT(key) DO UPDATE SET value = ?1";
                self.connection.execute(upsert, [i64::from(*numbers)])
            }
            Change::Put(record) => {
                let bytes = convert::encode_record(record, name).encode_to_vec();
                let upsert = "INSERT OR REPLACE INTO groups VALUES (?1, ?2)";
                self.connection.execute(upsert, params![i64::from(record.group.0), bytes])
            }
            Change::Remove(GroupId(group)) => {
                self.connection.execute("DELETE FROM groups WHERE number = ?1", [i64::from(*group)])
            }
        };
        done.map(drop)
            .map_err(|error| StoreError::Sqlite { path: self.path.clone(), reason: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    //! What is kept is there after all that a process may come to.

    use super::super::tests::record;
    use super::*;
    use std::path::PathBuf;

    /// A file of its own for each test, gone at its end.
    struct File(PathBuf);

    impl File {
        fn new(name: &str) -> Self {
            let file =
                Self(std::env::temp_dir().join(format!("quincunx-{name}-{}.sqlite", std::process::id())));
            file.remove();
            file
        }

        fn remove(&self) {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
            }
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            self.remove();
        }
    }

    #[test]
    fn what_was_kept_is_there_when_the_file_is_opened_again() {
        let file = File::new("kept");
        let (store, stored) = FileStore::open(&file.0).unwrap();
        assert_eq!((stored.numbers, stored.groups.len()), (1, 0));
        store.keep(&Change::Numbers(65), "").unwrap();
        store.keep(&Change::Put(record(3)), "train").unwrap();
        store.keep(&Change::Put(record(4)), "").unwrap();
        store.keep(&Change::Numbers(129), "").unwrap();
        store.keep(&Change::Remove(GroupId(4)), "").unwrap();
        drop(store);
        let (_, stored) = FileStore::open(&file.0).unwrap();
        assert_eq!((stored.numbers, stored.groups), (129, vec![(*record(3), "train".to_owned())]));
    }

    #[test]
    fn two_managers_never_have_one_file() {
        let file = File::new("taken");
        let first = FileStore::open(&file.0).unwrap();
        assert!(matches!(FileStore::open(&file.0), Err(StoreError::Taken { .. })));
        drop(first);
        FileStore::open(&file.0).unwrap();
    }

    #[test]
    fn what_is_no_store_of_this_version_is_refused_in_a_line() {
        let other = File::new("other");
        std::fs::write(&other.0, "members = [\"a\"]\n".repeat(100)).unwrap();
        let later = File::new("later");
        let (store, _) = FileStore::open(&later.0).unwrap();
        store.connection.execute("UPDATE manager SET value = 2 WHERE key = 'version'", []).unwrap();
        drop(store);
        let broken = File::new("broken");
        let (store, _) = FileStore::open(&broken.0).unwrap();
        store.connection.execute("INSERT INTO groups VALUES (1, x'ff')", []).unwrap();
        drop(store);
        for file in [&other, &later, &broken] {
            let error = FileStore::open(&file.0).unwrap_err();
            assert!(matches!(error, StoreError::Contents { .. }), "{error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
        let nowhere = FileStore::open(Path::new("/nonexistent/groups.sqlite")).unwrap_err();
        assert!(matches!(nowhere, StoreError::Sqlite { .. }), "{nowhere}");
    }
}
