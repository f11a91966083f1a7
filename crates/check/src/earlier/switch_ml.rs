//! SwitchML's switch: a pool of slots that workers use in turn, each told apart from its last use by one bit.

use quincunx_collective::{Contributions, Payload};
use quincunx_engine::{PortId, Sink};

use crate::earlier::Setup;
use crate::earlier::node::{self, DropReason, Header, Node, View};

/// How a slot is told apart from its last use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Not at all: with its result sent it is empty.
    OnePool,
    /// By a version bit: there are two pools, used in turn. A worker's contribution to one forgets that it has contributed to
    /// the other.
    TwoPools,
    /// By the chunk's whole number, which each contribution carries anyway: a worker that has contributed a chunk contributes
    /// none before it.
    ChunkNumbers,
}

/// SwitchML's switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pools {
    rule: Rule,
    slots: Vec<Slot>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot {
    /// By version.
    pools: [Pool; 2],
    /// By worker.
    seen: Vec<Seen>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pool {
    sum: Contributions,
    /// Contributions, from zero again when it is complete.
    count: u16,
}

/// What the switch remembers of a worker in a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Seen {
    /// By version: whether it has contributed.
    bits: [bool; 2],
    /// The last chunk that it has contributed.
    last: Option<u8>,
}

enum Judgement {
    New,
    Again,
    Stale,
}

impl Seen {
    fn judge(&mut self, rule: Rule, chunk: u8, version: usize) -> Judgement {
        match rule {
            Rule::OnePool | Rule::TwoPools if self.bits[version] => Judgement::Again,
            Rule::OnePool | Rule::TwoPools => {
                self.bits[version] = true;
                self.bits[1 - version] = false;
                Judgement::New
            }
            Rule::ChunkNumbers if self.last > Some(chunk) => Judgement::Stale,
            Rule::ChunkNumbers if self.last == Some(chunk) => Judgement::Again,
            Rule::ChunkNumbers => {
                self.last = Some(chunk);
                Judgement::New
            }
        }
    }
}

impl Pools {
    pub(crate) fn new(setup: &Setup, rule: Rule) -> Self {
        let pool = Pool { sum: setup.nothing(), count: 0 };
        let seen = vec![Seen::default(); usize::from(setup.workers)];
        let slot = Slot { pools: [pool.clone(), pool], seen };
        Self { rule, slots: vec![slot; usize::from(setup.window)] }
    }

    /// Takes a worker's contribution.
    pub(crate) fn take(
        &mut self,
        port: PortId,
        chunk: u8,
        payload: View<'_>,
        out: &mut impl Sink<Node>,
    ) -> Result<(), DropReason> {
        let index = usize::from(chunk);
        let version = if self.rule == Rule::OnePool { 0 } else { index / self.slots.len() % 2 };
        let slots = self.slots.len();
        let Slot { pools, seen } = &mut self.slots[index % slots];
        let (pool, workers) = (&mut pools[version], seen.len() as u16);
        match seen[usize::from(port.0)].judge(self.rule, chunk, version) {
            Judgement::New => {
                if pool.count == 0 {
                    pool.sum = Contributions::from_view(payload);
                } else {
                    node::add(&mut pool.sum, payload);
                }
                pool.count = (pool.count + 1) % workers;
                if pool.count == 0 {
                    node::send_to_all(workers, chunk, &pool.sum, out);
                    if self.rule == Rule::OnePool {
                        seen.fill(Seen::default());
                    }
                }
                Ok(())
            }
            Judgement::Again if pool.count == 0 => {
                node::send(port, Header::Result { chunk }, &pool.sum, out);
                Ok(())
            }
            Judgement::Again => Err(DropReason::HasIt),
            Judgement::Stale => Err(DropReason::Stale),
        }
    }
}
