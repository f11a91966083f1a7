//! What the switch does to frames, frame by frame.

mod registers;
mod support;
mod switch;
