//! EPIC's modes, explored whole on small trees: right in every run; and wrong in some run if a rule is broken.

use crate::common::{Found, full, group_setup, lossy, traced};
use crate::{common, mixed};
use quincunx_check::{
    Arguments, Describe, Disagreement, Exploration, Explored, Fault, Finding, GroupSetup, Network, Path,
    Sequence, Statistics, Subject, replay, replay_as_bytes,
};
use quincunx_collective::{Collective, Rank};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_driver_check::Action;
use quincunx_trace::TrackContents;
use std::ops::ControlFlow;

const ROOT: Rank = Rank(0);
const MODES: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const PRIMITIVES: [Collective; 3] =
    [Collective::AllReduce, Collective::Reduce { root: ROOT }, Collective::Broadcast { root: ROOT }];

fn setup(mode: &str, collective: Collective, tree: &str, packets: u32) -> GroupSetup {
    group_setup::<u32>(mode, &[collective], tree, packets, &[])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

fn run(setup: &GroupSetup, rules: Exploration) -> (Statistics, Found<Network>) {
    common::run(&group(setup), rules)
}

#[track_caller]
fn assert_right(setup: &GroupSetup, rules: Exploration) -> Statistics {
    common::assert_right(&group(setup), rules)
}

#[test]
fn every_mode_does_every_primitive_with_a_loss_a_late_frame_and_a_copy() {
    let rules = Exploration { duplicates: 1, delays: 1, ..lossy() };
    for mode in MODES {
        for collective in PRIMITIVES {
            for eager in [false, true] {
                assert_right(
                    &group_setup(mode, &[collective], "star-2", 1, &[("group.eager", eager)]),
                    rules,
                );
            }
        }
    }
}

#[test]
fn what_a_control_message_carries_and_what_follows_it_are_right_together() {
    let parameters: [(&str, Value); 2] = [("group.message", 2.into()), ("group.mtu", "8B".into())];
    for mode in MODES {
        for collective in PRIMITIVES {
            let mut setup = setup(mode, collective, "star-2", 2);
            parameters.clone().into_iter().for_each(|(key, value)| setup.scenario.set(key, value));
            assert_right(&setup, lossy());
        }
    }
}

#[test]
fn a_short_reduce_scatter_and_all_gather_are_right_with_a_loss_a_late_frame_and_a_copy() {
    let rules = Exploration { duplicates: 1, delays: 1, ..lossy() };
    for mode in MODES {
        for collective in [Collective::ReduceScatter, Collective::AllGather] {
            assert_right(&setup(mode, collective, "star-2", 1), rules);
        }
    }
}

#[test]
fn buffers_are_used_again_in_a_run_longer_than_the_window() {
    for mode in MODES {
        for collective in PRIMITIVES {
            assert_right(&setup(mode, collective, "star-2", 4), lossy());
        }
    }
}

#[test]
fn a_tree_of_switches_does_every_primitive_with_a_loss() {
    for mode in MODES {
        for collective in PRIMITIVES {
            let packets = if collective == Collective::AllReduce { 0 } else { 1 };
            assert_right(&setup(mode, collective, "tree-3-2", packets), lossy());
        }
    }
}

#[test]
fn two_collectives_in_sequence_keep_their_numbers_in_step() {
    let pairs = [(0, 1), (1, 2), (2, 0), (0, 0), (2, 2)];
    for mode in MODES {
        for (first, second) in pairs {
            let mut setup = setup(mode, PRIMITIVES[first], "star-2", 1);
            setup.collectives.push(PRIMITIVES[second]);
            assert_right(&setup, lossy());
        }
    }
}

#[test]
fn a_time_out_that_comes_too_early_does_no_harm() {
    for mode in MODES {
        for collective in PRIMITIVES {
            let rules = Exploration { losses: 0, early_timeouts: 2, ..lossy() };
            assert_right(&setup(mode, collective, "star-2", 2), rules);
        }
    }
}

/// A broken rule, a small case in which it does harm, and what must go wrong for that.
struct Case {
    mutation: &'static str,
    setup: GroupSetup,
    rules: Exploration,
}

impl Case {
    /// The same without the fault.
    fn repaired(&self) -> GroupSetup {
        GroupSetup { mutation: None, ..self.setup.clone() }
    }

    fn goes_back(&self) -> bool {
        let settings = self.setup.scenario.settings(self.setup.design).expect("a set-up that is explored");
        settings.value("group.selective") == Some(&false.into())
    }
}

fn cases() -> Vec<Case> {
    let [all_reduce, reduce, broadcast] = PRIMITIVES;
    let loss = lossy();
    let none = Exploration { losses: 0, ..loss };
    // A packet and what is sent again in its place are lost: its sender gives up.
    let giving_up = |mutation: &'static str, mode, collective| {
        let setup = group_setup(mode, &[collective], "star-2", 1, &[("group.retry_count", 1)]);
        let rules = Exploration { losses: 2, ..loss };
        Case { mutation, setup: GroupSetup { mutation: Some(mutation.to_owned()), ..setup }, rules }
    };
    let copy = Exploration { losses: 0, duplicates: 1, ..loss };
    let late = Exploration { losses: 0, delays: 1, ..loss };
    let case = |mutation: &'static str, mode, collectives: &[Collective], tree, packets, window, rules| {
        let setup = group_setup(mode, collectives, tree, packets, &[("group.window", window)]);
        Case { mutation, setup: GroupSetup { mutation: Some(mutation.to_owned()), ..setup }, rules }
    };
    let disagreeing = |mode| {
        let mutation = "adds-whatever-comes";
        let Case { setup, .. } = case(mutation, mode, &[all_reduce], "star-2", 1, 2, none);
        let disagreement = Some(Disagreement::Operation);
        Case { mutation, setup: GroupSetup { disagreement, ..setup }, rules: none }
    };
    let cases = vec![
        case("mode-ii-recycling", "epic-3", &[reduce], "star-2", 3, 2, none),
        case("root-copies-aggregate", "epic-3", &[all_reduce], "star-2", 3, 2, none),
        case("window-short", "epic-2", &[all_reduce], "star-2", 2, 1, late),
        case("ack-before-aggregate", "epic-3", &[all_reduce], "star-2", 3, 2, loss),
        case("no-duplicate-check", "epic-2", &[all_reduce], "star-2", 2, 2, copy),
        case(
            "no-duplicate-check",
            "epic-3",
            &[all_reduce],
            "star-2",
            3,
            2,
            Exploration { delays: 1, ..copy },
        ),
        case("psn-no-wrap", "epic-2", &[all_reduce], "star-2", 3, 2, none),
        case("psn-no-wrap", "epic-3", &[all_reduce], "star-2", 3, 2, none),
        case("nak-as-ack", "epic-2", &[broadcast], "star-2", 2, 2, loss),
        case("nak-as-ack", "epic-3", &[all_reduce], "star-2", 2, 2, loss),
        case("stale-collective", "epic-2", &[all_reduce, all_reduce], "star-2", 2, 2, copy),
        case("one-bit-version", "epic-2", &[all_reduce], "star-2", 4, 2, copy),
        case("reduce-recycled-by-completion", "epic-2", &[reduce, reduce], "star-2", 2, 2, loss),
        case("ack-only-if-news", "epic-2", &[broadcast], "star-3", 2, 2, loss),
        case("same-message", "epic-2", &[all_reduce], "star-2", 2, 2, none),
        case("freed-by-fastest", "epic-1", &[broadcast], "star-3", 4, 2, none),
        case("receive-too-many", "epic-1", &[reduce], "star-2", 4, 2, none),
        case("answers-next-slot", "epic-2", &[all_reduce], "star-2", 2, 2, loss),
        case("resends-next-slot", "epic-3", &[broadcast], "star-2", 2, 2, none),
        case("never-cleared", "epic-1", &[all_reduce], "star-2", 2, 1, none),
        case("never-cleared", "epic-2", &[all_reduce], "star-2", 2, 1, none),
        case("never-cleared", "epic-3", &[all_reduce], "star-2", 2, 1, none),
        case("payload-not-cleared", "epic-2", &[all_reduce], "star-2", 3, 1, none),
        case("payload-not-cleared", "epic-3", &[all_reduce], "star-2", 2, 1, none),
        case("figure-6", "epic-3", &[all_reduce], "star-2", 2, 1, none),
        case("changes-an-element", "epic-1", &[all_reduce], "star-2", 1, 1, none),
        case("changes-an-element", "epic-2", &[all_reduce], "star-2", 1, 1, none),
        case("changes-an-element", "epic-3", &[reduce], "star-2", 1, 1, none),
        case("arrived-never-cleared", "epic-2", &[all_reduce], "star-2", 2, 1, none),
        case("arrived-never-cleared", "epic-3", &[all_reduce], "star-2", 2, 1, none),
        case("recycles-start", "epic-2", &[all_reduce], "star-2", 2, 1, loss),
        case("recycles-start", "epic-3", &[all_reduce], "star-2", 3, 2, none),
        case("stale-in-silence", "epic-3", &[all_reduce], "star-2", 1, 1, loss),
        case("expected-beyond-array", "epic-3", &[all_reduce], "star-2", 2, 1, none),
        Case {
            mutation: "window-in-messages",
            setup: GroupSetup {
                mutation: Some("window-in-messages".to_owned()),
                ..group_setup("epic-2", &[reduce], "star-2", 8, &[("group.message", 2)])
            },
            rules: none,
        },
        {
            let mut setup =
                group_setup("epic-mixed", &[reduce, all_reduce], "tree-3-2", 1, &[("group.window", 2)]);
            setup.scenario.set("group.modes", "III/I".into());
            let mutation = "counts-messages-alone";
            Case { mutation, setup: GroupSetup { mutation: Some(mutation.to_owned()), ..setup }, rules: none }
        },
        giving_up("success-on-failure", "epic-2", all_reduce),
        giving_up("rank-fails-in-silence", "epic-2", all_reduce),
        giving_up("switch-fails-in-silence", "epic-1", broadcast),
        giving_up("switch-fails-in-silence", "epic-3", all_reduce),
        case("nak-forwarded", "epic-2", &[broadcast], "star-3", 2, 3, Exploration { losses: 2, ..loss }),
        disagreeing("epic-1"),
        disagreeing("epic-2"),
        disagreeing("epic-3"),
    ];
    cases
        .into_iter()
        .map(unconfirmed)
        .flat_map(|case| [Some(going_back(&case)), selective(case)])
        .flatten()
        .collect()
}

