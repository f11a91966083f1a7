//! The four stages: learning, table VI, aggregation, output.

use crate::support::{FIRST, LAST, Out, Switch, Write, ethernet};
use proptest::prelude::*;
use quincunx_collective::DataType;
use quincunx_netreduce::PortConfig;
use quincunx_wire::netreduce::MAX_FRAMES;
use quincunx_wire::{Operation, v1};

/// What only dropped a frame, with the reason.
fn dropped(port: u16, reason: &'static str) -> Out {
    Out { frames: Vec::new(), drops: vec![(port, reason)] }
}

fn sent(frames: impl IntoIterator<Item = (u16, Vec<u8>)>) -> Out {
    Out { frames: frames.into_iter().collect(), drops: Vec::new() }
}

fn word(value: i32) -> [u8; 4] {
    value.to_le_bytes()
}

/// Hosts 0 and 1 send a First each; the sum has gone to both.
fn with_first_frames(switch: &mut Switch) -> [Write; 2] {
    let firsts = [0, 1].map(|host| Write::first(host, 2));
    assert_eq!(switch.take(0, &firsts[0].of(word(1))), Out::default());
    let out = switch.take(1, &firsts[1].of(word(2)));
    assert_eq!(out, sent([(1, firsts[0].of(word(3))), (0, firsts[1].of(word(3)))]));
    firsts
}

#[test]
fn an_unknown_destination_is_flooded_but_not_to_where_it_came_from() {
    let mut switch = Switch::new(4);
    let frame = ethernet(0, 1, 0x0800, b"hello");
    assert_eq!(switch.take(2, &frame), sent([0, 1, 3].map(|port| (port, frame.clone()))));
}

#[test]
fn a_source_is_learned_and_moves_with_its_host() {
    let mut switch = Switch::new(3);
    switch.take(1, &ethernet(7, 8, 0x0800, b"here I am"));
    let to = ethernet(8, 7, 0x0800, b"hello");
    assert_eq!(switch.take(0, &to), sent([(1, to.clone())]));
    switch.take(2, &ethernet(7, 8, 0x0800, b"now here"));
    assert_eq!(switch.take(0, &to), sent([(2, to.clone())]));
    assert_eq!(switch.take(2, &to), dropped(2, "filtered"));
}

#[test]
fn a_port_remembers_four_addresses() {
    let mut switch = Switch::new(3);
    for host in 1..=5 {
        switch.take(1, &ethernet(host, 0xffff, 0x0806, b"hello"));
    }
    let to = |host| ethernet(9, host, 0x0800, b"hello");
    assert_eq!(switch.take(0, &to(2)), sent([(1, to(2))]));
    // The first was replaced: nobody knows where it is.
    assert_eq!(switch.take(0, &to(1)).frames.len(), 2);
}

#[test]
fn an_address_that_is_heard_again_takes_no_second_place() {
    let mut switch = Switch::new(3);
    for host in [1, 2, 3, 4, 4, 4, 4] {
        switch.take(1, &ethernet(host, 0xffff, 0x0806, b"hello"));
    }
    let to = ethernet(9, 1, 0x0800, b"hello");
    assert_eq!(switch.take(0, &to), sent([(1, to.clone())]));
}

#[test]
fn a_source_is_learned_before_its_own_frame_is_looked_up() {
    let mut switch = Switch::new(3);
    assert_eq!(switch.take(1, &ethernet(7, 7, 0x0800, b"myself")), dropped(1, "filtered"));
}

#[test]
fn a_damaged_frame_still_says_where_its_sender_is() {
    let mut switch = Switch::that_knows(3);
    let mut damaged = Write::first(0, 3).of(word(1));
    damaged[500] ^= 4;
    assert_eq!(switch.take(2, &damaged), dropped(2, "bad ICRC"));
    let to = ethernet(1, 0, 0x0800, b"hello");
    assert_eq!(switch.take(1, &to), sent([(2, to.clone())]));
}

