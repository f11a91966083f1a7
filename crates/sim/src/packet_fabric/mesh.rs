//! Hosts joined each with each, in groups that gather each for itself and relay for each other: MultiWrite's scenario (3.1).

use quincunx_collective::{Collective, LengthOnly, Numbers, Rank, Reduction};
use quincunx_driver_des::{NodeIndex, Observer};
use quincunx_engine::PortId;
use quincunx_multiwrite::Strategy;
use quincunx_nodes::{Programs, Station};
use quincunx_units::ByteCount;

use super::data::{Data, lengths};
use super::group::Group;
use super::watch::Watcher;
use super::{Accelerators, Contents, MeshRow, SimulationError};
use crate::Outputs;
use crate::gathering::{Gathering, queue_pair_to};
use crate::progress::Watch;

/// A full mesh, and how groups are set up on it. Links between groups are as those within, and lossy links are all of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Mesh {
    /// All of them.
    pub accelerators: Accelerators,
    /// Whether every rank of the next group relays for a rank, or only its partner.
    pub full: bool,
    /// The longest message.
    pub piece: ByteCount,
}

/// One measurement on a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshCase {
    /// What goes over relays, and how.
    pub strategy: Strategy,
    /// Which collective: an AllGather, or the ranks refuse it.
    pub collective: Collective,
    /// What an element is.
    pub reduction: Reduction,
    /// Bytes of a group's whole vector, as nccl-tests count them.
    pub size: ByteCount,
    /// What memory holds.
    pub contents: Contents,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// Runs one collective in every group at once, on a fabric of its own.
///
/// # Errors
/// If the set-up or the case makes no sense, the collective does not end, or an output cannot be written.
pub fn simulate_mesh(
    mesh: &Mesh,
    case: &MeshCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    match case.contents {
        Contents::LengthOnly => run::<LengthOnly>(mesh, case, outputs, progress),
        Contents::Numbers => run::<Numbers>(mesh, case, outputs, progress),
    }
}

fn run<P: Data>(
    mesh: &Mesh,
    case: &MeshCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    let MeshCase { collective, reduction, .. } = *case;
    let (members, size) = (usize::from(mesh.accelerators.members), collective.counted_size(case.size));
    let [input, output] = lengths(collective, members, size.as_usize());
    if !size.as_usize().is_multiple_of(members * reduction.data_type.size()) {
        return Err(SimulationError::Parts { ranks: mesh.accelerators.members, size: size.bytes() });
    }
    let mut group: Group<P, Watcher> = mesh.build(case.strategy, input, case.seed, Watcher::default())?;
    let watcher = Watcher::new(outputs, &group.directions()).map_err(SimulationError::output)?;
    *group.simulation_mut().observer_mut() = watcher;
    let buffers = (0..mesh.accelerators.ranks())
        .map(|rank| (P::input(Rank(rank), input, reduction.data_type), P::zeroed(output)));
    let finished = group.run(collective, reduction, buffers.collect(), mesh.accelerators.limit, progress)?;
    let groups = finished.inputs.chunks(members).zip(finished.outputs.chunks(members));
    let wrong = groups.map(|(inputs, outputs)| P::wrong(collective, reduction, inputs, outputs)).sum();
    MeshRow::of(&mut group, (collective, mesh.accelerators.members, size), &finished.after, wrong)
}

impl Mesh {
    /// Nodes on links, set up for inputs of `length` bytes, that somebody watches.
    ///
    /// # Errors
    /// If the set-up makes no sense, or a node refuses it.
    pub fn build<P: Data, O: Observer<Station<P>>>(
        &self,
        strategy: Strategy,
        length: usize,
        seed: u64,
        observer: O,
    ) -> Result<Group<P, O>, SimulationError> {
        let (accelerators, gathering) = (&self.accelerators, self.gathering());
        let ranks = gathering.ranks();
        let mut built = accelerators.hosts(seed, observer);
        for a in 0..ranks {
            for b in a + 1..ranks {
                let ends =
                    [(a, b), (b, a)].map(|(rank, peer)| (NodeIndex(u32::from(rank)), port(rank, peer)));
                let lossy = accelerators.lossy.filter(|lossy| a < lossy.links);
                Accelerators::join(&mut built, ends, accelerators.link, lossy);
            }
        }
        for rank in 0..ranks {
            let peers: Vec<u16> = gathering.peers(rank).collect();
            let program = Programs::MultiWrite(gathering.program(strategy, length, rank)?);
            accelerators.install(&mut built, rank, &peers, |peer| port(rank, peer), program)?;
        }
        Ok(Group::from_built(built))
    }

    fn gathering(&self) -> Gathering {
        let Accelerators { groups, members, link, preparation, cost, outstanding, .. } = self.accelerators;
        Gathering {
            groups,
            members,
            rate: link.rate,
            full: self.full,
            piece: self.piece,
            preparation,
            cost,
            // No more messages than packets are on their way.
            receives: outstanding as usize,
        }
    }
}

/// Each of a rank's queue pairs has a port of its own.
fn port(rank: u16, peer: u16) -> PortId {
    PortId(queue_pair_to(rank, peer).0)
}
