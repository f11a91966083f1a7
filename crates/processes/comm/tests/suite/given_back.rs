//! A group that is over is given back: by dropping it, by closing it, by leaving; also where it came to nothing.

use crate::fabric::{DESIGN, LoopbackFabric, add_up};
use quincunx_comm::{Buffers, CommError, Group, Handle, Nothing, Operation};
use std::sync::Barrier;

fn begin_barrier(group: &Group) -> Handle {
    let buffers = Buffers { source: Box::new(Nothing), sink: Box::new(Nothing) };
    group.start(Operation::Barrier, buffers).unwrap()
}

/// Tells rank 1 of a group something, or hears it there.
fn tell(group: &Group) {
    let source = Box::new(vec![1_u8; if group.rank() == 0 { 8 } else { 0 }]);
    let handle = match group.rank() {
        0 => group.start(Operation::Send(1, 7), Buffers { source, sink: Box::new(Nothing) }),
        _ => group.start(Operation::Receive(0, 7), Buffers { source, sink: Box::new(Eight) }),
    };
    handle.unwrap().wait().unwrap();
}

/// Room for eight bytes that nobody reads.
struct Eight;

impl quincunx_comm::Sink for Eight {
    fn length(&self) -> usize {
        8
    }
    fn write(&mut self, _: usize, _: &[u8]) {}
}

#[test]
fn groups_that_are_dropped_make_room_for_the_next_ones_in_the_switch() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(2, |world| {
        for number in 0..300 {
            let part = world.split(0).unwrap();
            assert_eq!(part.design(), DESIGN, "group {number}");
            add_up(&part);
        }
        assert_eq!(world.endpoint().fallback(), None);
        // One for collectives, one for messages.
        fabric.expect_groups(2);
        world.barrier().unwrap();
    });
    fabric.expect_groups(0);
}

#[test]
fn a_group_of_a_design_that_offers_no_all_gather_is_split() {
    let fabric = LoopbackFabric::with_room_for(1);
    fabric.run_as("double-tree", 4, |world| {
        let part = world.split(i32::from(world.rank() % 2)).unwrap();
        assert_eq!((part.rank(), part.size(), &*part.design()), (world.rank() / 2, 2, "double-tree"));
        add_up(&part);
    });
    fabric.expect_groups(0);
}

#[test]
fn a_group_lives_until_its_last_rank_is_done_with_it() {
    let fabric = LoopbackFabric::with_room_for(3);
    let at = Barrier::new(2);
    fabric.run(2, |world| {
        let part = world.split(0).unwrap();
        add_up(&part);
        if part.rank() == 0 {
            drop(part);
            // The manager has heard of it when this has come back.
            let members = [0, 1];
            let numbers = world.endpoint().make_group(&members).unwrap();
            assert_eq!(fabric.groups().len(), 6);
            at.wait();
            at.wait();
            world.endpoint().join_group(&members, numbers).unwrap();
        } else {
            at.wait();
            let made: Vec<u32> = fabric.groups();
            drop(part);
            at.wait();
            world.endpoint().join_group(&[0, 1], [made[4], made[5]]).unwrap();
        }
        fabric.expect_groups(2);
    });
}

#[test]
fn what_is_under_way_in_a_group_that_is_dropped_goes_on_to_its_end() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(2, |world| {
        let part = world.split(0).unwrap();
        if world.rank() == 0 {
            let handle = begin_barrier(&part);
            drop(part);
            tell(world);
            handle.wait().unwrap();
        } else {
            tell(world);
            begin_barrier(&part).wait().unwrap();
        }
    });
    fabric.expect_groups(0);
}

#[test]
fn what_is_under_way_in_a_group_that_is_aborted_ends_at_all_ranks() {
    let fabric = LoopbackFabric::with_room_for(3);
    fabric.run(2, |world| {
        let part = world.split(0).unwrap();
        let handle = begin_barrier(&part);
        if world.rank() == 0 {
            let late = part.start(
                Operation::Receive(1, 7),
                Buffers { source: Box::new(Nothing), sink: Box::new(Eight) },
            );
            handle.wait().unwrap();
            part.abort();
            let ended = late.unwrap().outcome().expect("an end before the call returns").unwrap_err();
            assert!(ended.to_string().contains("aborted by this rank"), "{ended}");
            assert!(matches!(part.barrier(), Err(CommError::Misuse(_))));
        } else {
            handle.wait().unwrap();
            // Of a collective that rank 0 never calls.
            let ended = begin_barrier(&part).wait().unwrap_err();
            assert!(matches!(ended, CommError::Group(_)), "{ended}");
        }
        // The endpoint goes on.
        add_up(&world.split(0).unwrap());
    });
    fabric.expect_groups(0);
}

