//! What `--json` prints: rows, and around them what was run, by which version, on which machine and when.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::out::say;

/// How results are printed if not for people.
#[derive(Args)]
pub(crate) struct Printed {
    /// Print one JSON object instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print rows of comma-separated values instead of a table: what JSON has in them but lists
    #[arg(long)]
    csv: bool,
}

impl Printed {
    /// Whether it is.
    pub(crate) const fn is_for_programs(&self) -> bool {
        self.json || self.csv
    }

    /// Prints an object with its rows, or these alone.
    pub(crate) fn print(&self, object: &Value) {
        if self.csv {
            say!("{}", csv(object["rows"].as_array().map_or(&[], Vec::as_slice)));
        } else {
            say!("{object}");
        }
    }
}

/// Columns that stand first, if there are some of them.
const FIRST: [&str; 12] = [
    "what",
    "measure",
    "paper",
    "id",
    "design",
    "collective",
    "size",
    "count",
    "type",
    "redop",
    "root",
    "time_us",
];

/// Rows as RFC 4180 has them, below the names of all columns that one of them has, which of an object are `object.key`; lists are left out.
fn csv(rows: &[Value]) -> String {
    let flat: Vec<Vec<(String, String)>> = rows
        .iter()
        .map(|row| {
            let mut fields = Vec::new();
            flatten("", row.as_object().unwrap_or(&Map::new()), &mut fields);
            fields
        })
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in flat.iter().flatten() {
        if !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    columns.sort_by_key(|column| FIRST.iter().position(|first| first == column).unwrap_or(FIRST.len()));
    let header = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
    let lines = flat.iter().map(|row| {
        let of = |column: &&str| {
            row.iter().find(|(name, _)| name == column).map(|(_, value)| quoted(value)).unwrap_or_default()
        };
        columns.iter().map(of).collect::<Vec<_>>().join(",")
    });
    std::iter::once(header).chain(lines).collect::<Vec<_>>().join("\n")
}

fn flatten(prefix: &str, object: &Map<String, Value>, fields: &mut Vec<(String, String)>) {
    for (key, value) in object {
        match value {
            Value::Object(inner) => flatten(&format!("{prefix}{key}."), inner, fields),
            Value::Array(_) => {}
            Value::Null => fields.push((format!("{prefix}{key}"), String::new())),
            Value::String(text) => fields.push((format!("{prefix}{key}"), text.clone())),
            other => fields.push((format!("{prefix}{key}"), other.to_string())),
        }
    }
}

/// A field (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The object that a command prints with `--json`.
pub(crate) fn envelope(command: &str, rows: &[Value]) -> Value {
    let mut object = described(command);
    object["rows"] = rows.into();
    object
}

/// The same with the rows once more, by the name that they had at first: scripts ask for it.
pub(crate) fn rows_and(command: &str, name: &str, rows: &[Value]) -> Value {
    let mut object = envelope(command, rows);
    object[name] = rows.into();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_csv_have_the_columns_of_all_and_no_lists() {
        let rows = [
            json!({"design": "a, \"b\"", "drops": {"late": 3}, "links": [1, 2], "error": null}),
            json!({"design": "c", "time_us": 1.5}),
        ];
        let text = csv(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["design,time_us,drops.late,error", "\"a, \"\"b\"\"\",,3,", "c,1.5,,"]);
    }
}
