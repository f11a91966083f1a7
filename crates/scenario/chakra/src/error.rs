//! Why a file is no trace, in a line: what was expected, what was found, where, what to do.

/// Why a file is no trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// No message at all.
    #[error("{place}: expected a Chakra trace, found an empty file; name a .et file")]
    Empty {
        /// The file.
        place: String,
    },
    /// The file ends within a message.
    #[error(
        "{place}: expected a message of {expected} bytes at byte {at}, found {found}; the file is cut short, copy it again"
    )]
    Truncated {
        /// The file.
        place: String,
        /// Where the message begins, behind its length.
        at: usize,
        /// Its length.
        expected: u64,
        /// What is left of the file.
        found: usize,
    },
    /// Bytes that are no such message.
    #[error("{place}: expected {expected} at byte {at}, found \"{found}\"; is it a .et file of Chakra?")]
    Encoding {
        /// The file.
        place: String,
        /// Where the message begins.
        at: usize,
        /// What should have been there.
        expected: &'static str,
        /// The decoder's words.
        found: String,
    },
    /// Text that is no such file.
    #[error("{place}: expected {expected}, found \"{found}\"; name another file")]
    Json {
        /// The file.
        place: String,
        /// What it should be.
        expected: &'static str,
        /// What is wrong.
        found: String,
    },
    /// Two files that are not of one iteration.
    #[error("{place}: expected functions that are in {timeline}, too, found none; record both together")]
    Nothing {
        /// The execution trace.
        place: String,
        /// The timeline.
        timeline: String,
    },
    /// Two nodes have one id.
    #[error("{place}: expected each id once, found {id} twice; number the nodes anew")]
    Duplicate {
        /// The file.
        place: String,
        /// The id.
        id: u64,
    },
    /// A node waits for one that is not there.
    #[error("{place}: expected dependencies in the file, found {found} of node {id}; write that node, too")]
    Unknown {
        /// The file.
        place: String,
        /// Who waits.
        id: u64,
        /// For whom.
        found: u64,
    },
    /// A node waits for itself.
    #[error("{place}: expected dependencies without a cycle, found one through node {id}; break it")]
    Cycle {
        /// The file.
        place: String,
        /// The lowest id on it.
        id: u64,
    },
    /// A node lacks something, or has it wrong.
    #[error("{place}, node {id}: expected {expected}, found {found}; {remedy}")]
    Node {
        /// The file.
        place: String,
        /// Which.
        id: u64,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// Why traces cannot be replayed; `E` is what whoever knows the network says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayError<E> {
    /// There is none.
    #[error("expected the trace of a rank or more, found none; name a file or a prefix")]
    NoTraces,
    /// A node names a rank that has no part in it.
    #[error(
        "rank {rank}, node {id}: expected another rank of {among}, found {found}; bring that rank's trace, or correct the node"
    )]
    Peer {
        /// Whose node.
        rank: usize,
        /// Which.
        id: u64,
        /// Of how many ranks, or of which group.
        among: String,
        /// Who is named.
        found: u16,
    },
    /// Ranks meet for different things.
    #[error(
        "rank {rank}, node {id}: expected {expected} as at node {other_id} of rank {other}, found {found}; \
         ranks of a group do the same in the same order of ids"
    )]
    Mismatch {
        /// Whose node.
        rank: usize,
        /// Which.
        id: u64,
        /// Whose came first.
        other: usize,
        /// Which.
        other_id: u64,
        /// What that rank does.
        expected: String,
        /// What this one does.
        found: String,
    },
    /// Ranks wait for each other, forever.
    #[error(
        "expected all nodes to run, found ranks that wait forever: {0}; bring the nodes that they wait for"
    )]
    Stuck(String),
    /// Nobody knows how long it takes.
    #[error("rank {rank}, node {id}: {error}")]
    Communication {
        /// Whose node; of several ranks the first.
        rank: usize,
        /// Which.
        id: u64,
        /// Why.
        error: E,
    },
}
