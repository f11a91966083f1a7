//! The keys of files as a reader sees them, from the types that read them and their docstrings.

use crate::scenario::{KINDS, LAYER, MACHINE, MEASURE, Schema, TRAIN, is_below};
use crate::{
    Faults, Jobs, LayerWorkload, MachineSetup, Measure, MemoryFabric, MemoryMeshFabric, MeshFabric, Override,
    Scenario, ServersFabric, TokenBatch, Training,
};
use quincunx_design::Assignment;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The file that has several collectives, beside the kinds of fabrics.
const JOBS: &str = "jobs";

/// In the place of a default: a file must say it.
const NEEDED: &str = "needed";

/// The same where the table itself may be left out.
const WITH_ITS_TABLE: &str = "with its table";

/// A key of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// The path, parts joined by dots; `[[job]].at` is one of each of several tables.
    pub key: String,
    /// What its value is: `rate`, `size`, `time`, `share`, `number`, `list`, `text` or `true or false`.
    pub value: String,
    /// What it is if it is not said; `needed` where it must be, `with its table` where it must be if anything of its table is, nothing where
    /// that is another thing altogether.
    pub default: String,
    /// What it means.
    pub help: String,
}

impl Key {
    /// All keys of a file of that kind that are no design's; nothing if there is no such kind.
    pub fn of(file: &str) -> Option<Vec<Self>> {
        let mut keys = Vec::new();
        if file == JOBS {
            list::<Jobs>("", &mut keys);
            return Some(keys);
        }
        let schema = Schema::of(file)?;
        keys.push(Self {
            key: "kind".into(),
            value: "text".into(),
            default: NEEDED.into(),
            help: format!("the kind of file: \"{file}\""),
        });
        fabric(file, &mut keys);
        if !schema.workload.is_empty() {
            list::<TokenBatch>("", &mut keys);
        }
        if !schema.faults.is_empty() {
            list::<Faults>("", &mut keys);
        }
        if schema.has_kernels {
            list::<MachineSetup>(MACHINE, &mut keys);
            list::<LayerWorkload>(LAYER, &mut keys);
        }
        list::<Training>(TRAIN, &mut keys);
        let mut measured = Vec::new();
        list::<Measure>(MEASURE, &mut measured);
        let is_here = |key: &Self| schema.measure.iter().any(|name| key.key == format!("{MEASURE}.{name}"));
        keys.extend(measured.into_iter().filter(is_here));
        Some(keys)
    }

    /// Whether a default is a value.
    pub(crate) fn has_default(default: &str) -> bool {
        !["", NEEDED, WITH_ITS_TABLE].contains(&default)
    }

    /// All kinds of files: of fabrics, and of several collectives.
    pub fn files() -> Vec<&'static str> {
        KINDS.into_iter().chain([JOBS]).collect()
    }
}

impl Scenario {
    /// All keys that are no design's, with what the scenario says or the default. What is neither said nor has a default is left out, and
    /// so are tables of training and layers of which nothing is said.
    pub fn in_force(&self) -> Vec<Assignment> {
        let is_own = |key: &str| !self.keys.iter().any(|(of_design, _)| of_design == key);
        let mut keys: Vec<_> =
            self.said.iter().filter(|said| is_own(&said.key)).map(Override::assignment).collect();
        let kind = self.said.iter().find(|said| said.key == "kind").and_then(|said| said.value.as_str());
        for Key { key, default, .. } in Key::of(kind.unwrap_or_default()).unwrap_or_default() {
            let is_others = [TRAIN, MACHINE, LAYER].iter().any(|table| is_below(&key, table));
            let is_said = keys.iter().any(|(other, _)| *other == key);
            if !is_said && !is_others && !key.starts_with('[') && Key::has_default(&default) {
                let default: Override = format!("{key}={default}").parse().expect("a key with a value");
                keys.push(default.assignment());
            }
        }
        keys
    }
}

fn fabric(kind: &str, keys: &mut Vec<Key>) {
    match kind {
        "packet" => list::<crate::listed::Keys>("", keys),
        "memory" => list::<MemoryFabric>("", keys),
        "mesh" => list::<MeshFabric>("", keys),
        "memory-mesh" => list::<MemoryMeshFabric>("", keys),
        _ => list::<ServersFabric>("", keys),
    }
}

/// Adds the keys of `T`, which is the table of `name`.
fn list<T: JsonSchema>(name: &str, keys: &mut Vec<Key>) {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    walk(name, schema.as_value(), NEEDED, keys);
}

