//! Rules of a protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.

use alloc::string::String;

/// No rule of this name can be broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of {expected}, found \"{found}\"")]
pub struct UnknownMutation {
    /// The names there are.
    pub expected: String,
    /// The text as it was given.
    pub found: String,
}

/// Declares an engine's `Mutation`: the rules that can be broken, each with its name on the command line.
#[macro_export]
macro_rules! mutations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A rule that is broken, by the checker alone. Where the fault comes from is said with each.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Mutation {
            $($(#[$doc])* $variant,)+
        }

        impl Mutation {
            const NAMES: &[(&str, Self)] = &[$(($name, Self::$variant),)+];

            /// All of them.
            pub fn all() -> impl Iterator<Item = Self> {
                Self::NAMES.iter().map(|(_, mutation)| *mutation)
            }
        }

        impl Mutation {
            /// What it is called on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl core::fmt::Display for Mutation {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for Mutation {
            type Err = $crate::UnknownMutation;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownMutation> {
                let found = Self::NAMES.iter().find(|(name, _)| *name == text);
                found.map(|(_, mutation)| *mutation).ok_or_else(|| $crate::UnknownMutation {
                    expected: [$($name,)+].join(", "),
                    found: text.into(),
                })
            }
        }
    };
}
