//! The settings that a simulation ran with: what somebody has said, and the defaults of all else.

use core::fmt;
use quincunx_design::{AnyDesign, Assignment};
use quincunx_scenario::Scenario;
use serde_json::{Map, Value, json};

use crate::Failure;

/// The keys in force of a fabric and of each design on it.
pub(crate) struct SettingsInForce {
    fabric: Vec<Assignment>,
    designs: Vec<(&'static str, Vec<Assignment>)>,
}

impl SettingsInForce {
    /// Those of `designs`, each once.
    ///
    /// # Errors
    /// If a design does not take a value.
    pub(crate) fn of(scenario: &Scenario, designs: Vec<&'static dyn AnyDesign>) -> Result<Self, Failure> {
        let mut found: Vec<(&'static str, Vec<Assignment>)> = Vec::new();
        for design in designs {
            if !found.iter().any(|(name, _)| *name == design.name()) {
                let settings = scenario.settings(design).map_err(Failure::input)?;
                found.push((design.name(), settings.flat()));
            }
        }
        Ok(Self { fabric: scenario.in_force(), designs: found })
    }

    /// `{"fabric": {"link.rate": "100Gbit/s", ...}, "designs": {"ring": {"group.window": 32, ...}}}`.
    pub(crate) fn to_json(&self) -> Value {
        let object = |keys: &[Assignment]| keys.iter().cloned().collect::<Map<String, Value>>();
        let designs = self.designs.iter().map(|(name, keys)| ((*name).to_owned(), object(keys).into()));
        json!({ "fabric": object(&self.fabric), "designs": designs.collect::<Map<String, Value>>() })
    }
}

/// A line for each key, as a file has it, below whose it is.
impl fmt::Display for SettingsInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let designs = self.designs.iter().map(|(name, keys)| (*name, keys));
        for (name, keys) in [("fabric", &self.fabric)].into_iter().chain(designs) {
            writeln!(f, "# {name}")?;
            for (key, value) in keys {
                match value {
                    Value::Null => {}
                    Value::Array(tables) => writeln!(f, "# [[{key}]]: {} of the file", tables.len())?,
                    value => writeln!(f, "{key} = {value}")?,
                }
            }
        }
        Ok(())
    }
}
