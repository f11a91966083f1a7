//! What the outbox promises: merging where the kernel allows it, order for each destination, nothing lost.

use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn to(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, host]), 4791)
}

fn put(outbox: &mut Outbox, host: u8, tos: u8, bytes: &[u8]) {
    outbox.reserve(bytes.len()).expect("room for a small frame")[..bytes.len()].copy_from_slice(bytes);
    outbox.commit(bytes.len(), Flow { destination: to(host), share: 0, tos }, false);
}

/// (destination, frames, bytes) of each unsent batch.
fn shape(outbox: &Outbox) -> Vec<(u8, usize, Vec<u8>)> {
    let (arena, batches) = outbox.unsent();
    batches
        .iter()
        .map(|batch| {
            let bytes = batch.pieces().iter().flat_map(|range| arena[range.clone()].to_vec()).collect();
            (last_octet(batch), batch.frames(), bytes)
        })
        .collect()
}

fn last_octet(batch: &Batch) -> u8 {
    crate::global_route::gid_of(batch.destination().ip()).octets()[15]
}

#[test]
fn interleaved_destinations_still_merge() {
    let mut outbox = Outbox::new(1024, 64);
    for round in 0..3 {
        for host in 1..=2 {
            put(&mut outbox, host, 0, &[round, host]);
        }
    }
    assert_eq!(shape(&outbox), [(1, 3, vec![0, 1, 1, 1, 2, 1]), (2, 3, vec![0, 2, 1, 2, 2, 2])]);
}

#[test]
fn what_goes_to_one_destination_is_sent_in_one_go() {
    let mut outbox = Outbox::new(1024, 64);
    for frame in [&b"a"[..], b"bb"] {
        put(&mut outbox, 2, 0, frame);
        put(&mut outbox, 1, 0, frame);
    }
    outbox.gather();
    let order =
        |outbox: &Outbox| shape(outbox).into_iter().map(|(host, _, bytes)| (host, bytes)).collect::<Vec<_>>();
    let gathered = [(1, b"a".to_vec()), (1, b"bb".to_vec()), (2, b"a".to_vec()), (2, b"bb".to_vec())];
    assert_eq!(order(&outbox), gathered);
    put(&mut outbox, 1, 0, b"cc");
    assert_eq!(order(&outbox)[1], (1, b"bbcc".to_vec()), "the last batch of each goes on growing");
}

