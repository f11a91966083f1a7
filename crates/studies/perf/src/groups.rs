//! How the ranks of a run come together: a group for each design, and on a mesh first one to measure its links with.

use quincunx_control::{GroupRequest, GroupSummary};
use quincunx_control_grpc::ClientError;
use quincunx_design::{AnyDesign, Catalog, FabricKind, LinkRates, Placement, Settings};
use quincunx_fabric::{MeshShape, Shape};
use quincunx_runtime::{JoinedGroup, Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::error::WorkerError;
use crate::job::Job;
use crate::measured::Split;
use crate::plan::Plan;

/// How often a rank that has asked for a group and waits for it sees whether that was refused.
const JOIN_LOOK: Duration = Duration::from_millis(100);

/// How long a rank that is done answers peers that still miss an answer of its.
const LINGER: Duration = Duration::from_millis(200);

/// A group that this rank is in.
pub(crate) struct Joined {
    pub(crate) group: JoinedGroup,
    /// Bytes that the switch with most of them takes for it; zero where there is none, and at ranks that do not lead.
    pub(crate) switch_buffer: u64,
    /// How it divides data over ways, if its links were measured for that.
    pub(crate) split: Option<Split>,
    /// Why it runs among hosts and not what was asked for; the one that leads hears it.
    pub(crate) fallback: Option<String>,
}

/// The groups of one rank of a run. Rank 0 leads: it asks the manager for them.
pub(crate) struct Groups<'a> {
    catalog: Catalog,
    plan: &'a Plan,
    members: &'a [String],
    leads: bool,
    /// What the links of a mesh carry, once that is measured.
    rates: Option<LinkRates>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(catalog: Catalog, plan: &'a Plan, members: &'a [String], leads: bool) -> Self {
        Self { catalog, plan, members, leads, rates: None }
    }

    /// Joins a group for a design.
    pub(crate) fn join(&mut self, rank: &mut Rank, name: &str) -> Result<Joined, WorkerError> {
        let setup = &self.plan.setup;
        let shape = setup.shape().map_err(|error| WorkerError::plan(&error))?;
        let fabric = match &shape {
            Shape::Tree(_) | Shape::Switched(_) => FabricKind::Tree,
            Shape::Mesh(_) => FabricKind::Mesh,
        };
        let design = self.catalog.find(name, fabric).map_err(|error| WorkerError::plan(&error))?;
        let settings = setup.settings(name).map_err(|error| WorkerError::plan(&error))?;
        let together = match &shape {
            Shape::Tree(_) | Shape::Switched(_) => 0..setup.ranks,
            Shape::Mesh(mesh) => 0..mesh.members(),
        };
        let mut longest = 0;
        for case in &self.plan.cases {
            longest = longest.max(Job::new(case, together.clone())?.input);
        }
        let longest = ByteCount::new(longest as u64);
        let rates = match &shape {
            Shape::Tree(_) | Shape::Switched(_) => LinkRates::ALIKE,
            Shape::Mesh(mesh) => self.measured(rank, *mesh)?,
        };
        let request = GroupRequest {
            settings: settings.clone(),
            rates,
            mesh: match shape {
                Shape::Tree(_) | Shape::Switched(_) => None,
                Shape::Mesh(mesh) => Some(mesh),
            },
            ..GroupRequest::new(self.members.to_vec(), design, longest)
        };
        let (group, switch_buffer, fallback) = self.make(rank, request)?;
        let split = match &shape {
            Shape::Tree(_) | Shape::Switched(_) => None,
            Shape::Mesh(mesh) => split(design, &settings, *mesh, rates, longest)?,
        };
        Ok(Joined { group, switch_buffer, split, fallback })
    }

    /// Leaves a group, when no peer misses an answer any more, and waits for its end.
    pub(crate) fn leave(&self, rank: &mut Rank, group: &JoinedGroup) -> Result<(), WorkerError> {
        rank.serve(LINGER)?;
        if self.leads {
            rank.end_group(group.id)?;
        }
        // A rank that went before the end of the group would be taken for dead, and the group for failed.
        let end = Instant::now() + std::time::Duration::from(self.plan.setup.join);
        while rank.is_in(group.id) && Instant::now() < end {
            rank.serve(JOIN_LOOK / 10)?;
        }
        Ok(())
    }

    /// What the links of a mesh carry, measured once, in a group that offers writes.
    fn measured(&mut self, rank: &mut Rank, shape: MeshShape) -> Result<LinkRates, WorkerError> {
        if let Some(rates) = self.rates {
            return Ok(rates);
        }
        let Some(design) = self.catalog.on(FabricKind::Mesh).find(|design| design.about().writes) else {
            return Ok(*self.rates.insert(LinkRates::ALIKE));
        };
        let setup = &self.plan.setup;
        let settings = setup.settings(design.name()).unwrap_or_else(|_| design.defaults());
        let transport = design.transport(&settings).map_err(|error| WorkerError::plan(&error))?;
        let piece = transport.mtu * u64::from(transport.message);
        let request = GroupRequest {
            settings,
            demand: Rank::measuring_demand(shape.ranks(), piece),
            mesh: Some(shape),
            ..GroupRequest::new(self.members.to_vec(), design, ByteCount::new(0))
        };
        let (group, ..) = self.make(rank, request)?;
        let rates = rank.measure(&group, piece, self.plan.setup.join)?;
        self.leave(rank, &group)?;
        Ok(*self.rates.insert(rates))
    }

    fn make(
        &self,
        rank: &mut Rank,
        request: GroupRequest,
    ) -> Result<(JoinedGroup, u64, Option<String>), WorkerError> {
        // The manager answers when all have installed, this rank among them: it must go on turning meanwhile.
        let mut asked = self.leads.then(|| {
            let client = rank.control().clone();
            thread::spawn(move || client.init_group(&request))
        });
        let (mut buffers, mut fallback) = (0, None);
        let mut take_answer = |asked: JoinHandle<Result<GroupSummary, ClientError>>| {
            // A refusal says more than the time-out that it leads to.
            let made = asked.join().expect("the control client does not panic")?;
            buffers = made.switches.iter().map(|held| held.memory.bytes()).max().unwrap_or(0);
            fallback = made.fallback.map(|lack| lack.to_string());
            Ok::<_, WorkerError>(())
        };
        let end = Instant::now() + std::time::Duration::from(self.plan.setup.join);
        let joined = loop {
            let joined = rank.join(JOIN_LOOK);
            if asked.as_ref().is_some_and(JoinHandle::is_finished) {
                asked.take().map(&mut take_answer).transpose()?;
            }
            match joined {
                Err(RuntimeError::TimedOut { .. }) if Instant::now() < end => {}
                joined => break joined,
            }
        };
        asked.map(take_answer).transpose()?;
        Ok((joined?, buffers, fallback))
    }
}

/// How a design divides data over ways on a mesh whose links carry so much.
fn split(
    design: &dyn AnyDesign,
    settings: &Settings,
    shape: MeshShape,
    rates: LinkRates,
    longest: ByteCount,
) -> Result<Option<Split>, WorkerError> {
    let (ranks, domains) = (shape.ranks(), shape.domains());
    let placement = Placement { domains, rates, ..Placement::new(ranks, None, longest) };
    let plan = design.plan(settings, &placement).map_err(|error| WorkerError::plan(&error))?;
    let split = |relayed| Split {
        direct: rates.direct.bits_per_second(),
        cross: rates.cross.bits_per_second(),
        relayed,
    };
    Ok(plan.relayed.map(split))
}
