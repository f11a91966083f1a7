//! How the ranks of a run come together: a group for each design, and on a mesh first one to measure its links with.

use quincunx_control::{Design, GroupRequest, GroupSummary, LinkRates, MeshDesign, MeshSetup};
use quincunx_fabric::{MeshShape, Relays, Shape, TreeShape};
use quincunx_runtime::{JoinedGroup, Rank};
use quincunx_units::{BitRate, ByteCount, Duration};
use std::thread;

use crate::plan::Plan;
use crate::worker::{Job, WorkerError};

/// How long ranks wait for each other to form a group.
pub(crate) const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// How long a rank that is done answers peers that still miss an answer of its.
const LINGER: Duration = Duration::from_millis(200);

/// Links that nobody has measured: all alike.
const ALIKE: LinkRates = {
    let any = BitRate::new(1).expect("above zero");
    LinkRates { direct: any, cross: any }
};

/// The groups of one rank of a run. Rank 0 leads: it asks the manager for them.
pub(crate) struct Groups<'a> {
    plan: &'a Plan,
    members: &'a [String],
    leads: bool,
    /// What the links of a mesh carry, once that is measured.
    rates: Option<LinkRates>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(plan: &'a Plan, members: &'a [String], leads: bool) -> Self {
        Self { plan, members, leads, rates: None }
    }

    /// Joins a group for a design; with it, the bytes that the switch with most of them takes for it.
    pub(crate) fn join(&mut self, rank: &mut Rank, design: &str) -> Result<(JoinedGroup, u64), WorkerError> {
        let design = design.parse::<Design>().map_err(|error| WorkerError::plan(&error))?;
        match self.plan.setup.shape().map_err(|error| WorkerError::plan(&error))? {
            Shape::Tree(tree) => self.make(rank, design, tree, None),
            Shape::Mesh(shape) => {
                let mesh = self.mesh_setup(rank, shape)?;
                self.make_on_mesh(rank, design, mesh)
            }
        }
    }

    /// Leaves a group, when no peer misses an answer any more.
    pub(crate) fn leave(&self, rank: &mut Rank, group: &JoinedGroup) -> Result<(), WorkerError> {
        rank.serve(LINGER)?;
        if self.leads {
            rank.control().destroy_group(group.id)?;
        }
        Ok(())
    }

    /// How groups use a mesh: windows for the longest input of all cases, in messages; data split by what its links carry.
    fn mesh_setup(&mut self, rank: &mut Rank, shape: MeshShape) -> Result<MeshSetup, WorkerError> {
        let setup = &self.plan.setup;
        let piece = ByteCount::new(setup.mtu * u64::from(setup.message));
        let relays = setup.relays.parse::<Relays>().map_err(|error| WorkerError::plan(&error))?;
        let rates = match self.rates {
            Some(rates) => rates,
            None => {
                let limit = Rank::measuring_limit(shape, piece);
                let mesh = MeshSetup { shape, relays, piece, limit, rates: ALIKE };
                let (group, _) = self.make_on_mesh(rank, Design::Mesh(MeshDesign::Writes), mesh)?;
                let rates = rank.measure(&group, JOIN_LIMIT)?;
                self.leave(rank, &group)?;
                *self.rates.insert(rates)
            }
        };
        let mut longest = 0;
        for case in &self.plan.cases {
            longest = longest.max(Job::new(case, 0..shape.members())?.input);
        }
        Ok(MeshSetup { shape, relays, piece, limit: ByteCount::new(longest as u64), rates })
    }

    fn make_on_mesh(
        &self,
        rank: &mut Rank,
        design: Design,
        mesh: MeshSetup,
    ) -> Result<(JoinedGroup, u64), WorkerError> {
        let none = TreeShape::star(self.plan.setup.ranks).expect("a mesh has ranks");
        self.make(rank, design, none, Some(mesh))
    }

    fn make(
        &self,
        rank: &mut Rank,
        design: Design,
        tree: TreeShape,
        mesh: Option<MeshSetup>,
    ) -> Result<(JoinedGroup, u64), WorkerError> {
        let setup = &self.plan.setup;
        let request = GroupRequest {
            members: self.members.to_vec(),
            design,
            tree,
            mesh,
            mtu: ByteCount::new(setup.mtu),
            message_packets: setup.message,
            window_messages: setup.window,
            reproducible: setup.reproducible,
        };
        // The manager answers when all have installed, this rank among them: it must go on turning meanwhile.
        let made = self.leads.then(|| {
            let client = rank.control().clone();
            thread::spawn(move || client.init_group(&request))
        });
        let joined = rank.join(JOIN_LIMIT);
        let buffers = match made.map(|made| made.join().expect("the control client does not panic")) {
            Some(Ok(GroupSummary { switches, .. })) => {
                switches.iter().map(|held| held.memory.bytes()).max().unwrap_or(0)
            }
            // A refusal says more than the time-out that it leads to.
            Some(Err(refused)) => return Err(refused.into()),
            None => 0,
        };
        Ok((joined?, buffers))
    }
}
