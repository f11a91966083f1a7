//! What people are told of a parameter.

use alloc::string::String;

/// What a key means, in a line.
pub type Help = (&'static str, &'static str);

/// A parameter for people to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its key.
    pub key: String,
    /// Its default as people write it; empty if there is none.
    pub default: String,
    /// What it means.
    pub help: &'static str,
}
