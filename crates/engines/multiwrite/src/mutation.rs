//! Rules of MultiWrite that can be broken on purpose. No node ever does outside of the checker.

quincunx_engine::mutations! {
    /// A relay passes the bitmap on as it came, with itself and with those who are reached another way (4.1).
    BitmapNotNarrowed = "bitmap-not-narrowed",
    /// A relay posts the receive request again when a message has come, not when it has been passed on: it takes more than it can keep.
    ReceivesAhead = "receives-ahead",
    /// A rank that has everything ends its AllGather, whether the others have or not, and uses its slots again (5.2, step 5).
    NoBarrier = "no-barrier",
    /// A rank ends its AllGather when all have everything, though not all that it sent is acknowledged.
    EndsUnacknowledged = "ends-unacknowledged",
    /// A rank is done when all have told that they are, whatever they take part in.
    IgnoresDisagreement = "ignores-disagreement",
}
