//! A fabric that has a name by its shape, as it is written: with all keys that such fabrics have, so that what the file does not say can be
//! read and changed.

use crate::ImportError;
use crate::body::Body;
use crate::notes::Notes;
use quincunx_scenario::Scenario;
use quincunx_units::{BitRate, Duration};
use toml::{Table, Value};

const EXPECTED: &str = "a fabric that can be named by its shape";

/// Hosts at a switch.
const STAR: &str = "star-2";

/// The fabric of that name with links of a rate, and of a latency if that is known.
pub(crate) fn write(
    name: &str,
    rate: BitRate,
    latency: Option<Duration>,
    mut about: Vec<String>,
    notes: &Notes,
) -> Result<Body, ImportError> {
    let wrong = |found: String| notes.wrong(None, EXPECTED, found, "take a part of it");
    let mut table = keys(name, notes)?;
    let link = table.get_mut("link").and_then(Value::as_table_mut);
    let link = link.ok_or_else(|| wrong(format!("{name} without [link]")))?;
    link.insert("rate".into(), rate.to_string().into());
    if let Some(latency) = latency {
        link.insert("latency".into(), latency.to_string().into());
    }
    let said = if latency.is_some() { "rates and latencies" } else { "rates" };
    about.push(format!("The shape, and {said} of links, are the file's; all else is what {name} has."));
    let text = toml::to_string(&table).map_err(|error| wrong(error.to_string()))?;
    Ok(Body { about, text })
}

/// The keys that a fabric of that name has.
fn keys(name: &str, notes: &Notes) -> Result<Table, ImportError> {
    let found = Scenario::document(name).and_then(|document| document.get::<Table>());
    found.map_err(|error| notes.wrong(None, EXPECTED, error.to_string(), "take a part of it"))
}

/// The latency that hosts' links have where nobody says another.
pub(crate) fn latency(notes: &Notes) -> Result<Duration, ImportError> {
    let table = keys(STAR, notes)?;
    let latency = table.get("link").and_then(|link| link.get("latency")?.as_str()?.parse().ok());
    latency.ok_or_else(|| {
        notes.wrong(None, EXPECTED, format!("{STAR} without a latency"), "name another fabric")
    })
}
