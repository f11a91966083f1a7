//! Rules of NVLS that can be broken on purpose. No switch ever does outside of the checker.

quincunx_engine::mutations! {
    /// A reduced load is answered when one member has not answered yet.
    AnswersLoadEarly = "answers-load-early",
    /// The last member is left out of a reduction.
    ReducesOneLess = "reduces-one-less",
    /// A multicast store is answered when one member has not answered yet, so that a fence behind it means less than it says.
    AnswersStoreEarly = "answers-store-early",
    /// What is pushed is summed when one member has not pushed yet.
    SumsEarly = "sums-early",
    /// Pushes are answered when one member has not answered the write of their sum yet.
    AnswersPushEarly = "answers-push-early",
}
