//! Certificates of a run in namespaces: its manager listens where others could reach it, so it asks for them.

use quincunx_control_grpc::{Authority, Subject};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LaunchError;

/// Whose the ranks are.
const TENANT: &str = "perf";

/// A folder with a file for each process, which goes with this value.
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// For a manager, so many switches, and ranks of these names.
    pub(crate) fn issue(switches: usize, ranks: &[String]) -> Result<Self, LaunchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("quincunx-certificates-{}-{serial}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let failed =
            |error: io::Error| LaunchError::CertificateFiles { path: folder.display().to_string(), error };
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let certificates = Self { folder: folder.clone() };
        let authority = Authority::new()?;
        let switches = (0..switches).map(|index| format!("switch{index}"));
        let mut subjects = vec![("manager".to_owned(), Subject::Manager)];
        subjects.extend(switches.map(|name| (name.clone(), Subject::Node(name))));
        let host =
            |name: &String| (name.clone(), Subject::Host { node: name.clone(), tenant: TENANT.to_owned() });
        subjects.extend(ranks.iter().map(host));
        for (name, subject) in subjects {
            let issued = authority.issue(&subject, 1)?;
            let made =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(certificates.file(&name));
            made.and_then(|mut file| file.write_all(issued.as_bytes())).map_err(failed)?;
        }
        Ok(certificates)
    }

    /// What a process is started with to show its own.
    pub(crate) fn arguments(&self, name: &str) -> [String; 2] {
        ["--identity".to_owned(), self.file(name).display().to_string()]
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // What the system does not remove it cleans up with its temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
