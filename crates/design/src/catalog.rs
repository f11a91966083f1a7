//! The designs that there are. Whoever starts a program says which; nobody else names one.

use crate::{AnyDesign, AnyMemoryDesign, FabricKind, Refusal};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The designs that there are, in the order in which people see them. Several may share a name if they run on other fabrics.
#[derive(Clone, Copy, Debug)]
pub struct Catalog {
    designs: &'static [&'static dyn AnyDesign],
    memory: &'static [&'static dyn AnyMemoryDesign],
}

impl Catalog {
    /// A catalog of these designs: those above queue pairs, and those on the memory fabric.
    pub const fn new(
        designs: &'static [&'static dyn AnyDesign],
        memory: &'static [&'static dyn AnyMemoryDesign],
    ) -> Self {
        Self { designs, memory }
    }

    /// The same and more, for a program with designs of its own.
    #[must_use]
    pub fn with(self, designs: &[&'static dyn AnyDesign], memory: &[&'static dyn AnyMemoryDesign]) -> Self {
        // A program makes one, at its beginning.
        Self { designs: joined(self.designs, designs), memory: joined(self.memory, memory) }
    }

    /// All designs on the memory fabric.
    pub fn memory(self) -> impl Iterator<Item = &'static dyn AnyMemoryDesign> {
        self.memory.iter().copied()
    }

    /// The design of that name on the memory fabric.
    ///
    /// # Errors
    /// If there is none.
    pub fn find_memory(self, name: &str) -> Result<&'static dyn AnyMemoryDesign, Refusal> {
        self.memory().find(|design| design.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.memory().map(AnyMemoryDesign::name).collect();
            Refusal::new(
                format!("a design for a memory fabric ({})", names.join(", ")),
                format!("\"{name}\""),
                "name one of them",
            )
        })
    }

    /// A line for each design on the memory fabric: its name and what it is.
    pub fn memory_summary(self) -> String {
        lines(self.memory().map(|design| (design.name(), design.summary())).collect())
    }

    /// All designs above queue pairs.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn AnyDesign> {
        self.designs.iter().copied()
    }

    /// Those that run on a kind of fabric.
    pub fn on(self, fabric: FabricKind) -> impl Iterator<Item = &'static dyn AnyDesign> {
        self.iter().filter(move |design| design.fabrics().contains(&fabric))
    }

    /// The design of that name on a kind of fabric.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(self, name: &str, fabric: FabricKind) -> Result<&'static dyn AnyDesign, Refusal> {
        self.on(fabric).find(|design| design.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.on(fabric).map(AnyDesign::name).collect();
            Refusal::new(
                format!("a design for this kind of fabric ({})", names.join(", ")),
                format!("\"{name}\""),
                "name one of them",
            )
        })
    }

    /// The first design above queue pairs of that name, wherever it runs.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(self, name: &str) -> Result<&'static dyn AnyDesign, Refusal> {
        self.iter().find(|design| design.name() == name).ok_or_else(|| {
            Refusal::new(
                format!("a design: {}", self.names().join(", ")),
                format!("\"{name}\""),
                "name one of them",
            )
        })
    }

    /// All names of designs above queue pairs, each once.
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for design in self.iter() {
            if !names.contains(&design.name()) {
                names.push(design.name());
            }
        }
        names
    }

    /// A line for each design above queue pairs: its name and what it is.
    pub fn summary(self) -> String {
        lines(self.iter().map(|design| (design.name(), design.summary())).collect())
    }
}

fn joined<T: Copy>(first: &[T], more: &[T]) -> &'static [T] {
    let all: Vec<T> = first.iter().chain(more).copied().collect();
    Box::leak(all.into_boxed_slice())
}

/// Names in a column, and what they mean.
fn lines(named: Vec<(&str, &str)>) -> String {
    let width = named.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, meaning)| format!("{name:width$}  {meaning}");
    named.into_iter().map(line).collect::<Vec<_>>().join("\n")
}
