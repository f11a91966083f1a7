//! Profiles: which rows are read, which shapes they are of, and how far the roofline is from them. The fixture is made up.

use quincunx_units::{BitRate, Duration, FlopRate};
use quincunx_workload::{Gemm, Profile};

const FIXTURE: &str = include_str!("../fixtures/profile-fixture.json");

fn fixture() -> Profile {
    Profile::parse("fixture", FIXTURE).unwrap()
}

#[test]
fn rows_of_the_models_are_read_with_their_shapes() {
    let profile = fixture();
    assert_eq!(profile.sms, 132);
    let found: Vec<_> =
        profile.gemms.iter().map(|each| (each.kernel.as_str(), each.gemm, each.time)).collect();
    let down = Gemm { m: 9216, n: 4096, k: 1408 };
    let qkv = Gemm { m: 9216, n: 1536, k: 4096 };
    assert_eq!(found, [("down", down, Duration::from_micros(160)), ("qkv", qkv, Duration::from_micros(200))]);
}

#[test]
fn the_rooflines_error_is_a_share_of_the_measured_time() {
    let (down, tensor) = (fixture().gemms[0].clone(), FlopRate::new(1_000_000_000_000_000).unwrap());
    let memory = BitRate::new(8 * 3_350_000_000_000).unwrap();
    // 2 * 9216 * 4096 * 1408 operations take 106.3 us at 1 PFLOP/s, and 113 MB less.
    let error = down.error(tensor, memory);
    assert!((error - (106.3 / 160.0 - 1.0)).abs() < 1e-3, "{error}");
    // At a hundredth of the memory's rate traffic decides.
    let slow = BitRate::new(8 * 33_500_000_000).unwrap();
    assert_eq!(
        down.roofline(tensor, slow),
        slow.time_for(quincunx_units::ByteCount::new(2 * down.gemm.values()))
    );
}

#[test]
fn what_has_been_reached_is_all_operations_over_all_time() {
    let operations = 2.0 * 9216.0 * (4096.0 * 1408.0 + 1536.0 * 4096.0);
    let reached = fixture().reached().unwrap().operations_per_second() as f64;
    assert!((reached / (operations / 360e-6) - 1.0).abs() < 1e-9, "{reached}");
}

#[test]
fn what_is_no_profile_is_refused_with_its_place() {
    for (text, wanted) in [
        ("{", "EOF"),
        (&FIXTURE.replace("\"us\"", "\"ms\""), "expected times in \"us\", found \"ms\""),
        (&FIXTURE.replace("down", "sideways"), "found \"sideways\""),
        (&FIXTURE.replace("160.0", "-1.0"), "found -1 for down"),
        (&FIXTURE.replace("\"fp16\"", "\"fp8\""), "found none"),
        (&FIXTURE.replace("\"llama-7b\"", "\"llama-8b\""), "found none"),
    ] {
        let error = Profile::parse("a.json", text).unwrap_err().to_string();
        assert!(error.starts_with("a.json: ") && error.contains(wanted), "{error}");
    }
}
