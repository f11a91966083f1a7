//! A switch's memory: blocks, and pieces of what is free.

use proptest::prelude::*;
use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region, Shortage, SwitchMemory};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;

const fn bytes(bytes: u64) -> ByteCount {
    ByteCount::new(bytes)
}

const fn region(offset: u64, length: u64) -> Region {
    Region { offset: bytes(offset), length: bytes(length) }
}

#[test]
fn blocks_are_whole_units_in_the_first_gap_that_is_long_enough() {
    let mut memory = SwitchMemory::new(bytes(100), bytes(10));
    assert_eq!(memory.take(GroupId(1), bytes(11)), Ok(region(0, 20)));
    assert_eq!(memory.take(GroupId(2), bytes(30)), Ok(region(20, 30)));
    assert_eq!(memory.take(GroupId(3), bytes(50)), Ok(region(50, 50)));
    memory.release(GroupId(2));
    memory.release(GroupId(3));
    assert_eq!(memory.take(GroupId(4), bytes(60)), Ok(region(20, 60)), "gaps side by side are one");
    assert_eq!(memory.take(GroupId(5), bytes(0)), Ok(region(0, 0)), "nothing takes no room");
}

#[test]
fn what_is_free_but_in_pieces_is_said_so() {
    let mut memory = SwitchMemory::new(bytes(40), bytes(10));
    for group in 1..=4 {
        memory.take(GroupId(group), bytes(10)).unwrap();
    }
    memory.release(GroupId(1));
    memory.release(GroupId(3));
    let shortage = Shortage { needed: bytes(20), free: bytes(20), longest: bytes(10) };
    assert_eq!(memory.take(GroupId(5), bytes(15)), Err(shortage));
    assert_eq!(memory.has(bytes(15)), Err(shortage));
}

#[test]
fn blocks_are_moved_together_as_far_as_it_takes_and_no_further() {
    let mut memory = SwitchMemory::new(bytes(80), bytes(10));
    for group in 1..=8 {
        memory.take(GroupId(group), bytes(10)).unwrap();
    }
    for group in [1, 3, 7] {
        memory.release(GroupId(group));
    }
    assert_eq!(memory.make_room(bytes(10)), [], "there is a piece");
    assert_eq!(memory.make_room(bytes(31)), [], "there is not as much");
    let moved = [(10, 0)].map(|(from, to)| MovedBlock { from: region(from, 10), to: bytes(to) });
    assert_eq!(memory.make_room(bytes(20)), moved);
    assert_eq!(memory.region_of(GroupId(4)), Some(region(30, 10)));
    assert_eq!(memory.take(GroupId(9), bytes(20)), Ok(region(10, 20)));
    memory.release(GroupId(9));
    let moved =
        [(30, 10), (40, 20), (50, 30)].map(|(from, to)| MovedBlock { from: region(from, 10), to: bytes(to) });
    assert_eq!(memory.make_room(bytes(30)), moved);
    assert_eq!(memory.take(GroupId(10), bytes(30)), Ok(region(40, 30)));
}

#[test]
fn a_block_that_groups_have_by_turns_is_free_when_the_last_has_left_it() {
    let mut memory = SwitchMemory::new(bytes(20), bytes(1));
    let block = memory.take(GroupId(1), bytes(15)).unwrap();
    assert_eq!(memory.share(GroupId(2), bytes(16), |_| Some(0)), None, "it is too short");
    assert_eq!(memory.share(GroupId(2), bytes(5), |_| None), None);
    assert_eq!(memory.share(GroupId(2), bytes(5), |holders| (holders.len() == 1).then_some(0)), Some(block));
    memory.release(GroupId(1));
    assert_eq!(memory.free(), bytes(5));
    memory.release(GroupId(2));
    assert_eq!(memory.free(), bytes(20));
}

