//! Chakra's traces on fabrics: what their communications take, and what is refused.

use quincunx_chakra::{Node, Operation, Trace, Work};
use quincunx_collective::{Collective, Rank};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_language::Deployment;
use quincunx_scenario::{Document, Override};
use quincunx_sim::{
    KnownTimes, Outputs, Prediction, PredictionError, Question, Request, TracesError, TracesMeasurement,
    TracesRequest, TrainingError, ignore_progress, measure, measure_traces, measure_training, training_trace,
};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_workload::Iteration;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::requests::{lengths, request, scenario};

fn asked(fabric: &str, changes: &[&str], design: &str) -> Request {
    lengths(request(&scenario(fabric, changes), design, Collective::AllReduce, 0))
}

fn node(id: u64, work: Work) -> Node {
    let (control, data) = (Vec::new(), Vec::new());
    Node { id, name: "node".into(), control, data, duration: Duration::ZERO, is_on_host: false, work }
}

fn collective(id: u64, of: Collective, bytes: u64, group: Option<&str>) -> Node {
    let (operation, size, group) =
        (Operation::Collective(of), ByteCount::new(bytes), group.map(str::to_owned));
    node(id, Work::Collective { operation, size, group })
}

fn replayed(request: &Request, traces: &[Vec<Node>]) -> Result<TracesMeasurement, TracesError> {
    let traces: Vec<Trace> = traces.iter().cloned().map(Trace::new).collect();
    let traces: Vec<&Trace> = traces.iter().collect();
    let fallback = Some(FALLBACK);
    measure_traces(
        &TracesRequest { request, traces: &traces, catalog: CATALOG, fallback },
        &mut ignore_progress,
    )
}

fn time(request: &Request, traces: &[Vec<Node>]) -> Duration {
    replayed(request, traces).unwrap().replay.time
}

/// What the same collective takes by itself.
fn alone(request: &Request, collective: Collective, bytes: u64) -> Duration {
    let request = Request { collective, size: ByteCount::new(bytes), ..request.clone() };
    measure(&request, Outputs::default(), &mut ignore_progress).unwrap().time
}

#[test]
fn an_iteration_of_training_written_as_a_trace_takes_the_same_time_to_the_picosecond() {
    let fused = ["train.fusion=4MiB", "train.cycle=1ms"];
    let late = ["train.overlap=false", "train.cycle=0s"];
    for (changes, design) in [(&[][..], "ring"), (&fused, "ring"), (&fused, "epic-3"), (&late, "epic-3")] {
        let all = [&["train.model=googlenet", "train.batch=4"], changes].concat();
        let training = asked("star-4", &all, design);
        let found = measure_training(&training, &mut ignore_progress).unwrap();
        let trace = training_trace(&training.scenario, &found).unwrap();
        let trace = Trace::read("written", &trace.write()).unwrap();
        let replay = replayed(&asked("star-4", &[], design), &vec![trace.nodes; 4]).unwrap().replay;
        let of_rank = replay.ranks[replay.slowest()];
        let Iteration { time, compute, communication, .. } = found.iteration;
        let replayed = (replay.time, of_rank.compute, of_rank.communication);
        assert_eq!(replayed, (time, compute, communication), "{changes:?} by {design}");
    }
}

#[test]
fn what_a_trace_cannot_say_of_training_is_refused_by_its_key() {
    for key in ["train.copy", "train.reduction"] {
        let training = asked("star-2", &["train.model=googlenet", &format!("{key}=6GB/s")], "ring");
        let found = measure_training(&training, &mut ignore_progress).unwrap();
        let refused = training_trace(&training.scenario, &found).unwrap_err();
        assert_eq!(refused, TrainingError::Untraceable { key });
    }
}

#[test]
fn a_collective_takes_what_it_takes_by_itself() {
    let request = asked("star-4", &[], "ring");
    for of in [Collective::AllReduce, Collective::Broadcast { root: Rank(1) }, Collective::ReduceScatter] {
        let trace = vec![collective(1, of, 64 << 10, None)];
        assert_eq!(time(&request, &vec![trace; 4]), alone(&request, of, 64 << 10), "{of}");
    }
}

