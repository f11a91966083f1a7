//! How much of the time blocks of switches' memory are in use (EPIC 6.2, "oversubscribed blocks weighted by duty cycle"): what switches measure,
//! what jobs tell, and where new groups go by it.

use crate::policies::{by, clos, of, switches};
use crate::site::{Site, host, set, switch};
use quincunx_collective::GroupId;
use quincunx_control::{GroupRequest, LockUse, NodeDescription, Phase, Report};
use quincunx_units::{ByteCount, Duration, Instant};

/// What switches have for one group and no more.
const ONE: u64 = 17_000;

/// A star of two hosts whose switch has memory for so many groups.
fn star(groups: u64) -> Site {
    let memory = ByteCount::new(ONE * groups);
    let [switch, first, second] =
        [NodeDescription { memory, max_endpoints: 64, ..switch(0) }, host(0), host(1)]
            .map(|node| NodeDescription { max_endpoints: 64, ..node });
    Site::of(by("contention"), [switch, first, second])
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// At a time a switch tells how long it has given each group its memory so far, in milliseconds.
fn tell(site: &mut Site, switch: &str, millis: u64, held: &[(GroupId, u64)]) {
    site.manager.advance(at(millis));
    for &(group, held) in held {
        let held = Duration::from_millis(held);
        site.report(switch, group, Report::Locked(LockUse { granted: 1, held, ..LockUse::default() }));
    }
}

fn duty(site: &Site, group: GroupId) -> Option<u8> {
    site.summary(group).shared.unwrap()[0].duty
}

#[test]
fn a_blocks_duty_is_that_of_all_groups_that_have_it() {
    let mut site = star(1);
    let [first, second] = [(); 2].map(|()| site.init(&of(&[0, 1], "epic-2")));
    assert_eq!(duty(&site, first), None, "nobody has told anything");
    tell(&mut site, "s0", 1000, &[(first, 200), (second, 0)]);
    assert_eq!(duty(&site, first), None, "one time is no span of time");
    tell(&mut site, "s0", 1900, &[(first, 300), (second, 100)]);
    assert_eq!(duty(&site, first), None, "and less than a second is a short one");
    tell(&mut site, "s0", 3000, &[(first, 500), (second, 400)]);
    // 300 ms and 400 ms of 2 s.
    assert_eq!([first, second].map(|group| duty(&site, group)), [Some(15 + 20); 2]);
}

#[test]
fn a_duty_fades_where_nobody_tells_more_and_is_never_more_than_all() {
    let mut site = star(1);
    let [first, second] = [(); 2].map(|()| site.init(&of(&[0, 1], "epic-2")));
    tell(&mut site, "s0", 0, &[(first, 0), (second, 0)]);
    tell(&mut site, "s0", 1000, &[(first, 800), (second, 800)]);
    assert_eq!(duty(&site, first), Some(100));
    site.manager.advance(at(8000));
    assert_eq!(duty(&site, first), Some(10 + 10));
}

#[test]
fn a_switch_that_started_again_is_measured_from_then_on() {
    let mut site = star(1);
    let group = site.init(&of(&[0, 1], "epic-2"));
    tell(&mut site, "s0", 0, &[(group, 0)]);
    tell(&mut site, "s0", 1000, &[(group, 900)]);
    tell(&mut site, "s0", 2000, &[(group, 100)]);
    assert_eq!(duty(&site, group), None);
    tell(&mut site, "s0", 4000, &[(group, 600)]);
    assert_eq!(duty(&site, group), Some(25));
}

#[test]
fn what_a_job_tells_counts_until_it_is_measured() {
    let mut site = star(1);
    let phase = Some(Phase { job: "gpt".into(), number: 1, duty: 70 });
    let group = site.init(&GroupRequest { phase, ..of(&[0, 1], "epic-2") });
    assert_eq!(duty(&site, group), Some(70));
    tell(&mut site, "s0", 0, &[(group, 0)]);
    tell(&mut site, "s0", 2000, &[(group, 200)]);
    assert_eq!(duty(&site, group), Some(10));
}

#[test]
fn who_must_share_gets_the_block_that_is_used_the_least() {
    let mut site = star(2);
    let [busy, idle] = [(); 2].map(|()| site.init(&of(&[0, 1], "epic-2")));
    tell(&mut site, "s0", 0, &[(busy, 0), (idle, 0)]);
    tell(&mut site, "s0", 1000, &[(busy, 900), (idle, 100)]);
    // Two that nobody has measured yet: the second would have a block with fewer holders.
    for _ in 0..2 {
        let third = site.init(&of(&[0, 1], "epic-2"));
        assert!(site.summary(third).shared.unwrap()[0].with.contains(&idle));
    }
}

#[test]
fn trees_are_laid_over_switches_whose_blocks_are_used_the_least() {
    for (busy, root) in [("s2", "s3"), ("s3", "s2")] {
        let mut nodes = clos();
        for node in nodes.iter_mut() {
            node.memory = ByteCount::new(if node.name.starts_with('s') { ONE } else { 0 });
            node.max_endpoints = 64;
        }
        let mut site = Site::of(by("contention"), nodes);
        let groups = [(); 2].map(|()| site.init(&of(&[0, 2], "epic-2")));
        for (millis, is_later) in [(0, 0), (1000, 1)] {
            for group in groups {
                let own = site.summary(group).switches[0].node.clone();
                let held = if own == busy { 900 } else { 100 };
                tell(&mut site, &own, millis, &[(group, held * is_later)]);
            }
        }
        assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), [root]);
    }
}

#[test]
fn who_cannot_lock_shares_no_block_though_others_do() {
    // One group has all of the memory.
    let mut site = star(4);
    let mut large = of(&[0, 1], "epic-2");
    set(&mut large, "group.window", 16);
    let first = site.init(&large);
    assert_eq!(site.summary(first).design, "epic-2");
    // A lock is for one channel.
    let mut in_channels = of(&[0, 1], "epic-2");
    set(&mut in_channels, "group.channels", 2);
    let group = site.init(&in_channels);
    assert_eq!((site.summary(group).design.as_str(), site.summary(group).shared), ("ring", None));
}
