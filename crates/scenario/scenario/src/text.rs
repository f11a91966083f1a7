//! Values that files write as text and whose types know nothing of files: names of collectives, topologies, gates.

use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;

/// Reads a value from its text.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// The same of a value that may not be there.
pub(crate) fn deserialize_some<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    deserialize(deserializer).map(Some)
}
