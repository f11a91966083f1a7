//! What PyTorch records of a rank, as a trace.

use quincunx_chakra::{Node, Operation, Trace, Work};
use quincunx_collective::Collective;
use quincunx_units::{ByteCount, Duration};

/// A step of DDP that was recorded: `fixtures/README.md` says how.
const OBSERVED: &[u8] = include_bytes!("../fixtures/ddp.0.json");
const TIMELINE: &[u8] = include_bytes!("../fixtures/ddp-kineto.0.json");

fn made(nodes: &str, events: &str) -> Trace {
    read(nodes, events).unwrap()
}

fn read(nodes: &str, events: &str) -> Result<Trace, quincunx_chakra::TraceError> {
    let thread =
        r#"{"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, "attrs": []}"#;
    let observed = format!(r#"{{"nodes": [{thread}, {nodes}]}}"#);
    let timeline = format!(r#"{{"traceEvents": [{events}]}}"#);
    Trace::of_pytorch(("observed", observed.as_bytes()), ("timeline", timeline.as_bytes()))
}

fn operator(id: u64, name: &str, inputs: &str) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "ctrl_deps": 2, "inputs": {{"values": {inputs}}}, "attrs": [{{"name": "rf_id", "value": {id}}}]}}"#
    )
}

fn event(id: u64, ts: f64, dur: f64) -> String {
    format!(r#"{{"ph": "X", "ts": {ts}, "dur": {dur}, "args": {{"Record function id": {id}}}}}"#)
}

fn node(trace: &Trace, id: u64) -> &Node {
    trace.nodes.iter().find(|node| node.id == id).expect("it is there")
}

const TENSOR: &str = r#"[[9, 8, 0, 100, 4, "cpu"]]"#;

/// Three operators, and a collective that the first one begins and the last one waits for.
fn step() -> Trace {
    let nodes = [
        operator(10, "a", "[]"),
        operator(13, "gloo:all_reduce", TENSOR),
        operator(11, "b", "[]"),
        operator(12, "c", "[]"),
    ];
    // 1000: a; 1020: b; the collective from 1015 to 1050; 1060: c.
    let events =
        [event(10, 1000.0, 10.0), event(11, 1020.0, 5.0), event(13, 1015.0, 35.0), event(12, 1060.0, 7.0)];
    made(&nodes.join(","), &events.join(","))
}

#[test]
fn operators_follow_each_other_and_wait_for_collectives_that_were_over() {
    let step = step();
    let after = |id| node(&step, id).data.clone();
    assert_eq!((after(10), after(11), after(12)), (vec![], vec![10], vec![11, 13]));
    assert_eq!(after(13), [10], "b had not begun");
}

#[test]
fn time_between_operators_is_the_programs_but_for_collectives_meanwhile() {
    let step = step();
    let took = [10, 11, 12].map(|id| node(&step, id).duration);
    // b: 5 of its own and 5 of 10 before it; c: 7, and 10 of 35 before it.
    assert_eq!(took, [10, 10, 17].map(Duration::from_micros));
    assert!([10, 11, 12].iter().all(|&id| node(&step, id).is_on_host));
}

#[test]
fn who_begins_when_a_collective_is_over_waits_for_it_and_who_follows_does_not() {
    let nodes = [
        operator(10, "a", "[]"),
        operator(11, "b", "[]"),
        operator(12, "c", "[]"),
        operator(13, "gloo:barrier", "[]"),
    ];
    let events = [event(10, 1.0, 1.0), event(13, 2.0, 4.0), event(11, 6.0, 1.0), event(12, 8.0, 1.0)];
    let made = made(&nodes.join(","), &events.join(","));
    assert_eq!((&*node(&made, 11).data, &*node(&made, 12).data), (&[10, 13][..], &[11][..]));
}

#[test]
fn an_operator_that_begins_within_another_takes_its_own_time() {
    let nodes = [operator(10, "a", "[]"), operator(11, "b", "[]")].join(",");
    let made = made(&nodes, &[event(10, 0.0, 9.0), event(11, 4.0, 3.0)].join(","));
    assert_eq!(node(&made, 11).duration, Duration::from_micros(3));
}

#[test]
fn times_may_count_from_whenever() {
    let nodes = [operator(10, "a", "[]"), operator(11, "b", "[]")].join(",");
    let made = made(&nodes, &[event(10, 1.7e15, 2.0), event(11, 1.7e15 + 5.0, 1.0)].join(","));
    assert_eq!(node(&made, 11).duration, Duration::from_micros(4));
}

#[test]
fn what_is_no_function_has_no_time() {
    let none = r#"{"ts": -9e99, "dur": 1, "args": {"Record function id": 0}}"#;
    let events = [none.to_owned(), event(10, 1.0, 2.0)].join(",");
    assert_eq!(node(&made(&operator(10, "a", "[]"), &events), 10).duration, Duration::from_micros(2));
}

#[test]
fn a_collective_has_the_bytes_of_its_tensors() {
    let size = |inputs: &str| {
        let nodes = [operator(10, "a", "[]"), operator(13, "gloo:reduce_scatter", inputs)].join(",");
        let made = made(&nodes, &[event(10, 0.0, 1.0), event(13, 5.0, 1.0)].join(","));
        let Work::Collective { operation, size, group: None } = node(&made, 13).work else {
            panic!("{made:?}")
        };
        assert_eq!(operation, Operation::Collective(Collective::ReduceScatter));
        size.bytes()
    };
    assert_eq!(size(TENSOR), 400);
    assert_eq!(
        size(r#"[[[9, 8, 0, 100, 4, "cpu"], [9, 8, 0, 5, 2, "cpu"]], 3, "<None>"]"#),
        410,
        "a list of tensors"
    );
    assert_eq!(size("[]"), 0);
}

#[test]
fn what_operators_call_is_part_of_them() {
    let part = operator(11, "part", "[]").replace("\"ctrl_deps\": 2", "\"ctrl_deps\": 10");
    let nodes = [operator(10, "a", "[]"), part].join(",");
    let made = made(&nodes, &[event(10, 0.0, 9.0), event(11, 1.0, 2.0)].join(","));
    assert_eq!(made.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [10]);
}

#[test]
fn a_recorded_step_of_training_has_one_collective_behind_the_last_gradient() {
    let step = Trace::of_pytorch(("observed", OBSERVED), ("timeline", TIMELINE)).unwrap();
    let collectives: Vec<&Node> =
        step.nodes.iter().filter(|node| matches!(node.work, Work::Collective { .. })).collect();
    let [all_reduce] = collectives[..] else { panic!("{collectives:?}") };
    let Work::Collective { size, .. } = all_reduce.work else { panic!("{all_reduce:?}") };
    // 64 x 64 + 64 + 64 x 8 + 8 parameters of four bytes.
    assert_eq!((&*all_reduce.name, size), ("gloo:all_reduce", ByteCount::new(4 * 4_680)));
    let launcher = node(&step, all_reduce.data[0]);
    assert!(launcher.name.ends_with("AccumulateGrad"), "{launcher:?}");
    let behind: Vec<&Node> = step.nodes.iter().filter(|node| node.data.contains(&all_reduce.id)).collect();
    assert_eq!(behind.len(), 1, "{behind:?}");
    assert_eq!(step.nodes.iter().filter(|node| node.name.starts_with("Optimizer.step")).count(), 1);
    assert_eq!(Trace::read("written", &step.write()), Ok(step));
}

#[test]
fn files_that_are_not_what_they_should_be_are_refused_in_a_line() {
    let refused = |observed: &[u8], timeline: &[u8]| {
        let error = Trace::of_pytorch(("a.json", observed), ("b.json", timeline)).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.contains("expected") && error.contains("found"), "{error}");
        error
    };
    assert!(refused(b"{", TIMELINE).starts_with("a.json: expected an execution trace of PyTorch"));
    assert!(refused(OBSERVED, b"{}").starts_with("b.json: expected a timeline of Kineto"));
    assert!(refused(OBSERVED, br#"{"traceEvents": []}"#).contains("functions that are in b.json"));
    let nodes = operator(10, "a", "[]");
    for (ts, dur) in [(0.0, -1.0), (0.0, 1e14)] {
        let error = read(&nodes, &event(10, ts, dur)).unwrap_err().to_string();
        assert!(error.starts_with("timeline, node 10: expected a time of 0 to 100 days"), "{error}");
    }
    let twice = read(&[operator(10, "a", "[]"), operator(10, "b", "[]")].join(","), &event(10, 0.0, 1.0));
    assert!(twice.unwrap_err().to_string().contains("found 10 twice"));
}