#[test]
fn group_addresses_are_flooded_and_not_learned() {
    let mut switch = Switch::new(3);
    let broadcast = ethernet(0, 0xffff, 0x0806, b"who has");
    assert_eq!(switch.take(0, &broadcast).frames.len(), 2);
    let mut from_a_group = ethernet(0, 1, 0x0800, b"hello");
    from_a_group[6] |= 1;
    switch.take(1, &from_a_group);
    let mut to_the_group = ethernet(2, 0, 0x0800, b"hello");
    to_the_group[0] |= 1;
    assert_eq!(switch.take(2, &to_the_group).frames.len(), 2);
}

#[test]
fn all_ranks_frames_leave_with_the_sum_each_where_it_was_to_go() {
    let mut switch = Switch::that_knows(3);
    let firsts = [0, 1, 2].map(|host| Write::first(host, 3));
    for (host, value) in [(2, 30), (0, 10)] {
        assert_eq!(switch.take(host, &firsts[usize::from(host)].of(word(value))), Out::default());
    }
    let out = switch.take(1, &firsts[1].of(word(20)));
    assert_eq!(
        out,
        sent([(1, 0), (2, 1), (0, 2)].map(|(port, host): (u16, usize)| (port, firsts[host].of(word(60)))))
    );
    assert!(out.frames.iter().all(|(_, frame)| v1::has_right_icrc(frame)));
}

#[test]
fn ranks_number_their_frames_as_they_like_and_may_end_differently() {
    let mut switch = Switch::that_knows(2);
    let firsts = with_first_frames(&mut switch);
    let others = [firsts[0].followed_by(Operation::WriteMiddle), firsts[1].followed_by(LAST)];
    assert_eq!(switch.take(1, &others[1].of(word(-5))), Out::default());
    let out = switch.take(0, &others[0].of(word(2)));
    assert_eq!(out, sent([(1, others[0].of(word(-3))), (0, others[1].of(word(-3)))]));
}

#[test]
fn a_frame_that_comes_again_is_answered_to_its_branch_alone() {
    let mut switch = Switch::that_knows(2);
    let firsts = with_first_frames(&mut switch);
    // With whatever it carries now.
    assert_eq!(switch.take(1, &firsts[1].of(word(99))), sent([(0, firsts[1].of(word(3)))]));
}

#[test]
fn a_frame_that_comes_again_is_answered_with_the_header_that_is_stored() {
    let mut switch = Switch::that_knows(3);
    switch.configure(PortConfig::from_bits(2 << 27 | 0b11, 3).unwrap(), DataType::I32);
    let first = with_first_frames(&mut switch)[0];
    // It is for somebody else now; its answer is not.
    let again = Write { to: 2, ..first };
    assert_eq!(switch.take(0, &again.of(word(1))), sent([(1, first.of(word(3)))]));
    assert_eq!(switch.take(0, &first.of(word(1))), sent([(1, first.of(word(3)))]));
}

#[test]
fn a_frame_that_comes_again_before_its_sum_is_there_is_dropped() {
    let mut switch = Switch::that_knows(2);
    let first = Write::first(0, 2);
    switch.take(0, &first.of(word(1)));
    assert_eq!(switch.take(0, &first.of(word(1))), dropped(0, "pending"));
}

#[test]
fn a_frame_behind_a_gap_is_dropped_and_taken_when_it_is_closed() {
    let mut switch = Switch::that_knows(2);
    let first = with_first_frames(&mut switch)[0];
    let middle = first.followed_by(Operation::WriteMiddle);
    let last = middle.followed_by(LAST);
    assert_eq!(switch.take(0, &last.of(word(1))), dropped(0, "gap"));
    assert_eq!(switch.take(0, &middle.of(word(1))), Out::default());
    assert_eq!(switch.take(0, &last.of(word(1))), Out::default());
}

