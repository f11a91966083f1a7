//! The tests of this room, as one program: each file is linked once, not by itself.

mod again;
mod agent;
mod agreement;
mod any_history;
mod cables;
mod cores;
mod duty;
mod journal;
mod levels;
mod lifecycles;
mod manager;
mod memory;
mod policies;
mod recreate;
mod release;
mod site;
mod versions;
