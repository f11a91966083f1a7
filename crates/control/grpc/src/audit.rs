//! The audit log: who asked for what that changes something, or was refused, a JSON object a line.

use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;
use time::OffsetDateTime;

/// A file that lines are added to; nobody but its owner may read one that is made anew.
#[derive(Debug)]
pub(crate) struct Audit(File);

/// One call.
pub(crate) struct Entry<'a> {
    pub(crate) who: String,
    pub(crate) peer: String,
    pub(crate) call: &'a str,
    pub(crate) what: &'a str,
    pub(crate) verdict: &'static str,
    pub(crate) reason: &'a str,
}

impl Audit {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(Self)
    }

    /// Adds a line. One that cannot be written is told of in the log: the call has had its effect.
    pub(crate) fn write(&mut self, entry: &Entry<'_>) {
        let Entry { who, peer, call, what, verdict, reason } = entry;
        let line = json!({
            "time": now(), "who": who, "peer": peer, "call": call, "what": what, "verdict": verdict, "reason": reason,
        });
        // One write a line: lines stay whole, whoever else appends.
        if let Err(error) = self.0.write_all(format!("{line}\n").as_bytes()) {
            tracing::error!(%error, %line, "audit log cannot be written");
        }
    }
}

/// As `2026-11-22T18:39:06.123Z`.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at =
        OffsetDateTime::from_unix_timestamp(since.as_secs() as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let ((year, month, day), (hour, minute, second)) = (at.to_calendar_date(), at.to_hms());
    let (month, millis) = (u8::from(month), since.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}
