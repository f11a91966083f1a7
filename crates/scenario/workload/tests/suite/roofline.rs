//! How long layers take.

use quincunx_scenario::{Gpu, Training};
use quincunx_units::Duration;
use quincunx_workload::{Fusion, Model, Pass, iterate, passes, step};

/// A trillion operations and a trillion bytes a second.
fn unit() -> Training {
    let gpu = Gpu { rate: "1TFLOP/s".parse().unwrap(), memory: "1TB/s".parse().unwrap(), tile: 1 };
    Training { gpu, ..Training::default() }
}

fn one(layer: &str, training: &Training) -> Vec<Pass> {
    let text = format!("name = \"one\"\nsource = \"here\"\nbatch = 1\nlayers = [{layer}]");
    passes(&Model::parse("one", &text).unwrap(), training)
}

const DENSE: &str = r#"{ name = "fc", kind = "dense", in = 1000, out = 1000, then = [] }"#;

#[test]
fn a_layer_takes_the_longer_of_arithmetic_and_memory() {
    let layers = [DENSE, DENSE].join(",");
    // Two million operations; four million bytes of weights and 8,000 of values.
    assert_eq!(one(&layers, &unit())[1].forward, Duration::from_nanos(4_008));
    let mut slow = unit();
    slow.gpu.rate = "100GFLOP/s".parse().unwrap();
    assert_eq!(one(&layers, &slow)[1].forward, Duration::from_micros(20));
}

#[test]
fn the_backward_pass_is_twice_the_forward_pass_but_for_the_first_layer() {
    let passes = one(&[DENSE, DENSE].join(","), &unit());
    assert_eq!(passes[1].backward, passes[1].forward * 2);
    assert_eq!(passes[0].backward, passes[0].forward, "samples need no gradient");
}

#[test]
fn what_is_done_to_outputs_is_traffic_alone() {
    let plain = one(DENSE, &unit())[0];
    // Outputs of 4,000 bytes, and how often each is read or written, forward and backward.
    for (then, forward, backward) in
        [("bias", 2, 1), ("norm", 3, 5), ("relu", 2, 3), ("lrn", 2, 4), ("add", 3, 3)]
    {
        let found = one(&DENSE.replace("[]", &format!("[\"{then}\"]")), &unit())[0];
        assert_eq!(found.forward - plain.forward, Duration::from_nanos(4 * forward), "{then}");
        assert_eq!(found.backward - plain.backward, Duration::from_nanos(4 * backward), "{then}");
    }
}

#[test]
fn a_batch_twice_as_large_takes_twice_the_arithmetic() {
    let conv = r#"{ name = "c", kind = "conv", in = 64, out = 64, kernel = 3, stride = 1, from = 32, to = 32, then = ["norm", "relu"] }"#;
    let time = |batch| one(conv, &Training { batch: Some(batch), ..unit() })[0].forward;
    assert_eq!(time(4), time(2) * 2);
}

#[test]
fn tiles_save_what_the_kernel_and_the_stride_let_them() {
    let conv = |kernel: u32, stride: u32| {
        format!(
            r#"{{ name = "c", kind = "conv", in = 512, out = 512, kernel = {kernel}, stride = {stride}, from = 32, to = {}, then = [] }}"#,
            32 / stride
        )
    };
    let saves = |kernel, stride| {
        let mut tiled = unit();
        tiled.gpu.tile = 4;
        let [direct, tiled] =
            [unit(), tiled].map(|training| one(&conv(kernel, stride), &training)[0].forward);
        direct.as_secs_f64() / tiled.as_secs_f64()
    };
    // (4 * 3 / 6)^2 and (4 * 5 / 8)^2.
    assert_eq!([saves(3, 1), saves(5, 1)], [4.0, 6.25]);
    assert_eq!([saves(1, 1), saves(3, 2), saves(7, 2)], [1.0; 3]);
}

/// Samples a second on one accelerator, with nobody to talk to.
fn alone(name: &str) -> f64 {
    let (model, training) = (Model::find(name).unwrap(), Training::default());
    let passes = passes(&model, &training);
    let step = step(&passes, training.gpu.memory);
    let iteration = iterate(&passes, &Fusion::of(&training), step, |_| Ok::<_, ()>(Duration::ZERO)).unwrap();
    f64::from(model.batch) / iteration.compute.as_secs_f64()
}

/// github.com/ggg17226/rtx2080-dl-benchmark, benchmark-tf.md: a GeForce RTX 2080, TensorFlow 1.11, cuDNN 7.3, FP32, at our batches.
#[test]
fn the_default_accelerator_is_a_geforce_rtx_2080() {
    // This one calibrates the rate.
    let found = alone("resnet-50");
    assert!((found / 192.91 - 1.0).abs() < 0.01, "{found:.1}");
    // These have calibrated nothing. AlexNet is the one that is called AlexNetOWT there; GoogLeNet has no auxiliary classifiers there.
    for (name, measured) in [
        ("alexnet", 2526.05),
        ("googlenet", 555.49),
        ("vgg-11", 260.31),
        ("vgg-16", 128.15),
        ("vgg-19", 111.23),
    ] {
        let found = alone(name);
        assert!((found / measured - 1.0).abs() < 0.25, "{name}: {measured} measured, {found:.1} found");
    }
}