#[test]
fn an_all_gather_counts_what_a_rank_brings_in() {
    let request = asked("star-4", &[], "ring");
    let trace = vec![collective(1, Collective::AllGather, 16 << 10, None)];
    assert_eq!(time(&request, &vec![trace; 4]), alone(&request, Collective::AllGather, 64 << 10));
}

#[test]
fn sizes_are_rounded_up_to_elements() {
    let request = asked("star-4", &[], "ring");
    let of = |of, bytes| time(&request, &vec![vec![collective(1, of, bytes, None)]; 4]);
    assert_eq!(of(Collective::AllReduce, 4_093), alone(&request, Collective::AllReduce, 4_096));
    assert_eq!(of(Collective::ReduceScatter, 4_081), alone(&request, Collective::ReduceScatter, 4_096));
    assert_eq!(of(Collective::AllGather, 4_093), alone(&request, Collective::AllGather, 4 * 4_096));
}

#[test]
fn a_barrier_takes_time_and_a_sum_of_nothing_does_not() {
    let request = asked("star-4", &[], "ring");
    let of = |of| time(&request, &vec![vec![collective(1, of, 0, None)]; 4]);
    assert_eq!(of(Collective::Barrier), alone(&request, Collective::Barrier, 0));
    assert_eq!(of(Collective::AllReduce), Duration::ZERO);
}

#[test]
fn one_size_is_simulated_once() {
    let request = asked("star-4", &[], "ring");
    let of = |count: u64| {
        let trace: Vec<Node> =
            (0..count).map(|id| collective(id, Collective::AllReduce, 4096, None)).collect();
        replayed(&request, &vec![trace; 4]).unwrap()
    };
    let (once, thrice) = (of(1), of(3));
    assert_eq!(thrice.steps, once.steps);
    assert_eq!(thrice.replay.time, once.replay.time * 3);
}

#[test]
fn a_group_of_some_ranks_takes_less_than_one_of_all() {
    let request = asked("star-8", &[], "ring");
    let of = |name: &str| vec![collective(1, Collective::AllReduce, 1 << 20, Some(name))];
    let halves = time(&request, &["a", "b", "a", "b", "a", "b", "a", "b"].map(of));
    let four = asked("star-4", &[], "ring");
    let expected = alone(&four, Collective::AllReduce, 1 << 20);
    let ratio = halves.as_secs_f64() / expected.as_secs_f64();
    assert!((0.99..1.01).contains(&ratio), "{halves} and {expected}");
}

