//! A scenario: fabric, design settings, workload, faults and measurement, read from a preset, a shape or a file, with single keys
//! overridden.

use crate::fabric::Contradiction;
use crate::{
    Document, Driver, Fabric, Faults, LayerWorkload, MachineSetup, Measure, NetworkName, Override, Part,
    ScenarioError, Simulator, TokenBatch, Training,
};
use include_dir::{Dir, include_dir};
use quincunx_design::{AnyDesign, Assignment, Catalog, FabricKind, Settings, Transport, Value, renamed};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;

static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/presets");

/// The key of the rate that ranks slow down from.
const RATE_CONTROL: &str = "group.dcqcn";

/// The table of what is trained.
pub(crate) const TRAIN: &str = "train";

/// The table of what compute kernels run on.
pub(crate) const MACHINE: &str = "machine";

/// The table of what part of a model runs on it.
pub(crate) const LAYER: &str = "layer";

/// The table of how runs are measured.
pub(crate) const MEASURE: &str = "measure";

/// What to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// File or preset, for messages.
    place: String,
    /// All that it says.
    pub(crate) said: Vec<Override>,
    /// Where.
    pub fabric: Fabric,
    /// The tokens that are dispatched, on a fabric for that.
    pub workload: Option<TokenBatch>,
    /// What is trained, if that is what is run.
    pub training: Training,
    /// What compute kernels run on, on a memory fabric.
    pub machine: MachineSetup,
    /// The part of a model that runs on it.
    pub layer: LayerWorkload,
    /// What happens to frames on their way.
    pub faults: Faults,
    /// How runs are measured.
    pub measure: Measure,
    /// The payload of a full packet, where frames are RoCE's.
    pub packet: ByteCount,
    /// What its driver sets of designs where the scenario says nothing.
    base: Vec<Assignment>,
    /// The same for single designs, by name.
    bases: BTreeMap<&'static str, Vec<Assignment>>,
    /// Keys of designs.
    pub(crate) keys: Vec<Assignment>,
    /// They are a preset's, and nobody's own.
    is_preset: bool,
    /// Keys that were overridden, of designs and others.
    changed: Vec<String>,
}

/// The keys of a kind of fabric's document: those that are no design's.
pub(crate) struct Schema {
    pub(crate) fabric: &'static [&'static str],
    pub(crate) workload: &'static [&'static str],
    pub(crate) faults: &'static [&'static str],
    pub(crate) measure: &'static [&'static str],
    /// Compute kernels run on it: it has the tables of machine and layer.
    pub(crate) has_kernels: bool,
}

pub(crate) const KINDS: [&str; 5] = ["packet", "memory", "mesh", "memory-mesh", "servers"];

const MESH: &[&str] = &["summary", "groups", "members", "link"];
const TOKENS: &[&str] = &["tokens", "token", "experts", "top_k", "gate"];
const FAULTS: &[&str] = &["loss", "congestion"];
const PACKETS: &[&str] = &["stepwise", "receivers_only", "limit"];

impl Schema {
    pub(crate) fn of(kind: &str) -> Option<Self> {
        let schema = |fabric, workload, faults, measure| {
            Some(Self { fabric, workload, faults, measure, has_kernels: kind == "memory" })
        };
        match kind {
            "packet" => schema(
                &["summary", "topology", "link", "node", "placement", "nic", "switch"],
                &[],
                FAULTS,
                PACKETS,
            ),
            "memory" => schema(
                &["summary", "accelerators", "switches", "link", "accelerator"],
                &[],
                &[],
                &["synchronised"],
            ),
            "mesh" => schema(MESH, &[], FAULTS, PACKETS),
            "memory-mesh" => schema(MESH, &[], &[], &["limit"]),
            "servers" => {
                schema(&["summary", "servers", "members", "link", "network"], TOKENS, FAULTS, PACKETS)
            }
            _ => None,
        }
    }

    /// All of them, for messages.
    fn names(&self) -> String {
        let kernels: &[&str] = if self.has_kernels { &[MACHINE, LAYER] } else { &[] };
        [self.fabric, self.workload, &[TRAIN], kernels, self.faults, &[MEASURE]].concat().join(", ")
    }
}

