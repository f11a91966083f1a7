//! A design from outside is held against everything that the project's own are held against.

mod commands;
mod design;
