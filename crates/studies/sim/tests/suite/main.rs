//! The tests of this room, as one program: each file is linked once, not by itself.

mod allocation;
mod astra;
mod bounds;
#[path = "../common/captured.rs"]
mod captured;
mod dataflow;
mod epic_closed_forms;
mod epic_tables;
mod experts;
mod flows;
mod hardware;
mod jobs;
mod kept;
mod layer_machine;
mod layer_over_time;
mod layers;
mod memory_fabric;
mod memory_merging;
mod memory_mesh;
mod memory_views;
mod mesh;
mod multiwrite_networks;
mod packet_fabric;
mod planes;
mod predictions;
mod published;
mod reproduce;
#[path = "../common/requests.rs"]
mod requests;
mod rivals;
mod traces;
mod traffic;
mod training;
