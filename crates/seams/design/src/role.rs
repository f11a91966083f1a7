//! What a design has a node do.

use crate::Refusal;
use alloc::string::String;
use core::hash::{Hash, Hasher};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a design has a node do, in the design's own words: plain data, which nobody else reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role(Value);

/// By what it says.
impl Hash for Role {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_text().hash(state);
    }
}

impl Role {
    /// A role of the design's type.
    ///
    /// # Errors
    /// If it is no plain data.
    pub fn of(role: &impl Serialize) -> Result<Self, Refusal> {
        serde_json::to_value(role).map(Self).map_err(|error| Refusal::of(&error))
    }

    /// The role as the design's type.
    ///
    /// # Errors
    /// If it is another design's, or another version's.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        T::deserialize(&self.0).map_err(|error| {
            Refusal::new("a role of this design and version", error, "run the same version at both ends")
        })
    }

    /// As a line of JSON, for messages between processes.
    pub fn to_text(&self) -> String {
        alloc::string::ToString::to_string(&self.0)
    }

    /// Reads what [`to_text`](Self::to_text) writes.
    ///
    /// # Errors
    /// If it is no JSON.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        serde_json::from_str(text)
            .map(Self)
            .map_err(|error| Refusal::new("a role as JSON", error, "run the same version at both ends"))
    }
}
