//! Prompts, answers and iterations, laid out.

use quincunx_collective::Collective;
use quincunx_language::{
    Accelerator, AcceleratorError, Decoder, Exchange, Group, Launches, Phase, Products, Split, Timing,
    TrainingSetup, TrainingTime, infer, train,
};
use quincunx_units::{ByteCount, Duration};

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
    let training = TrainingSetup { overlap, ..TrainingSetup::new(32, 2048) };
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

/// Four replicas whose gradients take `picos` for a byte, overlapped, at most so many bytes together.
fn overlapped(split: Split, fusion: u64, picos: u64) -> (TrainingTime, Vec<Exchange>) {
    let split = Split { dp: 4, ..split };
    let training = TrainingSetup { fusion: ByteCount::new(fusion), ..TrainingSetup::new(32, 2048) };
    let mut asked = Vec::new();
    let time = |exchange: &Exchange| {
        asked.push(*exchange);
        Ok::<_, AcceleratorError>(Duration::from_picos(exchange.bytes.bytes() * picos))
    };
    let found = train(&model(), &split, &timing(), &training, time).unwrap();
    (found, asked)
}

#[test]
fn gradients_are_exchanged_behind_the_last_backward_pass_at_once() {
    let behind = iteration(Split { dp: 4, ..Split::default() }, false, Group::Data, 1000);
    assert_eq!((behind.exposed, behind.replicas), (Duration::from_millis(1), Duration::from_millis(1)));
}

#[test]
fn gradients_beside_the_backward_pass_wait_for_nothing_but_the_last_layer() {
    let (found, _) = overlapped(Split::default(), 0, 1);
    assert!(found.replicas > Duration::from_millis(10));
    let share = found.exposed.as_secs_f64() / found.replicas.as_secs_f64();
    assert!((share * 32.0 - 1.0).abs() < 1e-6, "{share}");
}

#[test]
fn what_is_longer_than_the_last_backward_pass_of_layers_is_waited_for() {
    let (quick, _) = overlapped(Split::default(), 0, 0);
    let (slow, _) = overlapped(Split::default(), 0, 1000);
    // Two thirds of a microbatch; the output's product and the first layer to be done have nothing yet to send beside them.
    let phase = Phase::Prefill { batch: 1, length: 2048 };
    let layer = timing().layers(&model(), &Split::default(), phase, 32).unwrap().0 / 32 * 2;
    let hidden = slow.replicas - slow.exposed;
    assert_eq!(slow.compute, quick.compute);
    assert!((hidden.as_secs_f64() / (layer * 31).as_secs_f64() - 1.0).abs() < 1e-6, "{hidden}");
}

#[test]
fn gradients_that_are_ready_together_are_one_exchange_as_far_as_they_fit() {
    let lengths = |fusion| {
        let (_, asked) = overlapped(Split::default(), fusion, 1000);
        // The first is the whole, as it is exchanged where nothing is beside it.
        asked[1..].iter().map(|exchange| exchange.bytes).collect::<Vec<_>>()
    };
    let each = lengths(0);
    assert_eq!(each.len(), 32);
    let layer = each[0];
    assert!(each.iter().all(|&bytes| bytes == layer));
    let fused = lengths(4 * layer.bytes());
    assert_eq!(fused[0], layer, "nothing else is ready");
    assert_eq!(fused[1..8], [layer * 4; 7]);
    assert_eq!(fused.iter().copied().sum::<ByteCount>(), layer * 32);
}

#[test]
fn shared_optimizers_have_a_reduce_scatter_and_all_gathers_for_each_bucket() {
    let (found, asked) = overlapped(Split { zero: 3, ..Split::default() }, 0, 1);
    let beside = &asked[2..];
    let of = |collective| beside.iter().filter(move |exchange| exchange.collective == Some(collective));
    assert_eq!(of(Collective::ReduceScatter).count(), 32);
    assert_eq!(of(Collective::AllGather).count(), 32);
    let layer = beside[0].bytes;
    let bytes: ByteCount = of(Collective::ReduceScatter).map(|exchange| exchange.bytes).sum();
    let (_, fused) = overlapped(Split { zero: 3, ..Split::default() }, 4 * layer.bytes(), 1000);
    assert_eq!(fused[2..].len(), 2 * 9, "the threshold is of gradients");
    // Weights are asked for twice.
    assert_eq!(found.replicas, Duration::from_picos(bytes.bytes() * 3));
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
