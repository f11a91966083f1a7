//! Who has which part of a switch's memory, what is counted of that, and what is said about it on the wire.

use quincunx_collective::GroupId;
use quincunx_nodes::MemoryPart;
use quincunx_nodes::locks::{LockCounts, LockEdges, LockSwitch, Number, Recorder, Word};
use quincunx_units::{ByteCount, Duration, Instant};

const A: GroupId = GroupId(1);
const B: GroupId = GroupId(2);

fn lock(recorder: &mut Recorder, group: GroupId, [offset, length]: [u64; 2]) -> bool {
    recorder.lock(group, ByteCount::new(offset), ByteCount::new(length))
}

fn counts(recorder: &Recorder, group: GroupId) -> LockCounts {
    recorder.counts().find(|(known, _)| *known == group).unwrap().1
}

#[test]
fn memory_is_one_groups_until_it_is_released_and_what_does_not_overlap_is_nobody_elses_concern() {
    let mut recorder = Recorder::default();
    assert!(lock(&mut recorder, A, [0, 8]));
    assert!(!lock(&mut recorder, B, [7, 8]));
    assert!(lock(&mut recorder, B, [8, 8]));
    recorder.assert_invariants();
    recorder.release(A, true);
    assert!(!recorder.holds(A) && recorder.holds(B));
    assert!(lock(&mut recorder, A, [0, 8]));
}

#[test]
fn a_refusal_is_in_vain_if_who_was_in_the_way_is_refused_elsewhere() {
    let mut recorder = Recorder::default();
    assert!(lock(&mut recorder, A, [0, 8]));
    assert!(!lock(&mut recorder, B, [0, 8]));
    recorder.release(A, true);
    assert!(lock(&mut recorder, A, [0, 8]));
    assert!(!lock(&mut recorder, B, [0, 8]));
    recorder.release(A, false);
    assert_eq!(
        counts(&recorder, B),
        LockCounts { refused: 2, in_vain: 1, held_by: Some(A), ..LockCounts::default() },
        "the second time nobody used the memory"
    );
    assert_eq!(counts(&recorder, A), LockCounts { granted: 2, ..LockCounts::default() });
}

#[test]
fn it_counts_how_long_a_group_has_its_memory_and_not_what_is_refused() {
    let mut recorder = Recorder::default();
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    recorder.advance(at(5));
    assert!(lock(&mut recorder, A, [0, 8]));
    recorder.advance(at(7));
    assert!(!lock(&mut recorder, B, [0, 8]));
    assert_eq!(counts(&recorder, A).held, Duration::from_micros(2), "so far");
    recorder.advance(at(15));
    recorder.release(A, true);
    recorder.advance(at(50));
    assert!(lock(&mut recorder, A, [0, 8]));
    recorder.advance(at(51));
    recorder.release(A, false);
    let held = [A, B].map(|group| counts(&recorder, group).held);
    assert_eq!(held, [Duration::from_micros(10 + 1), Duration::ZERO]);
}

#[test]
fn a_group_that_is_forgotten_holds_nothing_and_is_not_counted() {
    let mut recorder = Recorder::default();
    assert!(lock(&mut recorder, A, [0, 8]));
    recorder.forget(A);
    assert_eq!((recorder.held(), recorder.counts().count()), (0, 0));
}

#[test]
fn every_word_is_read_as_it_was_written_and_others_are_none() {
    let words = [
        Word::Ask { refused: false },
        Word::Ask { refused: true },
        Word::Verdict { granted: false },
        Word::Verdict { granted: true },
        Word::Done,
        Word::Free,
    ];
    for word in words {
        let number = Number::FIRST.next();
        assert_eq!(Word::decode(word.encode(number)), Some((word, number)));
    }
    for bits in [6 << 29, u32::MAX] {
        assert_eq!(Word::decode(bits), None);
    }
}

#[test]
fn numbers_begin_again_after_the_last() {
    let (_, last) = Word::decode((1 << 29) - 1).unwrap();
    assert_eq!(Word::decode(0).map(|(_, number)| number), Some(last.next()));
}

/// A leaf switch with two children, 0 and 1, and a parent, 2.
fn leaf() -> (LockSwitch, Recorder) {
    let edges = LockEdges { parent: Some(2), children: vec![0, 1] };
    (
        LockSwitch::new(A, edges, MemoryPart { offset: ByteCount::new(0), length: ByteCount::new(8) }),
        Recorder::default(),
    )
}

#[test]
fn a_switch_asks_its_parent_once_all_children_have_asked_and_marks_what_its_recorder_refuses() {
    let (mut leaf, mut recorder) = leaf();
    assert!(lock(&mut recorder, B, [0, 8]));
    let (ask, first) = (Word::Ask { refused: false }, Number::FIRST);
    let mut said = Vec::new();
    assert!(leaf.hear(0, ask, first, &mut recorder, &mut said));
    assert!(leaf.hear(0, ask, first, &mut recorder, &mut said), "a copy is as good");
    assert_eq!(said, []);
    assert!(leaf.hear(1, ask, first, &mut recorder, &mut said));
    assert_eq!(said, [(2, Word::Ask { refused: true }, first)]);
}

#[test]
fn a_refusal_releases_on_its_way_down() {
    let (mut leaf, mut recorder) = leaf();
    let (ask, first, mut said) = (Word::Ask { refused: false }, Number::FIRST, Vec::new());
    for child in [0, 1] {
        leaf.hear(child, ask, first, &mut recorder, &mut said);
    }
    assert!(recorder.holds(A));
    said.clear();
    let refused = Word::Verdict { granted: false };
    assert!(leaf.hear(2, refused, first, &mut recorder, &mut said));
    assert_eq!(said, [(0, refused, first), (1, refused, first)]);
    assert!(!recorder.holds(A));
    assert_eq!(leaf.number(), first.next());
    leaf.assert_invariants(&recorder);
}

#[test]
fn memory_stays_locked_until_the_root_says_that_all_are_done() {
    let (mut leaf, mut recorder) = leaf();
    let (first, mut said) = (Number::FIRST, Vec::new());
    for child in [0, 1] {
        leaf.hear(child, Word::Ask { refused: false }, first, &mut recorder, &mut said);
    }
    leaf.hear(2, Word::Verdict { granted: true }, first, &mut recorder, &mut said);
    leaf.hear(0, Word::Done, first, &mut recorder, &mut said);
    said.clear();
    // To ask for the next says that one is done with this.
    leaf.hear(1, Word::Ask { refused: false }, first.next(), &mut recorder, &mut said);
    assert_eq!(said, [(2, Word::Done, first)]);
    assert!(recorder.holds(A));
    leaf.hear(2, Word::Free, first, &mut recorder, &mut said);
    assert!(!recorder.holds(A));
    leaf.assert_invariants(&recorder);
}
