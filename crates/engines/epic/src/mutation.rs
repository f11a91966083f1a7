//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it.

quincunx_engine::mutations! {
    /// Mode-III frees slots like Mode-II, when an aggregate is complete, not when it has been acknowledged (EPIC figure 6).
    ModeIIRecycling = "mode-ii-recycling",
    /// At Mode-III's root an aggregate goes to the replication pipe whether there is room or not (H.4).
    RootCopiesAggregate = "root-copies-aggregate",
    /// A Mode-II buffer of one slot more than the window instead of twice the window (5.1).
    WindowShort = "window-short",
    /// Mode-III acknowledges what arrives, not what it has added up in order.
    AckBeforeAggregate = "ack-before-aggregate",
    /// CheckDuplicate says that nothing is one.
    NoDuplicateCheck = "no-duplicate-check",
    /// PSNs are compared as they are, though they wrap.
    PsnNoWrap = "psn-no-wrap",
    /// A NAK counts as an ACK of the packet that it asks for.
    NakAsAck = "nak-as-ack",
    /// Mode-II as in 4.3, without a valid range: what the network kept for long is added to the slot's next user.
    StaleCollective = "stale-collective",
    /// Mode-II with two pools of slots told apart by one bit: a contribution to one forgets that its sender has contributed
    /// to the other (SwitchML's rule).
    OneBitVersion = "one-bit-version",
    /// Mode-II, Reduce: slots are freed when an aggregate is complete, though its receiver may still want it.
    ReduceRecycledByCompletion = "reduce-recycled-by-completion",
    /// Mode-II, Broadcast: a receiver's NAK is passed on as it is, and acknowledges for slower ones.
    NakForwarded = "nak-forwarded",
    /// Mode-II: an ACK goes upstream when it is news, and never again.
    AckOnlyIfNews = "ack-only-if-news",
}
