//! The designs that there are. Whoever starts a program says which; nobody else names one.

use crate::{AnyDesign, ClosedForm, FabricKind, Premises, Reference, Refusal, Settings};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The designs that there are, in the order in which people see them. Several may share a name if they run on other fabrics.
#[derive(Clone, Copy, Debug)]
pub struct Catalog {
    designs: &'static [&'static dyn AnyDesign],
    references: &'static [Reference],
}

impl Catalog {
    /// A catalog of these designs, and of the closed forms that their papers have.
    pub const fn new(designs: &'static [&'static dyn AnyDesign], references: &'static [Reference]) -> Self {
        Self { designs, references }
    }

    /// The same and more, for a program with designs of its own.
    #[must_use]
    pub fn with(self, designs: &[&'static dyn AnyDesign]) -> Self {
        // A program makes one, at its beginning.
        let all: Vec<_> = self.designs.iter().chain(designs).copied().collect();
        Self { designs: Box::leak(all.into_boxed_slice()), ..self }
    }

    /// All designs.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn AnyDesign> {
        self.designs.iter().copied()
    }

    /// Those that run above queue pairs somewhere, and so among real hosts.
    pub fn above_queue_pairs(self) -> impl Iterator<Item = &'static dyn AnyDesign> {
        self.iter().filter(|design| design.about().has_queue_pairs())
    }

    /// Those that run on a kind of fabric.
    pub fn on(self, fabric: FabricKind) -> impl Iterator<Item = &'static dyn AnyDesign> {
        self.iter().filter(move |design| design.about().runs_on(fabric))
    }

    /// The design of that name on a kind of fabric.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(self, name: &str, fabric: FabricKind) -> Result<&'static dyn AnyDesign, Refusal> {
        self.on(fabric).find(|design| design.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.on(fabric).map(AnyDesign::name).collect();
            let expected = match fabric {
                FabricKind::Memory => "a design for a memory fabric",
                _ => "a design for this kind of fabric",
            };
            Refusal::new(
                format!("{expected} ({})", names.join(", ")),
                format!("\"{name}\""),
                "name one of them",
            )
        })
    }

    /// Those that can be asked for on a kind of fabric. On hosts that are joined in a ring these are also the ones that need switches: they
    /// say themselves that they do.
    pub fn choices(self, fabric: FabricKind) -> impl Iterator<Item = &'static dyn AnyDesign> {
        let is_ring = fabric == FabricKind::Ring;
        let beside = move |design: &&'static dyn AnyDesign| {
            is_ring && !self.on(fabric).any(|one| one.name() == design.name())
        };
        self.on(fabric).chain(self.on(FabricKind::Tree).filter(beside))
    }

    /// The one of that name among the [choices](Self::choices).
    ///
    /// # Errors
    /// If there is none; the message has those that run there.
    pub fn choose(self, name: &str, fabric: FabricKind) -> Result<&'static dyn AnyDesign, Refusal> {
        let found = self.choices(fabric).find(|design| design.name() == name);
        found.map_or_else(|| self.find(name, fabric), Ok)
    }

    /// The first design above queue pairs of that name, wherever it runs.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(self, name: &str) -> Result<&'static dyn AnyDesign, Refusal> {
        self.above_queue_pairs().find(|design| design.name() == name).ok_or_else(|| {
            Refusal::new(
                format!("a design: {}", names(self.above_queue_pairs()).join(", ")),
                format!("\"{name}\""),
                "name one of them",
            )
        })
    }

    /// All names, each once.
    pub fn names(self) -> Vec<&'static str> {
        names(self.iter())
    }

    /// A line for each design above queue pairs: its name and what it is.
    pub fn summary(self) -> String {
        lines(self.above_queue_pairs())
    }

    /// A line for each design on the memory fabric.
    pub fn memory_summary(self) -> String {
        lines(self.on(FabricKind::Memory))
    }

    /// What a closed form of a design's paper says.
    ///
    /// # Errors
    /// If none is published, or the values make no sense.
    pub fn closed_form(
        self,
        design: &str,
        form: ClosedForm,
        settings: &Settings,
        premises: &Premises<'_>,
    ) -> Result<f64, Refusal> {
        let reference = self.references.iter().find(|reference| reference.design == design);
        let reference = reference.ok_or_else(|| {
            Refusal::new(
                format!("a design with a closed form of {form:?}"),
                format!("{design}, of which none is published"),
                "name another",
            )
        })?;
        (reference.value)(form, settings, premises)
    }
}

fn names(designs: impl Iterator<Item = &'static dyn AnyDesign>) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for design in designs {
        if !names.contains(&design.name()) {
            names.push(design.name());
        }
    }
    names
}

/// Names in a column, and what they mean.
fn lines(designs: impl Iterator<Item = &'static dyn AnyDesign>) -> String {
    let designs: Vec<_> = designs.collect();
    let width = designs.iter().map(|design| design.name().len()).max().unwrap_or_default();
    let line = |design: &&dyn AnyDesign| format!("{:width$}  {}", design.name(), design.summary());
    designs.iter().map(line).collect::<Vec<_>>().join("\n")
}
