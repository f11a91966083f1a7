//! Certificates of a run in namespaces: its manager listens where others could reach it, so it asks for them.

use quincunx_control_grpc::{Authority, Subject};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::LaunchError;

/// Whose the ranks are.
const TENANT: &str = "perf";

/// A file for each process.
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// For a manager, so many switches, and ranks of these names, in a `folder` that nobody else reads and that goes with the
    /// run, however it ends.
    pub(crate) fn issue(folder: &Path, switches: usize, ranks: &[String]) -> Result<Self, LaunchError> {
        let certificates = Self { folder: folder.to_owned() };
        let failed =
            |error: io::Error| LaunchError::CertificateFiles { path: folder.display().to_string(), error };
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
