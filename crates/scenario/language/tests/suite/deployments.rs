//! Deployments as files.

use quincunx_language::{Deployment, Source, Split};
use quincunx_scenario::{Document, Override};
use quincunx_units::ByteCount;

const FILE: &str = r#"
model = "llama2-7b"
[split]
tp = 8
[network]
fabric = "scin-dgx8"
designs = ["ring", "scin"]
[inference]
batch = 1
prompt = 128
"#;

fn read(changes: &[&str]) -> Result<Deployment, String> {
    let mut document = Document::parse("file", FILE).unwrap();
    for change in changes {
        document.set(&change.parse::<Override>().unwrap()).unwrap();
    }
    Deployment::read("file", &document).map_err(|error| error.to_string())
}

#[test]
fn every_preset_can_be_read_and_its_model_split() {
    for name in Deployment::presets() {
        let deployment = Deployment::find(&name, &[]).unwrap();
        let model = deployment.decoder().unwrap();
        deployment.timing().unwrap();
        assert!(deployment.memory(&model).all().bytes() > 0, "{name}");
    }
}

#[test]
fn what_is_not_said_is_an_accelerator_of_the_project_with_products_of_sixteen_bits() {
    let deployment = read(&[]).unwrap();
    assert_eq!(deployment.split, Split { tp: 8, ..Split::default() });
    let timing = deployment.timing().unwrap();
    assert_eq!(timing.profile, None);
    let inference = deployment.inference.unwrap();
    let (_, source) =
        timing.layer(&deployment.decoder().unwrap(), &deployment.split, inference.decode()).unwrap();
    assert_eq!(source, Source::Roofline);
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    for (change, expected) in [
        ("inference.batch=0", "expected a batch and tokens of one or more"),
        ("inference.prompt=9000000000", "4294967296 together at most"),
        ("inference.answer=3", "unknown field `answer`"),
        ("training.batch=0", "missing field `sequence`"),
        ("products=fp4", "unknown variant `fp4`"),
        ("serving.load=2.5", "missing field `requests`"),
        ("split.tp=-1", "invalid value"),
    ] {
        let error = read(&[change]).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{change}: {error}");
    }
    let replicas = ["training.batch=6", "training.sequence=128", "split.dp=4"];
    assert!(
        read(&replicas).unwrap_err().contains("in multiples of 4 replicas with 1 sequences each, found 6")
    );
    let parts = ["training.batch=6", "training.sequence=128", "training.micro_batch=4"];
    assert!(read(&parts).unwrap_err().contains("1 replicas with 4 sequences each, found 6"));
    let split = read(&["split.tp=3"]).unwrap().decoder().unwrap_err();
    assert!(split.contains("found 3 for 32; choose another"), "{split}");
    assert!(read(&["gpu=b9000"]).unwrap().timing().unwrap_err().contains("found \"b9000\""));
    let profile = read(&["profile=nowhere.json"]).unwrap().timing().unwrap_err();
    assert!(
        profile.starts_with("expected a profile (h100, h200) or a file, found nowhere.json"),
        "{profile}"
    );
    let fp8 = read(&["gpu=a100", "products=fp8"]).unwrap().timing().unwrap_err();
    assert!(fp8.contains("the accelerator has none of 8"), "{fp8}");
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_what_takes_its_memory() {
    let deployment = read(&["model=llama2-70b", "split.tp=1", "gpu=h100"]).unwrap();
    let capacity = deployment.timing().unwrap().accelerator.capacity;
    let error = deployment.fits(&deployment.decoder().unwrap(), capacity).unwrap_err();
    assert!(
        error.starts_with("expected llama2-70b in 80 GB of an accelerator, found 138 GB (weights 138,"),
        "{error}"
    );
    let memory = deployment.memory(&deployment.decoder().unwrap());
    assert_eq!(
        deployment.fits(&deployment.decoder().unwrap(), Some(memory.all())),
        Ok(memory),
        "to the byte"
    );
    let eight = read(&["model=llama2-70b", "gpu=h100"]).unwrap();
    assert!(eight.fits(&eight.decoder().unwrap(), capacity).is_ok());
}

#[test]
fn memory_is_that_of_the_phase_with_more_tokens() {
    let kept = |prompt: &str, context: &str| {
        let deployment = read(&[prompt, context]).unwrap();
        deployment.memory(&deployment.decoder().unwrap()).kept.bytes()
    };
    let tokens = |count: u64| count * 2 * 4 * 128 * 32 * 2;
    assert_eq!(kept("inference.prompt=4096", "inference.context=16"), tokens(4096));
    assert_eq!(kept("inference.prompt=16", "inference.context=4096"), tokens(4096));
}

fn serving(changes: &[&str]) -> Result<Deployment, String> {
    read(&[&["serving.requests=conversations"], changes].concat())
}

#[test]
fn loads_are_fractions_and_stay_within_what_can_be_counted() {
    assert_eq!(serving(&["serving.load=2.5"]).unwrap().serving.unwrap().load, 2.5);
    for wrong in
        ["serving.load=0", "serving.load=-1.5", "serving.load=1000000", "serving.batch=0", "serving.tokens=0"]
    {
        let error = serving(&[wrong]).unwrap_err();
        assert!(
            error.contains("expected a `load` of 0.001 to 1000 and a batch and tokens of one or more"),
            "{error}"
        );
    }
}

#[test]
fn requests_go_through_one_replica_of_one_stage() {
    for wrong in ["split.dp=2", "split.pp=2"] {
        let error = serving(&[wrong]).unwrap_err();
        assert!(error.contains("expected one stage and one replica for [serving]"), "{error}");
    }
}

#[test]
fn memory_beside_the_model_says_how_many_tokens_there_is_room_for() {
    let deployment = serving(&[]).unwrap();
    let model = deployment.decoder().unwrap();
    let room = |gib: u64| deployment.requests(&model, Some(ByteCount::new(gib << 30)));
    // LLaMA-2 7B over eight: 1.7 GB of weights each, and 4 heads of keys and of values of 128 numbers in 32 layers a token: 65536 B.
    let weights = deployment.memory(&model).weights.bytes();
    let (requests, tokens) = room(4).unwrap().unwrap();
    assert_eq!((requests.len(), tokens), (400, ((4 << 30) - weights) / 65536));
    let error = room(1).unwrap_err();
    assert!(error.contains("tokens of the longest request beside llama2-7b, found it for 0"), "{error}");
    assert_eq!(deployment.requests(&model, None).unwrap().unwrap().1, u64::MAX);
}

#[test]
fn requests_that_come_too_slowly_to_be_counted_are_refused() {
    let folder = std::env::temp_dir().join(format!("quincunx-requests-{}", std::process::id()));
    std::fs::write(&folder, "arrival_s,prompt,answer\n0,1,1\n86400,1,1\n").unwrap();
    let path = format!("serving.requests={}", folder.display());
    let deployment = serving(&[&path, "serving.load=0.005"]).unwrap();
    let error = deployment.requests(&deployment.decoder().unwrap(), None).unwrap_err();
    std::fs::remove_file(folder).unwrap();
    assert!(
        error.contains("expected requests of 107 days at most, found more at a load of 0.005"),
        "{error}"
    );
}
