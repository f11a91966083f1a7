//! Profiles: which rows are read, which shapes they are of, how far the roofline is from them, and what they say of efficiencies. The fixture is
//! made up; `data/profiles` was measured.

use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use quincunx_workload::{Gemm, KernelKind, MeasuredKernel, Profile, Work};

const FIXTURE: &str = include_str!("../fixtures/profile-fixture.json");
const MEASURED: [(&str, &str, u64); 2] = [
    ("h100.json", include_str!("../../../../../data/profiles/h100.json"), 3350),
    ("h200.json", include_str!("../../../../../data/profiles/h200.json"), 4800),
];

fn fixture() -> Profile {
    Profile::parse("fixture", FIXTURE).unwrap()
}

fn rates(gigabytes: u64) -> (FlopRate, BitRate) {
    (FlopRate::new(989_000_000_000_000).unwrap(), BitRate::new(8_000_000_000 * gigabytes).unwrap())
}

/// A row of LLaMA-7B over eight GPUs with one kernel of phase `cais-layer`.
fn of_layer(kernel: &str) -> MeasuredKernel {
    let text = FIXTURE.replace("\"cais\"", "\"cais-layer\"").replace("\"down\"", &format!("\"{kernel}\""));
    let profile = Profile::parse("fixture", &text).unwrap();
    profile.kernels.into_iter().find(|each| each.kernel == kernel).unwrap()
}

#[test]
fn rows_of_the_models_are_read_with_their_shapes() {
    let profile = fixture();
    assert_eq!(profile.sms, 132);
    let found: Vec<_> =
        profile.kernels.iter().map(|each| (each.kernel.as_str(), each.work.clone(), each.time)).collect();
    let down = Work::Gemm(Gemm { m: 9216, n: 4096, k: 1408 });
    let qkv = Work::Gemm(Gemm { m: 9216, n: 1536, k: 4096 });
    assert_eq!(found, [("down", down, Duration::from_micros(160)), ("qkv", qkv, Duration::from_micros(200))]);
}

#[test]
fn a_products_gradients_are_products_of_its_transposed_operands() {
    let shape = |kernel| of_layer(kernel).work;
    assert_eq!(shape("up_input_gradient"), Work::Gemm(Gemm { m: 9216, n: 4096, k: 1408 }));
    assert_eq!(shape("up_weight_gradient"), Work::Gemm(Gemm { m: 1408, n: 4096, k: 9216 }));
}

#[test]
fn a_kernel_bound_by_memory_has_each_value_that_it_reads_or_writes() {
    let all = 9216 * 4096;
    for (kernel, kind, values) in [
        ("norm_all", KernelKind::Norm, 2 * all),
        ("norm_share", KernelKind::Norm, 2 * all / 8),
        ("norm_backward_all", KernelKind::NormBackward, 5 * all),
        ("norm_backward_share", KernelKind::NormBackward, 5 * all / 8),
        ("add_all", KernelKind::Elements, 3 * all),
        ("add_share", KernelKind::Elements, 3 * all / 8),
        ("gelu", KernelKind::Elements, 2 * 9216 * 1408),
        ("gelu_backward", KernelKind::Elements, 3 * 9216 * 1408),
    ] {
        let found = of_layer(kernel);
        assert_eq!((found.kind, found.work), (kind, Work::Elements { values }), "{kernel}");
    }
}

#[test]
fn causal_attention_is_half_of_the_scores_and_of_their_sums() {
    let found = of_layer("attention");
    assert_eq!(found.kind, KernelKind::Attention);
    // Four heads of 128 on each GPU, 3,072 tokens a sequence.
    assert_eq!(found.work.operations(), 2 * (2 * 9216 * 512 * 3072) / 2);
}

#[test]
fn heads_that_are_not_whole_are_measured_as_whole_ones() {
    let text = FIXTURE
        .replace("\"cais\"", "\"cais-layer\"")
        .replace("\"down\"", "\"attention\"")
        .replace("\"llama-7b\", \"tp\": 8", "\"mega-gpt-4b\", \"tp\": 16");
    let profile = Profile::parse("fixture", &text).unwrap();
    let attention = profile.of(KernelKind::Attention).next().unwrap();
    // 24 heads of 85.3 over 16 GPUs: one of 80.
    assert_eq!(attention.work.operations(), 2 * 2 * 16384 * 80 * 512);
}

#[test]
fn the_rooflines_error_is_a_share_of_the_measured_time() {
    let (down, tensor) = (fixture().kernels[0].clone(), FlopRate::new(1_000_000_000_000_000).unwrap());
    let memory = BitRate::new(8 * 3_350_000_000_000).unwrap();
    // 2 * 9216 * 4096 * 1408 operations take 106.3 us at 1 PFLOP/s, and 113 MB less.
    let error = down.error(tensor, memory);
    assert!((error - (106.3 / 160.0 - 1.0)).abs() < 1e-3, "{error}");
    // At a hundredth of the memory's rate traffic decides.
    let slow = BitRate::new(8 * 33_500_000_000).unwrap();
    assert_eq!(down.roofline(tensor, slow), slow.time_for(ByteCount::new(2 * down.work.values())));
}