/// The names of all files of a folder, without their ends.
pub(crate) fn names_of(folder: &Dir<'_>) -> Vec<String> {
    let stem = |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
    let mut names: Vec<_> = folder.files().map(stem).collect();
    names.sort();
    names
}

impl Scenario {
    /// The scenario of that name, to be simulated: a preset, a network's shape, or a file. Keys in
    /// `changes` replace the ones there. What is no key of fabric, workload, faults or measurement is one of a design in `catalog`.
    ///
    /// # Errors
    /// If there is none, if a key is unknown, missing or of the wrong kind, or if values do not go together.
    pub fn find(name: &str, changes: &[Override], catalog: Catalog) -> Result<Self, ScenarioError> {
        Self::find_for(&Simulator, name, changes, catalog)
    }

    /// The same for another driver.
    ///
    /// # Errors
    /// As [`find`](Self::find), or if the driver cannot honour what it says.
    pub fn find_for(
        driver: &dyn Driver,
        name: &str,
        changes: &[Override],
        catalog: Catalog,
    ) -> Result<Self, ScenarioError> {
        let mut document = Self::document_for(driver, name)?;
        for change in changes {
            document.set(change)?;
        }
        Self::read_for(driver, document, catalog)
    }

    /// The text of a preset, to start a file from.
    ///
    /// # Errors
    /// If there is no preset of that name.
    pub fn preset(name: &str) -> Result<&'static str, ScenarioError> {
        let file = PRESETS.get_file(format!("{name}.toml")).and_then(include_dir::File::contents_utf8);
        file.ok_or_else(|| ScenarioError::Unknown {
            what: "a preset",
            known: Self::presets().join(", "),
            found: name.into(),
        })
    }

    /// The text of the file that says the same as a shape by its name; none if it is no shape.
    pub fn shape(name: &str) -> Option<String> {
        name.parse::<NetworkName>().ok().map(|network| network.text())
    }

    /// The names of all presets.
    pub fn presets() -> Vec<String> {
        names_of(&PRESETS)
    }

    /// The keys of the scenario of that name, to be simulated.
    ///
    /// # Errors
    /// If there is none, or it is no TOML.
    pub fn document(name: &str) -> Result<Document, ScenarioError> {
        Self::document_for(&Simulator, name)
    }

    fn document_for(driver: &dyn Driver, name: &str) -> Result<Document, ScenarioError> {
        if let Ok(text) = Self::preset(name) {
            return Document::parse(name, text);
        }
        if let Ok(network) = name.parse::<NetworkName>() {
            return Self::document_of(driver, name, &network);
        }
        if name.contains(['/', '.']) || std::path::Path::new(name).exists() {
            return Document::read(name);
        }
        Err(ScenarioError::Unknown {
            what: "a fabric",
            known: format!("{}, {}", Self::presets().join(", "), NetworkName::KNOWN),
            found: name.into(),
        })
    }

    /// A network by its shape: what a file with these keys says, and nothing else.
    fn document_of(
        driver: &dyn Driver,
        name: &str,
        network: &NetworkName,
    ) -> Result<Document, ScenarioError> {
        let mut document = Document::parse(name, &network.text())?;
        if !driver.honours(Part::Tokens) {
            let schema = Schema::of(network.kind()).expect("networks are of known kinds");
            document = document.split(&[&["kind"], schema.fabric].concat());
        }
        Ok(document)
    }

    /// The scenario that a document describes, to be simulated.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn read(document: Document, catalog: Catalog) -> Result<Self, ScenarioError> {
        Self::read_for(&Simulator, document, catalog)
    }

    fn read_for(
        driver: &dyn Driver,
        mut document: Document,
        catalog: Catalog,
    ) -> Result<Self, ScenarioError> {
        let said = document.values();
        let kind = document.take("kind");
        let kind = kind
            .as_ref()
            .map_or("nothing".into(), |kind| kind.as_str().map_or_else(|| kind.to_string(), str::to_owned));
        let schema = Schema::of(&kind).ok_or_else(|| ScenarioError::Key {
            place: document.place.clone(),
            error: format!("expected \"{}\", found \"{kind}\" in `kind`", KINDS.join("\", \"")),
        })?;
        let part = document.split(schema.fabric);
        let fabric = match kind.as_str() {
            "packet" => Fabric::Packet(part.get()?),
            "memory" => Fabric::Memory(part.get()?),
            "mesh" => Fabric::Mesh(part.get()?),
            "memory-mesh" => Fabric::MemoryMesh(part.get()?),
            _ => Fabric::Servers(part.get()?),
        };
        let workload = document.split(schema.workload);
        let is_asked = !workload.values().is_empty() || driver.honours(Part::Tokens);
        let workload: Option<TokenBatch> =
            if schema.workload.is_empty() || !is_asked { None } else { Some(workload.get()?) };
        let faults: Faults = document.split(schema.faults).get()?;
        let training = document.take_table(TRAIN)?.get_below(TRAIN)?;
        let (mut machine, mut layer) = (MachineSetup::default(), LayerWorkload::default());
        if schema.has_kernels {
            machine = document.take_table(MACHINE)?.get_below(MACHINE)?;
            layer = document.take_table(LAYER)?.get_below(LAYER)?;
        }
        let measure = document.take_table(MEASURE)?;
        measure.refuse_others(MEASURE, schema.measure)?;
        let keys = document.values().into_iter().map(|change| (change.key, json(&change.value))).collect();
        let mut scenario = Self {
            place: document.place.clone(),
            said,
            fabric,
            workload,
            training,
            machine,
            layer,
            faults,
            measure: measure.get_below(MEASURE)?,
            packet: ByteCount::new(0),
            base: Vec::new(),
            bases: BTreeMap::new(),
            keys,
            is_preset: Self::preset(&document.place).is_ok() || document.place.parse::<NetworkName>().is_ok(),
            changed: document.changed().to_vec(),
        };
        scenario.expand(&schema, catalog)?;
        scenario.base = driver.base(&scenario.fabric, &scenario.keys);
        let designs = catalog.choices(scenario.kind());
        scenario.bases =
            designs.map(|design| (design.name(), driver.base_of(design, &scenario.fabric))).collect();
        scenario.check(catalog)?;
        scenario.refuse_dishonoured(driver)?;
        if let Some(batch) = &mut scenario.workload {
            batch.read_gate(scenario.fabric.ranks())?;
        }
        Ok(scenario)
    }

    /// Refuses keys that no design has here; adds those that others are short for.
    fn expand(&mut self, schema: &Schema, catalog: Catalog) -> Result<(), ScenarioError> {
        let known = self.known(catalog.choices(self.kind()));
        for (key, _) in &self.keys {
            let of_group = key.starts_with("group.") && self.kind() == FabricKind::MemoryMesh;
            if let Some(now) = renamed(key).filter(|_| !known.contains(key)) {
                return Err(self
                    .key(format!("expected `{now}`, the key's new name, found `{key}`; use the new name")));
            }
            if of_group || !known.contains(key) {
                let known: Vec<_> = known
                    .iter()
                    .filter(|key| !(key.starts_with("group.") && self.kind() == FabricKind::MemoryMesh))
                    .map(String::as_str)
                    .collect();
                return Err(self.key(format!(
                    "expected one of the keys {}, or of a design here: {}; found `{key}`",
                    schema.names(),
                    known.join(", ")
                )));
            }
        }
        let is_said = self.keys.iter().any(|(key, _)| key == RATE_CONTROL);
        if let (true, Some(link), false) = (self.faults.congestion.dcqcn, self.fabric.packet_link(), is_said)
        {
            self.keys.push((RATE_CONTROL.into(), Value::String(link.rate.to_string())));
        }
        Ok(())
    }

    /// Refuses what no run could make sense of, and what needs no engine to see.
    fn check(&mut self, catalog: Catalog) -> Result<(), ScenarioError> {
        self.fabric.check().map_err(|wrong| self.contradiction(wrong))?;
        self.training.check().map_err(|wrong| self.contradiction(wrong))?;
        self.machine.check().map_err(|wrong| self.contradiction(wrong))?;
        self.layer.check().map_err(|wrong| self.contradiction(wrong))?;
        for design in catalog.choices(self.kind()) {
            let settings = self.settings(design)?;
            let transport = design.transport(&settings).map_err(|refusal| self.key(refusal.to_string()))?;
            if self.kind().has_queue_pairs() {
                self.packet = self.packet.max(transport.mtu);
            }
        }
        if self.packet.bytes() == 0 {
            self.packet = Transport::default().mtu;
        }
        let is_controlled = self.keys.iter().any(|(key, _)| key == RATE_CONTROL);
        let faults = self.faults.check(&self.fabric, self.packet, is_controlled);
        faults.map_err(|wrong| self.contradiction(wrong))?;
        match &self.workload {
            Some(batch) => batch.check(self.fabric.ranks()).map_err(|wrong| self.contradiction(wrong)),
            None => Ok(()),
        }
    }

    pub(crate) fn key(&self, error: String) -> ScenarioError {
        ScenarioError::Key { place: self.place.clone(), error }
    }

    fn contradiction(&self, (expected, found, remedy): Contradiction) -> ScenarioError {
        ScenarioError::Contradiction {
            place: self.place.clone(),
            expected: expected.into(),
            found,
            remedy: remedy.into(),
        }
    }

    /// What kind of fabric designs see in it.
    pub const fn kind(&self) -> FabricKind {
        self.fabric.kind()
    }

    /// Ranks on its fabric.
    pub fn ranks(&self) -> u16 {
        self.fabric.ranks()
    }

    /// The design of that name, if it may run here; all of them are the catalog's [choices](Catalog::choices).
    ///
    /// # Errors
    /// If there is none; the message has those that there are.
    pub fn design(&self, catalog: Catalog, name: &str) -> Result<&'static dyn AnyDesign, ScenarioError> {
        catalog.choose(name, self.kind()).map_err(|refusal| self.key(refusal.to_string()))
    }

    /// File, preset or shape, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Keys that were set over what the file or preset has.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(String::as_str)
    }

    /// Sets a key of designs over what the scenario has.
    pub fn set(&mut self, key: &str, value: Value) {
        self.changed.push(key.to_owned());
        self.keys.push((key.to_owned(), value));
    }

    /// The values of a design's parameters here: its defaults, what the driver sets differently, and the scenario's keys as far as the
    /// design has them.
    ///
    /// # Errors
    /// If the design does not take a value; the message has its key.
    pub fn settings(&self, design: &dyn AnyDesign) -> Result<Settings, ScenarioError> {
        let mut settings = design.defaults_on(self.kind());
        let is_kept = |key: &String| design.about().pinned_keys.contains(&key.as_str());
        let base = self.base.iter().filter(|(key, _)| !is_kept(key));
        let of_design = self.bases.get(design.name()).into_iter().flatten();
        let is_said = |key: &String| !self.is_preset || self.changed.contains(key);
        let keys = self.keys.iter().filter(|(key, _)| !is_kept(key) || is_said(key));
        for (key, value) in base.chain(of_design).chain(keys) {
            if settings.has(key) {
                let set = design.set(&mut settings, key, value);
                set.map_err(|refusal| self.key(refusal.to_string()))?;
            }
        }
        Ok(settings)
    }

    /// Refuses keys of training and of layers that were set, for runs that have neither.
    ///
    /// # Errors
    /// If there is one.
    pub fn refuse_training(&self) -> Result<(), ScenarioError> {
        self.refuse_changed(&[(TRAIN, "training"), (MACHINE, "a layer"), (LAYER, "a layer")])
    }

    /// Refuses keys of training that were set, for runs of a layer.
    ///
    /// # Errors
    /// If there is one.
    pub fn refuse_all_but_layers(&self) -> Result<(), ScenarioError> {
        self.refuse_changed(&[(TRAIN, "training")])
    }

    fn refuse_changed(&self, tables: &[(&str, &str)]) -> Result<(), ScenarioError> {
        let found = self.changed().find_map(|key| {
            let (_, what) = tables.iter().find(|(table, _)| is_below(key, table))?;
            Some((key, what))
        });
        match found {
            None => Ok(()),
            Some((key, what)) => Err(ScenarioError::Key {
                place: "--set".into(),
                error: format!(
                    "expected a key of what is run, found `{key}`, of {what}; leave it out, or run that"
                ),
            }),
        }
    }

    /// Refuses keys that were set and that none of the `designs` has which are going to run.
    ///
    /// # Errors
    /// If there is one.
    pub fn refuse_unused(&self, designs: &[&'static dyn AnyDesign]) -> Result<(), ScenarioError> {
        let known = self.known(designs.iter().copied());
        let is_unused =
            |key: &&String| self.keys.iter().any(|(other, _)| other == *key) && !known.contains(*key);
        match self.changed.iter().find(is_unused) {
            None => Ok(()),
            Some(key) => {
                let names: Vec<_> = designs.iter().map(|design| design.name()).collect();
                Err(ScenarioError::Key {
                    place: "--set".into(),
                    error: format!(
                        "expected one of the keys of {}: {}; found `{key}`; leave it out",
                        names.join(", "),
                        known.join(", ")
                    ),
                })
            }
        }
    }

    /// The keys that designs have here, each once.
    fn known(&self, designs: impl Iterator<Item = &'static dyn AnyDesign>) -> Vec<String> {
        let mut known: Vec<String> = Vec::new();
        for (key, _) in designs.flat_map(|design| design.defaults_on(self.kind()).flat()) {
            if !known.contains(&key) {
                known.push(key);
            }
        }
        known
    }
}

