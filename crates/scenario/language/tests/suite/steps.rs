//! Prompts, answers and iterations, laid out.

use quincunx_language::{
    Accelerator, AcceleratorError, Decoder, Exchange, Group, Launches, Phase, Products, Split, Timing,
    TrainingSetup, TrainingTime, infer, train,
};
use quincunx_units::Duration;

/// An accelerator as its data sheet says.
fn timing() -> Timing {
    let mut accelerator = Accelerator::find("a100").unwrap();
    accelerator.efficiency = Default::default();
    accelerator.launch = Duration::ZERO;
    Timing { accelerator, profile: None, products: Products::Fp16, launches: Launches::Graph, stretch: 1.0 }
}

fn model() -> Decoder {
    Decoder::find("llama2-7b").unwrap()
}

/// Every collective of a group takes so long.
fn each(group: Group, micros: u64) -> impl Fn(&Exchange) -> Result<Duration, AcceleratorError> {
    move |exchange| Ok(if exchange.group == group { Duration::from_micros(micros) } else { Duration::ZERO })
}

fn iteration(split: Split, overlap: bool, group: Group, micros: u64) -> TrainingTime {
    let training = TrainingSetup { batch: 32, sequence: 2048, micro_batch: 1, overlap };
    train(&model(), &split, &timing(), &training, each(group, micros)).unwrap()
}

#[test]
fn a_prompt_waits_for_every_sum() {
    let split = Split { tp: 8, ..Split::default() };
    let phase = Phase::Prefill { batch: 1, length: 1024 };
    let found = infer(&model(), &split, &timing(), phase, each(Group::Tensor, 10)).unwrap();
    assert_eq!(found.communication, Duration::from_micros(640));
    assert_eq!(found.time(), found.compute + found.communication);
    let quiet = infer(&model(), &split, &timing(), phase, each(Group::Tensor, 0)).unwrap();
    assert_eq!(quiet.compute, found.compute);
    assert_eq!(quiet.share(), 0.0);
    let layers = timing().layers(&model(), &split, phase, 32).unwrap().0;
    assert_eq!(found.compute, layers + timing().head(&model(), &split, 1).unwrap());
}

#[test]
fn an_iteration_does_six_operations_for_each_weight_and_token() {
    let found = iteration(Split::default(), false, Group::Data, 0);
    let weights = (model().parameters() - 32000 * 4096) as f64;
    let least = 6.0 * weights * 32.0 * 2048.0 / 312e12;
    let share = found.compute.as_secs_f64() / least;
    // Attention, and what memory bounds, besides.
    assert!(share > 1.02 && share < 1.25, "{share}");
}

#[test]
fn stages_wait_for_as_many_microbatches_as_there_are_others() {
    let of = |pp, interleave| {
        let split = Split { pp, interleave, ..Split::default() };
        let found = iteration(split, false, Group::Pipeline, 0);
        found.bubble.as_secs_f64() / found.compute.as_secs_f64()
    };
    // Narayanan et al., 2021, section 2.2: (p - 1) / m, and over v with v parts.
    assert_eq!(of(1, 1), 0.0);
    assert!((of(4, 1) - 3.0 / 32.0).abs() < 1e-6);
    assert!((of(4, 2) - 3.0 / 64.0).abs() < 1e-6);
}

#[test]
fn messages_are_hidden_but_for_those_that_fill_and_drain_the_pipeline() {
    let split = Split { pp: 4, ..Split::default() };
    let [quiet, slow] = [0, 100].map(|micros| iteration(split, false, Group::Pipeline, micros));
    assert_eq!(slow.bubble - quiet.bubble, Duration::from_micros(600));
}

#[test]
fn gradients_are_exchanged_behind_the_last_backward_pass_or_beside_it() {
    let split = Split { dp: 4, ..Split::default() };
    let of = |overlap, micros| iteration(split, overlap, Group::Data, micros);
    let behind = of(false, 1000);
    assert_eq!((behind.exposed, behind.replicas), (Duration::from_millis(1), Duration::from_millis(1)));
    // Of 32 layers' gradients the last one's have nothing beside them.
    assert_eq!(of(true, 1000).exposed, Duration::from_millis(1) / 32);
    // A backward pass is two thirds of a microbatch's time.
    let beside = of(true, 0).compute / 8 * 2 / 3;
    // A little longer than that: all but the last layer's is hidden.
    let micros = beside.as_nanos() / 1000 * 65 / 64;
    assert_eq!(of(true, micros).exposed, Duration::from_micros(micros) / 32);
    let long = of(true, 10_000_000);
    let hidden = long.replicas - long.exposed;
    let error = hidden.as_secs_f64() / beside.as_secs_f64() - 1.0;
    assert!(error.abs() < 1e-6, "{error}");
}

#[test]
fn recomputation_does_the_forward_pass_once_more() {
    let of = |recompute| {
        let split = Split { recompute, pp: 2, ..Split::default() };
        iteration(split, false, Group::Data, 0).compute.as_secs_f64()
    };
    assert!((of(true) / of(false) - 4.0 / 3.0).abs() < 1e-6);
}

#[test]
fn sums_of_a_layer_are_part_of_what_stages_wait_for() {
    let split = Split { tp: 2, pp: 4, ..Split::default() };
    let [quiet, slow] = [0, 10].map(|micros| iteration(split, false, Group::Tensor, micros));
    // 8 layers, twice forward and twice backward, in each of 32 microbatches.
    assert_eq!(slow.within, Duration::from_micros(10 * 8 * 4 * 32));
    assert_eq!(slow.bubble - quiet.bubble, Duration::from_micros(10 * 8 * 4 * 3));
    let share = slow.within.as_secs_f64() / slow.time().as_secs_f64();
    assert_eq!(slow.share(), share);
}
