//! Rules of the queue pair that can be broken on purpose. No queue pair is ever set up with one outside of the checker.

quincunx_engine::mutations! {
    /// A request that was executed before is executed again.
    NoDuplicateCheck = "no-duplicate-check",
    /// A request that comes too early is executed (go-back-N).
    NoSequenceCheck = "no-sequence-check",
    /// What comes too early is dropped, and acknowledged (go-back-N).
    AckOutOfOrder = "ack-out-of-order",
    /// A NAK counts as an ACK of the packet that it asks for (go-back-N).
    NakAsAck = "nak-as-ack",
    /// A NAK acknowledges all before the packet that it asks for, as InfiniBand's do (selective).
    NakAcknowledges = "nak-acknowledges",
    /// The PSN of an acknowledge is compared as it is, though PSNs wrap.
    PsnNoWrap = "psn-no-wrap",
    /// What has been missing for long is acknowledged where it is to be asked for again (selective).
    AsksAgainByAck = "asks-again-by-ack",
    /// What is sent again carries the data of the packet behind it.
    ResendsNext = "resends-next",
}