/// The same with go-back-N, as NICs have it.
fn going_back(case: &Case) -> Case {
    let mut setup = case.setup.clone();
    setup.scenario.set("group.selective", false.into());
    Case { setup, ..*case }
}

/// The same as it is by default, if that is small, and harm is done.
fn selective(case: Case) -> Option<Case> {
    let rules = match case.mutation {
        // By go-back-N it takes no loss, but a receiver that is not ready.
        "resends-next-slot" => lossy(),
        _ => case.rules,
    };
    let is_small = case.setup.scenario.ranks() == 2 && rules.duplicates + rules.delays == 0;
    (is_small && !HARMLESS_SELECTIVELY.contains(&case.mutation)).then_some(Case { rules, ..case })
}

/// Whose case does no harm where what is missing is sent again alone: all ranks do, and it is added up once more.
const HARMLESS_SELECTIVELY: [&str; 1] = ["reduce-recycled-by-completion"];

/// Without the confirmation that follows a Reduce or a Broadcast: it hides what goes wrong at the end of one, or makes a case longer.
fn unconfirmed(case: Case) -> Case {
    let mut setup = case.setup;
    setup.scenario.set("group.confirm", false.into());
    Case { setup, ..case }
}

/// Algorithm 3 answers every packet with epsn - 1, by a NAK if that is not its number. Whoever gets that sends one packet again which has
/// arrived, and is answered by an ACK: it costs a packet, and nothing else.
const HARMLESS: &str = "answers-as-printed";

