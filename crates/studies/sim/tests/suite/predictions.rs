//! Steps of language models whose collectives are simulated.

use quincunx_collective::Collective;
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_language::{Deployment, Source};
use quincunx_scenario::{Document, Override};
use quincunx_sim::{
    Doubt, KnownTimes, Outputs, Prediction, PredictionError, Question, Saved, Stretch, Worth,
    ignore_progress, measure,
};
use quincunx_units::Duration;

use crate::requests::{lengths, request, scenario};

const FILE: &str = r#"
model = "llama2-7b"
profile = "h200"
[split]
tp = 8
[network]
fabric = "scin-dgx8"
designs = ["ring", "nvls", "scin", "scin-inq"]
[inference]
batch = 1
prompt = 128
"#;

fn deployment(changes: &[&str]) -> Deployment {
    let mut document = Document::parse("file", FILE).unwrap();
    for change in changes {
        document.set(&change.parse::<Override>().unwrap()).unwrap();
    }
    Deployment::read("file", &document).unwrap()
}

fn predict(changes: &[&str], design: &str, known: &KnownTimes) -> Result<Prediction, PredictionError> {
    let deployment = deployment(changes);
    Question::new(&deployment, CATALOG, known)?.answer(design, &mut ignore_progress)
}

/// Microseconds of a sum of a prompt of so many tokens of 8 KiB, predicted.
fn sum(design: &str, tokens: u64, known: &KnownTimes) -> f64 {
    let found = predict(&[&format!("inference.prompt={tokens}")], design, known).unwrap();
    found.inference.unwrap().prefill.exchanges[0].1.as_micros_f64()
}

#[test]
fn a_length_between_simulated_ones_takes_what_its_own_simulation_takes() {
    let known = KnownTimes::default();
    let on = scenario("scin-dgx8", &[]);
    for design in ["ring", "nvls", "scin", "scin-inq"] {
        // 24, 88 and 384 KiB, of values of 16 bits, which no design's time depends on.
        for tokens in [3, 11, 48] {
            let alone = lengths(request(&on, design, Collective::AllReduce, tokens * 8192));
            let alone = measure(&alone, Outputs::default(), &mut ignore_progress).unwrap();
            let error = sum(design, tokens, &known) / alone.time.as_micros_f64() - 1.0;
            assert!(error.abs() < 0.03, "{design}, {tokens} tokens: {error:.3}");
        }
    }
}

#[test]
fn what_is_known_is_not_simulated_again_and_comes_out_the_same() {
    let known = KnownTimes::default();
    let first = predict(&[], "scin", &known).unwrap();
    assert_eq!(known.len(), 2, "1 MiB of a prompt, 8 KiB of a token");
    // Bits on links that nobody could simulate in that time.
    let mut stop = |_| std::ops::ControlFlow::Break(());
    let read = KnownTimes::read(&(known.text() + "a line without time\n"));
    let asked = deployment(&[]);
    let again = Question::new(&asked, CATALOG, &read).unwrap().answer("scin", &mut stop).unwrap();
    assert_eq!((again, read.len()), (first, 2));
}

#[test]
fn another_link_another_design_and_another_length_are_not_the_same() {
    let known = KnownTimes::default();
    let of = |changes: &[&str], design| {
        predict(changes, design, &known).unwrap().inference.unwrap().prefill.communication
    };
    let base = of(&[], "scin");
    let others = [
        of(&["network.set.link.rate=50GB/s"], "scin"),
        of(&["network.set.isa.waves=1"], "scin"),
        of(&[], "ring"),
        of(&["inference.prompt=256"], "scin"),
    ];
    assert!(others.iter().all(|&other| other > base), "{base} {others:?}");
}

/// A step of TRAINING, whose replicas exchange as `zero` says.
fn trained(changes: &[&str], known: &KnownTimes) -> Duration {
    let mut document = Document::parse("file", TRAINING).unwrap();
    for change in changes {
        document.set(&change.parse::<Override>().unwrap()).unwrap();
    }
    let deployment = Deployment::read("file", &document).unwrap();
    let question = Question::new(&deployment, CATALOG, known).unwrap();
    question.answer("ring", &mut ignore_progress).unwrap().training.unwrap().replicas
}

#[test]
fn what_is_known_of_one_collective_says_nothing_of_another() {
    let known = KnownTimes::default();
    let shared = ["split.zero=0", "split.zero=1"].map(|zero| trained(&[zero], &known));
    assert_eq!(shared[1], trained(&["split.zero=1"], &KnownTimes::default()));
    // A sum and its two halves carry as much, in steps of their own.
    assert_ne!(shared[0], shared[1]);
}

