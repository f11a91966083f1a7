//! From defaults to the settings of each design that is asked for: what an environment has by default, what a document says, what a
//! person sets. Commands and drivers differ in the layers, not in what a key means.

use crate::{AnyDesign, Refusal, Settings, Value};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A key and its value.
pub type Assignment = (String, Value);

/// The settings of each of `designs`: its defaults, then those of `base` that it has, then those of `overrides` that it has.
///
/// # Errors
/// If none of the designs has a key of `overrides`, or a design refuses a value.
pub fn settings(
    designs: &[&dyn AnyDesign],
    base: &[Assignment],
    overrides: &[Assignment],
) -> Result<Vec<Settings>, Refusal> {
    let mut all: Vec<Settings> = designs.iter().map(|design| design.defaults()).collect();
    for (key, value) in base.iter().chain(overrides) {
        for (design, settings) in designs.iter().zip(&mut all).filter(|(_, settings)| settings.has(key)) {
            design.set(settings, key, value)?;
        }
    }
    if let Some((unknown, _)) =
        overrides.iter().find(|(key, _)| !all.iter().any(|settings| settings.has(key)))
    {
        let keys: BTreeSet<String> = all.iter().flat_map(Settings::flat).map(|(key, _)| key).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let names: Vec<&str> = designs.iter().map(|design| design.name()).collect();
        return Err(Refusal::new(
            format!("a parameter of {}: {}", names.join(", "), keys.join(", ")),
            format!("`{unknown}`"),
            "name one of them",
        ));
    }
    for (design, settings) in designs.iter().zip(&all) {
        design.transport(settings)?;
    }
    Ok(all)
}