#[test]
fn the_answers_of_algorithm_3_cost_packets_and_do_no_harm() {
    for collective in PRIMITIVES {
        let setup = setup("epic-3", collective, "star-2", 3);
        let broken = GroupSetup { mutation: Some(HARMLESS.to_owned()), ..setup };
        assert_eq!(find(&broken, lossy()), Finding::Correct);
    }
}

#[test]
fn a_broken_rule_that_no_answer_depends_on_is_not_called_right() {
    // A Broadcast takes no slots in Mode-II, and without a loss nothing is sent again.
    for (mode, collective, mutation) in
        [("epic-2", PRIMITIVES[2], "never-cleared"), ("epic-3", PRIMITIVES[0], "resends-next-slot")]
    {
        let setup = setup(mode, collective, "star-2", 2);
        let broken = GroupSetup { mutation: Some(mutation.to_owned()), ..setup };
        assert_eq!(find(&broken, Exploration { losses: 0, ..lossy() }), Finding::NeverMattered);
    }
}

#[test]
fn figure_6_is_a_wrong_sum_on_the_papers_tree() {
    let overrides = [("group.window", 1)];
    let setup = group_setup("epic-3", &PRIMITIVES[..1], "tree-3-2", 2, &overrides);
    let broken = GroupSetup { mutation: Some("figure-6".to_owned()), ..setup };
    let (_, found) = run(&broken, Exploration { losses: 0, ..lossy() });
    let (fault, _) = found.expect("it is noticed");
    assert!(matches!(&fault, Fault::Wrong { message, .. } if message.contains("and gets")), "{fault}");
}