#[test]
fn where_frames_may_be_lost_each_length_is_simulated() {
    let known = KnownTimes::default();
    let lossy = [
        "network.set.loss.probability=0.001%",
        "model=llama3.2-1b",
        "split.tp=8",
        "scale_up.set.accelerators=8",
    ];
    trained(&lossy, &known);
    let of_the_network = known.text().lines().filter(|line| line.contains("probability")).count();
    assert_eq!(of_the_network, 1, "no line between two lengths");
}

#[test]
fn prompts_may_run_by_one_design_and_answers_by_another() {
    let known = KnownTimes::default();
    let of = |design| predict(&[], design, &known).unwrap().inference.unwrap();
    let [both, quantized, plain] = ["scin-inq/scin", "scin-inq", "scin"].map(of);
    assert_eq!((both.prefill, both.decode), (quantized.prefill, plain.decode));
}

#[test]
fn answers_gain_less_the_longer_what_they_look_at() {
    // SCIN 4.5: the sum of a token does not grow with the prompt, attention does.
    let known = KnownTimes::default();
    let gain = |length: u64| {
        // Prompts are not asked about: they are short.
        let context = format!("inference.context={length}");
        let changes = ["inference.batch=16", "inference.prompt=1", &context];
        let of = |design| predict(&changes, design, &known).unwrap().inference.unwrap().decode.time();
        of("ring").as_secs_f64() / of("scin").as_secs_f64()
    };
    let gains = [128, 1024, 4096].map(gain);
    assert!(gains.is_sorted_by(|more, less| more > less), "{gains:?}");
}

#[test]
fn a_group_of_another_size_than_its_network_is_refused() {
    let error = predict(&["split.tp=4"], "scin", &KnownTimes::default()).unwrap_err().to_string();
    let expected = "expected a network of 4 ranks for the tensor groups of llama2-7b, found 8 on scin-dgx8";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(predict(&["split.tp=1"], "scin", &KnownTimes::default()).unwrap().design, "scin");
}

#[test]
fn stages_pass_activations_on_at_the_rate_of_their_links() {
    let found = predict(&["split.tp=1", "split.pp=4"], "ring", &KnownTimes::default()).unwrap();
    let prefill = found.inference.unwrap().prefill;
    // 1 MiB at 450 GB/s and twice 250 ns, three times.
    let micros = 3.0 * (1_048_576.0 / 450e3 + 0.5);
    assert!((prefill.communication.as_micros_f64() - micros).abs() < 0.01, "{}", prefill.communication);
}

#[test]
fn replicas_add_up_on_the_network_and_layers_within_a_server() {
    let mut document = Document::parse("file", TRAINING).unwrap();
    document.set(&"training.micro_batch=4".parse::<Override>().unwrap()).unwrap();
    let asked = Deployment::read("file", &document).unwrap();
    let known = KnownTimes::default();
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    let [ring, epic] = ["ring", "epic-2"]
        .map(|design| question.answer(design, &mut ignore_progress).unwrap().training.unwrap());
    assert_eq!((ring.compute, ring.within), (epic.compute, epic.within));
    // Four hosts send 2 x 3 / 4 of a vector each in a ring, and once to the switch: half of S/B is saved, S the gradients after TP.
    let gradients = question.model().share(&asked.split)[0] as f64 * 16.0;
    let saved = (ring.exposed - epic.exposed).as_secs_f64() / (gradients / 100e9);
    assert!(saved > 0.47 && saved < 0.56, "{saved}");
}

const TRAINING: &str = r#"
model = "gpt2"
[split]
tp = 2
dp = 4
[network]
fabric = "star-4"
designs = ["ring", "epic-2"]
[scale_up]
fabric = "scin-dgx8"
set = { accelerators = 2 }
designs = ["ring"]
[training]
batch = 16
sequence = 128
overlap = false
"#;

fn asked(changes: &[&str]) -> Deployment {
    deployment(&[&["inference.prompt=16"], changes].concat())
}

#[test]
fn times_that_are_stretched_are_so_many_times_as_long_and_leave_the_others() {
    let known = KnownTimes::default();
    let asked = asked(&[]);
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    let of = |computation, network| {
        let stretch = Stretch { computation, network };
        let found = question.answer_if("scin", stretch, &mut ignore_progress).unwrap().inference.unwrap();
        (found.decode.compute.as_secs_f64(), found.decode.communication.as_secs_f64())
    };
    let (compute, communication) = of(1.0, 1.0);
    let near = |found: (f64, f64), expected: (f64, f64)| {
        assert!(
            (found.0 / expected.0 - 1.0).abs() < 1e-6 && (found.1 / expected.1 - 1.0).abs() < 1e-6,
            "{found:?}"
        );
    };
    near(of(2.0, 1.0), (2.0 * compute, communication));
    near(of(1.0, 0.5), (compute, communication / 2.0));
}

