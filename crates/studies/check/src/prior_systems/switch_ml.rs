//! SwitchML's switch: a pool of slots that workers use in turn, each told apart from its last use by one bit.

use quincunx_collective::{Payload, Provenance};
use quincunx_engine::{PortId, Sink};

use crate::prior_systems::frame::{self, DropReason, Header, View, Whole};
use crate::prior_systems::rules::SwitchMlRule;
use crate::prior_systems::setup::StarSetup;

/// SwitchML's switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pools {
    rule: SwitchMlRule,
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
    sum: Provenance,
    /// Provenance, from zero again when it is complete.
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
    fn judge(&mut self, rule: SwitchMlRule, chunk: u8, version: usize) -> Judgement {
        match rule {
            SwitchMlRule::OnePool | SwitchMlRule::TwoPools if self.bits[version] => Judgement::Again,
            SwitchMlRule::OnePool | SwitchMlRule::TwoPools => {
                self.bits[version] = true;
                self.bits[1 - version] = false;
                Judgement::New
            }
            SwitchMlRule::ChunkNumbers if self.last > Some(chunk) => Judgement::Stale,
            SwitchMlRule::ChunkNumbers if self.last == Some(chunk) => Judgement::Again,
            SwitchMlRule::ChunkNumbers => {
                self.last = Some(chunk);
                Judgement::New
            }
        }
    }
}

impl Pools {
    pub(crate) fn new(setup: &StarSetup, rule: SwitchMlRule) -> Self {
        let pool = Pool { sum: setup.nothing(), count: 0 };
        let seen = vec![Seen::default(); usize::from(setup.workers)];
        let slot = Slot { pools: [pool.clone(), pool], seen };
        Self { rule, slots: vec![slot; usize::from(setup.window)] }
    }

    /// Takes a worker's contribution.
    pub(crate) fn take<E: Whole>(
        &mut self,
        port: PortId,
        chunk: u8,
        payload: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let index = usize::from(chunk);
        let version = if self.rule == SwitchMlRule::OnePool { 0 } else { index / self.slots.len() % 2 };
        let slots = self.slots.len();
        let Slot { pools, seen } = &mut self.slots[index % slots];
        let (pool, workers) = (&mut pools[version], seen.len() as u16);
        match seen[usize::from(port.0)].judge(self.rule, chunk, version) {
            Judgement::New => {
                if pool.count == 0 {
                    pool.sum = Provenance::from_view(payload);
                } else {
                    frame::add(&mut pool.sum, payload);
                }
                pool.count = (pool.count + 1) % workers;
                if pool.count == 0 {
                    frame::send_to_all(workers, chunk, &pool.sum, out);
                    if self.rule == SwitchMlRule::OnePool {
                        seen.fill(Seen::default());
                    }
                }
                Ok(())
            }
            Judgement::Again if pool.count == 0 => {
                frame::send(port, Header::Result { chunk }, &pool.sum, out);
                Ok(())
            }
            Judgement::Again => Err(DropReason::HasIt),
            Judgement::Stale => Err(DropReason::Stale),
        }
    }
}
