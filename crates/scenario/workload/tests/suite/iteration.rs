//! What of an iteration waits for the network.

use proptest::prelude::*;
use quincunx_scenario::Training;
use quincunx_units::{ByteCount, Duration};
use quincunx_workload::{Fusion, Iteration, Pass, iterate, step};

const US: Duration = Duration::from_micros(1);

/// A layer of so many microseconds forward and backward, with so many bytes of gradients.
fn pass(forward: u64, backward: u64, gradient: u64) -> Pass {
    Pass { forward: US * forward, backward: US * backward, gradient: ByteCount::new(gradient) }
}

/// As soon as there is a gradient, each for itself; the step takes no time worth counting.
fn training() -> Training {
    let mut training = Training { fusion: ByteCount::new(0), cycle: Duration::ZERO, ..Training::default() };
    training.gpu.memory = "1000TB/s".parse().unwrap();
    training
}

/// A network that takes so long for a byte.
fn taking(passes: &[Pass], training: &Training, byte: Duration) -> Iteration {
    let step = step(passes, training.gpu.memory);
    iterate(passes, &Fusion::of(training), step, |size| Ok::<_, ()>(byte * size.bytes())).unwrap()
}

/// A network that takes a microsecond for a byte.
fn run(passes: &[Pass], training: &Training) -> Iteration {
    taking(passes, training, US)
}

/// Microseconds, rounded.
fn micros(time: Duration) -> u64 {
    (time.as_micros_f64()).round() as u64
}

fn sizes(iteration: &Iteration) -> Vec<u64> {
    iteration.buckets.iter().map(|bucket| bucket.size.bytes()).collect()
}

fn begins(iteration: &Iteration) -> Vec<u64> {
    iteration.buckets.iter().map(|bucket| micros(bucket.begin)).collect()
}

#[test]
fn gradients_are_sent_from_the_last_layer_to_the_first() {
    let iteration = run(&[pass(1, 1, 10), pass(1, 1, 20), pass(1, 1, 30)], &training());
    assert_eq!(sizes(&iteration), [30, 20, 10]);
}

#[test]
fn communication_that_fits_behind_the_backward_pass_is_hidden() {
    let iteration = run(&[pass(10, 100, 1), pass(10, 100, 90)], &training());
    assert_eq!([micros(iteration.compute), micros(iteration.time)], [220, 221], "but for the first layer's");
    assert_eq!([micros(iteration.communication), micros(iteration.hidden())], [91, 90]);
}

#[test]
fn what_does_not_fit_is_waited_for() {
    let iteration = run(&[pass(10, 100, 1), pass(10, 100, 300)], &training());
    assert_eq!(micros(iteration.time), 20 + 100 + 300 + 1);
    assert_eq!([micros(iteration.exposed()), micros(iteration.hidden())], [201, 100]);
}

#[test]
fn a_bucket_begins_when_it_is_ready_and_the_one_before_is_over() {
    let iteration = run(&[pass(10, 50, 5), pass(10, 20, 5), pass(10, 20, 30)], &training());
    // Ready at 50, 70 and 120; the first is over at 80.
    assert_eq!(begins(&iteration), [50, 80, 120]);
}

#[test]
fn gradients_that_are_ready_together_are_sent_together_as_far_as_they_fit() {
    let passes = [pass(0, 1, 4), pass(0, 1, 4), pass(0, 1, 4), pass(0, 1, 30)];
    let fused = |bytes| run(&passes, &Training { fusion: ByteCount::new(bytes), ..training() });
    // The last layer's goes alone, for it is ready first; the others are ready when it is over.
    assert_eq!(sizes(&fused(64)), [30, 12]);
    assert_eq!(fused(64).buckets[1].layers, 3);
    assert_eq!(sizes(&fused(11)), [30, 8, 4]);
    assert_eq!(sizes(&fused(0)), [30, 4, 4, 4]);
}

#[test]
fn gradients_that_are_not_ready_are_not_waited_for() {
    let passes = [pass(0, 100, 4), pass(0, 1, 4)];
    let iteration = run(&passes, &Training { fusion: ByteCount::new(64), ..training() });
    assert_eq!((sizes(&iteration), begins(&iteration)), (vec![4, 4], vec![1, 101]));
}

#[test]
fn a_gradient_that_is_longer_than_the_fusion_goes_alone() {
    let passes = [pass(0, 1, 4), pass(0, 1, 100), pass(0, 0, 4)];
    let mut training = Training { fusion: ByteCount::new(50), overlap: false, ..training() };
    assert_eq!(sizes(&run(&passes, &training)), [4, 100, 4]);
    training.fusion = ByteCount::new(104);
    assert_eq!(sizes(&run(&passes, &training)), [104, 4]);
}