#[test]
fn what_a_switch_changes_is_a_wrong_result_and_an_error_where_results_are_verified() {
    for mode in MODES {
        for (verify, said) in [(false, "which no right result has in it"), (true, "Corrupted")] {
            let setup = group_setup(mode, &PRIMITIVES[..1], "star-2", 2, &[("group.verify", verify)]);
            let broken = GroupSetup { mutation: Some("changes-an-element".to_owned()), ..setup };
            let (_, found) = run(&broken, lossy());
            let (fault, _) = found.expect("it is noticed");
            assert!(
                matches!(&fault, Fault::Wrong { message, .. } if message.contains(said)),
                "{mode}: {fault}"
            );
        }
    }
}

#[test]
fn buffers_that_are_not_cleared_are_noticed_at_the_default_settings() {
    let payloads = MODES[1..].iter().map(|mode| (*mode, "payload-not-cleared"));
    for (mode, mutation) in MODES.into_iter().map(|mode| (mode, "never-cleared")).chain(payloads) {
        let arguments = Arguments { mutate: Some(mutation.to_owned()), ..Arguments::default() };
        let subject = Subject::find(CATALOG, mode, "all_reduce", &arguments).unwrap();
        let (_, finding) = subject.network.explore(lossy(), &mut |_| ControlFlow::Continue(()));
        assert!(matches!(finding, Finding::Wrong(_)), "{mode} {mutation}: {finding:?}");
    }
}

#[test]
fn every_primitive_is_right_with_every_parameter_that_changes_what_packets_do() {
    let every = ["epic-1", "epic-2", "epic-3"].as_slice();
    let (translated, augmented) = (&every[1..], &every[2..]);
    for (modes, key, value, tree, packets) in [
        (every, "group.message", Value::from(2), "star-2", 4),
        (every, "group.selective", false.into(), "star-2", 4),
        (translated, "group.reproducible", true.into(), "star-3", 2),
        (every, "group.verify", true.into(), "star-2", 1),
        (augmented, "group.run_ahead", true.into(), "star-2", 4),
        (augmented, "group.slots", 3.into(), "star-2", 4),
    ] {
        for mode in modes {
            for collective in PRIMITIVES {
                let mut setup = setup(mode, collective, tree, packets);
                setup.scenario.set(key, value.clone());
                assert_right(&setup, lossy());
            }
        }
    }
}

#[test]
fn any_two_collectives_in_a_row_keep_their_data_apart() {
    for mode in MODES {
        for first in Collective::PRIMITIVES {
            for second in Collective::PRIMITIVES {
                let setup = group_setup::<u32>(mode, &[first, second], "star-2", 1, &[]);
                assert_right(&setup, lossy());
            }
        }
    }
}

/// What is said of a set-up.
fn find(setup: &GroupSetup, rules: Exploration) -> Finding {
    group(setup).explore(rules, &mut |_| ControlFlow::Continue(())).1
}

/// The way to the fault in the first case of a broken rule.
fn counterexample(mutation: &str) -> (Network, Fault, Path<Network>) {
    let case = cases().into_iter().find(|case| case.mutation == mutation).expect("every rule has a case");
    let (fault, path) = run(&case.setup, case.rules).1.expect("it is noticed");
    (group(&case.setup), fault, path)
}

#[test]
fn every_broken_rule_is_noticed() {
    for case in cases() {
        let (_, fault) = run(&case.setup, case.rules);
        assert!(fault.is_some(), "{} does no harm in {:?}", case.mutation, case.setup);
        assert_right(&case.repaired(), case.rules);
    }
}

#[test]
fn a_broken_rule_does_no_harm_before_what_it_takes_goes_wrong() {
    for Case { mutation, setup, rules } in cases() {
        let smooth = Exploration { losses: 0, duplicates: 0, delays: 0, ..rules };
        if smooth != rules {
            let (_, fault) = run(&setup, smooth);
            assert!(fault.is_none(), "{mutation} does harm at once in {setup:?}");
        }
    }
}

