//! The tests of this room, as one program: each file is linked once, not by itself.

mod bound;
mod check;
mod cores;
mod demo;
mod doctor;
mod explain;
mod hostile;
mod imports;
mod inputs;
mod intruder;
mod ipv6;
mod jobs;
mod keys;
mod layers;
mod library;
mod links;
mod one_address;
mod operate;
mod ports;
mod processes;
mod progress;
mod results;
mod runs;
mod secured;
mod simulations;
mod standby;
