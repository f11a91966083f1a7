//! In steady state a frame allocates nothing, on a switch or at a rank, in any mode: the whole way through driver, codec
//! and engines.

use crate::common;
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, pattern,
};
use quincunx_design::Value;
use quincunx_driver_net::NodeOptions;
use quincunx_engine::Terms;
use quincunx_fabric::IncTree;
use quincunx_nodes::{HostCommand, HostEvent};
use quincunx_units::Duration;
use quincunx_wire::Psn;
use std::time::Instant;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
const BYTES: usize = 1 << 18;

fn allocates_nothing(design: &str) {
    let tree = IncTree::from_shape(&"star-4".parse().unwrap());
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.message", Value::from(16)),
        ("group.window", Value::from(4)),
        ("group.retry_timeout", Value::from("2s")),
        ("group.retry_count", Value::from(7)),
    ];
    let groups = [common::StaticGroup::on_tree(1, &tree, design, &parameters, Psn::new(0))];
    let options = NodeOptions { spin: Duration::ZERO, ..NodeOptions::default() };
    let mut switch = common::switch(&groups, tree.root(), options.clone());
    let mut hosts = [0, 1, 2, 3].map(|rank| {
        let address = common::address(tree.leaf(Rank(rank)).0);
        common::host(&groups, address, Rank(rank), options.clone())
    });
    let mut run = |collective, buffers: [(Numbers, Numbers); 4]| {
        for (host, (input, output)) in hosts.iter_mut().zip(buffers) {
            let group = GroupId(1);
            host.command(HostCommand::Start {
                group,
                collective,
                reduction: SUM,
                input,
                output,
                terms: Terms::WHOLE,
            })
            .unwrap();
        }
        let end = Instant::now() + std::time::Duration::from_secs(20);
        let mut left = hosts.len();
        while left > 0 {
            assert!(Instant::now() < end, "expected the end of {collective} within 20 s");
            switch.turn(Duration::from_micros(10)).unwrap();
            for host in &mut hosts {
                host.turn(Duration::from_micros(10)).unwrap();
                left -= usize::from(matches!(host.next_event(), Some(HostEvent::Finished { .. })));
            }
        }
    };
    for collective in Collective::PRIMITIVES {
        let (input, output) = match collective {
            Collective::Barrier => (0, 0),
            Collective::ReduceScatter => (4 * BYTES, BYTES),
            Collective::AllGather => (BYTES, 4 * BYTES),
            _ => (BYTES, BYTES),
        };
        let buffers =
            || [0, 1, 2, 3].map(|rank| (pattern(Rank(rank), input, SUM.data_type), Numbers::zeroed(output)));
        for _ in 0..2 {
            run(collective, buffers());
        }
        // Where the machine is busy something may be sent again, for which buffers grow: once of five times it goes undisturbed.
        let mut counts = || {
            let buffers = buffers();
            allocation_counter::measure(|| run(collective, buffers)).count_total
        };
        let least = (0..5).map(|_| counts()).find(|count| *count == 0);
        assert_eq!(least, Some(0), "{collective} with {design} allocates each time");
    }
}

#[test]
fn a_collective_on_warm_nodes_allocates_nothing() {
    let _alone = common::alone();
    for design in ["epic-1", "epic-2", "epic-3"] {
        allocates_nothing(design);
    }
}
