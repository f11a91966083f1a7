//! Designs as scenarios see them: those of a kind of fabric, and their settings.

use crate::{Override, ScenarioError};
use quincunx_design::{
    AnyDesign, AnyMemoryDesign, Catalog, FabricKind, Form, Refusal, Settings, Value,
};

/// A design of one of the two sorts.
#[derive(Clone, Copy, Debug)]
pub enum FabricDesign {
    /// Above queue pairs, or in switches that RoCE frames pass through.
    Packets(&'static dyn AnyDesign),
    /// On accelerators around switches that read and write each other's memory.
    Memory(&'static dyn AnyMemoryDesign),
}

impl FabricDesign {
    /// All designs of a kind of fabric.
    pub fn on(catalog: Catalog, kind: FabricKind) -> Vec<Self> {
        match kind {
            FabricKind::Memory => catalog.memory().map(Self::Memory).collect(),
            kind => catalog.on(kind).map(Self::Packets).collect(),
        }
    }

    /// The design of that name on a kind of fabric. On hosts that are joined in a ring also those that need switches are found: they
    /// say themselves that they do.
    ///
    /// # Errors
    /// If there is none; the message has those that there are.
    pub fn find(catalog: Catalog, name: &str, kind: FabricKind) -> Result<Self, Refusal> {
        match kind {
            FabricKind::Memory => catalog.find_memory(name).map(Self::Memory),
            kind => {
                let found = catalog.find(name, kind);
                match (found, kind) {
                    (Err(refusal), FabricKind::Ring) => {
                        catalog.find(name, FabricKind::Tree).map_err(|_| refusal)
                    }
                    (found, _) => found,
                }
                .map(Self::Packets)
            }
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets(design) => design.name(),
            Self::Memory(design) => design.name(),
        }
    }

    /// Whether it leaves what the collective is to leave. Whoever chooses among designs takes no other: whether numbers may change is
    /// the user's to say.
    pub fn is_exact(self) -> bool {
        match self {
            Self::Packets(_) => true,
            Self::Memory(design) => design.form() == Form::Exact,
        }
    }

    /// The defaults of its parameters.
    pub fn defaults(self) -> Settings {
        match self {
            Self::Packets(design) => design.defaults(),
            Self::Memory(_) => Settings::parse("{}").expect("an object"),
        }
    }

    /// Sets a key of its parameters; see [`Settings::set`].
    ///
    /// # Errors
    /// As there.
    pub fn set(self, settings: &mut Settings, key: &str, value: &Value) -> Result<(), Refusal> {
        match self {
            Self::Packets(design) => design.set(settings, key, value),
            Self::Memory(_) => Ok(()),
        }
    }

    /// Refuses values that make no sense.
    pub(crate) fn check(self, settings: &Settings) -> Result<(), Refusal> {
        match self {
            Self::Packets(design) => design.transport(settings).map(|_| ()),
            Self::Memory(_) => Ok(()),
        }
    }

    /// The values of its parameters with `changes`, all of which must be its own: for commands that know no fabric.
    ///
    /// # Errors
    /// If a key is not one of the design's, or does not take the value.
    pub fn settings(self, mut settings: Settings, changes: &[Override]) -> Result<Settings, ScenarioError> {
        for Override { key, value } in changes {
            let place = "--set".to_owned();
            let set = self.set(&mut settings, key, &json(value));
            set.map_err(|refusal| ScenarioError::Key { place, error: refusal.to_string() })?;
        }
        Ok(settings)
    }
}

/// A value of a file as parameters take it.
pub(crate) fn json(value: &toml::Value) -> Value {
    serde_json::to_value(value).expect("a value of TOML is one of JSON")
}
