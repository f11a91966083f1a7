//! What `--json` prints: rows, and around them what was run, by which version, on which machine and when.

use serde_json::{Value, json};

/// The object that a command prints with `--json`.
pub(crate) fn envelope(command: &str, rows: &[Value]) -> Value {
    let mut object = described(command);
    object["rows"] = rows.into();
    object
}

/// The same without rows: what each such object says of itself.
pub(crate) fn described(command: &str) -> Value {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    json!({
        "schema": 1,
        "command": command,
        "version": env!("CARGO_PKG_VERSION"),
        "arguments": arguments,
        "machine": machine(),
        "time": now(),
    })
}

/// What times were measured on; nothing that tells one machine from another of its kind.
fn machine() -> Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let processor = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "architecture": std::env::consts::ARCH,
        "processor": processor.map(|(_, name)| name),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

/// As ISO 8601 has it, in UTC.
fn now() -> String {
    let now = time::OffsetDateTime::now_utc();
    let (date, time) = (now.date(), now.time());
    let month = u8::from(date.month());
    let [hour, minute, second] = [time.hour(), time.minute(), time.second()];
    format!("{:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", date.year(), date.day())
}