#[test]
fn layers_without_parameters_send_nothing() {
    let iteration = run(&[pass(1, 1, 10), pass(1, 5, 0)], &training());
    assert_eq!((sizes(&iteration), begins(&iteration)), (vec![10], vec![8]));
}

#[test]
fn without_overlap_all_of_it_is_waited_for() {
    let passes = [pass(10, 100, 20), pass(10, 100, 30)];
    let iteration = run(&passes, &Training { overlap: false, ..training() });
    assert_eq!((micros(iteration.time), micros(iteration.hidden())), (220 + 50, 0));
    assert_eq!(begins(&iteration), [220, 250]);
}

#[test]
fn a_copy_to_the_host_and_one_back_belong_to_each_bucket() {
    let passes = [pass(10, 10, 20), pass(10, 10, 30)];
    let copied = Training { copy: Some("1MB/s".parse().unwrap()), overlap: false, ..training() };
    // A microsecond for a byte there, on the network, and back.
    let iteration = run(&passes, &copied);
    assert_eq!([micros(iteration.time), micros(iteration.communication)], [40 + 3 * 50, 3 * 50]);
}

#[test]
fn it_is_looked_for_gradients_at_every_tick_and_after_each_bucket() {
    let passes = [pass(0, 30, 5), pass(0, 2, 5), pass(0, 3, 5)];
    let ticking = Training { cycle: US * 10, fusion: ByteCount::new(64), ..training() };
    // Ready at 3, 5 and 35: two are there at the tick of 10.
    let iteration = run(&passes, &ticking);
    assert_eq!((sizes(&iteration), begins(&iteration)), (vec![10, 5], vec![10, 40]));
    let busy = [pass(0, 1, 5), pass(0, 1, 12)];
    assert_eq!(begins(&run(&busy, &ticking)), [10], "both are ready at the first tick");
    let unfused = Training { fusion: ByteCount::new(0), ..ticking };
    assert_eq!(begins(&run(&busy, &unfused)), [10, 22], "no tick is waited for while something is ready");
}

#[test]
fn the_step_reads_and_writes_each_parameter_when_all_sums_are_there() {
    let mut training = training();
    training.gpu.memory = "1MB/s".parse().unwrap();
    let iteration = run(&[pass(10, 10, 50)], &training);
    assert_eq!([micros(iteration.compute), micros(iteration.time)], [20 + 150, 20 + 50 + 150]);
}

#[test]
fn samples_of_all_ranks_are_counted() {
    let iteration = run(&[pass(10, 10, 30)], &training());
    assert!((iteration.samples_per_second(4) - 4.0 / 50e-6).abs() < 1.0);
}

proptest! {
    #[test]
    fn every_byte_is_sent_once_and_nothing_at_the_same_time(
        layers in prop::collection::vec((0_u64..50, 0_u64..50, 0_u64..50), 1..20),
        fusion in 0_u64..100,
        cycle in 0_u64..20,
        overlap: bool,
    ) {
        let passes: Vec<_> = layers.iter().map(|&(forward, backward, size)| pass(forward, backward, size)).collect();
        let training = Training { fusion: ByteCount::new(fusion), cycle: US * cycle, overlap, ..training() };
        let found = run(&passes, &training);
        prop_assert_eq!(sizes(&found).iter().sum::<u64>(), layers.iter().map(|layer| layer.2).sum::<u64>());
        for pair in found.buckets.windows(2) {
            prop_assert!(pair[0].end <= pair[1].begin);
        }
        for bucket in &found.buckets {
            prop_assert!(bucket.ready <= bucket.begin && bucket.end <= found.time);
            prop_assert!(bucket.layers == 1 || bucket.size.bytes() <= fusion);
        }
        prop_assert!(found.time >= found.compute.max(found.communication));
    }

    #[test]
    fn a_faster_network_never_takes_longer(
        layers in prop::collection::vec((0_u64..50, 0_u64..50, 0_u64..50), 1..20),
        fusion in 0_u64..100,
    ) {
        let passes: Vec<_> = layers.iter().map(|&(forward, backward, size)| pass(forward, backward, size)).collect();
        let training = Training { fusion: ByteCount::new(fusion), ..training() };
        let time = |byte: Duration| taking(&passes, &training, byte).time;
        prop_assert!(time(US) <= time(US * 2));
    }
}
