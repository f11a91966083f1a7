//! What the manager says of a group on a mesh, as the programs over MultiWrite want it.

use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_control::{Design, MeshDesign, MeshSetup, RankContext};
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Part, Paths, RelayCost, Strategy, Table, Window, WriterConfig, Writes, split,
};
use quincunx_units::Duration;

use crate::contexts::ContextError;
use crate::programs::Programs;

/// The program of a rank on a mesh.
pub(crate) fn mesh_program(context: &RankContext, mesh: &MeshSetup) -> Result<Programs, ContextError> {
    let writer = writer_config(context, mesh)?;
    if context.design == Design::Mesh(MeshDesign::Writes) {
        return Ok(Programs::Writes(Writes::new(writer)));
    }
    let config = AllGatherConfig {
        writer,
        group: mesh.shape.domain(context.rank.0).map(Rank).collect(),
        parts: mesh_parts(context.design, mesh),
        preparation: Duration::ZERO,
    };
    Ok(Programs::MultiWrite(AllGather::new(config)?))
}

/// How an AllGather on a mesh divides a rank's data over ways, by what the links carry (MultiWrite 5.2, step 2).
pub fn mesh_parts(design: Design, mesh: &MeshSetup) -> Vec<Part> {
    let strategy = match design {
        Design::Mesh(MeshDesign::MultiWrite) => Strategy::MultiWrite,
        Design::Mesh(MeshDesign::Unicast) => Strategy::Unicast,
        // The same program without relays: a baseline that differs in nothing else.
        Design::Mesh(MeshDesign::Writes) | Design::Host(_) | Design::Epic(_) => Strategy::Direct,
    };
    let members = mesh.shape.members();
    let paths = Paths {
        direct: mesh.rates.direct,
        cross: mesh.rates.cross,
        members,
        others: members,
        relays: mesh.relays.count(mesh.shape),
        relay: (RelayCost::default(), mesh.piece),
    };
    split(strategy, &paths)
}

fn writer_config(context: &RankContext, mesh: &MeshSetup) -> Result<WriterConfig, ContextError> {
    Ok(WriterConfig {
        table: Table::full_mesh(mesh.shape, context.rank)?,
        window: Window::new(mesh.shape.ranks(), mesh.slots() as usize, mesh.piece.as_usize()),
        // No more messages than packets are on their way.
        receives: context.parameters.window_packets() as usize,
        cost: RelayCost::default(),
    })
}
