//! When pieces go out.

/// When pieces go out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pace {
    /// As soon as they are there: pieces are short enough for several stages to overlap.
    Eager,
    /// Step by step, as textbooks and simulators have it: pieces are whole chunks, and a stage sends nothing before
    /// what the one before it sent is acknowledged. Slower; for comparison with figures of those.
    Lockstep,
}