#[test]
fn a_block_comes_back_where_it_was_and_nowhere_else() {
    let mut memory = SwitchMemory::new(bytes(40), bytes(10));
    memory.restore(GroupId(1), region(10, 20)).unwrap();
    memory.restore(GroupId(2), region(10, 20)).unwrap();
    for taken in [region(0, 20), region(20, 20), region(30, 20), region(5, 10)] {
        assert!(memory.restore(GroupId(3), taken).is_err(), "{taken:?}");
    }
    assert_eq!(memory.longest(), bytes(10));
}

#[derive(Clone, Debug)]
enum Step {
    Take(u32, u64),
    Share(u32, u64),
    MakeRoom(u64),
    Release(u32),
}

proptest! {
    /// Against a list of which group has which byte.
    #[test]
    fn no_byte_has_two_blocks_and_none_is_lost(
        unit in 1u64..5,
        steps in prop::collection::vec(prop_oneof![
            4 => (1u32..20, 0u64..30).prop_map(|(group, length)| Step::Take(group, length)),
            1 => (1u32..20, 1u64..30).prop_map(|(group, length)| Step::Share(group, length)),
            1 => (0u64..30).prop_map(Step::MakeRoom),
            3 => (1u32..20).prop_map(Step::Release),
        ], 0..60),
    ) {
        const ALL: u64 = 60;
        let mut memory = SwitchMemory::new(bytes(ALL), bytes(unit));
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Take(group, _) | Step::Share(group, _) if held.contains_key(&group) => {}
                Step::Take(group, length) => match memory.take(GroupId(group), bytes(length)) {
                    Ok(region) => {
                        prop_assert!(region.length.bytes() >= length && region.length.bytes() < length + unit);
                        if length > 0 {
                            held.insert(group, length);
                        }
                    }
                    Err(shortage) => prop_assert!(shortage.longest < shortage.needed),
                },
                Step::Share(group, length) => {
                    if let Some(region) = memory.share(GroupId(group), bytes(length), |_| Some(0)) {
                        prop_assert!(region.length >= bytes(length));
                        held.insert(group, length);
                    }
                }
                Step::MakeRoom(length) => {
                    let before: Vec<_> = memory.regions().map(|(region, holders)| (region, holders.clone())).collect();
                    let mut places: Vec<Region> = before.iter().map(|(region, _)| *region).collect();
                    let free = memory.free();
                    for MovedBlock { from, to } in memory.make_room(bytes(length)) {
                        let to = Region { offset: to, ..from };
                        let own = places.iter().position(|place| *place == from).expect("it is a block");
                        places[own] = to;
                        let clash = places.iter().enumerate().find(|(other, place)| *other != own && place.overlaps(&to));
                        prop_assert_eq!(clash, None, "{:?} is moved over another block", from);
                    }
                    let holders = before.into_iter().map(|(_, holders)| holders);
                    let after: Vec<_> = memory.regions().map(|(region, holders)| (region, holders.clone())).collect();
                    prop_assert_eq!(after, places.into_iter().zip(holders).collect::<Vec<_>>());
                    prop_assert_eq!(memory.has(bytes(length)).is_ok(), free >= bytes(length.div_ceil(unit) * unit));
                }
                Step::Release(group) => {
                    held.remove(&group);
                    memory.release(GroupId(group));
                }
            }
            memory.assert_invariants();
            let mut owner = [false; ALL as usize];
            for (region, _) in memory.regions() {
                let bytes = region.offset.as_usize()..(region.offset + region.length).as_usize();
                for taken in &mut owner[bytes] {
                    prop_assert!(!std::mem::replace(taken, true), "a byte has two blocks");
                }
            }
            let taken = owner.iter().filter(|taken| **taken).count() as u64;
            prop_assert_eq!(memory.free(), bytes(ALL / unit * unit - taken));
            for (&group, &length) in &held {
                let region = memory.region_of(GroupId(group));
                prop_assert!(region.is_some_and(|region| region.length.bytes() >= length), "group {} lost its block", group);
            }
        }
    }
}
