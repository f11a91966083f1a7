//! A TOML document with single keys overridden, read into a type: whatever is wrong is said with the path of the key.

use crate::ScenarioError;
use quincunx_design::Assignment;
use serde::de::DeserializeOwned;
use std::str::FromStr;
use toml::{Table, Value};

/// A table of keys and where it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct Document {
    /// File or preset, for messages.
    pub place: String,
    table: Table,
    /// Keys that were set over what the file has.
    changed: Vec<String>,
}

/// One key to set: `link.rate=200Gbit/s`.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// The path, parts joined by dots.
    pub key: String,
    /// What to set it to.
    pub value: Value,
}

impl Override {
    /// The same for a design's parameters.
    pub fn assignment(&self) -> Assignment {
        let value = serde_json::to_value(&self.value).expect("an override is plain data");
        (self.key.clone(), value)
    }
}

impl FromStr for Override {
    type Err = ScenarioError;

    /// Numbers and `true`/`false` are read as such, everything else as text; the key's type decides what it means.
    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let wrong = || ScenarioError::Override { found: text.into() };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let key = key.trim();
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(wrong());
        }
        let value = value.trim();
        // Not what `f64` reads besides: infinity and the like are texts.
        let fraction =
            Some(value).filter(|value| value.contains('.')).and_then(|value| value.parse::<f64>().ok());
        let value = match (value.parse::<i64>(), value.parse::<bool>(), fraction) {
            (Ok(number), ..) => Value::Integer(number),
            (_, Ok(truth), _) => Value::Boolean(truth),
            (.., Some(number)) => Value::Float(number),
            _ => Value::String(value.into()),
        };
        Ok(Self { key: key.into(), value })
    }
}

/// What TOML says is wrong with a text, and where.
pub fn syntax(text: &str, error: &toml::de::Error) -> String {
    let what = error.message().trim().replace('\n', " ");
    let Some(span) = error.span() else { return format!("\"{what}\"") };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count();
    let line: String = text.lines().nth(number).unwrap_or_default().trim().chars().take(60).collect();
    format!("\"{what}\" in line {}, `{line}`", number + 1)
}

impl Document {
    /// Reads `text`.
    ///
    /// # Errors
    /// If it is no TOML.
    pub fn parse(place: &str, text: &str) -> Result<Self, ScenarioError> {
        let table = text
            .parse::<Table>()
            .map_err(|error| ScenarioError::Syntax { place: place.into(), error: syntax(text, &error) })?;
        Ok(Self { place: place.into(), table, changed: Vec::new() })
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is no TOML.
    pub fn read(path: &str) -> Result<Self, ScenarioError> {
        let text = crate::read_text(path)
            .map_err(|error| ScenarioError::Unreadable { path: path.into(), error: error.to_string() })?;
        Self::parse(path, &text)
    }

    /// Sets a key, making the tables on the way to it. Whether it is a key at all, [`get`](Self::get) finds out.
    ///
    /// # Errors
    /// If a part of the path is no table.
    pub fn set(&mut self, change: &Override) -> Result<(), ScenarioError> {
        let mut table = &mut self.table;
        let mut parts: Vec<&str> = change.key.split('.').collect();
        let last = parts.pop().expect("splitting gives one part at least");
        for part in parts {
            let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().ok_or_else(|| ScenarioError::Key {
                place: "--set".into(),
                error: format!(
                    "expected a table at `{part}`, found a value in `{}`; a value has no keys",
                    change.key
                ),
            })?;
        }
        table.insert(last.into(), change.value.clone());
        self.changed.push(change.key.clone());
        Ok(())
    }

    /// Sets every value of `changes`, which may be nested.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn merge(&mut self, changes: &Table) -> Result<(), ScenarioError> {
        for change in flatten("", changes) {
            self.set(&change)?;
        }
        Ok(())
    }

    /// Takes a top-level key out.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// Takes top-level keys out, into a document of their own.
    pub(crate) fn split(&mut self, keys: &[&str]) -> Self {
        let taken = keys.iter().filter_map(|key| self.table.remove_entry(*key));
        Self { place: self.place.clone(), table: taken.collect(), changed: Vec::new() }
    }

