//! Simulated times that are kept from one call to the next, for this build of the program: another one may simulate something else.

use quincunx_sim::KnownTimes;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// What is known, and where it is kept.
pub(crate) struct Kept {
    /// What is known.
    pub(crate) times: KnownTimes,
    path: Option<PathBuf>,
    before: usize,
}

impl Kept {
    /// Nothing, and nowhere.
    pub(crate) fn none() -> Self {
        Self { times: KnownTimes::default(), path: None, before: 0 }
    }

    /// What earlier calls have kept. Where that cannot be read, everything is simulated.
    pub(crate) fn open() -> Self {
        let path = path();
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let times = KnownTimes::read(&text);
        let before = times.len();
        Self { times, path, before }
    }

    /// Keeps what is known now, if that is more. A call beside this one loses what it has found itself, never part of a line.
    pub(crate) fn close(&self) {
        let Some(path) = self.path.as_ref().filter(|_| self.times.len() > self.before) else { return };
        let beside = path.with_extension(std::process::id().to_string());
        let is_written = path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok())
            && fs::write(&beside, self.times.text()).is_ok();
        // Without it the next call is slower, and nothing else.
        if !(is_written && fs::rename(&beside, path).is_ok()) {
            let _ = fs::remove_file(&beside);
        }
    }
}

/// `~/.cache/quincunx/times-…`, by the length and the date of the program's file.
fn path() -> Option<PathBuf> {
    let program = fs::metadata(env::current_exe().ok()?).ok()?;
    let made = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    let version = env!("CARGO_PKG_VERSION");
    Some(folder.join("quincunx").join(format!("times-{version}-{}-{}", program.len(), made.as_nanos())))
}
