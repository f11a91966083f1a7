//! While a job hangs the manager says whom everybody waits for: ranks answer by their own thread, whatever the program does meanwhile.

use crate::fabric::{LoopbackFabric, add_up};
use quincunx_comm::Group;
use quincunx_control_grpc::{GroupName, Reason, Waits};
use std::time::{Duration, Instant};

/// Asks until the answer is as it should be, which it is within milliseconds.
fn ask(fabric: &LoopbackFabric, group: &Group, is_so: impl Fn(&Waits) -> bool) -> Waits {
    let groups = fabric.client.list_groups().unwrap();
    let found = groups.iter().find(|found| found.summary.design == group.design()).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let waits = fabric.client.ask_waits(&GroupName::Number(found.summary.group)).unwrap();
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
        add_up(group);
        if group.rank() == 1 {
            let waits = ask(&fabric, group, |waits| waits.waiting().0 == [0, 2]);
            assert_eq!(waits.number(), Some(2));
            let [(1, Reason::NotCalled { last: Some(last), .. })] = waits.waited_for()[..] else {
                panic!("{waits}")
            };
            assert_eq!((last.number, last.bytes), (1, 12_000));
            let text = waits.to_string();
            assert!(text.starts_with("all_reduce of 12000 bytes, sum of i32 (number 2 of group "), "{text}");
            assert!(text.contains("): 2 of 3 ranks wait, the first for "), "{text}");
            let rank = "\n  rank 1 (r1) has not called it: its last, all_reduce of 12000 bytes, sum of i32 (number 1), ended ";
            assert!(text.contains(rank), "{text}");
        }
        add_up(group);
        // The others go on to the barrier that ends the job.
        if group.rank() == 0 {
            let waits = ask(&fabric, group, |waits| waits.waiting().0 == [1, 2]);
            let text = waits.to_string();
            assert!(text.starts_with("barrier (number 3 of group "), "{text}");
            assert!(text.contains("\n  rank 0 (r0) has not called it: its last, all_reduce of 12000 bytes"), "{text}");
        }
    });
}
