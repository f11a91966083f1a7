//! A design's parameters: typed where the design reads them, a document with keys everywhere else.
//!
//! The keys are the same in TOML, `--set`, JSON and the manager's messages: paths such as `group.window`. Their types are those of the
//! fields of the design's [`Params`]; a value is refused with its key, a key that the design does not have with those that it has.

use crate::{FabricKind, Help, Parameter, Refusal, Transport};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A key and its value.
pub type Assignment = (String, Value);

/// A design's parameters. Fields are public and documented; each has a default and a key.
pub trait Params: Default + Serialize + DeserializeOwned {
    /// Every key with what it means.
    fn help() -> Vec<Help>;

    /// How queue pairs are set up with it; none for a design that runs on memory fabrics alone.
    fn transport(&self) -> Option<Transport> {
        None
    }

    /// The tables of keys that mean something on a kind of fabric; all of them if it is not said.
    fn tables_on(_fabric: FabricKind) -> Option<&'static [&'static str]> {
        None
    }

    /// Refuses values that do not go together, and those that no run could make sense of.
    ///
    /// # Errors
    /// If there are any.
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The values of all parameters of a design, by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings(Map<String, Value>);

/// By what they say.
impl Hash for Settings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_text().hash(state);
    }
}

impl Settings {
    /// The values of `params`.
    ///
    /// # Panics
    /// If they are no map of keys, which a struct is.
    pub fn of(params: &impl Serialize) -> Self {
        match serde_json::to_value(params) {
            Ok(Value::Object(map)) => Self(map),
            other => panic!("parameters are a struct of plain data, found {other:?}"),
        }
    }

    /// The defaults of a design's parameters.
    pub fn defaults<T: Params>() -> Self {
        Self::of(&T::default())
    }

    /// These tables alone; all if none are named.
    #[must_use]
    pub(crate) fn only(mut self, tables: Option<&[&str]>) -> Self {
        if let Some(tables) = tables {
            self.0.retain(|table, _| tables.contains(&table.as_str()));
        }
        self
    }

    /// The values as the design's own type.
    ///
    /// # Errors
    /// If there is a key that the design does not have, or a value is of another kind, or refused.
    pub fn get<T: Params>(&self) -> Result<T, Refusal> {
        let params = match T::deserialize(&self.0) {
            Ok(params) if Self::of(&params).has_all_of(self) => params,
            // One value after the other: that names the key.
            _ => self.rebuild()?,
        };
        params.check()?;
        Ok(params)
    }

    /// Whether every key of `other` is one here.
    fn has_all_of(&self, other: &Self) -> bool {
        has_all(&self.0, &other.0)
    }

    fn rebuild<T: Params>(&self) -> Result<T, Refusal> {
        let mut known = Self::defaults::<T>();
        for (key, value) in self.flat() {
            known.set::<T>(&key, &value)?;
        }
        T::deserialize(&known.0).map_err(|error| Refusal::of(&error))
    }

    /// Sets a key that there is. The type is that of the design's field.
    ///
    /// # Errors
    /// If there is no such key, or it does not take the value; nothing has changed then.
    pub fn set<T: Params>(&mut self, key: &str, value: &Value) -> Result<(), Refusal> {
        if !self.has(key) {
            if let Some(now) = renamed(key) {
                return Err(Refusal::new(
                    format!("`{now}`, the key's new name"),
                    format!("`{key}`"),
                    "use the new name",
                ));
            }
            let keys: Vec<String> = self.flat().into_iter().map(|(key, _)| key).collect();
            return Err(Refusal::new(
                format!("one of the keys {}", keys.join(", ")),
                format!("\"{key}\""),
                "name one of them",
            ));
        }
        let mut changed = self.0.clone();
        *find(&mut changed, key).expect("the key is there") = value.clone();
        let params =
            T::deserialize(&changed).map_err(|error| Refusal::from(in_our_order(&error.to_string(), key)))?;
        let Self(mut set) = Self::of(&params);
        set.retain(|table, _| self.0.contains_key(table));
        self.0 = set;
        Ok(())
    }

    /// Whether there is such a key with a value of its own.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| !value.is_object())
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let mut value = self.0.get(parts.next()?)?;
        for part in parts {
            value = value.as_object()?.get(part)?;
        }
        Some(value)
    }

    /// All keys with their values.
    pub fn flat(&self) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        flatten("", &self.0, &mut found);
        found
    }

    /// The values as a line of JSON, for messages between processes.
    pub fn to_text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// Reads what [`to_text`](Self::to_text) writes.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(found) => {
                Err(Refusal::new("parameters as a JSON object", found, "run the same version at both ends"))
            }
            Err(error) => {
                Err(Refusal::new("parameters as a JSON object", error, "run the same version at both ends"))
            }
        }
    }

    /// The parameters for people to read: defaults are the values here.
    pub fn describe(&self, help: &[Help]) -> Vec<Parameter> {
        let describe = |(key, value): (String, Value)| {
            let help = help.iter().find(|(known, _)| *known == key).map_or("", |(_, help)| help);
            let default = match value {
                Value::String(text) => text,
                Value::Null => String::new(),
                value => value.to_string(),
            };
            Parameter { key, default, help }
        };
        self.flat().into_iter().map(describe).collect()
    }
}

/// What a key is called that had another name.
pub fn renamed(key: &str) -> Option<&'static str> {
    const RENAMED: [(&str, &str); 1] = [("group.lanes", "group.channels")];
    RENAMED.iter().find(|(before, _)| *before == key).map(|(_, now)| *now)
}

/// What serde says of a value, in the order of our messages: expected, found, where.
fn in_our_order(error: &str, key: &str) -> String {
    let Some((found, expected)) = error.split_once(", expected ") else {
        return format!("{error} in `{key}`");
    };
    let kinds = ["unknown variant ", "invalid type: ", "invalid value: "];
    let found = kinds.iter().find_map(|kind| found.strip_prefix(kind)).unwrap_or(found);
    format!("expected {expected}, found {found} in `{key}`")
}

/// The value of a key, to be changed.
fn find<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => map.get_mut(key),
        Some((table, rest)) => find(map.get_mut(table)?.as_object_mut()?, rest),
    }
}

/// Whether every key of `others` that has a value of its own is one of `own`.
fn has_all(own: &Map<String, Value>, others: &Map<String, Value>) -> bool {
    others.iter().all(|(name, other)| match (own.get(name), other) {
        (Some(Value::Object(own)), Value::Object(other)) => has_all(own, other),
        (_, Value::Object(other)) => has_all(&Map::new(), other),
        (own, _) => own.is_some_and(|value| !value.is_object()),
    })
}

fn flatten(prefix: &str, map: &Map<String, Value>, found: &mut Vec<(String, Value)>) {
    for (name, value) in map {
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match value {
            Value::Object(inner) => flatten(&key, inner, found),
            value => found.push((key, value.clone())),
        }
    }
}
