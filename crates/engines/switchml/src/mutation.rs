//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it. The first one is what the paper prints.

quincunx_engine::mutations! {
    /// A slot is told apart from its last use by one bit, and a contribution to one pool forgets the one to the other (Sapio et al.,
    /// algorithm 3).
    VersionBit = "version-bit",
    /// There is one pool: a slot whose sum is sent is empty (algorithm 1).
    OnePool = "one-pool",
    /// What comes again is counted as another contribution.
    CountsRepeats = "counts-repeats",
    /// What comes again is answered with what there is of the sum, be it whole or not.
    AnswersPending = "answers-pending",
    /// What comes again is answered with the sum of the slot's other pool.
    AnswersOtherPool = "answers-other-pool",
    /// What is sent again when the sum was sent is dropped.
    ForgetsSum = "forgets-sum",
    /// A slot is whole one contribution too early.
    WholeEarly = "whole-early",
    /// A pool that begins anew keeps the sum of its last use.
    KeepsSum = "keeps-sum",
    /// A rank takes any result of a slot for the one that it waits for.
    AnyResult = "any-result",
    /// A rank sends nothing again.
    NeverAgain = "never-again",
    /// A rank sends the first of its pieces in place of what it sends again.
    ResendsFirst = "resends-first",
    /// A rank that has given up says that its collective is done.
    SuccessOnFailure = "success-on-failure",
}
