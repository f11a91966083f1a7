//! Hosts under switches that relay for each other: an AllGather over MultiWrite on a Clos network (MultiWrite 2.3.1, 3.2).
//!
//! A queue pair leads from every host to every other one. What is for several hosts under another switch goes there once, to the host
//! in the sender's place ("same-index", 3.2), level by level from the root; that host passes it on. On a star there is no
//! other switch, and nothing that relays could spare: then all goes to the next host, which passes it on to the others, as
//! section 2.3.1 has it of multicast.

use quincunx_collective::{GroupId, Rank};
use quincunx_driver_des::Observer;
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_fabric::TreeShape;
use quincunx_multiwrite::{AllGather, AllGatherConfig, Part, Table, Window, WriterConfig};
use quincunx_nodes::{HostCommand, HostGroup, Programs, Station, StationCommand};
use quincunx_units::Duration;
use quincunx_wire::{Endpoint, QpNumber};

use super::build::{Built, FIRST_QP, address};
use super::data::Data;
use super::lines::Lines;
use super::{Setup, SimulationError};
use crate::gathering::queue_pair_to;

/// The way that goes over relays; where there is no other one, it is the direct one, 0.
const RELAYED: usize = 1;

impl<P: Data, O: Observer<Station<P>>> Built<P, O> {
    /// Installs the ranks' part in all writes. Switches know the ways to all ranks.
    pub(super) fn relays(&mut self, setup: &Setup, shape: &TreeShape) -> Result<(), SimulationError> {
        let ranks = shape.ranks();
        for rank in 0..ranks {
            let queue_pairs = peers(shape, rank).map(|peer| {
                let end = |at: u16, toward: u16| Endpoint {
                    ip: address(self.ranks[usize::from(at)]),
                    qp: QpNumber::new(FIRST_QP + u32::from(queue_pair_to(at, toward).0)),
                };
                (PortId(0), Lines::from(setup).queue_pair(end(rank, peer), end(peer, rank)))
            });
            let (group, queue_pairs) = (GroupId(1), queue_pairs.collect());
            let program = Programs::MultiWrite(program(setup, shape, rank)?);
            let install = HostCommand::Install(Box::new(HostGroup { group, queue_pairs, program }));
            self.simulation.command(self.ranks[usize::from(rank)], StationCommand::Host(install))?;
        }
        Ok(())
    }
}

fn program(setup: &Setup, shape: &TreeShape, rank: u16) -> Result<AllGather, SimulationError> {
    let (ranks, piece) = (shape.ranks(), setup.hosts.chunk.as_usize());
    let pieces = setup.longest.pieces_of(setup.hosts.chunk) as usize;
    let writer = WriterConfig {
        table: Table::new(
            Rank(rank),
            ranks,
            peers(shape, rank).map(Rank).collect(),
            (0..ranks).map(|to| ways(shape, rank, to)).collect(),
        )?,
        window: Window::new(ranks, pieces.max(1), piece),
        // No more messages than packets are on their way.
        receives: Lines::from(setup).outstanding as usize,
        cost: setup.relay,
    };
    let group = (0..ranks).map(Rank).collect();
    let parts = vec![Part { way: RELAYED, weight: 1, is_shared: true }];
    Ok(AllGather::new(AllGatherConfig { writer, group, parts, preparation: Duration::ZERO })?)
}

fn peers(shape: &TreeShape, rank: u16) -> impl Iterator<Item = u16> + use<> {
    (0..shape.ranks()).filter(move |peer| *peer != rank)
}

/// The ways from a rank to another one.
fn ways(shape: &TreeShape, rank: u16, to: u16) -> Vec<QpIndex> {
    if rank == to {
        return Vec::new();
    }
    let next = queue_pair_to(rank, (rank + 1) % shape.ranks());
    let toward = queue_pair_to(rank, toward(shape, rank, to));
    if shape.branches().len() == 1 { vec![toward, next] } else { vec![toward] }
}

/// The host in the place of `rank` under the switch, of those that have no `rank` under them, that is nearest to the root and has
/// `to` under it.
fn toward(shape: &TreeShape, rank: u16, to: u16) -> u16 {
    let mut under = shape.ranks();
    for branches in shape.branches() {
        under /= branches;
        if rank / under != to / under {
            return to / under * under + rank % under;
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_another_switch_goes_to_the_host_in_the_same_place_there() {
        let toward = |rank, to| toward(&"tree-2x2x3".parse().unwrap(), rank, to);
        // From host 1 to the other half, to the other switch of its half, and under its switch.
        assert_eq!([6, 8, 9, 11].map(|to| toward(1, to)), [7, 7, 7, 7]);
        assert_eq!([3, 5].map(|to| toward(1, to)), [4, 4]);
        assert_eq!([0, 2].map(|to| toward(1, to)), [0, 2]);
    }

    #[test]
    fn on_a_star_all_goes_to_the_next_host() {
        let star = "star-4".parse().unwrap();
        let last = |rank, to| ways(&star, rank, to).last().copied();
        assert_eq!([1, 2, 3].map(|to| last(0, to)), [Some(queue_pair_to(0, 1)); 3]);
        assert_eq!(last(3, 1), Some(queue_pair_to(3, 0)));
    }
}
