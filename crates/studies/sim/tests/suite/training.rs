//! Iterations of training whose collectives are simulated.

use quincunx_collective::Collective;
use quincunx_sim::{
    Outputs, Request, TrainingError, TrainingMeasurement, ignore_progress, measure, measure_training,
};
use quincunx_units::Duration;

use crate::requests::{lengths, request, scenario};

/// A model on two hosts of 100 Gbit/s.
fn asked(changes: &[&str], design: &str) -> Request {
    let scenario = scenario("star-2", &[&["train.model=googlenet"], changes].concat());
    lengths(request(&scenario, design, Collective::AllReduce, 0))
}

fn train(changes: &[&str], design: &str) -> TrainingMeasurement {
    measure_training(&asked(changes, design), &mut ignore_progress).unwrap()
}

/// All of its gradients in one bucket, which is longer than what is simulated whole.
const AT_ONCE: [&str; 2] = ["train.overlap=false", "train.fusion=1GiB"];

#[test]
fn a_long_bucket_takes_what_a_whole_simulation_of_it_takes() {
    let testbed = ["link.rate=10Gbit/s", "group.mtu=1KiB", "hosts.lockstep=false"];
    let changes = &[&AT_ONCE[..], &testbed].concat();
    for design in ["ring", "epic-3", "epic-1"] {
        let found = train(changes, design);
        let [bucket] = found.iteration.buckets[..] else { panic!("{found:?}") };
        assert_eq!(bucket.size.bytes(), 4 * 13_378_280);
        let whole = Request { size: bucket.size, ..asked(changes, design) };
        let whole = measure(&whole, Outputs::default(), &mut ignore_progress).unwrap();
        assert!(found.steps < whole.steps, "{design}: it is not simulated whole");
        let error = found.iteration.communication.as_secs_f64() / whole.time.as_secs_f64() - 1.0;
        assert!(error.abs() < 0.001, "{design}: {error:.6}");
    }
}

#[test]
fn a_long_bucket_is_simulated_whole_where_frames_may_be_lost() {
    let changes = [&AT_ONCE[..], &["loss.probability=0.001%"]].concat();
    let found = train(&changes, "epic-3");
    let whole = Request { size: found.iteration.buckets[0].size, ..asked(&changes, "epic-3") };
    assert_eq!(
        found.iteration.communication,
        measure(&whole, Outputs::default(), &mut ignore_progress).unwrap().time
    );
}

#[test]
fn all_steps_of_its_simulations_are_counted() {
    let found = train(&["train.fusion=4MiB", "train.overlap=false"], "ring");
    let mut sizes: Vec<_> = found.iteration.buckets.iter().map(|bucket| bucket.size).collect();
    sizes.sort();
    sizes.dedup();
    assert!(sizes.len() > 3);
    let steps = |size: &_| {
        let alone = Request { size: *size, ..asked(&[], "ring") };
        measure(&alone, Outputs::default(), &mut ignore_progress).unwrap().steps
    };
    assert_eq!(found.steps, sizes.iter().map(steps).sum::<u64>());
}

#[test]
fn a_faster_switch_shows_only_as_far_as_computation_does_not_hide_it() {
    // Two ranks' ring carries no more than a switch does.
    let four = "topology=star-4";
    let hidden = ["ring", "epic-3"].map(|design| train(&["train.batch=128", four], design).iteration);
    assert!(hidden[1].communication < hidden[0].communication);
    let speedup = |[ring, switch]: &[Duration; 2]| ring.as_secs_f64() / switch.as_secs_f64();
    let behind = speedup(&hidden.map(|iteration| iteration.time));
    let at_once = [&AT_ONCE[..], &[four]].concat();
    let exposed = speedup(&["ring", "epic-3"].map(|design| train(&at_once, design).iteration.time));
    assert!(1.0 <= behind && behind < exposed, "{behind} and {exposed}");
}

#[test]
fn copies_through_the_host_take_longer_the_slower_they_are() {
    let time = |copy: &[&str]| train(&[&AT_ONCE[..], copy].concat(), "epic-3").iteration.time;
    let (none, fast, slow) = (time(&[]), time(&["train.copy=12GB/s"]), time(&["train.copy=6GB/s"]));
    let [fast, slow] = [fast, slow].map(|copied| (copied - none).as_secs_f64());
    assert!((fast - 2.0 * 4.0 * 13_378_280.0 / 12e9).abs() < 1e-9, "{fast}");
    assert!((slow / fast - 2.0).abs() < 1e-6);
}

#[test]
fn a_processor_that_adds_up_takes_all_parts_of_a_gradient_but_its_own() {
    let time =
        |rate: &[&str]| train(&[&AT_ONCE[..], &["topology=star-4"], rate].concat(), "ring").iteration.time;
    let more = (time(&["train.reduction=6GB/s"]) - time(&[])).as_secs_f64();
    assert!((more - 0.75 * 4.0 * 13_378_280.0 / 6e9).abs() < 1e-9, "{more}");
}

#[test]
fn samples_of_all_ranks_count() {
    let found = train(&["train.batch=10"], "ring");
    let expected = 2.0 * 10.0 / found.iteration.time.as_secs_f64();
    assert!((found.samples_per_second() - expected).abs() < 1e-6);
    assert_eq!((found.batch, found.ranks), (10, 2));
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let refused = |fabric: &str, changes: &[&str]| {
        let request = request(&scenario(fabric, changes), "direct", Collective::AllReduce, 0);
        measure_training(&request, &mut ignore_progress).unwrap_err()
    };
    let error = refused("star-2", &[]).to_string();
    assert!(error.contains("train.model") && error.contains("resnet-50"), "{error}");
    assert!(refused("star-2", &["train.model=lenet"]).to_string().contains("\"lenet\""));
    assert_eq!(refused("mesh8", &["train.model=vgg-16"]), TrainingError::Domains { domains: 2 });
}
