//! Groups on full meshes: what ranks get, and what is refused.

mod site;

use quincunx_control::{
    Design, GroupRequest, Instruction, LinkRates, MeshDesign, MeshSetup, Peer, RankContext,
};
use quincunx_fabric::Relays;
use quincunx_units::{BitRate, ByteCount};
use site::{Site, request};

fn mesh(shape: &str) -> MeshSetup {
    let rate = BitRate::new(100_000_000).unwrap();
    MeshSetup {
        shape: shape.parse().unwrap(),
        relays: Relays::Paired,
        piece: ByteCount::new(4096),
        limit: ByteCount::new(1 << 20),
        rates: LinkRates { direct: rate, cross: rate },
    }
}

fn on_mesh(ranks: u16, design: &str, shape: &str) -> GroupRequest {
    GroupRequest { mesh: Some(mesh(shape)), ..request(ranks, design, "star") }
}

fn contexts(wanted: &GroupRequest) -> Vec<RankContext> {
    let rank = |(_, instruction)| match instruction {
        Instruction::InstallRank(context) => *context,
        other => panic!("a mesh has no switches: {other:?}"),
    };
    Site::new(0, 8).begin(wanted).unwrap().into_iter().map(rank).collect()
}

#[test]
fn each_rank_has_a_queue_pair_to_each_other_and_knows_the_domains() {
    for (index, context) in contexts(&on_mesh(8, "multiwrite", "mesh-2x4")).into_iter().enumerate() {
        let peers: Vec<Peer> = context.queue_pairs.into_iter().map(|pair| pair.peer).collect();
        let others = (0..8).filter(|rank| usize::from(*rank) != index);
        assert_eq!(peers, others.map(|rank| Peer::Rank(quincunx_collective::Rank(rank))).collect::<Vec<_>>());
        assert_eq!(
            (context.design, context.mesh),
            (Design::Mesh(MeshDesign::MultiWrite), Some(mesh("mesh-2x4")))
        );
    }
}

#[test]
fn direct_gathers_in_the_domains_of_a_mesh_if_there_is_one() {
    let meshed = contexts(&on_mesh(8, "direct", "mesh-2x4"));
    let plain = contexts(&request(8, "direct", "star"));
    assert!(meshed.iter().all(|context| context.mesh == Some(mesh("mesh-2x4"))));
    assert!(plain.iter().all(|context| context.mesh.is_none()));
    assert_eq!(meshed[3].design, plain[3].design);
}

#[test]
fn what_no_mesh_can_do_is_refused_in_one_line() {
    let with = |change: &dyn Fn(&mut MeshSetup)| {
        let mut setup = mesh("mesh-2x4");
        change(&mut setup);
        GroupRequest { mesh: Some(setup), ..request(8, "multiwrite", "star") }
    };
    let cases = [
        (on_mesh(6, "multiwrite", "mesh-2x4"), "expected members of mesh-2x4, 1024 ranks at most, found 6"),
        (
            request(8, "multiwrite", "star"),
            "expected a mesh of domains for multiwrite, such as mesh-2x4, found none",
        ),
        (
            on_mesh(8, "ring", "mesh-2x4"),
            "expected a design of multiwrite, unicast-multipath, direct or writes on a mesh, found ring",
        ),
        (
            on_mesh(8, "unicast-multipath", "mesh-1x8"),
            "expected a mesh of two domains at least for unicast-multipath, found mesh-1x8",
        ),
        (with(&|mesh| mesh.piece = ByteCount::new(0)), "expected a piece of a multiple of 4 bytes, found 0B"),
        (with(&|mesh| mesh.piece = ByteCount::new(6)), "expected a piece of a multiple of 4 bytes, found 6B"),
        (
            with(&|mesh| mesh.limit = ByteCount::new(u64::MAX / 2)),
            "expected a limit of windows up to 64GiB, found 8 ranks with up to",
        ),
    ];
    let mut site = Site::new(0, 8);
    for (wanted, expected) in cases {
        let error = site.begin(&wanted).unwrap_err().to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_mesh_of_one_domain_is_enough_for_direct_and_for_writes() {
    for design in ["direct", "writes"] {
        assert_eq!(contexts(&on_mesh(8, design, "mesh-1x8")).len(), 8);
    }
}
