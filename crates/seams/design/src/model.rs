//! What the checker must know of a design, beyond what its engines do.

use crate::FabricKind;
use alloc::vec::Vec;
use quincunx_wire::{Operation, RoceHeader};

/// What the checker must know of a design.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Equal subtrees of the tree, or equal ranks, may be exchanged: nothing tells them apart but their numbers. The checker holds the
    /// engines to it.
    pub is_symmetric: bool,
    /// Whether answers and requests keep no order among each other on a link.
    pub answers_overtake: bool,
    /// Parameters of the smallest group that shows all there is, where the checker's own (packets of one element, messages of one packet,
    /// two on their way) do not suit.
    pub smallest: &'static [(&'static str, &'static str)],
    /// The rules that can be broken on a kind of fabric, by name.
    pub mutations: fn(FabricKind) -> Vec<&'static str>,
    /// What a request is called in a counterexample.
    pub request: fn(&RoceHeader) -> &'static str,
    /// What a datapath's timer of a kind is called: "retransmission".
    pub timer: fn(u8) -> &'static str,
}

impl Model {
    /// A design of which nothing is known: nothing is exchanged, nothing can be broken.
    pub const PLAIN: Self = Self {
        is_symmetric: false,
        answers_overtake: false,
        smallest: &[],
        mutations: |_| Vec::new(),
        request: |header| match header.operation {
            Operation::SendOnlyImmediate(_) | Operation::SendLastImmediate(_) => "message",
            Operation::Send(_) => "send",
            _ => "write",
        },
        timer: |_| "datapath",
    };
}