#[test]
fn what_is_saved_is_the_more_the_worse_the_baseline_and_the_better_the_design() {
    let known = KnownTimes::default();
    let asked = asked(&[]);
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    for saved in question.saved("ring", "scin", &mut ignore_progress).unwrap() {
        let Saved { before, now, least, expected, most, .. } = saved;
        assert!((expected - (1.0 - now.as_secs_f64() / before.as_secs_f64())).abs() < 1e-12);
        assert!(least < expected && expected < most && most < 1.0, "{saved:?}");
    }
    // Against itself nothing is saved, and by how much that may be off is the network's doubt on both sides.
    let same = question.saved("scin", "scin", &mut ignore_progress).unwrap();
    assert!(
        same.iter().all(|saved| saved.expected == 0.0 && saved.least < 0.0 && saved.most > 0.0),
        "{same:?}"
    );
}

#[test]
fn the_least_that_is_saved_has_slow_layers_a_fast_baseline_and_a_slow_design() {
    let known = KnownTimes::default();
    let asked = asked(&[]);
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    let [ring, scin] = ["ring", "scin"].map(|design| question.answer(design, &mut ignore_progress).unwrap());
    let doubt = question.doubt(&scin);
    assert_eq!(doubt.computation, Source::Between.doubt());
    let seconds = |time: Duration| time.as_secs_f64();
    let share = |layers: f64, before: f64, now: f64| {
        let all = |found: &Prediction, network: f64| {
            let phase = &found.inference.as_ref().unwrap().decode;
            seconds(phase.compute) * (1.0 + layers) + seconds(phase.communication) * (1.0 + network)
        };
        1.0 - all(&scin, now) / all(&ring, before)
    };
    let found = &question.saved("ring", "scin", &mut ignore_progress).unwrap()[1];
    let expected = [
        share(doubt.computation, -doubt.network, doubt.network),
        share(-doubt.computation, doubt.network, -doubt.network),
    ];
    for (found, expected) in [found.least, found.most].into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

fn saved(least: f64, expected: f64, most: f64) -> Saved {
    Saved {
        figure: "TTFT",
        before: Duration::from_secs(1),
        now: Duration::from_secs(1),
        least,
        expected,
        most,
    }
}

#[test]
fn a_design_is_worth_it_if_one_time_surely_falls_enough_and_not_if_none_can() {
    let some = [saved(0.01, 0.04, 0.09), saved(0.06, 0.08, 0.1)];
    assert_eq!(
        [0.05, 0.1, 0.11].map(|enough| Worth::of(&some, enough)),
        [Worth::Yes, Worth::Unsure, Worth::No]
    );
    assert_eq!(Worth::of(&[saved(0.05, 0.05, 0.05)], 0.05), Worth::Yes);
    assert_eq!(Worth::of(&[saved(0.01, 0.06, 0.09)], 0.05), Worth::Unsure);
}

#[test]
fn switches_that_take_part_are_counted_with_their_ports_and_memory() {
    let known = KnownTimes::default();
    let needs = |fabric: &str, design: &str| {
        let asked = asked(&[&format!("network.fabric={fabric}")]);
        let mut asked = asked;
        asked.network.designs = vec![design.to_owned()];
        Question::new(&asked, CATALOG, &known).unwrap().needs(design).unwrap()
    };
    assert_eq!(needs("scin-dgx8", "ring"), None);
    let scin = needs("scin-dgx8", "scin").unwrap();
    assert_eq!((scin.switches.len(), scin.ports), (4, 32));
    assert!(scin.unit.is_some() && scin.memory.bytes() > 0);
    assert_eq!(needs("epic-star8", "ring"), None);
    let star = needs("epic-star8", "epic-3").unwrap();
    assert_eq!((star.switches.len(), star.ports, star.unit), (1, 8, None));
    // Four switches below a fifth, four hosts each.
    let tree = needs("tree-4x4", "epic-3").unwrap();
    assert_eq!((tree.switches.len(), tree.ports), (5, 24));
    assert_eq!(needs("scin-dgx8", "ring/scin"), Some(scin.clone()));
    // Of a pair, the memory is that of whichever needs more.
    let nvls = needs("scin-dgx8", "nvls").unwrap();
    assert!(nvls.memory > scin.memory);
    let pairs = ["nvls/scin", "scin/nvls"].map(|pair| needs("scin-dgx8", pair).unwrap().memory);
    assert_eq!(pairs, [nvls.memory; 2]);
}

#[test]
fn the_fastest_for_prompts_and_the_fastest_for_answers_are_chosen_and_none_that_does_not_run() {
    let known = KnownTimes::default();
    let asked = asked(&[]);
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    let found = |design: &str| (design.to_owned(), question.answer(design, &mut ignore_progress));
    let refused = || {
        let error = PredictionError::NoChoice { reasons: "it is none".into() };
        ("nobody".to_owned(), Err(error))
    };
    assert_eq!(question.choose(&[found("ring"), refused(), found("scin")]).unwrap(), "scin");
    assert_eq!(question.choose(&[found("scin-inq"), found("ring/scin")]).unwrap(), "scin-inq/scin");
    let none = question.choose(&[refused()]).unwrap_err().to_string();
    assert!(none.contains("found none: nobody: ") && none.contains("it is none"), "{none}");
}

#[test]
fn auto_is_one_of_those_that_change_no_result() {
    let known = KnownTimes::default();
    let mut asked = asked(&[]);
    asked.network.designs = vec!["scin-inq".to_owned(), "auto".to_owned(), "ring".to_owned()];
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    let all = question.all_designs();
    assert_eq!(all[0], "scin-inq");
    assert!(!question.candidates().contains(&all[0]), "its results are rounded");
    assert_eq!(all.len(), question.candidates().len() + 1, "each once: {all:?}");
    assert!(["scin", "nvls", "ring", "cais"].iter().all(|name| all.iter().any(|one| one == name)), "{all:?}");
}

#[test]
fn what_is_known_of_errors_is_of_both_kinds_of_fabric() {
    for kind in [FabricKind::Memory, FabricKind::Tree] {
        let doubt = Doubt::of(Source::Measured, kind);
        assert!(doubt.figures >= 10 && (0.01..0.5).contains(&doubt.network), "{doubt:?}");
        assert_eq!((doubt.computation, Doubt::of(Source::Roofline, kind).computation), (0.0, 0.23));
    }
    // Nobody has published collectives of memory fabrics but CAIS and SCIN; of packets there are EPIC's tables.
    let [memory, packets] =
        [FabricKind::Memory, FabricKind::Tree].map(|kind| Doubt::of(Source::Measured, kind).figures);
    assert!(2 * memory < packets, "{memory} and {packets}");
}

/// A step of one sequence of `prompt` tokens that then looks at 32, and two requests that come a second after each other: of 16 tokens, and of `prompt`.
fn served(name: &str, prompt: u64, changes: &[&str]) -> Deployment {
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"));
    std::fs::write(&file, format!("arrival_s,prompt,answer\n0,16,2\n1,{prompt},2\n")).unwrap();
    let requests = format!("serving.requests={}", file.display());
    let prompt = format!("inference.prompt={prompt}");
    deployment(&[&[&*requests, &prompt, "inference.context=32"], changes].concat())
}

#[test]
fn requests_that_meet_nobody_wait_as_long_as_a_step_of_one_sequence_takes() {
    let known = KnownTimes::default();
    // A prompt of 32 tokens and an answer that looks at 32 are two things.
    let asked = served("alone", 32, &[]);
    let question = Question::new(&asked, CATALOG, &known).unwrap();
    // Prompts by one design and answers by another.
    for design in ["ring", "scin/ring", "ring/scin"] {
        let found = question.answer(design, &mut ignore_progress).unwrap();
        let (inference, serving) = (found.inference.unwrap(), found.serving.unwrap());
        assert_eq!(serving.first[1], inference.prefill.time(), "{design}: the longer prompt");
        assert_eq!(serving.next[0], inference.decode.time(), "{design}");
        let most = [&inference.prefill, &inference.decode].map(|phase| phase.share());
        assert!(serving.share() < most[0].max(most[1]), "{design}: {} of {most:?}", serving.share());
    }
}

#[test]
fn requests_are_of_lengths_that_nobody_measured_each() {
    let known = KnownTimes::default();
    let doubt = |changes: &[&str]| {
        let mut asked = served("doubt", 32, changes);
        asked.inference = None;
        let question = Question::new(&asked, CATALOG, &known).unwrap();
        question.doubt(&question.answer("scin", &mut ignore_progress).unwrap()).computation
    };
    assert_eq!(doubt(&[]), Source::Between.doubt());
    let mut without = served("doubt", 32, &[]);
    (without.profile, without.inference) = (None, None);
    let question = Question::new(&without, CATALOG, &known).unwrap();
    let found = question.answer("scin", &mut ignore_progress).unwrap();
    assert_eq!(question.doubt(&found).computation, Source::Roofline.doubt());
}

#[test]
fn nothing_longer_than_the_longest_length_is_simulated() {
    let known = KnownTimes::default();
    // 32 MiB of a prompt.
    let changes = ["network.fabric=memory-2", "split.tp=2", "inference.prompt=4096", "inference.context=1"];
    predict(&changes, "nvls", &known).unwrap();
    let lengths: Vec<u64> = known
        .text()
        .lines()
        .filter_map(|line| line.split('\t').next()?.rsplit(' ').next()?.parse().ok())
        .collect();
    assert_eq!(lengths.iter().max(), Some(&(16 << 20)), "{lengths:?}");
}
