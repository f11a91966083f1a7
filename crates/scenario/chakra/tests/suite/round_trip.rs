//! What was written reads back as the same, and is written as the same bytes again.

use proptest::prelude::*;
use quincunx_chakra::{Cost, Node, Operation, Trace, Work};
use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};

fn sizes() -> impl Strategy<Value = ByteCount> {
    prop_oneof![0..=4096_u64, 0..=i64::MAX as u64].prop_map(ByteCount::new)
}

fn operations() -> impl Strategy<Value = Operation> {
    let collectives = (0..Collective::PRIMITIVES.len(), prop_oneof![0..3_u16, any::<u16>()])
        .prop_map(|(at, root)| Operation::Collective(Collective::PRIMITIVES[at].with_root(Rank(root))));
    prop_oneof![collectives, Just(Operation::Gather), Just(Operation::Scatter), Just(Operation::AllToAll)]
}

fn works() -> impl Strategy<Value = Work> {
    let group = proptest::option::of("[a-z]{1,8}");
    let collective = (operations(), sizes(), group).prop_map(|(operation, size, group)| {
        let is_barrier = operation == Operation::Collective(Collective::Barrier);
        let size = if is_barrier { ByteCount::new(0) } else { size };
        Work::Collective { operation, size, group }
    });
    let message =
        (any::<bool>(), any::<u16>(), any::<u64>(), sizes()).prop_map(|(sends, peer, tag, size)| {
            let peer = Rank(peer);
            if sends { Work::Send { peer, tag, size } } else { Work::Receive { peer, tag, size } }
        });
    let cost = (proptest::option::of(any::<u64>()), proptest::option::of(sizes()));
    prop_oneof![
        Just(Work::Metadata),
        sizes().prop_map(Work::Load),
        sizes().prop_map(Work::Store),
        cost.prop_map(|(operations, traffic)| Work::Compute(Cost { operations, traffic })),
        collective,
        message,
    ]
}

/// Of a node: its work, duration and name, and which of those before it it waits for.
fn traces() -> impl Strategy<Value = Trace> {
    let node = (works(), any::<u64>(), any::<bool>(), ".{0,12}", any::<[u8; 2]>());
    proptest::collection::vec(node, 0..12).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate().map(|(at, (work, picos, is_on_host, name, before))| {
            let id = |at: usize| at as u64 * 3 + 1;
            let earlier = |which: u8| (at > 0).then(|| id(usize::from(which) % at.max(1)));
            Node {
                id: id(at),
                name,
                control: earlier(before[0]).into_iter().collect(),
                data: earlier(before[1]).into_iter().collect(),
                duration: Duration::from_picos(picos),
                is_on_host,
                work,
            }
        });
        Trace::new(nodes.collect())
    })
}

proptest! {
    #[test]
    fn a_trace_reads_back_as_it_was_and_writes_the_same_bytes(trace in traces()) {
        let bytes = trace.write();
        let read = Trace::read("written", &bytes).unwrap();
        prop_assert_eq!(&read, &trace);
        prop_assert_eq!(read.write(), bytes);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Trace::read("noise", &bytes);
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic(trace in traces(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = trace.write();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Trace::read("changed", &bytes);
    }
}

#[test]
fn whole_microseconds_need_no_attribute_of_ours() {
    let node = |picos| {
        crate::samples::trace(vec![Node {
            duration: Duration::from_picos(picos),
            ..crate::samples::compute(1, &[], 0)
        }])
    };
    let has_ours = |picos| node(picos).write().windows(14).any(|window| window == b"duration_picos");
    assert!(!has_ours(3_000_000) && has_ours(3_000_001));
}

#[test]
fn other_readers_see_the_nearest_microsecond() {
    // Field 7 of the node, a number below 128.
    let node = |picos| Node { duration: Duration::from_picos(picos), ..crate::samples::compute(1, &[], 0) };
    let has = |picos, micros| {
        Trace::new(vec![node(picos)]).write().windows(2).any(|window| window == [7 << 3, micros])
    };
    assert!(has(3_499_999, 3) && has(3_500_000, 4));
}
