//! What holds of the parameters of every design: they survive the way to another process, and each has a key that people are told of.

use proptest::prelude::*;
use quincunx_design::{AnyDesign, Settings, Value};
use quincunx_designs::CATALOG;

/// Values of every kind that parameters have; a key takes those of its own kind.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..1 << 12).prop_map(Value::from),
        (1u64..1 << 20).prop_map(|number| Value::from(format!("{number}KiB"))),
        (0u64..1 << 30).prop_map(|number| Value::from(format!("{number}ns"))),
        (1u64..1 << 30).prop_map(|number| Value::from(format!("{number}kbit/s"))),
        prop::sample::select(vec!["paired", "full"]).prop_map(Value::from),
        Just(Value::Null),
    ]
}

fn any_changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Value)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..60)
}

/// The defaults with whatever of `changes` the design takes.
fn changed(design: &dyn AnyDesign, changes: &[(prop::sample::Index, Value)]) -> Settings {
    let mut settings = design.defaults();
    let keys: Vec<String> = settings.flat().into_iter().map(|(key, _)| key).collect();
    for (index, value) in changes {
        let before = settings.clone();
        if design.set(&mut settings, index.get::<String>(&keys), value).is_err() {
            assert_eq!(settings, before, "a refusal changes nothing");
        }
    }
    settings
}

proptest! {
    #[test]
    fn whatever_is_set_arrives_in_another_process(changes in any_changes()) {
        for design in CATALOG.above_queue_pairs() {
            let sent = changed(design, &changes);
            let text = sent.to_text();
            prop_assert!(!text.contains('\n'));
            let received = Settings::parse(&text).unwrap();
            prop_assert_eq!(&received, &sent);
            prop_assert_eq!(design.transport(&received), design.transport(&sent));
            // Key by key the same as at once.
            let mut again = design.defaults();
            for (key, value) in received.flat() {
                prop_assert_eq!(design.set(&mut again, &key, &value), Ok(()), "{}", key);
            }
            prop_assert_eq!(again, sent);
        }
    }

    #[test]
    fn no_text_at_all_makes_a_design_panic(text in "\\PC{0,40}", key in "[a-z_.]{0,20}", value in any_value()) {
        for design in CATALOG.above_queue_pairs() {
            if let Ok(settings) = Settings::parse(&text) {
                let _ = design.transport(&settings);
            }
            let mut settings = design.defaults();
            let set = design.set(&mut settings, &key, &value);
            prop_assert!(set.is_ok() || settings == design.defaults());
        }
    }
}

#[test]
fn every_key_of_a_design_is_explained_and_nothing_else_is() {
    for design in CATALOG.above_queue_pairs() {
        let mut keys: Vec<String> = design.defaults().flat().into_iter().map(|(key, _)| key).collect();
        let mut explained: Vec<String> = design.help().iter().map(|(key, _)| key.to_string()).collect();
        keys.sort_unstable();
        explained.sort_unstable();
        assert_eq!(keys, explained, "{}", design.name());
    }
}
