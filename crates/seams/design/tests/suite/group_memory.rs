//! A group's part of its switch's memory: its own bytes and no others', and what others have written over when they have it by turns.

use proptest::prelude::*;
use quincunx_collective::{DataType, GroupId, Numbers, Payload, ReduceOp, Reduction};
use quincunx_design::{GroupMemory, Writers};
use std::ops::Range;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
/// Bytes of the memory, and of what groups have by turns: all but the ends.
const ALL: usize = 64;
const PART: Range<usize> = 8..56;

#[test]
fn a_group_reads_and_writes_at_its_pointer() {
    let mut memory = Numbers::zeroed(ALL);
    let mut own = GroupMemory::new(&mut memory, 16..32);
    own.write(4, &[1, 0, 0, 0]);
    own.reduce(4, &[2, 0, 0, 0], SUM);
    own.copy(8, 4..8);
    own.combine(8, 4..8, SUM);
    assert_eq!(own.stored(0..16), Some([0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0].as_slice()));
    assert_eq!(memory.bytes()[20..28], [3, 0, 0, 0, 6, 0, 0, 0]);
}

#[test]
fn nothing_beyond_a_groups_part_is_reached() {
    type Access = fn(&mut GroupMemory<'_, Numbers>);
    let accesses: [Access; 7] = [
        |memory| {
            memory.stored(12..17);
        },
        |memory| memory.write(13, &[0; 4]),
        |memory| memory.reduce(16, &[0; 4], SUM),
        |memory| memory.copy(14, 0..4),
        |memory| memory.copy(0, 14..18),
        |memory| memory.combine(16, 0..4, SUM),
        |memory| memory.combine(0, 16..20, SUM),
    ];
    for (access, number) in accesses.into_iter().zip(0..) {
        let mut memory = Numbers::zeroed(ALL);
        let reaches = std::panic::catch_unwind(move || access(&mut GroupMemory::new(&mut memory, 16..32)));
        assert!(reaches.is_err(), "access {number}");
    }
}

#[test]
#[should_panic(expected = "60..68 of a memory of 64 bytes")]
fn a_part_is_inside_the_memory() {
    GroupMemory::new(&mut Numbers::zeroed(ALL), 60..68);
}

/// What two groups do, each in words of four bytes: a word to write, to add to, to send, to copy from another or to add one to.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, i32),
    Reduce(usize, i32),
    Stored(usize),
    Copy(usize, usize),
    Combine(usize, usize),
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let word = || 0..PART.len() / 4;
    let step = prop_oneof![
        (word(), any::<i32>()).prop_map(|(word, value)| Step::Write(word, value)),
        (word(), any::<i32>()).prop_map(|(word, value)| Step::Reduce(word, value)),
        word().prop_map(Step::Stored),
        (word(), word()).prop_map(|(to, from)| Step::Copy(to, from)),
        (word(), word()).prop_map(|(to, from)| Step::Combine(to, from)),
    ];
    (0..2_usize, step)
}

proptest! {
    #[test]
    fn what_a_group_has_by_turns_is_what_it_has_stored_or_nothing(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let (mut memory, mut writers) = (Numbers::zeroed(ALL), Writers::default());
        // By word: whose it is, and what that group would have there if it were alone.
        let mut expected: Vec<Option<(usize, i32)>> = vec![None; PART.len() / 4];
        for (group, step) in steps {
            let mut own = GroupMemory::new(&mut memory, PART).by_turns(GroupId(group as u32), &mut writers);
            let bytes = |word: usize| 4 * word..4 * word + 4;
            let has = |word: usize, expected: &[Option<(usize, i32)>]| {
                expected[word].filter(|(owner, _)| *owner == group).map(|(_, value)| value)
            };
            match step {
                Step::Write(word, value) => {
                    own.write(4 * word, &value.to_le_bytes());
                    expected[word] = Some((group, value));
                }
                Step::Reduce(word, value) => {
                    own.reduce(4 * word, &value.to_le_bytes(), SUM);
                    if let Some(sum) = has(word, &expected) {
                        expected[word] = Some((group, sum.wrapping_add(value)));
                    }
                }
                Step::Stored(word) => {
                    let found = own.stored(bytes(word)).map(<[u8]>::to_vec);
                    let value = has(word, &expected).map(|value| value.to_le_bytes().to_vec());
                    prop_assert_eq!(found, value);
                }
                Step::Copy(to, from) => {
                    own.copy(4 * to, bytes(from));
                    expected[to] = has(from, &expected).map(|value| (group, value));
                }
                Step::Combine(to, from) if to != from => {
                    own.combine(4 * to, bytes(from), SUM);
                    if let Some(sum) = has(to, &expected) {
                        let both = has(from, &expected).map(|value| (group, sum.wrapping_add(value)));
                        expected[to] = both;
                    }
                }
                Step::Combine(..) => {}
            }
        }
        prop_assert!(memory.bytes()[..PART.start].iter().chain(&memory.bytes()[PART.end..]).all(|byte| *byte == 0));
    }
}

proptest! {
    #[test]
    fn what_is_moved_is_whose_it_was(
        writes in prop::collection::vec((0..64_usize, 1..16_usize, 0..3_u32), 0..12),
        (start, length, to) in (0..48_usize, 0..16_usize, 0..48_usize),
    ) {
        let mut writers = Writers::default();
        let mut expected = [None; 80];
        for (start, length, group) in writes {
            writers.write(start..start + length, GroupId(group));
            expected[start..start + length].fill(Some(group));
        }
        writers.move_block(start..start + length, to);
        let before = expected;
        expected[start..start + length].fill(None);
        expected[to..to + length].copy_from_slice(&before[start..start + length]);
        let mut memory = Numbers::zeroed(80);
        for (byte, owner) in expected.into_iter().enumerate() {
            for group in 0..3 {
                let own = GroupMemory::whole(&mut memory).by_turns(GroupId(group), &mut writers);
                prop_assert_eq!(own.stored(byte..byte + 1).is_some(), owner == Some(group), "byte {}", byte);
            }
        }
    }
}

#[test]
fn what_a_group_has_stored_before_another_one_came_is_still_its_own() {
    let (mut memory, mut writers) = (Numbers::zeroed(ALL), Writers::default());
    let [first, second] = [1, 2].map(GroupId);
    writers.write(PART, first);
    let stored = |group: GroupId, range: Range<usize>, memory: &mut Numbers, writers: &mut Writers| {
        GroupMemory::new(memory, PART).by_turns(group, writers).stored(range).is_some()
    };
    GroupMemory::new(&mut memory, PART).by_turns(second, &mut writers).write(8, &[7; 8]);
    for (range, is_first) in [(0..8, true), (4..12, false), (8..16, false), (16..PART.len(), true)] {
        assert_eq!(stored(first, range.clone(), &mut memory, &mut writers), is_first, "{range:?}");
    }
    assert!(stored(second, 8..16, &mut memory, &mut writers));
    writers.remove(second);
    assert!(!stored(second, 8..16, &mut memory, &mut writers));
}