#[test]
fn a_fit_is_a_constant_and_a_rate() {
    let (tensor, memory) = rates(3350);
    // 9 % more operations in 8 % more time.
    let found = Profile::parse("fixture", &FIXTURE.replace("200.0", "173.0")).unwrap();
    let fit = found.fit(KernelKind::Product, tensor, memory).unwrap();
    assert!(fit.constant > Duration::from_micros(10), "{fit:?}");
    for kernel in &found.kernels {
        assert!(kernel.error_of_fit(fit, tensor, memory).abs() < 1e-6, "{kernel:?}: {fit:?}");
    }
    assert_eq!(fixture().fit(KernelKind::Norm, tensor, memory), None);
}

#[test]
fn where_more_has_taken_less_a_fit_has_no_constant() {
    let (tensor, memory) = rates(3350);
    let profile = Profile::parse("fixture", &FIXTURE.replace("200.0", "100.0")).unwrap();
    let fit = profile.fit(KernelKind::Product, tensor, memory).unwrap();
    // The slower of the two, 160 us for the smaller one.
    let share = profile.kernels[0].work.operations() as f64 / 989e12 / 160e-6;
    assert_eq!(fit.constant, Duration::ZERO);
    assert!((fit.efficiency - share).abs() < 1e-6, "{fit:?} {share}");
}

#[test]
fn a_kernel_that_was_held_up_once_does_not_move_a_fit_far() {
    let (name, text, gigabytes) = MEASURED[0];
    let (mut profile, (tensor, memory)) = (Profile::parse(name, text).unwrap(), rates(gigabytes));
    let before = profile.fit(KernelKind::Norm, tensor, memory).unwrap();
    let slow = profile.kernels.iter_mut().find(|each| each.kernel == "norm_share").unwrap();
    slow.time = Duration::from_millis(1);
    let after = profile.fit(KernelKind::Norm, tensor, memory).unwrap();
    assert!((after.efficiency / before.efficiency - 1.0).abs() < 0.05, "{before:?} {after:?}");
}

/// The error below which so many of a hundred are, whatever its sign.
fn percentile(errors: impl Iterator<Item = f64>, hundredths: usize) -> f64 {
    let mut errors: Vec<f64> = errors.map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    errors[(errors.len() - 1) * hundredths / 100]
}

#[test]
fn measured_profiles_have_all_kernels_of_a_layer() {
    for (name, text, _) in MEASURED {
        let profile = Profile::parse(name, text).unwrap();
        assert_eq!((profile.sms, profile.kernels.len()), (132, 3 * 3 * 4 + 3 * 3 * 21), "{name}");
        for (kind, count) in KernelKind::ALL.into_iter().zip([36 + 108, 9, 18, 18, 36]) {
            assert_eq!(profile.of(kind).count(), count, "{name}: {kind:?}");
        }
    }
}

#[test]
fn no_measured_kernel_is_faster_than_the_data_sheet() {
    for (name, text, gigabytes) in MEASURED {
        let (profile, (tensor, memory)) = (Profile::parse(name, text).unwrap(), rates(gigabytes));
        for kernel in &profile.kernels {
            assert!(kernel.error(tensor, memory) < 0.0, "{name}: {kernel:?}");
        }
    }
}

#[test]
fn the_data_sheets_roofline_is_a_third_to_three_quarters_too_fast() {
    for (name, text, gigabytes) in MEASURED {
        let (profile, (tensor, memory)) = (Profile::parse(name, text).unwrap(), rates(gigabytes));
        for (kind, most) in KernelKind::ALL.into_iter().zip([0.36, 0.78, 0.61, 0.55, 0.42]) {
            let half = percentile(profile.of(kind).map(|each| each.error(tensor, memory)), 50);
            assert!((most - 0.2..most).contains(&half), "{name}: {kind:?} {half}");
        }
    }
}

#[test]
fn a_fit_is_within_a_tenth_of_half_of_the_measured_kernels_and_a_quarter_of_most() {
    for (name, text, gigabytes) in MEASURED {
        let (profile, (tensor, memory)) = (Profile::parse(name, text).unwrap(), rates(gigabytes));
        for kind in KernelKind::ALL {
            let fit = profile.fit(kind, tensor, memory).unwrap();
            let error =
                |at| percentile(profile.of(kind).map(|each| each.error_of_fit(fit, tensor, memory)), at);
            assert!(error(50) < 0.1 && error(85) < 0.25, "{name}: {kind:?} {} {}", error(50), error(85));
        }
    }
}

#[test]
fn what_is_no_profile_is_refused_with_its_place() {
    for (text, wanted) in [
        ("{", "EOF"),
        (&FIXTURE.replace("\"us\"", "\"ms\""), "expected times in \"us\", found \"ms\""),
        (&FIXTURE.replace("down", "sideways"), "found \"sideways\""),
        (&FIXTURE.replace("down", "norm_all"), "expected qkv, out, up or down, found \"norm_all\""),
        (&FIXTURE.replace("\"cais\"", "\"sideways\""), "unknown variant `sideways`"),
        (&FIXTURE.replace("160.0", "-1.0"), "found -1 for down"),
        (&FIXTURE.replace("\"fp16\"", "\"fp8\""), "found none"),
        (&FIXTURE.replace("\"llama-7b\"", "\"llama-8b\""), "found none"),
    ] {
        let error = Profile::parse("a.json", text).unwrap_err().to_string();
        assert!(error.starts_with("a.json: ") && error.contains(wanted), "{error}");
    }
}
