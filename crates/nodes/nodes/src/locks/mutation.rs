//! Rules of the locks that can be broken on purpose. No node is ever set up with one outside of the checker.

quincunx_engine::mutations! {
    /// A recorder grants what another group holds.
    GrantsTwice = "grants-twice",
    /// A switch releases when the ranks below it are done, and not when all are.
    ReleasesEarly = "releases-early",
    /// A switch keeps what it had granted when the verdict is a refusal.
    KeepsWhatIsRefused = "keeps-what-is-refused",
    /// The root does not look at the marks of the switches below it.
    IgnoresTheMark = "ignores-the-mark",
    /// A switch that has granted tells its children so, before the root has spoken.
    SpeaksForTheRoot = "speaks-for-the-root",
    /// A switch whose recorder refuses says nothing, and tries again when it is asked again: groups wait for each other.
    WaitsForTheLock = "waits-for-the-lock",
    /// A switch does not look at the numbers of words.
    TakesOldWords = "takes-old-words",
    /// A rank's patience ends by its own time-outs, and not by the verdicts that all hear.
    CountsTimeOuts = "counts-time-outs",
    /// A rank says nothing twice.
    NeverRepeats = "never-repeats",
    /// A switch that has spoken for its children does not answer one that has not heard it.
    AnswersOnce = "answers-once",
}
