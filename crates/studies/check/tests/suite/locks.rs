//! Locks on switches' memory: whatever is lost, late or doubled, no two groups have one slot, none waits for another, all ranks of a group
//! hear the same, and what was locked is released; and some run is wrong if a rule is broken.

use crate::common::{assert_right, lossy};
use quincunx_check::{Exploration, LockPlaces, LockSetup, Locks, Verdict, explore};
use quincunx_nodes::locks::LockMutation as Mutation;

fn locks(places: LockPlaces, invocations: [u8; 2]) -> LockSetup {
    LockSetup { places, invocations, tries: 0, mutation: None }
}

fn exactly() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn late() -> Exploration {
    Exploration { delays: 1, ..exactly() }
}

fn doubled() -> Exploration {
    Exploration { duplicates: 1, ..exactly() }
}

#[test]
fn two_groups_at_one_switch_use_its_memory_by_turns_or_fall_back() {
    let two = Locks::new(locks(LockPlaces::OneSwitch, [2, 2]));
    for rules in [lossy(), late(), doubled()] {
        assert_right(&two, rules);
    }
}

#[test]
fn two_groups_with_half_of_the_switches_each_fall_back_and_wait_for_nobody() {
    let crossed = Locks::new(locks(LockPlaces::Crossed, [2, 1]));
    for rules in [lossy(), late(), doubled()] {
        assert_right(&crossed, rules);
    }
}

#[test]
fn groups_that_ask_again_use_the_memory_by_turns_and_wait_for_nobody_without_end() {
    let patient = |places, invocations, tries| Locks::new(LockSetup { tries, ..locks(places, invocations) });
    for rules in [lossy(), late(), doubled()] {
        assert_right(&patient(LockPlaces::OneSwitch, [1, 1], 2), rules);
        assert_right(&patient(LockPlaces::Crossed, [1, 1], 1), rules);
    }
}

#[test]
fn some_run_is_wrong_with_each_rule_broken() {
    for mutation in Mutation::all() {
        let tries = u8::from(mutation == Mutation::CountsTimeOuts);
        let broken = LockSetup { mutation: Some(mutation), tries, ..locks(LockPlaces::Crossed, [2, 1]) };
        let rules = lossy();
        let (_, verdict) = explore(&Locks::new(broken), rules, &mut |_| std::ops::ControlFlow::Continue(()));
        assert!(matches!(verdict, Verdict::Wrong { .. }), "{mutation}: {verdict:?}");
    }
}