#[test]
fn what_follows_a_first_that_was_lost_stays_here_if_its_sender_says_what_it_is() {
    let mut switch = Switch::that_knows(2);
    let last = Write::first(0, 2).followed_by(LAST);
    assert_eq!(switch.take(0, &last.of(word(1))), dropped(0, "unknown"));
    let mut plain = last.of(word(1));
    plain[15..18].fill(0);
    assert_eq!(switch.take(0, &plain), sent([(1, plain.clone())]), "table VI: forward");
}

#[test]
fn the_second_message_does_not_stand_for_the_first_that_was_lost() {
    let mut switch = Switch::that_knows(2);
    let first = Write::first(0, 2);
    let second = Write { message: 1, psn: first.psn + 2, ..first };
    assert_eq!(switch.take(0, &second.of(word(1))), dropped(0, "gap"));
    assert_eq!(switch.take(0, &first.of(word(1))), Out::default());
}

#[test]
fn table_vi_forwards_whatever_is_not_for_aggregation() {
    let write = Write::first(0, 2);
    let mut unmatched = write.of(word(1));
    unmatched[82] ^= 1;
    let only = Write { operation: Operation::WriteOnly(reth()), ..write }.of(word(1));
    let short = write.carrying(&[0x51; 512]);
    let mut other_next_header = write.of(word(1));
    other_next_header[20] = 17;
    let udp = ethernet(0, 1, 0x0800, &[0; 1000]);
    let mut longer = write.of(word(1));
    longer.push(0);
    for frame in [unmatched, only, short, other_next_header, udp, longer] {
        let mut switch = Switch::that_knows(2);
        assert_eq!(switch.take(0, &frame), sent([(1, frame.clone())]));
    }
}

fn reth() -> quincunx_wire::Reth {
    let Operation::WriteFirst(reth) = FIRST else { unreachable!("it is one") };
    reth
}

#[test]
fn a_port_that_takes_no_part_forwards_frames_for_aggregation() {
    let mut switch = Switch::that_knows(3);
    switch.configure(PortConfig::from_bits(2 << 27 | 0b011, 3).unwrap(), DataType::I32);
    let frame = Write { from: 2, to: 0, ..Write::first(0, 2) }.of(word(9));
    assert_eq!(switch.take(2, &frame), sent([(0, frame.clone())]));
    with_first_frames(&mut switch);
}

#[test]
fn frames_of_another_queue_pair_pass_between_those_that_are_added_up() {
    let mut switch = Switch::that_knows(2);
    let first = with_first_frames(&mut switch)[0];
    let mut other = Write { qp: 0x99, ..first.followed_by(LAST) }.of(word(1));
    other[15..18].fill(0);
    assert_eq!(switch.take(0, &other), sent([(1, other.clone())]));
}

#[test]
fn a_damaged_frame_is_never_added_up_and_passes_if_it_is_not_for_aggregation() {
    let mut switch = Switch::that_knows(2);
    let first = Write::first(0, 2);
    let mut damaged = first.of(word(1));
    damaged[500] ^= 4;
    assert_eq!(switch.take(0, &damaged), dropped(0, "bad ICRC"));
    let mut other = first.of(word(1));
    other[82] ^= 1;
    assert_eq!(switch.take(0, &other), sent([(1, other.clone())]));
    with_first_frames(&mut switch);
}

#[test]
fn a_frame_for_aggregation_is_never_flooded() {
    let mut switch = Switch::new(2);
    let first = Write::first(0, 2);
    assert_eq!(switch.take(0, &first.of(word(1))), dropped(0, "no destination"));
    switch.take(1, &ethernet(1, 0, 0x0806, b"hello"));
    assert_eq!(switch.take(0, &first.of(word(1))), Out::default(), "now it is known, and taken");
}