/// Whether a key is one of that table.
pub(crate) fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

/// A value of a file as parameters take it.
fn json(value: &toml::Value) -> Value {
    serde_json::to_value(value).expect("a value of TOML is one of JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_designs::CATALOG;
    use quincunx_units::Duration;

    fn changed(name: &str, changes: &[&str]) -> Result<Scenario, ScenarioError> {
        let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        Scenario::find(name, &changes, CATALOG)
    }

    fn setting(scenario: &Scenario, design: &str, key: &str) -> Value {
        let design = scenario.design(CATALOG, design).unwrap();
        scenario.settings(design).unwrap().value(key).unwrap().clone()
    }

    #[test]
    fn a_key_that_had_another_name_is_refused_with_the_one_that_it_has() {
        let old = [Override { key: "group.lanes".into(), value: 2.into() }];
        let refused = Scenario::find("star-2", &old, CATALOG).unwrap_err().to_string();
        let expected = "expected `group.channels`, the key's new name, found `group.lanes`; use the new name";
        assert!(refused.ends_with(expected), "{refused}");
    }

    #[test]
    fn every_preset_is_right_and_says_what_it_is() {
        assert!(!Scenario::presets().is_empty());
        for name in Scenario::presets() {
            assert!(changed(&name, &[]).unwrap().fabric.summary().is_some(), "{name}");
        }
    }

    /// What a paper's set-up had was inherited by shapes: its framing, `lockstep`, `stepwise`.
    #[test]
    fn a_network_by_its_shape_is_what_a_file_with_its_shape_and_links_says() {
        let rates = ["link.rate=400Gbit/s", "link.latency=500ns"];
        let hosts = "kind = \"packet\"\n[link]\nrate = \"400Gbit/s\"\nlatency = \"500ns\"\n";
        let mesh = hosts.replace("packet", "mesh").replace("[link]", "groups = 2\nmembers = 4\n[link]");
        let servers = hosts.replace("packet", "servers").replace(
            "[link]",
            "servers = 2\nmembers = 4\ntokens = 128\ntoken = \"7KiB\"\nexperts = 64\ntop_k = 8\ngate = \"balanced\"\n\
             network = { rate = \"200Gbit/s\", latency = \"4.5us\" }\n[link]",
        );
        let memory = hosts.replace("packet", "memory").replace(
            "[link]",
            "accelerators = 8\nswitches = 2\naccelerator = { response_latency = \"30ns\", add_rate = \"1.6TB/s\" }\n\
             [link]\nflit = \"16B\"\npayload = \"128B\"",
        );
        let packet = |shape: &str| (shape.to_owned(), format!("topology = \"{shape}\"\n{hosts}"));
        let shapes = [
            "star-8",
            "tree-3-2",
            "tree-2x4",
            "ring-8",
            "leaf-spine-8x2x8",
            "leaf-spine-2x2x4x2",
            "fat-tree-4",
        ];
        let others = [
            ("rail-2x4x2", None),
            ("dragonfly-4x2x9", None),
            ("mesh-2x4", Some(mesh)),
            ("servers-2x4", Some(servers)),
            ("memory-8x2", Some(memory)),
        ];
        let others = others.map(|(shape, text)| match text {
            Some(text) => (shape.to_owned(), text),
            None => packet(shape),
        });
        for (shape, text) in shapes.map(packet).into_iter().chain(others) {
            let named = changed(&shape, &rates).unwrap();
            let file = Scenario::read(Document::parse(&shape, &text).unwrap(), CATALOG).unwrap();
            assert_eq!(named.fabric, file.fabric, "{shape}");
            assert_eq!(
                (&named.workload, &named.faults, &named.measure),
                (&file.workload, &file.faults, &file.measure)
            );
            for design in CATALOG.choices(named.kind()) {
                let [named, file] = [&named, &file].map(|scenario| scenario.settings(design).unwrap());
                assert_eq!(named, file, "{} on {shape}", design.name());
            }
        }
    }

    #[test]
    fn keys_can_be_overridden() {
        let scenario = changed("scin-dgx8", &["isa.waves=4", "link.latency=100ns"]).unwrap();
        assert_eq!(setting(&scenario, "scin", "isa.waves"), 4);
        let Fabric::Memory(fabric) = scenario.fabric else { panic!("a memory fabric") };
        assert_eq!(fabric.link.latency, Duration::from_nanos(100));
    }

    #[test]
    fn a_design_has_its_defaults_the_simulators_and_the_scenarios_keys_in_this_order() {
        let scenario = changed("mesh8", &["group.window=4", "relay.relays=full"]).unwrap();
        let found = ["group.retry_count", "group.acknowledge_every", "group.window", "relay.relays"]
            .map(|key| setting(&scenario, "multiwrite", key).to_string());
        assert_eq!(found, ["100", "16", "4", "\"full\""]);
        let scenario = changed("mesh-2x4", &[]).unwrap();
        assert!(setting(&scenario, "multiwrite", "group.acknowledge_every").is_null());
        let scenario = changed("mesh-2x4", &["link.rate=10Mbit/s"]).unwrap();
        assert_ne!(setting(&scenario, "multiwrite", "group.retry_timeout"), "20ms");
    }

    #[test]
    fn dcqcn_is_short_for_the_rate_of_the_links() {
        let scenario = changed("epic-star8", &["congestion.dcqcn=true", "link.rate=25Gbit/s"]).unwrap();
        assert_eq!(setting(&scenario, "epic-3", "group.dcqcn"), "25Gbit/s");
        let scenario = changed("epic-star8", &["congestion.dcqcn=true", "group.dcqcn=10Gbit/s"]).unwrap();
        assert_eq!(setting(&scenario, "ring", "group.dcqcn"), "10Gbit/s");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_key() {
        for (name, change, key) in [
            ("epic-star8", "link.rate=0", "link.rate"),
            ("epic-star8", "link.rate=-1Gbit/s", "link.rate"),
            ("epic-star8", "link.speed=1Gbit/s", "speed"),
            ("epic-star8", "topology=star-0", "topology"),
            ("epic-star8", "placement=around", "found \"around\" in `placement`"),
            ("epic-star8", "placement=0,8", "found host 8 of 8"),
            ("epic-star8", "placement=0-0", "two hosts at least in `placement`"),
            ("scin-dgx8", "placement=spread", "placement"),
            ("epic-star8", "loss.links=9", "loss.links"),
            ("epic-star8", "group.window=0", "group.window"),
            ("epic-star8", "kind=both", "kind"),
            ("epic-star8", "group.slots=0", "group.slots"),
            ("epic-star8", "group.run_ahead=2", "group.run_ahead"),
            ("epic-star8", "group.windows=2", "group.windows"),
            ("epic-star8", "tokens=2", "tokens"),
            ("epic-star8", "train.gpus=2", "gpus"),
            ("epic-star8", "train.batch=0", "train.batch"),
            ("epic-star8", "train.gpu.rate=0", "gpu.rate"),
            ("epic-star8", "train.gpu.tile=0", "train.gpu.tile"),
            ("epic-star8", "measure.synchronised=true", "synchronised"),
            ("epic-star8", "measure=true", "measure"),
            ("scin-dgx8", "isa.wave=some", "isa.wave"),
            ("scin-dgx8", "link.flit=24B", "link.flit"),
            ("scin-dgx8", "switches=0", "switches"),
            ("scin-dgx8", "topology=star-8", "topology"),
            ("scin-dgx8", "loss.links=1", "loss.links"),
            ("mesh8", "groups=0", "groups"),
            ("mesh8", "relay.piece=0", "relay.piece"),
            ("mesh8", "relay.relays=some", "relays"),
            ("mesh8-memory", "members=1", "members"),
            ("mesh8-memory", "link.flit=24B", "link.flit"),
            ("mesh8-memory", "relay.piece=16MiB", "relay.piece"),
            ("mesh8-memory", "group.window=1", "group"),
            ("two-servers", "servers=1", "servers"),
            ("two-servers", "experts=0", "experts"),
            ("two-servers", "experts=65", "experts"),
            ("two-servers", "top_k=65", "top_k"),
            ("two-servers", "tokens=0", "tokens"),
            ("two-servers", "token=3B", "token"),
            ("two-servers", "gate=fair", "gate"),
        ] {
            let message = changed(name, &[change]).unwrap_err().to_string();
            assert!(message.contains(key) && !message.contains('\n'), "{change}: {message}");
        }
    }

    #[test]
    fn a_key_that_no_design_has_which_runs_is_refused_if_somebody_set_it() {
        let scenario = changed("epic-star8", &["hosts.window=2"]).unwrap();
        let [ring, epic] = ["ring", "epic-3"].map(|name| scenario.design(CATALOG, name).unwrap());
        assert_eq!(scenario.refuse_unused(&[ring, epic]), Ok(()));
        let message = scenario.refuse_unused(&[epic]).unwrap_err().to_string();
        assert!(
            message.contains("keys of epic-3: group.") && message.contains("`hosts.window`"),
            "{message}"
        );
        // What a preset has for others is nobody's mistake.
        assert_eq!(changed("epic-star8", &[]).unwrap().refuse_unused(&[epic]), Ok(()));
    }

    #[test]
    fn a_key_of_training_is_refused_where_nothing_is_trained() {
        let scenario = changed("epic-star8", &["train.fusion=1MiB"]).unwrap();
        assert_eq!(scenario.training.fusion, ByteCount::new(1 << 20));
        assert!(scenario.refuse_training().unwrap_err().to_string().contains("`train.fusion`"));
        assert_eq!(changed("epic-star8", &[]).unwrap().refuse_training(), Ok(()));
    }

    #[test]
    fn an_unknown_name_tells_what_there_is() {
        let message = changed("dgx", &[]).unwrap_err().to_string();
        assert!(message.contains("scin-dgx8") && message.contains("found \"dgx\""), "{message}");
        let message = changed("star-2", &[]).unwrap().design(CATALOG, "nvls").unwrap_err().to_string();
        assert!(message.contains("epic-3") && message.contains("found \"nvls\""), "{message}");
    }
}
