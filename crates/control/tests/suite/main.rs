//! The tests of this room, as one program: each file is linked once, not by itself.

mod again;
mod agent;
mod any_history;
mod manager;
mod memory;
mod policies;
mod site;
