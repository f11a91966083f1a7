//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it.

quincunx_engine::mutations! {
    /// What is sent again is treated like anything else: an aggregator that has it drops it (`fallback` among the rules of
    /// `quincunx check atp-rules`).
    ResendsWait = "resends-wait",
    /// Packets are added up in whatever aggregator their hash names, whoever has it.
    AnyOwner = "any-owner",
    /// The switch looks at no bitmap: what comes again is counted as another contribution.
    CountsRepeats = "counts-repeats",
    /// An aggregator is whole one contribution too early.
    WholeEarly = "whole-early",
    /// An aggregator that is free keeps the sum of its last use.
    KeepsSum = "keeps-sum",
    /// What there is of a sum goes to the server as if it were of all workers.
    PartialAsWhole = "partial-as-whole",
    /// The server looks at no bitmap: it adds up whatever comes.
    ServerCountsRepeats = "server-counts-repeats",
    /// The server answers what is sent again with what there is of the sum.
    AnswersPending = "answers-pending",
    /// The server answers nothing again.
    ForgetsResult = "forgets-result",
    /// The server keeps a window of sums, not two.
    OneWindow = "one-window",
    /// The server takes what comes late for what is there now.
    TakesLate = "takes-late",
    /// A rank takes any result for the oldest one that it waits for.
    AnyResult = "any-result",
    /// A rank sends nothing again.
    NeverAgain = "never-again",
    /// A rank sends what it sends again as if for the first time.
    NoResendFlag = "no-resend-flag",
    /// A rank that has given up says that its collective is done.
    SuccessOnFailure = "success-on-failure",
}
