//! A whole cluster in one process and in virtual time: managers that stand by for each other with a store, agents, switches, ranks of
//! several jobs and tenants, and all that is between them, under faults that a seed decides. One seed replays to the bit.
//!
//! What runs is what ships: `Manager`, `Journal` and `Agent` (`control/manager`), `Rank` (`processes/runtime`), `Host` and `Switch` with the designs
//! of the catalog (`nodes`). What is around them in a process, threads, sockets and gRPC, has a small stand-in here, each of which says in
//! its file what it stands for.
//!
//! ```text
//! let plan = generate(seed, USUAL, catalog);
//! let outcome = run(&plan, catalog, fallback, Telling::Nothing)?;
//! if let Some(violation) = outcome.violation { let smaller = shrink(&plan, ..); }
//! ```
//!
//! What is promised is in `promises.rs`; what was met is counted in [`Coverage`]; [`Planted`] are bugs that a checker must find.

mod client;
mod connection;
mod coverage;
mod due;
mod effects;
mod fabric;
mod facts;
mod generate;
mod machine;
mod manager;
mod phase;
mod plan;
mod planted;
mod ports;
mod promises;
mod rank;
mod round;
mod run;
mod settings;
mod shrink;
mod store;
mod story;
mod switch;
mod version;
mod world;

pub use coverage::Coverage;
pub use generate::{USUAL, designs, generate};
pub use plan::{Difference, Fault, FaultKind, JobPlan, Mistake, Moment, Plan, StoreKind, Weather};
pub use planted::Planted;
pub use promises::{Promise, Violation};
pub use run::{Outcome, Setup, Telling, run};
pub use shrink::shrink;
pub use story::Story;
