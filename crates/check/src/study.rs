//! Studies: what is explored and is no design. Each has networks or rules of its own, which nothing but the checker runs.

use quincunx_design::{Catalog, Refusal};

use crate::control::ControlStudy;
use crate::earlier::EarlierStudy;
use crate::exchange::QueuePairStudy;
use crate::locks::LockStudy;
use crate::multiwrite::RelayStudy;
use crate::subject::{Arguments, Subject};

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

/// All studies.
pub static STUDIES: [&dyn Study; 7] = [
    &QueuePairStudy::GO_BACK_N,
    &QueuePairStudy::SELECTIVE,
    &RelayStudy,
    &ControlStudy,
    &LockStudy,
    &EarlierStudy::SWITCHML,
    &EarlierStudy::ATP,
];

/// A few lines for each study: its name and what it is, what can be asked of it, its options.
pub fn summary() -> String {
    let width = STUDIES.iter().map(|study| study.name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for study in STUDIES {
        text +=
            &format!("{:width$}  {}; {}\n", study.name(), study.summary(), study.collectives().join(", "));
        let options = study.options().iter().filter(|(_, meaning)| !meaning.is_empty());
        for (option, meaning) in options {
            text += &format!("{:width$}    {option}: {meaning}\n", "");
        }
        if !study.mutations().is_empty() {
            text += &format!("{:width$}    --mutate: {}\n", "", study.mutations().join(", "));
        }
    }
    text.trim_end().to_owned()
}