#[test]
fn a_window_in_messages_is_right_where_every_packet_is_a_message() {
    let mut setup = group_setup("epic-2", &[PRIMITIVES[1]], "star-2", 8, &[("group.message", 1)]);
    setup.scenario.set("group.confirm", false.into());
    let broken = GroupSetup { mutation: Some("window-in-messages".to_owned()), ..setup };
    assert_eq!(find(&broken, lossy()), Finding::NeverMattered);
}

#[test]
fn slots_that_are_used_once_are_neither_too_few_nor_erased_while_they_matter() {
    // A control message alone, and a slot for it.
    for (mutation, finding) in
        [("expected-beyond-array", Finding::NeverMattered), ("figure-6", Finding::Correct)]
    {
        let setup = group_setup("epic-3", &PRIMITIVES[..1], "star-2", 0, &[("group.window", 1)]);
        let broken = GroupSetup { mutation: Some(mutation.to_owned()), ..setup };
        assert_eq!(find(&broken, lossy()), finding, "{mutation}");
    }
}

#[test]
fn every_counterexample_is_the_same_run_in_virtual_time_and_as_bytes() {
    // In virtual time answers are measured: by selective repeat a sender asks more often than here before it gives up.
    let is_replayed = |case: &Case| case.rules.losses < 2 || case.goes_back();
    for Case { mutation, setup, rules } in cases().into_iter().filter(is_replayed) {
        let (fault, path) =
            run(&setup, rules).1.unwrap_or_else(|| panic!("{mutation} does no harm in {:?}", setup.scenario));
        let group = group(&setup);
        let seen = match fault {
            // That nothing can end any more is not seen as it happens.
            Fault::Stuck | Fault::Livelock => None,
            fault => Some(fault),
        };
        let sequence = Sequence { network: &group, path: &path };
        assert_eq!(replay(&group, &path), Ok(seen.clone()), "in virtual time, {mutation}: {sequence}");
        assert_eq!(replay_as_bytes(&group, &path), Ok(seen), "as bytes, {mutation}: {sequence}");
    }
}

#[test]
fn without_its_last_step_a_counterexample_has_no_fault() {
    let (group, _, mut path) = counterexample("no-duplicate-check");
    path.0.pop();
    assert_eq!([replay(&group, &path), replay_as_bytes(&group, &path)], [Ok(None), Ok(None)]);
}

#[test]
fn a_path_of_another_group_is_not_replayed() {
    let (_, _, path) = counterexample("no-duplicate-check");
    let case = cases().into_iter().find(|case| case.mutation == "no-duplicate-check").unwrap();
    let right = group(&case.repaired());
    // Nothing is wrong in it: it departs where the rule was broken.
    for divergence in [replay(&right, &path), replay_as_bytes(&right, &path)] {
        let divergence = divergence.unwrap_err();
        assert!(divergence.to_string().starts_with("expected "), "{divergence}");
    }
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    for design in MODES.map(common::design) {
        for mutation in (design.about().model.mutations)(FabricKind::Tree) {
            let of_mixed = mixed::CASES.iter().any(|(rule, ..)| *rule == mutation);
            let has_case = of_mixed || cases().iter().any(|case| case.mutation == mutation);
            assert!(has_case || mutation == HARMLESS, "{mutation} has none");
        }
    }
}

#[test]
fn what_is_left_out_changes_no_verdict() {
    for mode in MODES {
        for collective in PRIMITIVES {
            let setup = setup(mode, collective, "star-2", 1);
            let reduced = assert_right(&setup, lossy());
            let whole = assert_right(&setup, full(lossy()));
            assert!(reduced.distinct <= whole.distinct, "{setup:?}: {reduced:?} {whole:?}");
        }
    }
    for Case { mutation, setup, rules } in cases() {
        // Those of a star of two are small enough.
        if setup.scenario.ranks() == 2 {
            assert!(run(&setup, full(rules)).1.is_some(), "{mutation} does no harm when all is explored");
        }
    }
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what nodes do, or what is explored, sees it here. Reduced counts depend on the hashes of states too, so all is
    // explored.
    let states =
        |mode, collective| assert_right(&setup(mode, collective, "star-2", 2), full(lossy())).distinct;
    let found = MODES.map(|mode| PRIMITIVES.map(|collective| states(mode, collective)));
    assert_eq!(found, [[31_378, 3126, 3073], [4923, 981, 971], [9757, 2554, 2990]]);
}

