//! While a job hangs the manager says whom everybody waits for: ranks answer by their own thread, whatever the program does meanwhile.

use crate::fabric::{LoopbackFabric, add_up};
use quincunx_collective::GroupId;
use quincunx_comm::{Buffers, Group, Nothing, Operation};
use quincunx_control_grpc::{GroupName, Reason, Waits};
use std::time::{Duration, Instant};

/// The group of collectives: another one has messages.
fn only_group(fabric: &LoopbackFabric, group: &Group) -> GroupId {
    let groups = fabric.client.list_groups().unwrap();
    groups.iter().find(|found| found.summary.design == group.design()).unwrap().summary.group
}

/// The other one, of messages between two ranks.
fn messages_group(fabric: &LoopbackFabric, group: &Group) -> GroupId {
    let groups = fabric.client.list_groups().unwrap();
    groups.iter().find(|found| found.summary.design != group.design()).unwrap().summary.group
}

/// Asks until the answer is as it should be, which it is within milliseconds.
fn ask(fabric: &LoopbackFabric, group: &Group, is_so: impl Fn(&Waits) -> bool) -> Waits {
    let number = only_group(fabric, group);
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let waits = fabric.client.ask_waits(&GroupName::Number(number)).unwrap();
        if is_so(&waits) {
            return waits;
        }
        assert!(Instant::now() < end, "{waits}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_rank_that_has_not_called_is_named_with_what_it_called_last() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(3, |group| {
        let first = line!() + 1;
        add_up(group);
        if group.rank() == 1 {
            let waits = ask(&fabric, group, |waits| waits.waiting().0 == [0, 2]);
            assert_eq!(waits.number(), Some(2));
            let [(1, Reason::NotCalled { last: Some(last), .. })] = waits.waited_for()[..] else {
                panic!("{waits}")
            };
            assert_eq!((last.number, last.bytes), (1, 12_000));
            let text = waits.to_string();
            let place = last.place.as_ref().unwrap();
            assert_eq!((&*place.file, place.line), (file!(), first));
            let call = format!("all_reduce of 12000 bytes, sum of i32 at {}:", file!());
            assert!(text.starts_with(&call) && text.contains(" (number 2 of group "), "{text}");
            assert!(text.contains("): 2 of 3 ranks wait, the first for "), "{text}");
            let rank =
                format!("\n  rank 1 (r1) has not called it: its last, {call}{first} (number 1), ended ");
            assert!(text.contains(&rank), "{text}");
        }
        add_up(group);
        // The others go on to the barrier that ends the job.
        if group.rank() == 0 {
            let waits = ask(&fabric, group, |waits| waits.waiting().0 == [1, 2]);
            let text = waits.to_string();
            assert!(text.starts_with("barrier at ") && text.contains(" (number 3 of group "), "{text}");
            assert!(
                text.contains("\n  rank 0 (r0) has not called it: its last, all_reduce of 12000 bytes"),
                "{text}"
            );
        }
    });
}

#[test]
fn each_ranks_calls_are_kept_with_line_and_times_and_the_slow_one_comes_last() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(3, |group| {
        let lines = line!() + 5..line!() + 6;
        for _ in 0..20 {
            if group.rank() == 1 {
                std::thread::sleep(Duration::from_millis(5));
            }
            add_up(group);
        }
        group.barrier().unwrap();
        if group.rank() == 0 {
            let calls = fabric.client.ask_calls(&GroupName::Number(only_group(&fabric, group))).unwrap();
            let by_number = calls.by_number();
            for of_ranks in by_number.values().take(20) {
                assert_eq!(of_ranks.len(), 3);
                for timed in of_ranks.values() {
                    let place = timed.call.place.as_ref().unwrap();
                    assert!(&*place.file == file!() && lines.contains(&place.line), "{place}");
                    assert!(
                        timed.called <= timed.begun && timed.ended.is_some_and(|ended| timed.begun < ended),
                        "{timed:?}"
                    );
                }
            }
            let late = calls.lateness();
            assert!(late[1].calls >= 20 && late[1].mean > Duration::from_millis(3).into(), "{late:?}");
            assert!(late[1].last > late[0].last.max(late[2].last), "{late:?}");
            // The switch has seen the same by its own clock.
            let name = GroupName::Number(only_group(&fabric, group));
            let arrivals = fabric.client.ask_arrivals(&name).unwrap();
            let [(_, Some(seen))] = &arrivals.switches[..] else { panic!("{arrivals:?}") };
            let [first, slow, third] = [0, 1, 2].map(|rank| seen.iter().find(|it| it.rank == rank).unwrap());
            assert!(slow.collectives >= 20 && slow.last >= 15 && first.last + third.last <= 5, "{seen:?}");
            assert!(slow.total > Duration::from_millis(3 * 20).into(), "{seen:?}");
            assert_eq!(slow.buckets.iter().sum::<u64>(), slow.collectives);
        }
    });
}

#[test]
fn ranks_that_ask_at_once_are_answered_alike() {
    let fabric = LoopbackFabric::with_room_for(2);
    fabric.run(3, |group| {
        add_up(group);
        let waits = fabric.client.ask_waits(&GroupName::Number(only_group(&fabric, group))).unwrap();
        assert!(waits.ranks.iter().all(|rank| rank.answer.is_some()), "{waits}");
    });
}

#[test]
fn a_rank_that_waits_for_a_message_of_one_that_waits_for_it_is_named_with_both() {
    let fabric = LoopbackFabric::with_room_for(2);
    let none = || Buffers { source: Box::new(Nothing), sink: Box::new(Nothing) };
    fabric.run(3, |group| match group.rank() {
        0 => {
            let barrier = group.start(Operation::Barrier, none()).unwrap();
            let waits = ask(&fabric, group, |waits| waits.to_string().contains("it waits in receive"));
            let text = waits.to_string();
            let line = format!("it waits in receive from rank 0 with tag 7 at {}:", file!());
            assert!(text.contains(&format!("\n  rank 1 (r1) has called nothing yet; {line}")), "{text}");
            assert!(text.contains(" for \"r0\", since "), "{text}");
            let waits =
                || fabric.client.ask_waits(&GroupName::Number(messages_group(&fabric, group))).unwrap();
            assert_eq!(
                waits().messages().map(|(rank, message)| (rank, message.tag)).collect::<Vec<_>>(),
                [(1, Some(7))]
            );
            group.start(Operation::Send(1, 7), none()).unwrap().wait().unwrap();
            barrier.wait().unwrap();
            // It has come: nobody waits for it any more, as far as ranks have looked.
            let end = Instant::now() + Duration::from_secs(20);
            while waits().messages().next().is_some() {
                assert!(Instant::now() < end, "{}", waits());
            }
        }
        1 => {
            group.start(Operation::Receive(0, 7), none()).unwrap().wait().unwrap();
            group.barrier().unwrap();
        }
        _ => group.barrier().unwrap(),
    });
}
