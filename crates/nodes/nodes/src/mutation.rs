//! Rules of nodes that can be broken on purpose. No node is ever set up with one outside of the checker.

quincunx_engine::mutations! {
    /// A switch finds the group of a frame by the port that it comes through, and not by its queue pair: the first that has an edge there.
    FindsGroupsByPort = "finds-groups-by-port",
    /// A switch has one block of memory for all groups, as if each had locked it.
    IgnoresLocks = "lock-ignored",
    /// A switch whose group is removed goes on as before.
    StaysWhenRemoved = "stays-when-removed",
}