    /// Takes a table out; an empty one if there is none.
    pub(crate) fn take_table(&mut self, key: &str) -> Result<Self, ScenarioError> {
        let table = match self.table.remove(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(found) => {
                let error = format!("expected a table, found {found} in `{key}`");
                return Err(ScenarioError::Key { place: self.place.clone(), error });
            }
        };
        Ok(Self { place: self.place.clone(), table, changed: Vec::new() })
    }

    /// Refuses keys that are none of `keys`; the table is that of `name`.
    pub(crate) fn refuse_others(&self, name: &str, keys: &[&str]) -> Result<(), ScenarioError> {
        match self.table.keys().find(|key| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some(found) => Err(ScenarioError::Key {
                place: self.place.clone(),
                error: format!("expected one of the keys {}, found `{found}` in `{name}`", keys.join(", ")),
            }),
        }
    }

    /// All values with the paths of their keys.
    pub(crate) fn values(&self) -> Vec<Override> {
        flatten("", &self.table)
    }

    /// The paths of the keys that were set over what the file has.
    pub(crate) fn changed(&self) -> &[String] {
        &self.changed
    }

    /// The document as a `T`.
    ///
    /// # Errors
    /// If a key is unknown, missing or of the wrong kind; the message has its path.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        T::deserialize(self.table.clone()).map_err(|error| ScenarioError::Key {
            place: self.place.clone(),
            // The parser puts the path of the key on a line of its own.
            error: error.to_string().trim().replace('\n', " "),
        })
    }

    /// The document, which is the table of `name`, as a `T`.
    pub(crate) fn get_below<T: DeserializeOwned>(&self, name: &str) -> Result<T, ScenarioError> {
        self.get().map_err(|error| match error {
            ScenarioError::Key { place, error } => {
                ScenarioError::Key { place, error: format!("{error} below `{name}`") }
            }
            error => error,
        })
    }
}

/// The values of nested tables with their paths.
fn flatten(prefix: &str, table: &Table) -> Vec<Override> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => found.extend(flatten(&key, inner)),
            value => found.push(Override { key, value: value.clone() }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_units::BitRate;
    use serde::Deserialize;

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        hosts: u16,
        link: SampleLink,
    }

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct SampleLink {
        rate: BitRate,
    }

    const TEXT: &str = "hosts = 8\n[link]\nrate = \"100Gbit/s\"";

    fn with(changes: &[&str]) -> Result<Sample, ScenarioError> {
        let mut document = Document::parse("sample", TEXT)?;
        for change in changes {
            document.set(&change.parse()?)?;
        }
        document.get()
    }

    #[test]
    fn a_key_that_is_set_replaces_the_one_in_the_file() {
        let sample = with(&["link.rate=200Gbit/s", "hosts=4"]).unwrap();
        assert_eq!(sample, Sample { hosts: 4, link: SampleLink { rate: "200Gbit/s".parse().unwrap() } });
    }

    #[test]
    fn an_unknown_key_is_named_with_its_path_and_what_there_is() {
        let message = with(&["link.rat=1"]).unwrap_err().to_string();
        assert_eq!(message, "sample: unknown field `rat`, expected `rate` in `link`");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_its_path() {
        let message = with(&["link.rate=-1"]).unwrap_err().to_string();
        assert!(message.ends_with("in `link.rate`"), "{message}");
        let message = with(&["link.rate=fast"]).unwrap_err().to_string();
        assert!(message.contains("found \"fast\""), "{message}");
    }

    #[test]
    fn what_is_no_override_is_refused() {
        for text in ["", "link.rate", "=1", "link..rate=1", ".=1"] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
        assert!(with(&["hosts.number=1"]).unwrap_err().to_string().contains("a value has no keys"));
    }

    #[test]
    fn nested_changes_merge_key_by_key() {
        let mut document = Document::parse("sample", TEXT).unwrap();
        document.merge(&"link.rate = \"1Gbit/s\"".parse().unwrap()).unwrap();
        assert_eq!(document.get::<Sample>().unwrap().hosts, 8);
    }
}
