//! Programs of the version before, as they are in a cluster that is being upgraded: of all designs they have parameters of the version before, but of
//! what groups fall back to. What runs in them here is this version's program, to which what it hears of versions is told as one more.

use quincunx_design::GroupContext;

/// A program that is one version behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionBefore {
    /// The design that has not changed, if there is one.
    pub(crate) fallback: Option<&'static str>,
}

impl VersionBefore {
    /// What it says its version of a design is, where that is this one.
    pub(crate) fn of(self, design: &str, version: u32) -> u32 {
        if self.fallback == Some(design) { version } else { version - 1 }
    }

    /// A context as it looks to a program that is behind: of a later version than its own.
    pub(crate) fn sees(self, context: &GroupContext) -> GroupContext {
        let later = u32::from(self.fallback != Some(&context.design));
        GroupContext { version: context.version + later, ..context.clone() }
    }
}
