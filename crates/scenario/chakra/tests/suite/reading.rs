//! What is read, and what is refused in a line.

use quincunx_chakra::{Cost, Operation, Trace, TraceError, Work};
use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};

use crate::samples::{all_reduce, compute, node, receive, trace};

/// The AllReduce of 1 MiB that rank 3 of 8 does, as other tools write it.
const MICROBENCHMARK: &[u8] = include_bytes!("../fixtures/all_reduce-1MiB.3.et");

/// A field of protobuf: number, wire type, and what follows.
fn field(number: u32, wire: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = varint(u64::from(number << 3 | wire));
    bytes.extend(value);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn delimited(body: &[u8]) -> Vec<u8> {
    [varint(body.len() as u64), body.to_vec()].concat()
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    field(10, 2, &delimited(&[field(1, 2, &delimited(name.as_bytes())), value.to_vec()].concat()))
}

fn int64(value: i64) -> Vec<u8> {
    field(9, 0, &varint(value as u64))
}

/// A file with node 7 of that kind, with these fields beside.
fn file(kind: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    let body = [field(1, 0, &[7]), field(3, 0, &varint(kind)), fields.concat()].concat();
    [delimited(&field(1, 2, &delimited(b"0.0.4"))), delimited(&body)].concat()
}

fn work(bytes: &[u8]) -> Work {
    let read = Trace::read("a.0.et", bytes).unwrap();
    let [node] = &read.nodes[..] else { panic!("{read:?}") };
    node.work.clone()
}

fn refused(bytes: &[u8]) -> String {
    let error = Trace::read("a.0.et", bytes).unwrap_err().to_string();
    assert!(error.starts_with("a.0.et") && !error.contains('\n'), "{error}");
    assert!(error.contains("expected") && error.contains("found"), "{error}");
    error
}

#[test]
fn a_microbenchmark_of_other_tools_is_one_collective() {
    let read = Trace::read("a.3.et", MICROBENCHMARK).unwrap();
    assert_eq!(read.version, "0.0.4");
    let [node] = &read.nodes[..] else { panic!("{read:?}") };
    assert_eq!((node.id, &*node.name), (3, "all_reduce_8npus_1MB"));
    let all_reduce = Operation::Collective(Collective::AllReduce);
    assert_eq!(
        node.work,
        Work::Collective { operation: all_reduce, size: ByteCount::new(1 << 20), group: None }
    );
}

#[test]
fn numbers_are_read_whatever_their_type() {
    let of =
        |value: Vec<u8>| work(&file(7, &[attribute("comm_type", &int64(0)), attribute("comm_size", &value)]));
    let values = [
        field(3, 1, &4096_f64.to_le_bytes()),
        field(5, 5, &4096_f32.to_le_bytes()),
        field(7, 0, &varint(4096)),
        field(9, 0, &varint(4096)),
        field(11, 0, &varint(4096)),
        field(13, 0, &varint(4096)),
        field(15, 0, &varint(8192)),
        field(17, 0, &varint(8192)),
        field(19, 5, &4096_u32.to_le_bytes()),
        field(21, 1, &4096_u64.to_le_bytes()),
        field(23, 5, &4096_i32.to_le_bytes()),
        field(25, 1, &4096_i64.to_le_bytes()),
        field(29, 2, &delimited(b"4096")),
        field(29, 2, &delimited(b" 4096\n")),
    ];
    for value in values {
        let Work::Collective { size, .. } = of(value.clone()) else { panic!("{value:?}") };
        assert_eq!(size, ByteCount::new(4096), "{value:?}");
    }
}

#[test]
fn every_collective_of_the_schema_is_known_by_its_number() {
    let names = (0..10).map(|number| {
        let fields = [attribute("comm_type", &int64(number)), attribute("comm_size", &int64(64))];
        let Work::Collective { operation, .. } = work(&file(7, &fields)) else { panic!("{number}") };
        operation.name()
    });
    let expected = [
        "all_reduce",
        "reduce",
        "all_gather",
        "gather",
        "scatter",
        "broadcast",
        "all_to_all",
        "reduce_scatter",
        "reduce_scatter",
        "barrier",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_collective_may_have_a_root_and_a_group() {
    let fields = [
        attribute("comm_type", &int64(5)),
        attribute("comm_size", &int64(64)),
        attribute("root_rank", &int64(2)),
        attribute("pg_name", &field(29, 2, &delimited(b"tp"))),
    ];
    let broadcast = Operation::Collective(Collective::Broadcast { root: Rank(2) });
    let expected =
        Work::Collective { operation: broadcast, size: ByteCount::new(64), group: Some("tp".into()) };
    assert_eq!(work(&file(7, &fields)), expected);
}

#[test]
fn a_group_without_a_name_is_all_ranks() {
    let fields = [
        attribute("comm_type", &int64(0)),
        attribute("comm_size", &int64(64)),
        attribute("pg_name", &field(29, 2, &delimited(b""))),
    ];
    assert!(matches!(work(&file(7, &fields)), Work::Collective { group: None, .. }));
}

#[test]
fn a_group_may_be_named_by_a_number() {
    let fields = [
        attribute("comm_type", &int64(0)),
        attribute("comm_size", &int64(64)),
        attribute("pg_name", &int64(3)),
    ];
    let Work::Collective { group, .. } = work(&file(7, &fields)) else { panic!() };
    assert_eq!(group.as_deref(), Some("3"));
}

#[test]
fn a_barrier_needs_no_size() {
    let Work::Collective { size, .. } = work(&file(7, &[attribute("comm_type", &int64(9))])) else {
        panic!()
    };
    assert_eq!(size, ByteCount::new(0));
}

#[test]
fn kinds_of_nodes_are_told_apart() {
    let size = ByteCount::new(64);
    let tensor = attribute("tensor_size", &int64(64));
    assert_eq!(work(&file(1, &[])), Work::Metadata);
    assert_eq!(work(&file(2, std::slice::from_ref(&tensor))), Work::Load(size));
    assert_eq!(work(&file(3, std::slice::from_ref(&tensor))), Work::Store(size));
    let cost = Cost { operations: Some(9), traffic: Some(size) };
    assert_eq!(work(&file(4, &[attribute("num_ops", &int64(9)), tensor])), Work::Compute(cost));
    let message = [
        attribute("comm_size", &int64(64)),
        attribute("comm_src", &int64(1)),
        attribute("comm_dst", &int64(2)),
        attribute("comm_tag", &int64(3)),
    ];
    assert_eq!(work(&file(5, &message)), Work::Send { peer: Rank(2), tag: 3, size });
    assert_eq!(work(&file(6, &message)), Work::Receive { peer: Rank(1), tag: 3, size });
}

#[test]
fn durations_are_microseconds_unless_picoseconds_stand_beside_them() {
    let duration = |fields: &[Vec<u8>]| Trace::read("a", &file(4, fields)).unwrap().nodes[0].duration;
    let micros = field(7, 0, &varint(15));
    assert_eq!(duration(std::slice::from_ref(&micros)), Duration::from_micros(15));
    let picos = attribute("duration_picos", &int64(14_600_001));
    assert_eq!(duration(&[micros, picos]), Duration::from_picos(14_600_001));
}

#[test]
fn what_a_processor_does_says_so() {
    let host = |value: u64| {
        let fields = [attribute("is_cpu_op", &field(27, 0, &varint(value)))];
        Trace::read("a", &file(4, &fields)).unwrap().nodes[0].is_on_host
    };
    assert!(host(1) && !host(0));
    assert!(!Trace::read("a", &file(4, &[])).unwrap().nodes[0].is_on_host, "nobody says so");
}

#[test]
fn fields_and_attributes_that_nobody_needs_are_skipped() {
    let fields = [
        attribute("involved_dim", &field(28, 2, &delimited(&field(1, 2, &delimited(&[1, 1]))))),
        attribute("comm_priority", &int64(3)),
        field(8, 2, &delimited(&field(1, 2, &delimited(b"[]")))),
        field(6, 0, &varint(99)),
    ];
    assert_eq!(work(&file(4, &fields)), Work::Compute(Cost::default()));
}

#[test]
fn packed_and_single_dependencies_are_the_same() {
    let first = |fields: &[Vec<u8>]| {
        [delimited(&[]), delimited(&[field(1, 0, &[5]), field(3, 0, &[4]), fields.concat()].concat())]
            .concat()
    };
    let file = |fields: &[Vec<u8>]| {
        let waits = delimited(&[field(1, 0, &[6]), field(3, 0, &[4]), fields.concat()].concat());
        Trace::read("a", &[first(&[]), waits].concat()).unwrap().nodes[1].clone()
    };
    assert_eq!(file(&[field(4, 0, &[5])]), file(&[field(4, 2, &delimited(&[5]))]));
    assert_eq!(file(&[field(4, 0, &[5])]).dependencies().collect::<Vec<_>>(), [5]);
    assert_eq!(file(&[field(5, 0, &[5])]).data, [5]);
}

#[test]
fn an_empty_file_is_refused() {
    assert!(refused(&[]).contains("an empty file"));
}

#[test]
fn every_end_before_its_end_is_refused() {
    let whole = trace(vec![compute(1, &[], 5), all_reduce(2, &[1], 64)]).write();
    let starts: Vec<usize> = {
        let with = |nodes| trace(nodes).write().len();
        vec![with(vec![]), with(vec![compute(1, &[], 5)])]
    };
    for end in (1..whole.len()).filter(|end| !starts.contains(end)) {
        let error = Trace::read("a.0.et", &whole[..end]).unwrap_err();
        assert!(
            matches!(error, TraceError::Truncated { .. } | TraceError::Encoding { .. }),
            "{end}: {error}"
        );
    }
    assert!(refused(&whole[..whole.len() - 1]).contains("cut short"));
}

#[test]
fn bytes_that_are_no_trace_are_refused_with_their_place() {
    assert!(refused(b"{\"schema\": \"1.1.1\"}").contains("at byte"));
    assert!(refused(&[3, 8, 1, 2]).contains("metadata of a Chakra trace at byte 1"));
    assert!(refused(&[0xff; 11]).contains("the length of a message at byte 0"));
    let node = [file(4, &[]), delimited(&field(1, 2, &delimited(b"7")))].concat();
    assert!(refused(&node).contains("a node of a Chakra trace"));
}

#[test]
fn an_id_is_there_once() {
    let twice = trace(vec![compute(4, &[], 1), compute(4, &[], 1)]).write();
    assert!(refused(&twice).contains("found 4 twice"));
}

#[test]
fn a_dependency_is_in_the_file() {
    let unknown = trace(vec![compute(4, &[9], 1)]).write();
    assert!(refused(&unknown).contains("found 9 of node 4"));
    let control = trace(vec![quincunx_chakra::Node { control: vec![8], ..compute(4, &[], 1) }]).write();
    assert!(refused(&control).contains("found 8 of node 4"));
}

#[test]
fn a_cycle_is_named_by_its_lowest_id_not_by_who_waits_for_it() {
    let nodes = vec![
        compute(1, &[7], 1),
        compute(2, &[], 1),
        compute(9, &[5], 1),
        compute(5, &[2, 7], 1),
        compute(7, &[9], 1),
    ];
    assert!(refused(&trace(nodes).write()).contains("one through node 5"));
    assert!(refused(&trace(vec![compute(3, &[3], 1)]).write()).contains("one through node 3"));
}

#[test]
fn a_node_after_another_that_stands_behind_it_in_the_file_is_fine() {
    let nodes = vec![compute(1, &[2], 1), compute(2, &[], 1)];
    assert!(Trace::read("a", &trace(nodes).write()).is_ok());
}

#[test]
fn sizes_that_are_missing_negative_or_no_numbers_are_refused() {
    let kind = || attribute("comm_type", &int64(0));
    assert!(refused(&file(7, &[kind()])).contains("a.0.et, node 7: expected `comm_size`, found none"));
    assert!(refused(&file(7, &[attribute("comm_size", &int64(1))])).contains("`comm_type`"));
    let sized = |value: Vec<u8>| refused(&file(7, &[kind(), attribute("comm_size", &value)]));
    assert!(sized(int64(-1)).contains("found -1"));
    assert!(sized(field(3, 1, &f64::NAN.to_le_bytes())).contains("found NaN"));
    assert!(sized(field(3, 1, &0.5_f64.to_le_bytes())).contains("found 0.5"));
    assert!(sized(field(3, 1, &f64::INFINITY.to_le_bytes())).contains("found inf"));
    assert!(sized(field(3, 1, &1e30_f64.to_le_bytes())).contains("without a fraction"));
    assert!(sized(field(29, 2, &delimited(b"much"))).contains("\"much\""));
    assert!(sized(field(13, 0, &varint(u64::MAX))).contains("found 18446744073709551615"));
    for kind in [2, 3] {
        assert!(refused(&file(kind, &[])).contains("`tensor_size`, found none"));
    }
    for (kind, peer) in [(5, "comm_dst"), (6, "comm_src")] {
        assert!(refused(&file(kind, &[attribute("comm_size", &int64(1))])).contains(peer));
        assert!(refused(&file(kind, &[attribute(peer, &int64(1))])).contains("`comm_size`"));
        let far = [attribute("comm_size", &int64(1)), attribute(peer, &int64(65_536))];
        assert!(refused(&file(kind, &far)).contains("0 to 65535"));
    }
    assert!(refused(&file(4, &[attribute("num_ops", &int64(-3))])).contains("found -3"));
}

#[test]
fn kinds_and_collectives_that_nobody_knows_are_refused() {
    for kind in [0, 8, 99] {
        assert!(refused(&file(kind, &[])).contains(&format!("found {kind}")));
    }
    let fields = [attribute("comm_type", &int64(99)), attribute("comm_size", &int64(1))];
    assert!(refused(&file(7, &fields)).contains("found 99"));
}

#[test]
fn durations_end_where_time_does() {
    let most = u64::MAX / 1_000_000;
    assert!(Trace::read("a", &file(4, &[field(7, 0, &varint(most))])).is_ok());
    assert!(refused(&file(4, &[field(7, 0, &varint(most + 1))])).contains("213 days"));
}

#[test]
fn a_trace_without_nodes_is_one() {
    assert_eq!(Trace::read("a", &trace(vec![]).write()), Ok(trace(vec![])));
}

#[test]
fn a_message_without_a_tag_has_tag_zero() {
    let message = [attribute("comm_size", &int64(64)), attribute("comm_src", &int64(1))];
    let read = node(7, &[], work(&file(6, &message)));
    assert_eq!(read, receive(7, &[], 1, 64));
}