#[test]
fn a_write_to_the_registers_forgets_what_was_under_way() {
    let mut switch = Switch::that_knows(2);
    switch.take(0, &Write::first(0, 2).of(word(100)));
    switch.configure(PortConfig::all(2), DataType::I32);
    with_first_frames(&mut switch);
}

#[test]
fn the_fifth_message_takes_the_first_ones_place() {
    let mut switch = Switch::that_knows(2);
    let message = |host, number: u32| Write { psn: 2 * number, message: number, ..Write::first(host, 2) };
    // Host 0 is four messages ahead, as far as it may be.
    for number in 0..4 {
        switch.take(0, &message(0, number).of(word(1)));
        switch.take(0, &message(0, number).followed_by(LAST).of(word(1)));
    }
    for number in 0..2 {
        let out = switch.take(1, &message(1, number).of(word(1)));
        assert_eq!(out.frames.len(), 2, "message {number}");
        switch.take(1, &message(1, number).followed_by(LAST).of(word(1)));
    }
    assert_eq!(switch.take(0, &message(0, 4).of(word(7))), Out::default());
    assert_eq!(
        switch.take(0, &message(0, 4).of(word(7))),
        dropped(0, "pending"),
        "the first one's sum is not its own"
    );
    assert_eq!(switch.take(0, &message(0, 0).of(word(1))), dropped(0, "forgotten"));
    // Host 1 still has the first message's sum: it has opened no column over it.
    assert_eq!(switch.take(1, &message(1, 0).of(word(1))), sent([(0, message(1, 0).of(word(2)))]));
}

#[test]
fn every_frame_of_the_fifth_message_waits_for_a_sum_of_its_own() {
    let mut switch = Switch::that_knows(2);
    let frames = u32::from(MAX_FRAMES);
    for number in 0..5 {
        for frame in 0..frames {
            let operation = if frame == 0 { FIRST } else { Operation::WriteMiddle };
            let psn = frames * number + frame;
            let of = |host| Write { psn, operation, message: number, ..Write::first(host, 2) }.of(word(1));
            assert_eq!(switch.take(0, &of(0)), Out::default(), "message {number}, frame {frame}");
            assert_eq!(switch.take(0, &of(0)), dropped(0, "pending"), "message {number}, frame {frame}");
            assert_eq!(switch.take(1, &of(1)).frames.len(), 2, "message {number}, frame {frame}");
        }
    }
}

#[test]
fn ports_are_added_in_pairs() {
    let values = [0.0_f32, 1e8, -1e8, 1.0];
    let in_pairs = (values[0] + values[1]) + (values[2] + values[3]);
    assert_ne!(in_pairs, values.iter().sum::<f32>(), "the order is to be seen");
    let mut switch = Switch::that_knows(4);
    switch.configure(PortConfig::all(4), DataType::F32);
    let mut last = Out::default();
    for (host, value) in (0..).zip(values) {
        last = switch.take(host, &Write::first(host, 4).of(value.to_le_bytes()));
    }
    assert_eq!(last.frames[0].1, Write::first(0, 4).of(in_pairs.to_le_bytes()));
}

#[test]
fn ports_that_take_no_part_leave_their_places_in_the_pairs_empty() {
    // Port 0 is the first of its pair, which is what port 1 has.
    let values = [1e8_f32, -1e8, 1.0];
    let in_pairs = values[0] + (values[1] + values[2]);
    assert_ne!(in_pairs, values.iter().sum::<f32>(), "the order is to be seen");
    let mut switch = Switch::that_knows(4);
    switch.configure(PortConfig::from_bits(3 << 27 | 0b1110, 4).unwrap(), DataType::F32);
    let mut last = Out::default();
    for (host, value) in (1..).zip(values) {
        let first = Write { to: host % 3 + 1, ..Write::first(host, 4) };
        last = switch.take(host, &first.of(value.to_le_bytes()));
    }
    let first = Write { to: 2, ..Write::first(1, 4) };
    assert_eq!(last.frames[0].1, first.of(in_pairs.to_le_bytes()));
}

