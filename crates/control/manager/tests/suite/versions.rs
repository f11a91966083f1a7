//! Where some nodes run the program of another version, as in an upgrade: groups pass them by, and nobody has to refuse one.

use crate::policies::{by, clos, of, switches};
use crate::site::Site;
use quincunx_control::{Fallback, GroupRequest, InitGroupError, NodeDescription};
use quincunx_design::AnyDesign;
use quincunx_designs::CATALOG;

fn epic_2() -> &'static dyn AnyDesign {
    CATALOG.named("epic-2").unwrap()
}

/// Four hosts at two leaves below two spines, of which some have epic-2 and others as they were before.
fn with_behind(behind: &[&str], designs: &[&str]) -> Site {
    let tell = |node: NodeDescription| {
        let mut node = node.offering(CATALOG.above_queue_pairs());
        if behind.contains(&node.name.as_str()) {
            designs.iter().for_each(|design| *node.versions.get_mut(*design).unwrap() -= 1);
        }
        node
    };
    Site::of(by("spatial"), clos().into_iter().map(tell).collect::<Vec<_>>())
}

#[test]
fn a_tree_goes_round_a_switch_of_another_version() {
    let mut site = with_behind(&["s2"], &["epic-2"]);
    assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-2")), ["s3", "s0", "s1"]);
    // It may have a design that has not changed.
    let mut site = with_behind(&["s2"], &["epic-2"]);
    assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-3")), ["s2", "s0", "s1"]);
}

#[test]
fn where_no_switch_has_the_manager_s_version_the_group_runs_among_its_hosts_and_says_so() {
    let mut site = with_behind(&["s0", "s1", "s2", "s3"], &["epic-2"]);
    let group = site.init(&of(&[0, 1], "epic-2"));
    let summary = site.summary(group);
    let version = epic_2().about().version;
    let expected = format!(
        "expected version {version} of the parameters of epic-2 at \"s0\", \"s1\", \"s2\", 1 others, found another; run one version everywhere, \
         `quincunx doctor` shows who is behind"
    );
    assert_eq!((summary.design.as_str(), summary.fallback.unwrap().to_string()), ("ring", expected));
}

#[test]
fn switches_that_drain_are_told_of_before_those_of_another_version() {
    let mut site = with_behind(&["s1", "s2", "s3"], &["epic-2"]);
    site.manager.drain("s0", true).unwrap();
    let group = site.init(&of(&[0, 1], "epic-2"));
    assert!(matches!(site.summary(group).fallback, Some(Fallback::Draining { .. })));
}

#[test]
fn members_of_another_version_run_what_both_have() {
    let mut site = with_behind(&["r1"], &["epic-2"]);
    let group = site.init(&of(&[0, 1], "epic-2"));
    let summary = site.summary(group);
    let Some(Fallback::OtherVersion { nodes, .. }) = &summary.fallback else { panic!("{summary:?}") };
    assert_eq!((summary.design.as_str(), &nodes[..]), ("ring", &["r1".to_owned()][..]));
    assert_eq!(switches(&mut site, &of(&[2, 3], "epic-2")), ["s1"], "others are not concerned");
}

#[test]
fn so_do_ranks_that_all_are_older_than_the_manager() {
    let mut site = with_behind(&["r0", "r1"], &["epic-2"]);
    let wanted = of(&[0, 1], "epic-2");
    let group = site.init(&GroupRequest { version: wanted.version - 1, ..wanted });
    assert_eq!(site.summary(group).design, "ring");
}

#[test]
fn who_asks_in_another_version_than_that_of_all_members_is_refused() {
    let mut site = with_behind(&[], &[]);
    let wanted = of(&[0, 1], "epic-2");
    let error = site.begin(&GroupRequest { version: wanted.version - 1, ..wanted }).unwrap_err();
    assert!(error.to_string().contains("the program that asks is older than the manager"), "{error}");
}

#[test]
fn where_members_have_nothing_in_common_there_is_no_group_and_nobody_was_asked_to_make_it() {
    let mut site = with_behind(&["r1"], &["epic-2", "ring"]);
    for design in ["epic-2", "ring"] {
        let error = site.begin(&of(&[0, 1], design)).unwrap_err();
        assert!(matches!(error, InitGroupError::NoRoom(Fallback::OtherVersion { .. })), "{error}");
    }
    assert!(site.manager.is_idle());
}
