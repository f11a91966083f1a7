//! Models are what their publications say.

use quincunx_workload::{Layer, Model};

fn model(name: &str) -> Model {
    Model::find(name).unwrap()
}

#[test]
fn parameters_are_those_of_the_publications() {
    let found: Vec<_> = Model::names().iter().map(|name| model(name).parameters()).collect();
    // In the order of names: AlexNet on one GPU, GoogLeNet with both auxiliary classifiers, ResNet-50, VGG-11, VGG-16 and VGG-19.
    assert_eq!(found, [61_838_248, 13_378_280, 25_557_032, 132_863_336, 138_357_544, 143_667_240]);
}

#[test]
fn gradients_are_as_long_as_table_viii_of_allreduce_switch_says() {
    let table = [
        ("alexnet", 236.0),
        ("googlenet", 51.0),
        ("resnet-50", 98.0),
        ("vgg-11", 507.0),
        ("vgg-16", 528.0),
        ("vgg-19", 548.0),
    ];
    for (name, published) in table {
        let found = model(name).gradients().bytes() as f64 / f64::from(1 << 20);
        // 98 counts 0.2 MiB of running means and variances, too, which have no gradients.
        let allowed = if name == "resnet-50" { 0.51 } else { 0.5 };
        assert!((found - published).abs() < allowed, "{name}: {published} published, {found:.2} found");
    }
}

#[test]
fn multiplications_of_a_sample_are_as_many_as_published() {
    // He et al., 2016, table 1 and section 3.3; Szegedy et al., 2015, section 1, without the auxiliary classifiers.
    for (name, billions) in [("resnet-50", 3.8), ("vgg-19", 19.6), ("googlenet", 1.5)] {
        let found = model(name).operations() as f64 / 2e9;
        assert!((found / billions - 1.0).abs() < 0.07, "{name}: {billions} published, {found:.2} found");
    }
}

#[test]
fn sides_of_images_follow_from_kernels_and_strides() {
    for name in Model::names() {
        for layer in model(&name).layers {
            let Layer::Conv(conv) = &layer else { continue };
            let padded = conv.from.div_ceil(conv.stride);
            let unpadded = (conv.from - conv.kernel) / conv.stride + 1;
            assert!([padded, unpadded].contains(&conv.to), "{name}: {}", layer.name());
        }
    }
}

#[test]
fn layers_without_branches_read_what_the_one_before_writes() {
    for name in ["alexnet", "vgg-11", "vgg-16", "vgg-19"] {
        let mut written = [3, 0];
        for layer in model(name).layers {
            let (read, writes) = match &layer {
                Layer::Conv(conv) => ([conv.inputs, 0], [conv.outputs, conv.to]),
                Layer::Pool(pool) => ([pool.channels, 0], [pool.channels, pool.to]),
                Layer::Dense(dense) => ([dense.inputs, 0], [dense.outputs, 1]),
            };
            let values = if matches!(layer, Layer::Dense(_)) {
                written[0] * written[1] * written[1]
            } else {
                written[0]
            };
            assert_eq!(read[0], values, "{name}: {}", layer.name());
            written = writes;
        }
    }
}

#[test]
fn batches_are_the_papers() {
    let found: Vec<_> = Model::names().iter().map(|name| model(name).batch).collect();
    assert_eq!(found, [128, 128, 64, 64, 64, 64]);
}

#[test]
fn an_unknown_model_tells_which_there_are() {
    let message = Model::find("resnet-51").unwrap_err().to_string();
    assert!(message.contains("googlenet, resnet-50") && message.contains("found \"resnet-51\""), "{message}");
}

#[test]
fn a_file_that_makes_no_sense_is_refused_in_a_line() {
    let layer = r#"{ name = "fc", kind = "dense", in = 2, out = 3, then = ["bias"] }"#;
    let text = |layers: &str, batch: u32| {
        format!("name = \"tiny\"\nsource = \"here\"\nbatch = {batch}\nlayers = [{layers}]")
    };
    assert_eq!(Model::parse("tiny", &text(layer, 1)).unwrap().parameters(), 9);
    for wrong in [
        text("", 1),
        text(layer, 0),
        text(&layer.replace("in = 2", "inn = 2"), 1),
        text(&layer.replace("in = 2", "side = 1, in = 2"), 1),
        text(&layer.replace("dense", "sparse"), 1),
        text(&layer.replace("bias", "dropout"), 1),
    ] {
        let message = Model::parse("tiny", &wrong).unwrap_err().to_string();
        assert!(message.starts_with("tiny: ") && !message.contains('\n'), "{message}");
    }
}