/// Adds what is below `name`; `default` is what it is itself, if it is not said.
fn walk(name: &str, schema: &Value, default: &str, keys: &mut Vec<Key>) {
    // A table or several: `[link]`, `[[link]]`. What may be left out has nothing as another form.
    let forms: Vec<&Value> = schema["anyOf"].as_array().into_iter().flatten().collect();
    if !forms.is_empty() {
        for form in forms.into_iter().filter(|form| form["type"] != "null") {
            walk(name, form, default, keys);
        }
    } else if let Some(properties) = schema["properties"].as_object() {
        let needed = if default == NEEDED { NEEDED } else { WITH_ITS_TABLE };
        let is_needed = |key: &String| {
            schema["required"].as_array().is_some_and(|all| all.contains(&Value::from(key.as_str())))
        };
        for (key, below) in properties {
            let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            let default = if is_needed(key) { needed.into() } else { text(&below["default"]) };
            walk(&path, below, &default, keys);
        }
    } else if schema["items"]["properties"].is_object() {
        walk(&format!("[[{name}]]"), &schema["items"], WITH_ITS_TABLE, keys);
    } else {
        let help = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        let mut help = line(&help);
        if let Some(words) = words(schema) {
            help = format!("{help} ({words})");
        }
        keys.push(Key { key: name.into(), value: value(schema).into(), default: default.into(), help });
    }
}

/// A docstring as a line of a table.
fn line(help: &str) -> String {
    let line = help.strip_suffix('.').unwrap_or(help);
    let mut letters = line.chars();
    match (letters.next(), letters.clone().next()) {
        // SMs stay as they are.
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => line.into(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a value is.
fn value(schema: &Value) -> &str {
    let types = &schema["type"];
    let is = |name: &str| types == name || types.as_array().is_some_and(|all| all.contains(&name.into()));
    match schema["format"].as_str().filter(|_| is("string")) {
        Some(unit) => unit,
        None if is("boolean") => "true or false",
        None if is("integer") || is("number") => "number",
        None if is("array") => "list",
        None => "text",
    }
}

/// The words that a value may be, if it is one of some.
fn words(schema: &Value) -> Option<String> {
    let word = |form: &Value| Some(form.as_str().or_else(|| form["const"].as_str())?.to_owned());
    let forms = schema["enum"].as_array().or_else(|| schema["oneOf"].as_array())?;
    Some(forms.iter().filter_map(word).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;
    use quincunx_designs::CATALOG;

    fn find(file: &str, key: &str) -> Key {
        Key::of(file)
            .unwrap()
            .into_iter()
            .find(|one| one.key == key)
            .unwrap_or_else(|| panic!("{file}: {key}"))
    }

    #[test]
    fn a_key_has_its_value_its_default_and_what_it_means() {
        let key = find("packet", "congestion.background");
        assert_eq!((key.value.as_str(), key.default.as_str()), ("rate", ""));
        assert_eq!(key.help, "rate that background traffic takes on a link");
        assert_eq!(find("packet", "train.cycle").default, "5ms");
        assert!(find("memory", "machine.gpu").help.ends_with(" (h100, h100-half, h200, h200-half)"));
        assert_eq!(find("memory", "machine.gpu").default, "h100-half");
        assert_eq!(find("memory", "link.rate").default, "needed");
        assert_eq!(find("jobs", "[[job]].size").value, "size");
        assert_eq!(find("packet", "[[link]].cost").default, "1");
        assert_eq!(find("packet", "congestion.pause.xoff").default, WITH_ITS_TABLE);
        assert_eq!(find("packet", "[[node]].name").default, WITH_ITS_TABLE);
    }

    #[test]
    fn every_key_says_what_it_means() {
        for file in Key::files() {
            for Key { key, help, .. } in Key::of(file).unwrap() {
                assert!(help.len() > 4, "{file}: {key} has no docstring");
            }
        }
    }

    #[test]
    fn a_file_is_split_by_the_keys_that_its_types_have() {
        for kind in KINDS {
            let schema = Schema::of(kind).unwrap();
            let known = [schema.fabric, schema.workload, schema.faults].concat();
            let others = ["kind", MACHINE, LAYER, TRAIN, MEASURE];
            let mut tops: Vec<String> = Vec::new();
            for Key { key, .. } in Key::of(kind).unwrap() {
                let top = key.split('.').next().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                if !others.contains(&top.as_str()) && !tops.contains(&top) {
                    tops.push(top);
                }
            }
            tops.sort();
            let mut known: Vec<String> = known.into_iter().map(str::to_owned).collect();
            known.sort();
            assert_eq!(tops, known, "{kind}");
        }
    }

    /// Every key is taken by its own name with the default that is told; one that is not there is refused.
    #[test]
    fn every_default_can_be_said() {
        for (kind, preset) in [
            ("packet", "epic-star8"),
            ("memory", "cais-dgx8"),
            ("mesh", "mesh8"),
            ("memory-mesh", "mesh8-memory"),
            ("servers", "two-servers"),
        ] {
            for Key { key, default, .. } in Key::of(kind).unwrap() {
                if !Key::has_default(&default) || key.starts_with('[') {
                    continue;
                }
                let mut document = Document::parse(preset, Scenario::preset(preset).unwrap()).unwrap();
                document.set(&format!("{key}={default}").parse().unwrap()).unwrap();
                let read = Scenario::read(document, CATALOG);
                assert!(read.is_ok(), "{kind}: {key}={default}: {}", read.unwrap_err());
            }
        }
    }
}
