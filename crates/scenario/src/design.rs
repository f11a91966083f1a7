//! Designs as scenarios see them: those of a kind of fabric, and their settings.

use quincunx_collective::Collective;
use quincunx_design::{AnyDesign, AnyMemoryDesign, Catalog, FabricKind, Refusal, Settings, Value};

/// A design of one of the two sorts.
#[derive(Clone, Copy, Debug)]
pub enum FabricDesign {
    /// Above queue pairs, or in switches that RoCE frames pass through.
    Packets(&'static dyn AnyDesign),
    /// On accelerators around switches that read and write each other's memory.
    Memory(&'static dyn AnyMemoryDesign),
}

impl FabricDesign {
    /// All designs of a kind of fabric; those that [`find`](Self::find) finds there.
    pub fn on(catalog: Catalog, kind: FabricKind) -> Vec<Self> {
        match kind {
            FabricKind::Memory => catalog.memory().map(Self::Memory).collect(),
            FabricKind::Ring => {
                let beside =
                    |design: &&dyn AnyDesign| !catalog.on(kind).any(|one| one.name() == design.name());
                let switched = catalog.on(FabricKind::Tree).filter(beside);
                catalog.on(kind).chain(switched).map(Self::Packets).collect()
            }
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

    /// The design, if it is one above queue pairs.
    ///
    /// # Errors
    /// If it is one of a memory fabric.
    pub fn above_queue_pairs(self) -> Result<&'static dyn AnyDesign, Refusal> {
        match self {
            Self::Packets(design) => Ok(design),
            Self::Memory(design) => Err(Refusal::new(
                "a design that runs among hosts, or in switches between them",
                format!("{}, which runs on a memory fabric", design.name()),
                "name another design, or another fabric",
            )),
        }
    }

    /// The design, if it is one of a memory fabric.
    ///
    /// # Errors
    /// If it is one above queue pairs.
    pub fn on_memory(self) -> Result<&'static dyn AnyMemoryDesign, Refusal> {
        match self {
            Self::Memory(design) => Ok(design),
            Self::Packets(design) => Err(Refusal::new(
                "a design that runs on a memory fabric",
                format!("{}, which runs among hosts, or in switches between them", design.name()),
                "name another design, or another fabric",
            )),
        }
    }

    /// Whether it offers a collective on a kind of fabric, with whatever root.
    pub fn offers(self, collective: Collective, kind: FabricKind) -> bool {
        self.collectives(kind).iter().any(|offered| offered.name() == collective.name())
    }

    /// Whether it offers a collective on any kind of fabric; some are for programs of one's own alone.
    pub fn offers_any(self) -> bool {
        FabricKind::ALL.iter().any(|&kind| !self.collectives(kind).is_empty())
    }

    /// The collectives that it offers on a kind of fabric; none where it does not run.
    pub fn collectives(self, kind: FabricKind) -> &'static [Collective] {
        match self {
            Self::Packets(design) => design.collectives(kind),
            Self::Memory(design) => design.collectives(),
        }
    }

    /// Whether a collective is several others in a row: see [`AnyDesign::runs_in_steps`].
    ///
    /// # Errors
    /// If the design refuses its parameters.
    pub fn runs_in_steps(self, settings: &Settings, collective: Collective) -> Result<bool, Refusal> {
        match self {
            Self::Packets(design) => design.runs_in_steps(settings, collective),
            Self::Memory(_) => Ok(false),
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
            Self::Memory(design) => design.is_exact(),
        }
    }

    /// Keys that presets and drivers leave as they are: see [`AnyDesign::keeps`].
    pub(crate) fn keeps(self) -> &'static [&'static str] {
        match self {
            Self::Packets(design) => design.keeps(),
            Self::Memory(_) => &[],
        }
    }

    /// The defaults of its parameters.
    pub fn defaults(self) -> Settings {
        match self {
            Self::Packets(design) => design.defaults(),
            Self::Memory(design) => design.defaults(),
        }
    }

    /// Sets a key of its parameters; see [`Settings::set`].
    ///
    /// # Errors
    /// As there.
    pub fn set(self, settings: &mut Settings, key: &str, value: &Value) -> Result<(), Refusal> {
        match self {
            Self::Packets(design) => design.set(settings, key, value),
            Self::Memory(design) => design.set(settings, key, value),
        }
    }

    /// Refuses values that make no sense.
    pub(crate) fn check(self, settings: &Settings) -> Result<(), Refusal> {
        match self {
            Self::Packets(design) => design.transport(settings).map(|_| ()),
            Self::Memory(design) => design.form(settings).map(|_| ()),
        }
    }
}

/// A value of a file as parameters take it.
pub(crate) fn json(value: &toml::Value) -> Value {
    serde_json::to_value(value).expect("a value of TOML is one of JSON")
}
