use quincunx_check::{Exploration, Group, GroupSetup, Verdict, explore};
use quincunx_designs::CATALOG;
use quincunx_units::ByteCount;
use std::ops::ControlFlow;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let network: quincunx_check::NetworkShape = a[3].parse().unwrap();
    let design = CATALOG.find(&a[1], network.fabric()).unwrap();
    let full = a.get(5).is_some_and(|f| f.contains('f'));
    let n = |c| a.get(5).map_or(0, |f| f.matches(c).count() as u8);
    let over: Vec<_> = a
        .iter()
        .skip(6)
        .map(|s| {
            let (k, v) = s.split_once('=').unwrap();
            (k.to_owned(), v.parse::<u64>().map_or(v.into(), |v| v.into()))
        })
        .collect();
    let settings = GroupSetup::settings(design, &over).unwrap();
    let setup = GroupSetup {
        design,
        settings,
        network,
        collectives: a[2].split(',').map(|c| c.parse().unwrap()).collect(),
        packets: a[4].parse().unwrap(),
        senders: std::env::var("SENDERS").ok().map(|s| s.parse().unwrap()),
        mutation: std::env::var("MUTATE").ok(),
    };
    let group = Group::new(&setup).unwrap_or_else(|e| panic!("{e}"));
    let rules = Exploration {
        losses: n('l'),
        duplicates: n('d'),
        delays: n('r'),
        early_timeouts: n('e'),
        at_once: !full,
        symmetry: !full,
        persistent_sets: !full,
        threads: 2,
        memory: ByteCount::new(8 << 30),
    };
    let begin = std::time::Instant::now();
    let (s, v) = explore(&group, rules, &mut |_| ControlFlow::Continue(()));
    let t = begin.elapsed().as_secs_f64();
    let v = match v {
        Verdict::Correct => "correct".into(),
        Verdict::Wrong { fault, path } => format!("{fault} in {}", path.0.len()),
        _ => "unf".to_owned(),
    };
    println!(
        "{} {} {} {} {} states {} distinct {} diameter {} {:.2}s {:.0}/s {v}",
        a[1],
        a[2],
        a[3],
        a[4],
        a.get(5).map_or("", |s| s),
        s.states,
        s.distinct,
        s.diameter,
        t,
        s.states as f64 / t
    );
}