#[test]
fn a_group_that_finds_no_tree_is_refused_and_does_not_run_by_another_design() {
    let trace = || vec![collective(3, Collective::AllReduce, 64 << 10, Some("g"))];
    let on = |changes: &[&str]| replayed(&asked("star-8", changes, "epic-3"), &[trace(), trace()]);
    assert!(on(&[]).is_ok());
    let error = on(&["group.slots=100000"]).unwrap_err().to_string();
    assert!(
        error.starts_with("rank 0, node 3: all_reduce of 64KiB") && error.contains("switch-0"),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn the_root_of_a_group_is_a_rank_of_all() {
    let request = asked("star-6", &[], "ring");
    let trace = |root| vec![collective(1, Collective::Broadcast { root: Rank(root) }, 64 << 10, Some("g"))];
    // Ranks 3 to 5, of which 5 is the third.
    let ranks = |root| {
        let mut traces = vec![vec![]; 3];
        traces.extend(vec![trace(root); 3]);
        traces
    };
    assert!(time(&request, &ranks(5)) > Duration::ZERO);
}

#[test]
fn a_message_takes_its_bytes_and_its_way() {
    let request = asked("star-4", &["link.latency=100us"], "epic-3");
    let size = ByteCount::new(1 << 20);
    let (sends, receives) =
        (Work::Send { peer: Rank(2), tag: 0, size }, Work::Receive { peer: Rank(0), tag: 0, size });
    let found = time(&request, &[vec![node(1, sends)], vec![], vec![node(1, receives)]]);
    let wire = BitRate::new(100_000_000_000).unwrap().time_for(size);
    // There by two links, and what confirms it back.
    let way = Duration::from_micros(200);
    assert!(found > wire + way, "{found}");
    assert!(found < wire + way * 2 + Duration::from_micros(20), "{found}");
}

#[test]
fn computation_without_a_duration_takes_the_rates_of_the_scenario() {
    let cost =
        quincunx_chakra::Cost { operations: Some(2_000_000_000), traffic: Some(ByteCount::new(1_000)) };
    let of =
        |changes: &[&str]| time(&asked("star-2", changes, "ring"), &[vec![node(1, Work::Compute(cost))]]);
    assert_eq!(of(&["train.gpu.rate=1TFLOP/s"]), Duration::from_millis(2));
    assert_eq!(of(&["train.gpu.rate=1TFLOP/s", "train.gpu.memory=100kB/s"]), Duration::from_millis(10));
}

#[test]
fn what_does_not_fit_onto_the_fabric_is_refused() {
    let refused = |request: &Request, traces: &[Vec<Node>]| replayed(request, traces).unwrap_err();
    let too_many = refused(&asked("star-2", &[], "ring"), &vec![vec![]; 3]);
    assert_eq!(too_many, TracesError::Ranks { traces: 3, fabric: "star-2".into(), ranks: 2 });
    assert_eq!(refused(&asked("mesh8", &[], "direct"), &[vec![]]), TracesError::Domains { domains: 2 });
    let keys = [("star-2", "train.fusion=1MiB", "ring"), ("cais-dgx8", "layer.model=llama-7b", "cais")];
    for (fabric, key, design) in keys {
        let error = refused(&asked(fabric, &[key], design), &[vec![]]);
        assert!(error.to_string().contains(key.split('=').next().unwrap()), "{error}");
    }
}

#[test]
fn collectives_that_no_design_has_are_refused_with_rank_and_node() {
    let work = Work::Collective { operation: Operation::AllToAll, size: ByteCount::new(64), group: None };
    let error = replayed(&asked("star-2", &[], "ring"), &vec![vec![node(7, work)]; 2]).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("rank 0, node 7") && text.contains("all_to_all"), "{text}");
    assert!(!text.contains('\n') && !error.is_wrong());
}

#[test]
fn without_a_design_for_messages_they_are_refused() {
    let size = ByteCount::new(64);
    let sends = Trace::new(vec![node(1, Work::Send { peer: Rank(1), tag: 0, size })]);
    let receives = Trace::new(vec![node(1, Work::Receive { peer: Rank(0), tag: 0, size })]);
    let request = asked("star-4", &[], "ring");
    let traces = [&sends, &receives];
    let request = TracesRequest { request: &request, traces: &traces, catalog: CATALOG, fallback: None };
    let error = measure_traces(&request, &mut ignore_progress).unwrap_err();
    assert!(error.to_string().contains("for messages, found none"), "{error}");
}

#[test]
fn whoever_stops_a_simulation_hears_what_was_running() {
    // Small packets: enough steps for a report.
    let request = asked("star-8", &["group.mtu=256B"], "ring");
    let trace = Trace::new(vec![collective(1, Collective::AllReduce, 512 << 20, None)]);
    let traces = [&trace; 8];
    let request = TracesRequest { request: &request, traces: &traces, catalog: CATALOG, fallback: None };
    let error = measure_traces(&request, &mut |_| ControlFlow::Break(())).unwrap_err();
    let (what, _) = error.stopped().expect("it was stopped");
    assert_eq!(what, "all_reduce of 512MiB");
}

/// A model whose tokens have 1 KiB each.
const SMALL: &str =
    r#"{"model_type":"gpt2","n_embd":512,"n_layer":2,"n_head":4,"n_positions":64,"vocab_size":100}"#;

/// A step of a small model that `changes` ask for, predicted by `design`, and its trace.
fn step(changes: &[&str], design: &str) -> Result<(Prediction, Trace), PredictionError> {
    static WRITTEN: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("small-model.json");
        std::fs::write(&path, SMALL).unwrap();
        path
    });
    let text = format!("model = {:?}\nnetwork.designs = [\"ring\"]", WRITTEN.display().to_string());
    let mut document = Document::parse("file", &text).unwrap();
    for change in changes {
        document.set(&change.parse::<Override>().unwrap()).unwrap();
    }
    let asked = Deployment::read("file", &document).unwrap();
    let known = KnownTimes::default();
    let question = Question::new(&asked, CATALOG, &known)?;
    let found = question.answer(design, &mut ignore_progress)?;
    let trace = question.trace(&found)?;
    Ok((found, Trace::read("written", &trace.write()).unwrap()))
}

