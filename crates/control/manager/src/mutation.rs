//! Rules of the control plane that can be broken on purpose. No manager or agent is ever set up with one outside of the checker.

quincunx_engine::mutations! {
    /// What a group held is free when its nodes are told to forget it, and not when they have.
    FreesAtOnce = "frees-at-once",
    /// A manager that starts again takes what nodes say that they have for nothing.
    ForgetsWhatNodesHave = "forgets-what-nodes-have",
    /// A manager that starts again counts groups from one.
    ReusesNumbers = "reuses-numbers",
    /// Numbers of groups that are given away are not kept.
    NeverKeepsNumbers = "never-keeps-numbers",
    /// A manager takes the word of an earlier connection for that of the present one.
    TakesOldWords = "takes-old-words",
    /// An agent installs what comes late, after the group is over.
    InstallsLate = "installs-late",
    /// An agent says that it has forgotten a group, and has not.
    ConfirmsWithoutForgetting = "confirms-without-forgetting",
    /// An agent does as an earlier connection says.
    ObeysOldWords = "obeys-old-words",
    /// Of a group whose lease is over nodes are not told.
    ExpiresInSilence = "expires-in-silence",
    /// When its group is made anew, a rank goes on from where it was, and not from where the slowest was.
    GoesOnFromItsOwn = "goes-on-from-its-own",
    /// A rank whose group is suspended counts the collective under way as complete.
    CountsWhatIsUnderWay = "counts-what-is-under-way",
    /// A group is made anew from where the fastest rank was.
    AgreesOnTheFastest = "agrees-on-the-fastest",
    /// The store takes changes of a manager whose lease is over.
    KeepsForAnybody = "keeps-for-anybody",
    /// A manager does what follows from a change before that is kept.
    SpeaksBeforeKept = "speaks-before-kept",
    /// A manager that stands by goes on from what was kept before it had the lease.
    ReadsBeforeItsLease = "reads-before-its-lease",
    /// A group is over when one of its ranks is done with it.
    EndsAtFirstRelease = "ends-at-first-release",
    /// A node that attaches again does not say which of its groups its rank is done with.
    TellsReleaseOnce = "tells-release-once",
    /// Whoever has lost his manager asks the next one with a key of its own.
    AsksAnew = "asks-anew",
}
