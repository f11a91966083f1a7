//! A design on the memory fabric, where accelerators around switches read and write each other's memory: what its crate implements, and
//! what everybody else sees of it.

use core::fmt::Debug;

/// What a design makes of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Vectors are of the request's data type; the result is the collective's.
    Exact,
    /// Vectors are of codes, and right behind a vector lie their scale factors; the result is the quantised sum of what they stand for.
    Codes,
    /// Vectors are of binary32 values, which are quantised each time that they are sent.
    Requantized,
}

/// A memory design as everybody sees it.
pub trait AnyMemoryDesign: Debug + Send + Sync {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// What it is, in a line.
    fn summary(&self) -> &'static str;
    /// What it makes of the numbers.
    fn form(&self) -> Form;
}
