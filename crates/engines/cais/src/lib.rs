//! CAIS: loads and reductions that compute kernels issue, merged in the switch (Compute-Aware In-Switch computing).
#![no_std]
extern crate alloc;
