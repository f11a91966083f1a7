//! A group of any design on the memory fabric: accelerators, each with a link to every switch, set up as the simulator sets them up. No
//! design is named here.
//!
//! Packets of one virtual channel keep their order on a link, those of different channels overtake each other: each channel has buffers
//! and credits of its own, and the port's arbiter serves them in turn. Nothing is lost and nothing comes twice on this fabric. A packet
//! holds two elements, or two blocks of a vector that is quantised (`form.rs`). Responses and arithmetic take no time of their own: a response
//! that is late is a packet that is long on its link, which is explored.
//!
//! What must hold: every accelerator whose memory the collective defines something of has that there when it is told of the end, to the
//! scale factor where it is quantised; nothing beside the vector is touched; no packet is dropped; every run ends.

mod form;
mod node;

pub(crate) use form::PACKET;
pub use node::{Begin, MemoryNode, MemoryNodeEvent};

use std::ops::ControlFlow;

use form::Shape;
use quincunx_cluster::{EARLY_WRITE_RESPONSE, MemoryLayout, MemorySetup, Stream};
use quincunx_collective::{Collective, Payload, Provenance, Rank};
use quincunx_design::{AcceleratorFabric, AnyDesign, FabricKind, Placement, Refusal};
use quincunx_driver_check::{End, Exploration, Member, NodeId, Statistics, System};
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_engine::{Engine, PortId};
use quincunx_memory::PortConfig;
use quincunx_network::OrderingClass;
use quincunx_nodes::fabric::{FabricConfig, FabricTimer};
use quincunx_scenario::{Fabric, Scenario, ScenarioError};
use quincunx_units::Duration;
use quincunx_wire::flit::{FlitFormat, FlitHeader, Transaction, word_at};

use crate::describe::Describe;
use crate::network::Membership;
use crate::twin;

/// Where the vector begins: behind a packet that nobody may touch.
const BEGIN: usize = PACKET;

/// Reduced loads that an accelerator keeps outstanding on a link.
const LOADS: u16 = 2;

/// What to explore.
#[derive(Clone, Debug)]
pub struct MemoryGroupSetup {
    /// The design.
    pub design: &'static dyn AnyDesign,
    /// The fabric, and parameters of the design; read for [`Explorer`](crate::Explorer).
    pub scenario: Scenario,
    /// What the accelerators do.
    pub collective: Collective,
    /// How often, one time after the other.
    pub times: u16,
    /// Packets of each rank's part, or of the vector if it has none.
    pub packets: usize,
    /// Packets of each virtual channel that a link's end has buffers for; if it is not said they never run out.
    pub buffers: Option<u16>,
    /// Whether switches answer writes between accelerators, as in the simulations.
    pub early_write_response: bool,
    /// A rule to break, by its name in the design.
    pub mutation: Option<String>,
}

/// Accelerators and switches to explore. Accelerators are numbered first.
#[derive(Clone, Debug)]
pub struct MemoryGroup {
    fabric: AcceleratorFabric,
    request: InPlaceRequest,
    shape: Shape,
    times: u16,
    nodes: Vec<MemoryNode>,
    /// If a rule is broken: the nodes that keep it.
    plain: Option<Vec<MemoryNode>>,
}

impl MemoryGroupSetup {
    /// As it is explored if nothing else is said.
    pub fn new(design: &'static dyn AnyDesign, scenario: Scenario, collective: Collective) -> Self {
        Self {
            design,
            scenario,
            collective,
            times: 1,
            packets: 1,
            buffers: None,
            early_write_response: EARLY_WRITE_RESPONSE,
            mutation: None,
        }
    }

    /// The rule to break.
    fn mutation(&self) -> Result<Option<&'static str>, Refusal> {
        let Some(asked) = &self.mutation else { return Ok(None) };
        let (name, known) = (self.design.name(), (self.design.about().model.mutations)(FabricKind::Memory));
        match known.iter().find(|known| *known == asked) {
            Some(found) => Ok(Some(found)),
            None if known.is_empty() => Err(Refusal::new(
                format!("no rule of {name} to break"),
                asked,
                "none of its rules can be broken; leave it out",
            )),
            None => Err(Refusal::new(
                format!("one of {}", known.join(", ")),
                format!("\"{asked}\""),
                "name one of them",
            )),
        }
    }

    /// The vector, of pieces of so many bytes.
    fn span(&self, ranks: u16, piece: usize) -> Span {
        let pieces = match self.collective {
            Collective::Barrier => 0,
            Collective::ReduceScatter | Collective::AllGather => self.packets * usize::from(ranks),
            _ => self.packets,
        };
        Span { offset: BEGIN, length: pieces * piece }
    }

    /// Refuses what is not explored.
    fn check(&self, ranks: u16, shape: Shape, span: Span) -> Result<(), Refusal> {
        if ranks > Provenance::RANKS {
            return Err(Refusal::new(
                format!("at most {} accelerators", Provenance::RANKS),
                ranks,
                "choose a smaller fabric",
            ));
        }
        let elements = shape.values(span) * usize::from(self.times);
        if elements > Provenance::NUMBERS {
            return Err(Refusal::new(
                format!("at most {} elements of each rank, which can be told apart", Provenance::NUMBERS),
                elements,
                "explore fewer packets",
            ));
        }
        Ok(())
    }
}

