//! The designs that there are. Whoever starts a program says which; nobody else names one.

use crate::{AnyDesign, FabricKind, Refusal};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The designs that there are, in the order in which people see them. Several may share a name if they run on other fabrics.
#[derive(Clone, Copy, Debug)]
pub struct Catalog {
    designs: &'static [&'static dyn AnyDesign],
}

impl Catalog {
    /// A catalog of these designs.
    pub const fn new(designs: &'static [&'static dyn AnyDesign]) -> Self {
        Self { designs }
    }

    /// The same and more, for a program with designs of its own.
    #[must_use]
    pub fn with(self, more: &[&'static dyn AnyDesign]) -> Self {
        let designs: Vec<_> = self.designs.iter().chain(more).copied().collect();
        // A program makes one, at its beginning.
        Self { designs: Box::leak(designs.into_boxed_slice()) }
    }

    /// All of them.
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

    /// The first design of that name, wherever it runs.
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

    /// All names, each once.
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for design in self.iter() {
            if !names.contains(&design.name()) {
                names.push(design.name());
            }
        }
        names
    }

    /// A line for each design: its name and what it is.
    pub fn summary(self) -> String {
        let width = self.names().iter().map(|name| name.len()).max().unwrap_or_default();
        let line = |design: &dyn AnyDesign| format!("{:width$}  {}", design.name(), design.summary());
        self.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
