//! A study: what is explored and is no design. Each has networks or rules of its own, which nothing but the checker runs.

use quincunx_design::{Catalog, Refusal};

use crate::arguments::Arguments;
use crate::subject::Subject;

/// Something to explore that is no design.
pub trait Study: Sync {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// What can be asked of it, in place of a design's collectives.
    fn collectives(&self) -> &'static [&'static str];

    /// Options that it has a use for, with what they mean where that is particular to it.
    fn options(&self) -> &'static [(&'static str, &'static str)];

    /// The rules that can be broken, by name.
    fn mutations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What is to be explored, if it [takes](Self::takes) that; `Subject::find` has seen to the options.
    ///
    /// # Errors
    /// If the arguments make no sense.
    fn subject(&self, catalog: Catalog, collective: &str, arguments: &Arguments) -> Result<Subject, Refusal>;

    /// Whether that can be asked of it.
    fn takes(&self, collective: &str) -> bool {
        self.collectives().contains(&collective)
    }
}
