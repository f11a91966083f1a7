//! CAIS as a design: parameters, and what runs on accelerators and in switches.

use crate::kernel::{CaisConfig, CaisKernel};
use crate::{Merge, MergeConfig, Mutation};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload};
use quincunx_design::{
    About, AcceleratorFabric, Context, Design, Endpoint, FabricKind, Help, MemoryNeeds, Model, Params,
    Placement, Plan, Refusal, SwitchPart,
};
use quincunx_units::Duration;
use serde::{Deserialize, Serialize};

/// Collectives of loads and reductions that merge in the switches.
#[derive(Clone, Copy, Debug)]
pub struct Cais {
    about: About,
}

/// The design.
pub const CAIS: Cais = Cais {
    about: About {
        unit: Some("merge unit"),
        model: Model {
            mutations: |_| {
                Mutation::all().filter(|rule| rule.shows_in_collectives()).map(Mutation::name).collect()
            },
            ..Model::PLAIN
        },
        ..About::new(
            "cais",
            "accelerators load and reduce at a home; switches merge",
            &[(
                FabricKind::Memory,
                &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather],
            )],
        )
    },
};

/// The parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CaisParams {
    /// The merge units.
    pub merge: MergeParams,
    /// The group sync tables, and who uses them.
    pub sync: SyncParams,
    /// What accelerators load.
    pub loads: LoadParams,
}

/// What a merge unit has. Its fields are keys below `merge`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MergeParams {
    /// Entries of the merging table of each port; 0 if it grows as it must.
    pub entries: u32,
    /// How long an entry lives after its last access.
    pub timeout: Duration,
    /// From the packet that it needs to what the unit sends.
    pub latency: Duration,
    /// Whether traces draw how many entries are taken.
    pub levels: bool,
}

/// The group sync table. Its fields are keys below `sync`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncParams {
    /// Groups that a switch has room for.
    pub groups: u32,
    /// How long a group waits for its last member.
    pub timeout: Duration,
    /// Whether collectives wait for all before they access a part.
    pub pre_access: bool,
    /// Whether all go through a vector in the same order, line by line of all parts; else part by part, each beginning with the next one's.
    pub in_step: bool,
}

/// Loads. Its fields are keys below `loads`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadParams {
    /// Lines that an accelerator asks for at once; 0 for as many as cover two round trips.
    pub window: u32,
}

impl Default for MergeParams {
    /// 320 entries of 128 bytes are the 40 KB of the paper's simulation (IV-A). It gives no time-out and no latency. Five microseconds are five
    /// round trips between accelerators (IV-A), and about as long as an entry lasts in a table of that size before others need its place: what
    /// is left of a sum whose first part was evicted goes home at once, not long after its kernel's end. What the unit does is taken to be
    /// done at the speed of the link.
    fn default() -> Self {
        Self { entries: 320, timeout: Duration::from_micros(5), latency: Duration::ZERO, levels: false }
    }
}

impl Default for SyncParams {
    /// The paper gives no size of its table, and no time-out: a hundred microseconds are three times the 35 that accelerators are apart without
    /// coordination (II-D).
    fn default() -> Self {
        Self { groups: 1024, timeout: Duration::from_micros(100), pre_access: false, in_step: true }
    }
}

impl Params for CaisParams {
    fn help() -> Vec<Help> {
        [
            ("merge.entries", "entries of each port's merging table, a packet each; 0 for no bound"),
            ("merge.timeout", "lifetime of an entry after its last access"),
            ("merge.latency", "latency of the merge unit"),
            ("merge.levels", "whether traces draw how many entries are taken"),
            ("sync.groups", "groups that a switch's sync table has room for"),
            ("sync.timeout", "time that a group waits for its last member"),
            ("sync.pre_access", "whether accelerators wait for all before they access a part"),
            (
                "sync.in_step",
                "whether accelerators access parts in one order; else each begins with the next one's",
            ),
            ("loads.window", "packets that an accelerator asks for at once; 0 for two round trips"),
        ]
        .into()
    }
}

impl Design for Cais {
    type Params = CaisParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, _: &CaisParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let request = placement.shared_memory()?.request;
        let (length, accelerators) = (request.span.length, placement.ranks);
        let has_parts = matches!(request.collective, Collective::ReduceScatter | Collective::AllGather);
        if has_parts && !length.is_multiple_of(usize::from(accelerators)) {
            return Err(Refusal::new(
                format!("a vector that splits over {accelerators} accelerators"),
                format!("{length} bytes"),
                "change its length",
            ));
        }
        // Of each rank what it has begun, and for what its part is ready.
        let needs = MemoryNeeds { words: 2 * accelerators, tail: 0, scratch: 0 };
        Ok(Plan::of_stream(vec![(); usize::from(accelerators)], needs))
    }

    fn endpoint<P: Payload>(
        &self,
        params: &CaisParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let memory = context.memory()?;
        let AcceleratorFabric { accelerators, switches, format, load_window } = memory.fabric;
        let stream = memory.stream()?;
        let covering = usize::from(load_window) * usize::from(accelerators) * usize::from(switches);
        Ok(Endpoint::Kernel(Box::new(CaisKernel::new(CaisConfig {
            ranks: accelerators,
            rank: memory.rank()?,
            line: format.max_payload,
            first_word: stream.first_word,
            stream: stream.number,
            window: if params.loads.window == 0 { covering } else { params.loads.window as usize },
            pre_access: params.sync.pre_access,
            in_step: params.sync.in_step,
        }))))
    }

    fn switch<P: Payload>(
        &self,
        params: &CaisParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let memory = context.memory()?;
        let AcceleratorFabric { accelerators, format, .. } = memory.fabric;
        let config = MergeConfig {
            node: memory.fabric.switch(memory.switch()?),
            accelerators,
            participants: accelerators.saturating_sub(1).max(1),
            entries: params.merge.entries as usize,
            groups: params.sync.groups as usize,
            streams: memory.streams.len() as u16,
            timeout: params.merge.timeout,
            group_timeout: params.sync.timeout,
            latency: params.merge.latency,
            format,
            reduction: memory.stream()?.request.reduction,
            levels: params.merge.levels,
            mutation: context.mutation()?,
        };
        Ok(SwitchPart::Unit(Box::new(Merge::new(config).map_err(|error| Refusal::of(&error))?)))
    }
}