const PROMPT: [&str; 4] =
    ["network.fabric=memory-4", "split.tp=4", "inference.batch=1", "inference.prompt=16"];
const TRAINING: [&str; 5] = [
    "network.fabric=star-4",
    "training.batch=4",
    "training.sequence=16",
    "training.overlap=false",
    "split.dp=4",
];

#[test]
fn a_prompt_and_its_next_token_written_as_a_trace_take_the_same_time_to_the_picosecond() {
    let (found, trace) = step(&PROMPT, "scin").unwrap();
    let replay = replayed(&asked("memory-4", &[], "scin"), &vec![trace.nodes; 4]).unwrap().replay;
    let found = found.inference.unwrap();
    assert_eq!(replay.time, found.prefill.time() + found.decode.time());
    let communication = found.prefill.communication + found.decode.communication;
    assert_eq!(replay.ranks[0].communication, communication);
}

#[test]
fn a_step_whose_layers_share_sequences_has_both_halves_of_a_sum() {
    let (found, trace) = step(&[&PROMPT[..], &["split.sequence_parallel=true"]].concat(), "ring").unwrap();
    let of = |name: &str| trace.nodes.iter().filter(|node| node.name.starts_with(name)).count();
    // Two sums in each of two layers, for the prompt and for the token.
    assert_eq!((of("reduce_scatter"), of("all_gather")), (8, 8));
    let replay = replayed(&asked("memory-4", &[], "ring"), &vec![trace.nodes; 4]).unwrap().replay;
    let found = found.inference.unwrap();
    assert_eq!(replay.time, found.prefill.time() + found.decode.time());
}

#[test]
fn an_iteration_of_replicas_written_as_a_trace_ends_with_their_gradients() {
    let (found, trace) = step(&TRAINING, "ring").unwrap();
    let training = found.training.unwrap();
    let [.., last] = &trace.nodes[..] else { panic!("no nodes") };
    let Work::Collective { size, .. } = &last.work else { panic!("{last:?}") };
    assert_eq!((*size, training.exchanges.len()), (training.exchanges[0].0.bytes, 1));
    let computed: Duration = trace.nodes.iter().map(|node| node.duration).sum();
    assert_eq!(computed, training.compute);
}

#[test]
fn weights_that_are_asked_for_twice_are_gathered_twice_in_a_trace() {
    let (_, trace) = step(&[&TRAINING[..], &["split.zero=3"]].concat(), "ring").unwrap();
    let of = |name: &str| trace.nodes.iter().filter(|node| node.name.starts_with(name)).count();
    assert_eq!((of("reduce_scatter"), of("all_gather")), (1, 2));
}

#[test]
fn what_a_trace_of_one_group_cannot_say_is_refused() {
    for (base, changes, what) in [
        (&TRAINING[..], &["training.overlap=true"][..], "beside the backward pass"),
        (&TRAINING, &["split.dp=2", "split.tp=2"], "expected a network of 2 ranks"),
        (&PROMPT, &["serving.requests=conversations"], "requests that come and go"),
        (
            &["network.fabric=memory-4", "split.pp=2", "inference.batch=1", "inference.prompt=16"],
            &[],
            "of experts or stages",
        ),
    ] {
        let error = step(&[base, changes].concat(), "ring").unwrap_err().to_string();
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
    }
}
