//! The tests of this room, as one program: each file is linked once, not by itself.

#[path = "../../examples/block_vectors.rs"]
mod block_example;
mod block_vectors;
mod blocks;
#[path = "../../examples/quantization_vectors.rs"]
mod example;
mod fixed_point;
mod payload;
mod quantization;
mod quantization_vectors;
mod reference;
