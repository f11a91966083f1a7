//! The ways in which a switch can realise its node of an IncTree.

/// How an EPIC switch realises the IncTree (EPIC 4.2 to 4.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Connection terminated: connections end at the switch, which combines whole messages.
    I,
    /// Connection translated: headers are rewritten; the hosts retransmit.
    II,
    /// Connection augmented: packets pass through pipes; every hop retransmits.
    III,
}