#[test]
fn every_nan_is_the_same_and_zeros_keep_their_sign() {
    for (a, b, sum) in [
        (0xffc1_2345_u32, 0x3f80_0000_u32, 0x7fc0_0000_u32),
        (0x7f80_0000, 0xff80_0000, 0x7fc0_0000),
        (0x8000_0000, 0x8000_0000, 0x8000_0000),
        (0x8000_0000, 0x0000_0000, 0x0000_0000),
        (0x0000_0001, 0x0000_0001, 0x0000_0002),
        (0x7f7f_ffff, 0x7f7f_ffff, 0x7f80_0000),
    ] {
        let mut switch = Switch::that_knows(2);
        switch.configure(PortConfig::all(2), DataType::F32);
        switch.take(0, &Write::first(0, 2).of(a.to_le_bytes()));
        let out = switch.take(1, &Write::first(1, 2).of(b.to_le_bytes()));
        assert_eq!(out.frames[0].1, Write::first(0, 2).of(sum.to_le_bytes()), "{a:#x} + {b:#x}");
    }
}

#[test]
fn integers_wrap() {
    let mut switch = Switch::that_knows(2);
    switch.take(0, &Write::first(0, 2).of(word(i32::MAX)));
    let out = switch.take(1, &Write::first(1, 2).of(word(1)));
    assert_eq!(out.frames[0].1, Write::first(0, 2).of(word(i32::MIN)));
}

proptest! {
    /// Messages of two to five frames in whatever order the ranks send them, each again now and then: what leaves is the sum of that
    /// place, with its sender's headers.
    #[test]
    fn sums_are_right_in_any_order_of_arrival(
        ranks in 2..5_u16,
        frames in 2..6_usize,
        turns in prop::collection::vec((0..5_u16, prop::bool::weighted(0.2)), 0..200),
    ) {
        let mut switch = Switch::that_knows(ranks);
        let value = |host: u16, frame: usize| word(1 + 1000 * frame as i32 + 7 * i32::from(host));
        let sum = |frame: usize| {
            let values = (0..ranks).map(|host| i32::from_le_bytes(value(host, frame)));
            word(values.sum())
        };
        let write = |host: u16, frame: usize| {
            let first = Write::first(host, ranks);
            let operation = match frame {
                0 => FIRST,
                frame if frame + 1 == frames => LAST,
                _ => Operation::WriteMiddle,
            };
            Write { operation, psn: first.psn + frame as u32, ..first }
        };
        let mut next = vec![0; usize::from(ranks)];
        let everybody = (0..frames).flat_map(|_| (0..ranks).map(|host| (host, false)));
        for (host, again) in turns.into_iter().map(|(host, again)| (host % ranks, again)).chain(everybody) {
            let at = next[usize::from(host)];
            if again && at > 0 {
                let write = write(host, at - 1);
                let out = switch.take(host, &write.of(value(host, at - 1)));
                let is_whole = next.iter().all(|&next| next >= at);
                let expected =
                    if is_whole { sent([(write.to, write.of(sum(at - 1)))]) } else { dropped(host, "pending") };
                prop_assert_eq!(out, expected);
            } else if at < frames {
                let out = switch.take(host, &write(host, at).of(value(host, at)));
                next[usize::from(host)] += 1;
                let whole = next.iter().all(|&next| next > at);
                let all = (0..ranks).map(|host| (write(host, at).to, write(host, at).of(sum(at))));
                prop_assert_eq!(out, if whole { sent(all) } else { Out::default() });
            }
        }
    }

    #[test]
    fn no_frame_makes_it_panic(frames in prop::collection::vec((0..2_u16, prop::collection::vec(any::<u8>(), 14..120)), 1..20)) {
        let mut switch = Switch::that_knows(2);
        for (port, frame) in frames {
            switch.take(port, &frame);
        }
    }
}
