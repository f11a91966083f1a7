//! Rules of the protocol that can be broken on purpose, one at a time, so that the checker can show that it would notice.
//! No group is ever set up with one outside of it. Several are what the paper prints.

quincunx_engine::mutations! {
    /// Any First records its QP, though its connection's first message has not been here (table VI).
    AnyBegins = "any-begins",
    /// Every First opens a column, one that comes again as well (IV.C.2).
    FirstReopens = "first-reopens",
    /// What follows a First that was lost is forwarded (table VI).
    ForwardsUnknown = "forwards-unknown",
    /// A frame goes where its PSN fits, though one before it is missing (IV.C.2).
    AnyOrder = "any-order",
    /// A frame that comes again is looked for in the oldest column first (IV.C.2: the order "is crucial").
    OldestFirst = "oldest-first",
    /// A frame that was here before is answered with what lies in the result buffer, be it its sum or not.
    AnswersPending = "answers-pending",
    /// An index that is asked for again is counted as another arrival.
    CountsRepeats = "counts-repeats",
    /// A column keeps its status when its next message begins.
    StatusKept = "status-kept",
    /// Adds up one arrival too early.
    AddsEarly = "adds-early",
    /// The count of an index is not cleared when its sum is made.
    CountKept = "count-kept",
    /// A result goes back where its header came from.
    AnswersArrival = "answers-arrival",
    /// What is sent again carries the next place's sum.
    ResendsNextPlace = "resends-next-place",
    /// Ranks have one message more under way than there are flows.
    FifthMessage = "fifth-message",
    /// Ranks take a message for over when its result has come, though it is not acknowledged.
    OverWhenAnswered = "over-when-answered",
    /// A rank sends the data of its first message in every message.
    SameMessage = "same-message",
    /// A rank whose queue pair has given up says that its collective is done.
    SuccessOnFailure = "success-on-failure",
}