impl MemoryGroup {
    /// The fabric of a set-up.
    ///
    /// # Errors
    /// If the design refuses it, or it is not explored.
    pub fn new(setup: &MemoryGroupSetup) -> Result<Self, Refusal> {
        let MemoryGroupSetup { design, scenario, collective, times, buffers, .. } = setup;
        let Fabric::Memory(fabric) = &scenario.fabric else {
            return Err(Refusal::new(
                "accelerators around switches",
                scenario.place(),
                "choose a memory fabric such as memory-2",
            ));
        };
        let mutation = setup.mutation()?;
        let refusal = |error: ScenarioError| Refusal::from(error.to_string());
        scenario.refuse_unused(&[*design]).map_err(refusal)?;
        let settings = scenario.settings(*design).map_err(refusal)?;
        let on = |shape: Shape| {
            let fabric = AcceleratorFabric {
                accelerators: fabric.accelerators,
                switches: fabric.switches,
                format: FlitFormat { flit: 4, header_flits: 1, max_payload: shape.payload() },
                load_window: LOADS,
            };
            let span = setup.span(fabric.accelerators, shape.piece(fabric.accelerators));
            (fabric, InPlaceRequest { collective: *collective, reduction: shape.reduction(), span })
        };
        setup.check(fabric.accelerators, Shape::EXACT, on(Shape::EXACT).1.span)?;
        let (tiny, request) = on(Shape::EXACT);
        let shape = Shape::of(design.plan(&settings, &Placement::on_memory(tiny, request))?.form);
        let (fabric, request) = on(shape);
        let span = request.span;
        setup.check(fabric.accelerators, shape, span)?;
        let streams = [Stream { design: *design, settings, request }];
        let nodes = |mutation| {
            let setup = MemorySetup {
                fabric,
                port: buffers.map_or(PortConfig::endless(fabric.format), |buffers| {
                    PortConfig::uniform(buffers, fabric.format)
                }),
                response_latency: Duration::ZERO,
                add_rate: None,
                scatter: None,
                early_write_response: setup.early_write_response,
                // A packet behind the vector that nobody may touch.
                memory: shape.extent(span).offset + shape.extent(span).length + PACKET,
                times: *times,
                mutation,
            };
            let layout = MemoryLayout::new(&setup, &streams)?;
            let node = |config: FabricConfig<Provenance>| {
                let Ok(node) = MemoryNode::new(config);
                node
            };
            let accelerators = (0..fabric.accelerators).map(|rank| layout.accelerator(rank).map(node));
            let switches = (0..fabric.switches).map(|switch| layout.switch(switch).map(node));
            accelerators.chain(switches).collect::<Result<Vec<_>, Refusal>>()
        };
        let plain = mutation.map(|_| nodes(None)).transpose()?;
        let nodes = nodes(mutation)?;
        Ok(Self { fabric, request, shape, times: *times, nodes, plain })
    }

    fn rank(&self, node: NodeId) -> Option<Rank> {
        (node.0 < self.fabric.accelerators).then_some(Rank(node.0))
    }

    /// What a rank puts into its memory before a collective.
    fn brought(&self, rank: Rank) -> Span {
        let span = self.shape.extent(self.request.span);
        let nothing = Span { length: 0, ..span };
        let ranks = usize::from(self.fabric.accelerators);
        match self.request.collective {
            Collective::AllGather => span.part(rank.index(), ranks, span.length / ranks),
            Collective::Broadcast { root } if root != rank => nothing,
            Collective::Barrier => nothing,
            _ => span,
        }
    }

    /// Holds a rank's memory against what the collective of that number leaves.
    fn compare(&self, rank: Rank, number: usize, memory: &Provenance) -> Result<(), String> {
        let cut = |span: Span| Provenance::from_view(memory.view(span.offset..span.offset + span.length));
        let span = self.shape.extent(self.request.span);
        for beside in
            [Span { offset: 0, length: BEGIN }, Span { offset: span.offset + span.length, length: PACKET }]
        {
            let found = cut(beside);
            if found != Provenance::zeroed(beside.length) {
                return Err(format!(
                    "rank {rank} finds {found} at byte {}, beside its vector",
                    beside.offset
                ));
            }
        }
        let Some((span, expected)) =
            self.shape.expected(&self.request, rank, self.fabric.accelerators, number)
        else {
            return Ok(());
        };
        let found = cut(span);
        if found == expected {
            return Ok(());
        }
        Err(format!("rank {rank} expects {expected} from its {}, and gets {found}", self.request.collective))
    }
}

