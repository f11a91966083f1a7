//! Rules of CAIS that can be broken on purpose. No switch ever does outside of the checker.

quincunx_engine::mutations! {
    /// A load entry that waits for its data is evicted as any other (III-A4: it is deferred), and those who wait for it are forgotten.
    EvictsWaiting = "evicts-waiting",
    /// A sum leaves without its count: as if one contribution were in it.
    SumCountsOne = "sum-counts-one",
    /// A partial sum claims to be whole.
    PartialCountsAll = "partial-counts-all",
    /// An evicted reduction's partial sum does not go home (III-A4).
    EvictionDropsPartial = "eviction-drops-partial",
    /// A time-out frees a reduction's entry, and its partial sum does not go home (III-A4).
    TimeoutDropsPartial = "timeout-drops-partial",
    /// A whole sum leaves, and its entry stays where it was: what comes later is added to it.
    KeepsSum = "keeps-sum",
    /// Of those who wait for data the first is answered as often as there are others, and these never.
    AnswersFirstAgain = "answers-first-again",
    /// A load that finds an entry which waits for its data is answered at once, with what there is: nothing (III-A3, step 4).
    AnswersBeforeData = "answers-before-data",
    /// A request that bypasses a full table also takes the place of the last that was used.
    BypassEvicts = "bypass-evicts",
    /// A boundary does not wait for the last accelerator.
    BoundaryShort = "boundary-short",
    /// A boundary leaves what is cached in the tables.
    BoundaryKeepsData = "boundary-keeps-data",
    /// Of a group that is released the last one to come is not told (III-B3).
    GroupForgets = "group-forgets",
    /// An entry is looked up by its address alone, not by its type (III-A2).
    IgnoresType = "ignores-type",
    /// A load entry ends at as many requests as there are accelerators that may ask, whoever has asked: the paper's Count, word for word.
    CountsRequests = "counts-requests",
    /// A sum leaves when one contribution is missing, and claims to be whole.
    ReleasesEarly = "releases-early",
}

impl Mutation {
    /// Whether collectives show it. They load no line twice, and never load what is being reduced: tests of the unit alone show what these two
    /// do.
    pub(crate) const fn shows_in_collectives(self) -> bool {
        !matches!(self, Self::IgnoresType | Self::CountsRequests)
    }
}
