//! The tables against a plain model: whatever comes in whatever order, every load is answered once with the home's data, and every
//! contribution gets home once.

use crate::common::*;
use proptest::prelude::*;
use quincunx_units::Duration;
use quincunx_wire::flit::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Load(u16, u64),
    Reduce(u16, u64),
    Fill(prop::sample::Index),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let address = || (0..6u64).prop_map(|line| line * 128);
    let step = prop_oneof![
        4 => (1..4u16, address()).prop_map(|(from, address)| Step::Load(from, address)),
        4 => (1..4u16, address()).prop_map(|(from, address)| Step::Reduce(from, address)),
        4 => any::<prop::sample::Index>().prop_map(Step::Fill),
        1 => (0..1500u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn every_load_is_answered_once_and_every_contribution_gets_home_once(steps in steps(), entries in 0..5usize) {
        let mut bench = Bench::new(|config| config.entries = entries);
        // What the home will answer; loads without an answer; sums and contributions, sent and at home.
        let (mut reads, mut open) = (Vec::<Sent>::new(), BTreeMap::new());
        let (mut given, mut arrived) = (BTreeMap::<u64, (u32, u32)>::new(), BTreeMap::<u64, (u32, u32)>::new());
        let value = |address: u64| (address / 128) as u8 + 1;
        let end = [Step::Pass(0)];
        for (number, step) in steps.iter().chain(&end).enumerate() {
            let mut sent = match step {
                Step::Load(from, address) => {
                    open.insert((*from, number as u32), *address);
                    bench.load(*from, *address, number as u32)
                }
                Step::Reduce(from, address) => {
                    let sum = given.entry(*address).or_default();
                    *sum = (sum.0 + u32::from(*from), sum.1 + 1);
                    bench.reduce(*from, *address, *from as u8)
                }
                Step::Fill(index) if !reads.is_empty() => {
                    let read = reads.swap_remove(index.index(reads.len()));
                    bench.fill(&read, value(read.1.address))
                }
                Step::Fill(_) => vec![],
                Step::Pass(nanos) => bench.pass(Duration::from_nanos(*nanos)),
            };
            if number == steps.len() {
                // At the end the home answers all, and time passes.
                while let Some(read) = reads.pop() {
                    if read.1.source == NODE {
                        sent.extend(bench.fill(&read, value(read.1.address)));
                    } else {
                        open.remove(&(read.1.source.0, read.1.tag));
                    }
                }
                sent.extend(bench.pass(TIMEOUT));
            }
            for (port, header, data) in sent {
                match header.transaction {
                    Transaction::Read { .. } if header.source == NODE => reads.push((port, header, data)),
                    // The home answers it itself.
                    Transaction::Read { .. } => {
                        let asked = open.remove(&(header.source.0, header.tag));
                        prop_assert_eq!(asked, Some(header.address));
                    }
                    Transaction::ReadResponse => {
                        prop_assert_eq!(&data, &vec![value(header.address), 0, 0, 0]);
                        prop_assert_eq!(open.remove(&(port, header.tag)), Some(header.address));
                    }
                    Transaction::Reduce => {
                        let sum = arrived.entry(header.address).or_default();
                        *sum = (sum.0 + u32::from_le_bytes(data.try_into().unwrap()), sum.1 + header.tag);
                    }
                    _ => prop_assert!(false, "{:?}", header),
                }
            }
        }
        prop_assert_eq!(open, BTreeMap::new());
        prop_assert_eq!(given, arrived);
    }
}
