//! What the machine of a layer is: efficiencies that a GPU was measured to reach, by a profile or by the preset that was calibrated from one, and
//! what they do to kernels.

use crate::layers::scenario;
use quincunx_accelerator::Machine;
use quincunx_designs::CATALOG;
use quincunx_scenario::{Fabric, MachineSetup, Override, Scenario};
use quincunx_sim::layer::{LayerError, calibrated, machine, outside};
use quincunx_sim::memory_fabric::MemoryFabric;
use quincunx_units::{ByteCount, Duration};
use quincunx_workload::{Gemm, Work};

fn preset(set: &[&str]) -> Result<MachineSetup, LayerError> {
    let changes: Vec<Override> = set.iter().map(|change| change.parse().unwrap()).collect();
    calibrated(&Scenario::find("cais-dgx8", &changes, CATALOG).unwrap())
}

fn profile(name: &str) -> String {
    format!("machine.profile={}/../../../data/profiles/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn of(set: &[&str]) -> (Machine, MachineSetup) {
    let scenario = scenario(set);
    let Fabric::Memory(fabric) = &scenario.fabric else { panic!("a memory fabric") };
    (machine(&MemoryFabric::from(fabric), &scenario.machine, 1, 1), scenario.machine)
}

#[test]
fn the_presets_efficiencies_are_those_that_an_h100_was_measured_to_reach() {
    let (preset, measured) = (preset(&[]).unwrap(), self::preset(&[&profile("h100")]).unwrap());
    let efficiencies = |setup: &MachineSetup| {
        [
            setup.attention_efficiency,
            setup.norm_efficiency,
            setup.norm_backward_efficiency,
            setup.element_efficiency,
        ]
    };
    for (preset, measured) in efficiencies(&preset).into_iter().zip(efficiencies(&measured)) {
        assert!((preset - measured).abs() < 0.001, "{preset} {measured}");
    }
}

#[test]
fn a_profile_sets_what_products_reach_on_half_of_the_gpu_that_was_measured() {
    for (gpu, name, share) in [("h100-half", "h100", 0.817), ("h200-half", "h200", 0.804)] {
        let setup = preset(&[&profile(name), &format!("machine.gpu={gpu}")]).unwrap();
        let half = setup.gpu.data_sheet().tensor.operations_per_second() as f64;
        let reached = setup.gpu().tensor.operations_per_second() as f64 / half;
        assert!((reached - share).abs() < 0.001, "{name}: {reached}");
    }
}

#[test]
fn a_profile_that_is_not_there_is_refused_with_its_name() {
    let error = preset(&["machine.profile=nowhere.json"]).unwrap_err().to_string();
    assert!(error.starts_with("nowhere.json: "), "{error}");
}

#[test]
fn a_kernel_takes_its_roofline_over_what_its_kind_reaches() {
    let memory = ["machine.memory=100GB/s", "machine.launch=1us"];
    let (machine, setup) =
        of(&[&memory[..], &["machine.attention_efficiency=0.5", "machine.element_efficiency=0.25"]].concat());
    let launch = Duration::from_micros(1);
    // 2e9 operations at 1 TFLOP/s; next to no traffic.
    let product = Gemm { m: 1000, n: 1000, k: 1000 };
    assert_eq!(outside(&Work::Gemm(product), &machine, &setup), Duration::from_millis(2) + launch);
    let attention = Work::Fused { gemms: vec![product], values: 1 };
    assert_eq!(outside(&attention, &machine, &setup), Duration::from_millis(4) + launch);
    // 4 MB at 100 GB/s.
    let elements = Work::Elements { values: 1_000_000 };
    assert_eq!(outside(&elements, &machine, &setup), Duration::from_micros(160) + launch);
}

#[test]
fn a_normalisations_gradient_has_an_access_and_an_efficiency_of_its_own() {
    let (machine, _) = of(&[
        "machine.memory=100GB/s",
        "machine.norm_efficiency=0.5",
        "machine.norm_backward_efficiency=0.25",
    ]);
    let rows = ByteCount::new(1_000_000);
    // Ten microseconds a pass: two at half of the rate and the residual; three at a quarter of it, and the residual.
    assert_eq!(machine.norm_time(rows, false), Duration::from_micros(50));
    assert_eq!(machine.norm_time(rows, true), Duration::from_micros(130));
}

#[test]
fn a_scale_makes_products_and_memory_faster_alike_and_what_is_said_outright_no_faster() {
    let sheet = |set: &[&str]| preset(set).unwrap().gpu();
    let [once, twice] = ["machine.scale=1", "machine.scale=2"].map(|scale| sheet(&[scale]));
    assert_eq!(twice.memory.bits_per_second(), 2 * once.memory.bits_per_second());
    let products = twice.tensor.operations_per_second() as f64 / once.tensor.operations_per_second() as f64;
    assert!((products - 2.0).abs() < 1e-9, "{products}");
    let set = ["machine.scale=2", "machine.tensor=1TFLOP/s", "machine.memory=100GB/s"];
    let said = sheet(&set);
    assert_eq!((said.tensor, said.memory), (sheet(&set[1..]).tensor, sheet(&set[1..]).memory));
}

#[test]
fn a_profile_is_of_a_real_gpu_and_has_no_scale() {
    assert_eq!(preset(&[&profile("h100")]).unwrap().scale, 1.0);
}

#[test]
fn an_efficiency_of_nothing_or_more_than_all_is_refused() {
    for key in ["attention", "norm", "norm_backward", "element"] {
        for value in ["0", "1.01", "-1"] {
            let change = format!("machine.{key}_efficiency={value}").parse::<Override>().unwrap();
            let error = Scenario::find("cais-dgx8", &[change], CATALOG).unwrap_err().to_string();
            assert!(error.contains("_efficiency` above zero, one at most"), "{error}");
        }
    }
}
