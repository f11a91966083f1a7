//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it.

quincunx_engine::mutations! {
    /// A piece is combined whatever its sender takes part in.
    IgnoresDisagreement = "ignores-disagreement",
}