#[test]
fn messages_of_a_group_that_its_sender_has_dropped_are_received() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(2, |world| {
        let part = world.split(0).unwrap();
        tell(&part);
        if world.rank() == 0 {
            // Nobody will take these.
            (0..100).for_each(|_| tell(&part));
            drop(part);
        } else {
            drop(part);
        }
    });
    fabric.expect_groups(0);
}

#[test]
fn a_rank_that_has_given_a_group_back_answers_its_peers_still() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(2, |world| {
        let mut part = Some(world.split(0).unwrap());
        if world.rank() == 0 {
            part = None;
        }
        tell(world);
        if let Some(part) = part {
            for _ in 0..100 {
                let source = Box::new(vec![1_u8; 100_000]);
                let sent = part.start(Operation::Send(0, 7), Buffers { source, sink: Box::new(Nothing) });
                sent.unwrap().wait().unwrap();
            }
        }
    });
    fabric.expect_groups(0);
}

#[test]
fn ranks_close_though_their_manager_is_gone() {
    let mut fabric = LoopbackFabric::with_room_for(2);
    let endpoints = [0, 1].map(|rank| fabric.attach((rank, 2), 64));
    let numbers = endpoints[0].make_group(&[0, 1]).unwrap();
    let groups = endpoints.each_ref().map(|endpoint| endpoint.join_group(&[0, 1], numbers).unwrap());
    fabric.stop();
    drop(groups);
    for endpoint in &endpoints {
        endpoint.close().unwrap();
    }
}

#[test]
fn a_group_that_is_closed_begins_nothing_and_is_given_back_though_there_are_clones() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(2, |world| {
        let part = world.split(0).unwrap();
        let clone = part.clone();
        add_up(&clone);
        part.close();
        part.close();
        assert!(clone.is_closed());
        let refused = clone.barrier().unwrap_err();
        assert!(matches!(refused, CommError::Misuse(_)), "{refused}");
        fabric.expect_groups(2);
        add_up(world);
    });
}

#[test]
fn a_group_of_one_is_closed_as_any_other() {
    let fabric = LoopbackFabric::with_room_for(1);
    fabric.run(1, |world| {
        let alone = world.split(0).unwrap();
        alone.barrier().unwrap();
        alone.close();
        assert!(alone.barrier().is_err());
    });
}

#[test]
fn a_rank_that_leaves_without_a_word_ends_its_groups_and_leaves_none_that_live() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run_to_the_end(2, |world| {
        let part = world.split(0).unwrap();
        add_up(&part);
        world.barrier().unwrap();
    });
    // The switch says so when it has forgotten them.
    fabric.expect_nothing_held();
}

#[test]
fn a_group_of_which_a_half_is_refused_leaves_nothing() {
    let fabric = LoopbackFabric::with_room_for(2);
    // One queue pair is enough for collectives, and none is left for messages.
    let endpoints = [0, 1].map(|rank| fabric.attach((rank, 2), 1));
    let refused = endpoints[0].make_group(&[0, 1]).unwrap_err();
    assert!(refused.to_string().contains("expected 1 free queue pairs at host"), "{refused}");
    fabric.expect_groups(0);
}

#[test]
fn a_rank_that_does_not_come_in_time_has_given_the_group_back() {
    let fabric = LoopbackFabric::with_room_for(2);
    let endpoints =
        [0, 1].map(|rank| fabric.attach_for((rank, 2), 4096, quincunx_units::Duration::from_millis(50)));
    let [tree, _] = endpoints[0].make_group(&[0, 1]).unwrap();
    for endpoint in &endpoints {
        // Of the second number there is no group.
        let late = endpoint.join_group(&[0, 1], [tree, 1 << 20]).unwrap_err();
        assert!(matches!(late, CommError::TimedOut(_)), "{late}");
    }
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while fabric.groups().contains(&tree) {
        assert!(std::time::Instant::now() < end, "group {tree} is there still");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