#[test]
fn a_batch_that_was_in_use_takes_any_number_of_pieces_without_allocating() {
    let mut outbox = Outbox::new(1024, 64);
    let mut rounds = |rounds| {
        for round in 0..rounds {
            put(&mut outbox, 1, 0, &[round]);
            put(&mut outbox, 2, 0, &[round]);
        }
        outbox.remove(2);
    };
    rounds(1);
    let counted = allocation_counter::measure(|| rounds(64));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn a_shorter_frame_ends_its_batch_and_a_longer_one_begins_another() {
    let mut outbox = Outbox::new(1024, 64);
    for frame in [&b"aaa"[..], b"b", b"c", b"dddd"] {
        put(&mut outbox, 1, 0, frame);
    }
    assert_eq!(
        shape(&outbox),
        [(1, 2, b"aaab".to_vec()), (1, 1, b"c".to_vec()), (1, 1, b"dddd".to_vec())],
        "a lone short frame may be followed by equally short ones only"
    );
}

#[test]
fn frames_of_another_service_do_not_merge() {
    let mut outbox = Outbox::new(1024, 64);
    put(&mut outbox, 1, 0, b"a");
    put(&mut outbox, 1, 2, b"b");
    assert_eq!(shape(&outbox).len(), 2);
}

#[test]
fn frames_for_several_processes_at_an_address_never_share_a_datagram() {
    let mut outbox = Outbox::new(1024, 64);
    for (share, bytes) in [(0, b"a"), (1, b"b"), (0, b"c"), (1, b"d")] {
        outbox.reserve(1).expect("room")[0] = bytes[0];
        outbox.commit(1, Flow { destination: to(1), share, tos: 0 }, false);
    }
    put(&mut outbox, 1, 2, b"e");
    outbox.gather();
    let expected = [(1, 2, b"ac".to_vec()), (1, 1, b"e".to_vec()), (1, 2, b"bd".to_vec())];
    assert_eq!(shape(&outbox), expected, "each process's come in one go");
}

#[test]
fn a_batch_never_outgrows_a_datagram() {
    let mut outbox = Outbox::new(1 << 20, 64);
    for _ in 0..64 {
        put(&mut outbox, 1, 0, &[7; 4096]);
    }
    let (_, batches) = outbox.unsent();
    assert!(batches.iter().all(|batch| batch.length() <= MAX_DATAGRAM));
    assert_eq!(batches.iter().map(Batch::frames).sum::<usize>(), 64);
}

#[test]
fn a_short_frame_that_may_wait_travels_behind_longer_ones() {
    let mut outbox = Outbox::new(1024, 64);
    outbox.reserve(1).expect("room")[0] = b'a';
    outbox.commit(1, Flow { destination: to(1), share: 0, tos: 0 }, true);
    for frame in [&b"11"[..], b"22", b"33"] {
        put(&mut outbox, 1, 0, frame);
    }
    // What comes after the last is a datagram of its own, also when it is as short.
    put(&mut outbox, 1, 0, b"b");
    let batches: Vec<_> = shape(&outbox).into_iter().map(|batch| batch.2).collect();
    assert_eq!(batches, [b"112233a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_short_frame_that_may_not_wait_goes_first() {
    let mut outbox = Outbox::new(1024, 64);
    put(&mut outbox, 1, 0, b"a");
    put(&mut outbox, 1, 0, b"11");
    let batches: Vec<_> = shape(&outbox).into_iter().map(|batch| batch.2).collect();
    assert_eq!(batches, [b"a".to_vec(), b"11".to_vec()]);
}

#[test]
fn a_full_outbox_reserves_nothing_until_all_is_sent() {
    let mut outbox = Outbox::new(8, 64);
    put(&mut outbox, 1, 0, &[0; 8]);
    assert!(outbox.reserve(1).is_none());
    outbox.remove(1);
    assert!(outbox.is_empty() && outbox.reserve(8).is_some());
}

#[test]
fn what_cannot_be_segmented_is_split_into_the_same_frames() {
    let mut outbox = Outbox::new(1024, 64);
    for frame in [&b"aa"[..], b"bb", b"c"] {
        put(&mut outbox, 1, 0, frame);
        put(&mut outbox, 2, 0, b"x");
    }
    outbox.stop_merging();
    let alone: Vec<_> = shape(&outbox).into_iter().filter(|batch| batch.0 == 1).collect();
    assert_eq!(alone, [(1, 1, b"aa".to_vec()), (1, 1, b"bb".to_vec()), (1, 1, b"c".to_vec())]);
    put(&mut outbox, 2, 0, b"x");
    assert!(shape(&outbox).iter().all(|batch| batch.1 == 1));
}

proptest! {
    #[test]
    fn every_destination_gets_its_frames_whole_and_in_order(
        frames in proptest::collection::vec((0_u8..4, 1_usize..4, 0_u8..2), 0..200),
        sends in proptest::collection::vec(0_usize..4, 0..200),
    ) {
        let mut outbox = Outbox::new(1 << 16, 5);
        let mut expected = vec![Vec::new(); 4];
        let mut found = vec![Vec::new(); 4];
        let mut sends = sends.into_iter();
        for (serial, &(host, length, tos)) in frames.iter().enumerate() {
            let bytes = vec![serial as u8; length];
            put(&mut outbox, host, tos, &bytes);
            expected[host as usize].push((tos, bytes));
            let count = sends.next().unwrap_or(0).min(outbox.unsent().1.len());
            if count > 0 {
                outbox.gather();
            }
            drain(&mut outbox, count, &mut found);
        }
        let rest = outbox.unsent().1.len();
        drain(&mut outbox, rest, &mut found);
        // Order is kept for each destination and service.
        for host in 0..4 {
            for tos in 0..2 {
                let of = |frames: &Vec<(u8, Vec<u8>)>| -> Vec<Vec<u8>> {
                    frames.iter().filter(|frame| frame.0 == tos).map(|frame| frame.1.clone()).collect()
                };
                prop_assert_eq!(of(&expected[host]), of(&found[host]));
            }
        }
        prop_assert!(outbox.is_empty());
    }
}

fn drain(outbox: &mut Outbox, count: usize, found: &mut [Vec<(u8, Vec<u8>)>]) {
    let (arena, batches) = outbox.unsent();
    for batch in &batches[..count] {
        assert!(batch.frames() <= 5, "the limit on frames is kept");
        let bytes: Vec<u8> = batch.pieces().iter().flat_map(|range| arena[range.clone()].to_vec()).collect();
        let host = usize::from(last_octet(batch));
        found[host]
            .extend(bytes.chunks(usize::from(batch.segment())).map(|frame| (batch.tos(), frame.to_vec())));
    }
    if count > 0 {
        outbox.remove(count);
    }
}
