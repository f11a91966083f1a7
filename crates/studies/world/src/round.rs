//! What a job runs in a group, and what must come of it. All of it follows from the group's number: ranks need not tell each other.

use crate::plan::{Difference, Mistake, Plan};
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, SplitMix64, reference,
    wrong_elements,
};
use quincunx_design::{AnyDesign, Catalog, FabricKind};
use quincunx_units::Duration;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of an element.
const ELEMENT: usize = 4;

/// Collectives whose numbers are kept: as many as ranks are apart, and more.
const KEPT: usize = 8;

/// A round of collectives.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    /// Collectives that the design offers, and what it falls back to.
    pub(crate) offered: Vec<Collective>,
    pub(crate) elements: u32,
    /// The longest that all ranks compute before one of them.
    pub(crate) pause: Duration,
    pub(crate) length: u64,
    pub(crate) ranks: u16,
    pub(crate) mistake: Option<Mistake>,
    /// Numbers of the latest ones, which ranks have in common.
    worked_out: RefCell<BTreeMap<(GroupId, u64), Rc<WorkedOut>>>,
}

/// What goes into a collective, and what must come of it.
#[derive(Debug)]
pub(crate) struct WorkedOut {
    inputs: Vec<Numbers>,
    expected: OnceCell<Vec<Numbers>>,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoundCall {
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    /// Elements of a vector; of a part in ReduceScatter and AllGather.
    elements: u32,
}

impl Round {
    /// What a job of a plan runs in a group: the same at all its ranks.
    pub(crate) fn of_job(plan: &Plan, job: usize, catalog: Catalog, fallback: Option<&str>) -> Self {
        let own = &plan.jobs[job];
        let design = catalog.find(&own.design, FabricKind::Tree).expect("the plan's designs are asked for");
        Self {
            seed: SplitMix64::new(plan.seed ^ job as u64).draw(),
            offered: offered(design, fallback.and_then(|name| catalog.named(name).ok())),
            elements: own.elements,
            pause: own.pause,
            length: own.collectives,
            ranks: own.hosts.len() as u16,
            mistake: own.mistake,
            worked_out: RefCell::default(),
        }
    }

    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    fn draws(&self, group: GroupId, number: u64) -> SplitMix64 {
        let mut draws = SplitMix64::new(self.seed ^ u64::from(group.0).rotate_left(32) ^ number);
        draws.draw();
        draws
    }

    /// How long all ranks compute before one of them.
    pub(crate) fn pause(&self, group: GroupId, number: u64) -> Duration {
        let draw = SplitMix64::new(self.draws(group, number).draw()).draw();
        Duration::from_picos(draw % self.pause.as_picos().max(1))
    }

    /// The how-manieth collective of a group, counted from one.
    pub(crate) fn call(&self, group: GroupId, number: u64) -> RoundCall {
        let mut draws = self.draws(group, number);
        // Half of them are what most programs run.
        let place = draws.draw() as usize % (self.offered.len() * 2);
        let collective = self.offered.get(place).copied().unwrap_or(self.offered[0]);
        let root = Rank((draws.draw() % u64::from(self.ranks)) as u16);
        let data_type = if draws.draw().is_multiple_of(2) { DataType::I32 } else { DataType::F32 };
        let op = match draws.draw() % 4 {
            0 => ReduceOp::Max,
            1 => ReduceOp::Min,
            _ => ReduceOp::Sum,
        };
        let elements = 1 + (draws.draw() % u64::from(self.elements.max(1))) as u32;
        let elements = match collective {
            Collective::ReduceScatter | Collective::AllGather => elements.div_ceil(u32::from(self.ranks)),
            _ => elements,
        };
        RoundCall { collective: collective.with_root(root), reduction: Reduction { op, data_type }, elements }
    }

    /// The collective of a group at which a rank calls something else.
    pub(crate) fn mistaken(&self, group: GroupId, rank: u16) -> Option<u64> {
        let mistake = self.mistake.filter(|mistake| mistake.rank == rank)?;
        let mut draws = SplitMix64::new(self.seed ^ u64::from(group.0).rotate_left(16));
        let number = 1 + draws.draw() % self.length;
        let is_one = draws.draw().is_multiple_of(mistake.one_in);
        (is_one && self.mistaken_call(group, number).is_some()).then_some(number)
    }

