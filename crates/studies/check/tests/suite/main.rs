//! The tests of this room, as one program: each file is linked once, not by itself.

mod atp;
mod beyond;
mod clock;
mod common;
mod control;
mod designs;
mod disagreement;
mod epic;
mod exchange;
mod giving_up;
mod groups;
mod locks;
mod memory;
mod merging;
mod mixed;
mod multiwrite;
mod netreduce;
mod overlap;
mod prior_systems;
mod routed;
mod standard_verbs;
mod switchml;
mod twins;
mod uneven;