#[test]
fn one_thread_and_two_see_the_same() {
    let right = setup("epic-3", Collective::AllReduce, "star-2", 2);
    let wrong = GroupSetup { mutation: Some("nak-as-ack".to_owned()), ..right.clone() };
    for setup in [right, wrong] {
        let alone = run(&setup, Exploration { threads: 1, ..lossy() });
        let (statistics, fault) = run(&setup, lossy());
        assert_eq!(alone.0.distinct, statistics.distinct);
        assert_eq!(alone.0.diameter, statistics.diameter);
        let steps = |fault: Option<(Fault, Path<Network>)>| fault.map(|(fault, path)| (fault, path.0));
        assert_eq!(steps(alone.1), steps(fault));
    }
}

#[test]
fn a_path_reads_as_a_sequence() {
    let mutated = GroupSetup {
        mutation: Some("no-duplicate-check".to_owned()),
        ..setup("epic-2", Collective::AllReduce, "star-2", 2)
    };
    let rules = Exploration { losses: 0, duplicates: 1, ..lossy() };
    let (fault, path) = run(&mutated, rules).1.expect("a rank is counted twice");
    let group = group(&mutated);
    let lines = Sequence { network: &group, path: &path }.lines();
    assert!(fault.to_string().contains("x2"), "{fault}");
    assert_eq!(lines.len(), path.0.len());
    assert!(lines[0].starts_with("rank 0    starts; sends control 0 to switch 0"), "{}", lines[0]);
    assert!(lines.iter().any(|line| line.contains("a copy of which is on its way")), "{lines:#?}");
}

#[test]
fn a_trace_has_each_step_on_the_track_of_its_node_and_the_fault_at_the_end() {
    let (group, fault, path) = counterexample("no-duplicate-check");
    let tracks = traced(&group, &fault, &path);
    for (index, step) in path.0.iter().enumerate() {
        let own = |track: &&TrackContents| track.parent.is_none() && track.name == group.name(step.node);
        let track = tracks.iter().find(own).expect("a track a node");
        let time = 1000 * (index as u64 + 1);
        assert!(track.slices.iter().any(|&(from, to, _)| (from, to) == (time, time + 1000)), "{track:?}");
    }
    let last = tracks.last().unwrap();
    assert_eq!(last.instants, [(1000 * path.0.len() as u64, fault.to_string())]);
}

#[test]
fn a_trace_has_each_frame_from_sending_to_arrival_and_says_which_were_lost_or_copied() {
    for (mutation, word) in [("nak-as-ack", ", lost"), ("no-duplicate-check", ", copy")] {
        let (group, fault, path) = counterexample(mutation);
        let tracks = traced(&group, &fault, &path);
        let frames: Vec<_> =
            tracks.iter().filter(|track| track.parent.is_some()).flat_map(|track| &track.slices).collect();
        let copies = path.0.iter().filter(|step| matches!(step.action, Action::Duplicate { .. })).count();
        let losses = path.0.iter().filter(|step| matches!(step.action, Action::Loss { .. })).count();
        let sent: usize = path.0.iter().map(|step| step.sent.len()).sum();
        assert_eq!(frames.len(), sent + copies);
        assert_eq!(frames.iter().filter(|(.., name)| name.contains(word)).count(), copies + losses);
        assert_eq!(copies + losses, 1);
        assert!(frames.iter().all(|(from, to, _)| from < to));
        // The first step is a rank's start; its frames leave then.
        assert!(tracks.iter().any(|track| {
            let leaves =
                track.slices.first().is_some_and(|(from, _, name)| *from == 1000 && name == "control 0");
            (track.parent.as_deref(), track.name.as_str(), leaves) == (Some("rank 0"), "to switch 0", true)
        }));
    }
}

#[test]
fn frames_of_one_direction_that_overlap_have_tracks_of_their_own() {
    for Case { setup, rules, .. } in cases().into_iter().take(3) {
        let (fault, path) = run(&setup, rules).1.expect("it is noticed");
        for track in traced(&group(&setup), &fault, &path) {
            assert!(track.slices.is_sorted_by(|(_, end, _), (begin, ..)| end <= begin), "{track:?}");
        }
    }
}
