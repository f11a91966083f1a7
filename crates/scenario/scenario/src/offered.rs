//! How much traffic there is, and where it goes, as people write it: `uniform:0.3`.

use std::fmt;
use std::str::FromStr;

/// Where packets go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pattern {
    /// From every host to any other, each as likely.
    Uniform,
    /// From every host to the next one, from the last one to the first.
    Neighbor,
    /// From every other host to the first.
    Hotspot,
}

/// The least load: between two packets a host is silent for a million times as long as one takes.
const LEAST: f64 = 1e-6;

/// What a host sends, as a share of what each of its links can carry, headers included: from a millionth to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Load(f64);

/// Traffic of one pattern.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offered {
    /// Where it goes.
    pub pattern: Pattern,
    /// How much each host sends.
    pub load: Load,
}

/// Why a text is no pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a pattern of traffic (uniform, neighbor, hotspot), found \"{found}\"")]
pub struct PatternError {
    /// As it was given.
    pub found: String,
}

/// Why a text or a number is no load.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a load from {LEAST} to 1, such as 0.9 or 90%, found \"{found}\"")]
pub struct LoadError {
    /// As it was given.
    pub found: String,
}

/// Why a text is no traffic.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OfferedError {
    /// It is in one part.
    #[error("expected traffic as PATTERN:LOAD, such as uniform:0.3, found \"{found}\"")]
    Form {
        /// As it was given.
        found: String,
    },
    /// Its pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Its load.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Pattern {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Neighbor => "neighbor",
            Self::Hotspot => "hotspot",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let all = [Self::Uniform, Self::Neighbor, Self::Hotspot];
        let found = all.into_iter().find(|pattern| pattern.name() == text);
        found.ok_or_else(|| PatternError { found: text.into() })
    }
}

impl Load {
    /// The load `value`.
    ///
    /// # Errors
    /// If it is below a millionth or above 1.
    pub fn new(value: f64) -> Result<Self, LoadError> {
        if (LEAST..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(LoadError { found: value.to_string() })
        }
    }

    /// From a millionth to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let error = || LoadError { found: text.into() };
        let value = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map_err(|_| error())? / 100.0,
            None => text.parse().map_err(|_| error())?,
        };
        Self::new(value).map_err(|_| error())
    }
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pattern, self.load)
    }
}

impl FromStr for Offered {
    type Err = OfferedError;

    fn from_str(text: &str) -> Result<Self, OfferedError> {
        let (pattern, load) =
            text.split_once(':').ok_or_else(|| OfferedError::Form { found: text.into() })?;
        Ok(Self { pattern: pattern.parse()?, load: load.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_reads_as_it_prints() {
        for text in ["uniform:0.3", "neighbor:1", "hotspot:0.125"] {
            assert_eq!(text.parse::<Offered>().unwrap().to_string(), text);
        }
        assert_eq!("25%".parse::<Load>().unwrap().value(), 0.25);
    }

    #[test]
    fn what_is_no_traffic_is_refused_with_what_it_was() {
        for (text, named) in [
            ("uniform", "PATTERN:LOAD"),
            ("random:0.3", "\"random\""),
            ("uniform:0", "\"0\""),
            ("hotspot:1.01", "\"1.01\""),
            ("uniform:NaN", "\"NaN\""),
            ("uniform:-1%", "\"-1%\""),
        ] {
            let message = text.parse::<Offered>().unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
