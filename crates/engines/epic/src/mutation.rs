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
    /// A rank sends the data of its first message in every message.
    SameMessage = "same-message",
    /// Mode-I: a slot is freed when the fastest child has acknowledged it.
    FreedByFastest = "freed-by-fastest",
    /// Mode-I: one receive request more than there are buffers, so that a message lands on one that waits.
    ReceiveTooMany = "receive-too-many",
    /// Mode-I beside another mode: numbers of what does not come over an edge are not skipped.
    CountsMessagesAlone = "counts-messages-alone",
    /// Mode-II: a duplicate is answered with the next slot's data.
    AnswersNextSlot = "answers-next-slot",
    /// Mode-III: what is sent again carries the next slot's data.
    ResendsNextSlot = "resends-next-slot",
    /// RecycleBuffer clears nothing.
    NeverCleared = "never-cleared",
    /// RecycleBuffer clears the degree and not the payload: a slot's next use adds to what it held.
    PayloadNotCleared = "payload-not-cleared",
    /// Mode-III with the buffers of Mode-II (5.1, figure 6): twice the window of slots, and completion clears the payload a window
    /// ahead, whatever is in it; ACKs, sent at once, alone hold ranks back. (A range of all slots stays: without it numbers share slots
    /// before anything is cleared, which is another fault.)
    Figure6 = "figure-6",
    /// `arrived` is never cleared, as algorithms 1 and 2 are printed: a slot's next use is a duplicate.
    ArrivedNeverCleared = "arrived-never-cleared",
    /// RecycleBuffer's range is closed, as printed: it takes the slot of psnStart with it (of Mode-II: the slot behind).
    RecyclesStart = "recycles-start",
    /// Mode-III: what lies below the range, or has been here before, is dropped in silence (algorithm 2, line 31): whoever has missed
    /// the last ACK hears nothing.
    StaleInSilence = "stale-in-silence",
    /// Mode-III: each packet is answered with epsn - 1, by an ACK if that is its number and otherwise a NAK (algorithm 3, line 5).
    AnswersAsPrinted = "answers-as-printed",
    /// Mode-III: `arrived[epsn]` without "% N" (algorithm 2, line 34): the array ends after N packets.
    ExpectedBeyondArray = "expected-beyond-array",
    /// Mode-II: completion clears the slot W ahead, counted in messages, where it is MW (algorithm 1, line 18); there is no range.
    WindowInMessages = "window-in-messages",
    /// A switch adds up right but once: the last contribution to the first data that it completes counts twice, and every CRC is right.
    ChangesAnElement = "changes-an-element",
    /// A rank whose queue pair has given up says that its collective is done.
    SuccessOnFailure = "success-on-failure",
    /// A rank whose queue pair has given up tells nobody, and waits on.
    RankFailsInSilence = "rank-fails-in-silence",
    /// A switch that gives up on a neighbour tells nobody.
    SwitchFailsInSilence = "switch-fails-in-silence",
    /// A switch adds up what ranks send whatever their control messages say.
    AddsWhateverComes = "adds-whatever-comes",
    /// Mode-III below Mode-II: a time-out does not tell what has come.
    TimesOutUnheard = "times-out-unheard",
    /// Mode-III below Mode-II: the newest result, come once more, lets it ask for nothing again.
    NewestUnheard = "newest-unheard",
    /// Mode-II above Mode-III: whoever asks behind what it was told of is not told again.
    CoveredToldOnce = "covered-told-once",
    /// Mode-II above Mode-III: what a switch has that asks for what is before it counts as dropped there, and is awaited once more.
    RewindsWhatIsKept = "rewinds-what-is-kept",
}
