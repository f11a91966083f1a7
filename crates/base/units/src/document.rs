//! Units in documents (TOML, JSON): the text that people write, or a bare number where that is text enough.

use crate::{BitRate, ByteCount, Duration, FlopRate, MeanTime, Probability};
use alloc::string::ToString;
use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Reads a value from its text.
struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its unit")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! as_text {
    ($($Unit:ty),+) => {$(
        impl<'de> Deserialize<'de> for $Unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text(PhantomData))
            }
        }

        impl Serialize for $Unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

as_text!(BitRate, ByteCount, Duration, FlopRate, MeanTime, Probability);

/// What they are to a reader of the reference of keys.
#[cfg(feature = "schema")]
macro_rules! called {
    ($($Unit:ty: $name:literal),+) => {$(
        impl schemars::JsonSchema for $Unit {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> alloc::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "integer"], "format": $name })
            }
        }
    )+};
}

#[cfg(feature = "schema")]
called!(BitRate: "rate", ByteCount: "size", Duration: "time", FlopRate: "flop rate", Probability: "share");