    /// What is called by mistake, if there is such a call.
    pub(crate) fn mistaken_call(&self, group: GroupId, number: u64) -> Option<RoundCall> {
        let call = self.call(group, number);
        let RoundCall { collective, reduction, elements } = call;
        Some(match self.mistake?.differs_in {
            Difference::Collective => {
                let other = self.offered.iter().find(|other| other.name() != collective.name())?;
                RoundCall { collective: other.with_root(Rank(0)), ..call }
            }
            Difference::Root => {
                let Rank(root) = collective.root()?;
                RoundCall { collective: collective.with_root(Rank((root + 1) % self.ranks)), ..call }
            }
            Difference::Operation if !collective.reduces() => return None,
            _ if collective == Collective::Barrier => return None,
            Difference::Operation => {
                let op = if reduction.op == ReduceOp::Max { ReduceOp::Sum } else { ReduceOp::Max };
                RoundCall { reduction: Reduction { op, ..reduction }, ..call }
            }
            Difference::Type => {
                let is_float = reduction.data_type == DataType::F32;
                let data_type = if is_float { DataType::I32 } else { DataType::F32 };
                RoundCall { reduction: Reduction { data_type, ..reduction }, ..call }
            }
            Difference::Length => RoundCall { elements: if elements > 1 { elements / 2 } else { 2 }, ..call },
        })
    }

    /// The numbers of a collective.
    fn worked_out(&self, group: GroupId, number: u64) -> Rc<WorkedOut> {
        let mut known = self.worked_out.borrow_mut();
        let worked_out = known.entry((group, number)).or_insert_with(|| {
            let call = self.call(group, number);
            let inputs = (0..self.ranks).map(|rank| self.drawn(&call, group, number, rank)).collect();
            Rc::new(WorkedOut { inputs, expected: OnceCell::new() })
        });
        let worked_out = Rc::clone(worked_out);
        if known.len() > KEPT {
            known.pop_first();
        }
        worked_out
    }

    /// A rank's vector. Sums of these are exact, and so the same in every order.
    fn vector(&self, call: &RoundCall, group: GroupId, number: u64, rank: u16, elements: usize) -> Numbers {
        let mut draws = SplitMix64::new(self.draws(group, number).draw() ^ u64::from(rank).rotate_left(17));
        let mut numbers = Numbers::zeroed(elements * ELEMENT);
        for element in numbers.bytes_mut().chunks_mut(ELEMENT) {
            let small = (draws.draw() % 2001) as i32 - 1000;
            let bytes = match call.reduction.data_type {
                DataType::F32 => (small as f32).to_le_bytes(),
                _ => small.to_le_bytes(),
            };
            element.copy_from_slice(&bytes);
        }
        numbers
    }

    pub(crate) fn input(&self, group: GroupId, number: u64, rank: u16) -> Numbers {
        self.worked_out(group, number).inputs[usize::from(rank)].clone()
    }

    /// A rank's vector for a call.
    pub(crate) fn drawn(&self, call: &RoundCall, group: GroupId, number: u64, rank: u16) -> Numbers {
        let elements = call.elements as usize;
        let elements = match call.collective {
            Collective::Barrier => 0,
            Collective::Broadcast { root } if root.0 != rank => 0,
            Collective::ReduceScatter => elements * usize::from(self.ranks),
            _ => elements,
        };
        self.vector(call, group, number, rank, elements)
    }

    pub(crate) fn output_length(&self, call: &RoundCall, rank: u16) -> usize {
        let elements = call.elements as usize;
        let elements = match call.collective {
            Collective::Barrier => 0,
            Collective::Reduce { root } if root.0 != rank => 0,
            Collective::AllGather => elements * usize::from(self.ranks),
            _ => elements,
        };
        elements * ELEMENT
    }

    /// What the manager is told of a call's length, at all ranks the same.
    pub(crate) fn told_bytes(call: &RoundCall) -> u64 {
        u64::from(call.elements) * ELEMENT as u64
    }

    /// Elements of a rank's result that are not as they must be.
    pub(crate) fn wrong(&self, group: GroupId, number: u64, rank: u16, found: &Numbers) -> usize {
        let call = self.call(group, number);
        let worked_out = self.worked_out(group, number);
        let expected = worked_out
            .expected
            .get_or_init(|| reference(call.collective, call.reduction, &worked_out.inputs));
        wrong_elements(&expected[usize::from(rank)], found, call.reduction.data_type)
    }
}

/// What a design offers on a tree, and what groups fall back to as well.
fn offered(design: &dyn AnyDesign, fallback: Option<&dyn AnyDesign>) -> Vec<Collective> {
    let fallback = fallback.map(|fallback| fallback.collectives(FabricKind::Tree));
    let is_plain = |one: &&Collective| !one.is_routed();
    let is_common =
        |one: &&Collective| fallback.is_none_or(|all| all.iter().any(|other| other.name() == one.name()));
    design.collectives(FabricKind::Tree).iter().filter(is_plain).filter(is_common).copied().collect()
}
