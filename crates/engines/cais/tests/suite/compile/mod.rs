//! The compiler step.

mod expressions;
mod instructions;
mod kernels;
