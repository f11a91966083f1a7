//! The compiler step and the pass over graphs, as one program.

mod expressions;
mod graphs;
mod instructions;
mod kernels;