impl Describe for MemoryGroup {
    fn name(&self, node: NodeId) -> String {
        match self.rank(node) {
            Some(rank) => format!("rank {rank}"),
            None => format!("switch {}", node.0 - self.fabric.accelerators),
        }
    }

    fn frame(&self, header: &FlitHeader, payload: &Provenance) -> String {
        let address = header.address;
        let word = |what: &str| match word_at(address) {
            Some(word) => format!("{what} to word {word}"),
            None => format!("{what} to byte {address}"),
        };
        match header.transaction {
            Transaction::Credit => "credits".to_owned(),
            Transaction::Read { .. } => format!("a read of byte {address}"),
            Transaction::ReadResponse => format!("{payload} of byte {address}"),
            Transaction::Write => format!("a write of {payload} to byte {address}"),
            Transaction::WriteResponse => format!("the answer to a write to byte {address}"),
            Transaction::Add { operand } => word(&format!("an add of {operand}")),
            Transaction::Store { operand } => word(&format!("a store of {operand}")),
            Transaction::MultimemLoadReduce { .. } => format!("a reduced load of byte {address}"),
            Transaction::MultimemStore => format!("a multicast store of {payload} to byte {address}"),
            Transaction::MultimemAdd { operand } => word(&format!("a multicast add of {operand}")),
            Transaction::Reduce => {
                format!("a reduction by {payload}, {} contributions, to byte {address}", header.tag)
            }
            Transaction::Sync => format!("a sync at point {} of group {address}", header.tag),
            Transaction::Release => format!("a release from point {} of group {address}", header.tag),
            transaction => format!("{transaction:?} of {payload} to byte {address}"),
        }
    }

    fn timer(&self, _: NodeId, timer: FabricTimer) -> String {
        match timer {
            FabricTimer::Respond(PortId(link)) => format!("its responses toward switch {link}"),
            FabricTimer::Compute => "its arithmetic".to_owned(),
            FabricTimer::Unit(unit) => format!("the timer of its unit {unit}"),
        }
    }

    fn broken_rule_matters(
        &self,
        rules: Exploration,
        progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> Option<bool> {
        twin::matters(self, self.plain.as_ref()?, rules, progress)
    }
}

impl System for MemoryGroup {
    type Engine = MemoryNode;
    type Owner = Membership;

    fn members(&self) -> Vec<Member<MemoryNode, Membership>> {
        let owner = Membership::default();
        self.nodes.iter().map(|engine| Member { engine: engine.clone(), owner }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end = |node, port| End { node: NodeId(node), port: PortId(port) };
        let AcceleratorFabric { accelerators, switches, .. } = self.fabric;
        let links = (0..accelerators).flat_map(|rank| {
            (0..switches).map(move |switch| [end(rank, switch), end(accelerators + switch, rank)])
        });
        links.collect()
    }

    fn wants_command(&self, node: NodeId, owner: &Membership) -> bool {
        owner.started == owner.done && !self.is_done(node, owner)
    }

    fn command(&self, node: NodeId, owner: &mut Membership) -> Begin {
        let rank = self.rank(node).expect("only accelerators run anything");
        let Span { offset, length } = self.brought(rank);
        let all = self.shape.memory(self.request.span, rank, owner.started.into());
        owner.started += 1;
        let input = Provenance::from_view(all.view(offset..offset + length));
        Begin { offset, input, request: self.request }
    }

    fn observe(&self, node: NodeId, owner: &mut Membership, event: MemoryNodeEvent) -> Result<(), String> {
        let rank = || self.rank(node).expect("only accelerators run anything");
        match event {
            MemoryNodeEvent::Finished { .. } if owner.done == owner.started => {
                Err(format!("{} is told of the end of a collective that it has not begun", self.name(node)))
            }
            MemoryNodeEvent::Finished { memory } => {
                owner.done += 1;
                self.compare(rank(), usize::from(owner.done) - 1, &memory)
            }
            // Nobody has touched the result until now.
            MemoryNodeEvent::Begins { memory } => match owner.done.checked_sub(1) {
                Some(last) => self.compare(rank(), last.into(), &memory),
                None => Ok(()),
            },
            // Of a broken rule what it leads to is shown, not that somebody is surprised.
            MemoryNodeEvent::Dropped { .. } if self.plain.is_some() => Ok(()),
            MemoryNodeEvent::Dropped { reason } => {
                Err(format!("{} drops a packet, though nothing is lost here: {reason:?}", self.name(node)))
            }
        }
    }

    fn is_done(&self, node: NodeId, owner: &Membership) -> bool {
        self.rank(node).is_none() || u16::from(owner.done) == self.times
    }

    /// None: the tables of a switch keep what was added up in the table of its first source, which tells accelerators apart.
    /// A class for each virtual channel. Credits alone travel in any.
    fn ordering_class(&self, header: &FlitHeader) -> OrderingClass {
        let channel = header.channel().map_or(0, |channel| channel.index() as u16);
        OrderingClass::new(channel).expect("a class for each virtual channel")
    }
}
