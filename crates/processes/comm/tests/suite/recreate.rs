//! Programs whose group loses its switch in the middle of what they have begun: all that is under way ends once, and right, among the hosts.

use crate::fabric::{DESIGN, LoopbackFabric};
use quincunx_comm::{Group, Op, ReduceOp};

const RANKS: u16 = 2;
/// Of a vector: several pieces, of which two are under way at once.
const ELEMENTS: usize = 700_001;
const STEPS: i32 = 60;
/// When the switch goes.
const LOST: i32 = 15;

/// One step of a program: sums in place, and parts of sums, none like those of another step.
fn step(group: &Group, number: i32) {
    let rank = i32::from(group.rank());
    let mut values: Vec<i32> = (0..ELEMENTS as i32).map(|index| index + number * (rank + 1)).collect();
    group.all_reduce(&mut values, ReduceOp::Sum).unwrap();
    for (index, value) in (0..).zip(&values) {
        assert_eq!(*value, 2 * index + 3 * number, "rank {rank}, step {number}, element {index}");
    }
    let mut mean = vec![f64::from(number * (2 * rank + 1)); 9];
    group.all_reduce(&mut mean, Op::Average).unwrap();
    assert_eq!(mean, [f64::from(number * 2); 9], "rank {rank}, step {number}");
    let mut part = vec![0; 1000];
    group.reduce_scatter(&vec![number + rank; 2000], &mut part, ReduceOp::Sum).unwrap();
    assert_eq!(part, [2 * number + 1; 1000], "rank {rank}, step {number}");
    group.barrier().unwrap();
}

/// Whether a rank has not heard yet that its group runs something else.
fn runs_in_the_switch(group: &Group) -> bool {
    let mut still = [i32::from(group.design() == DESIGN)];
    group.all_reduce(&mut still, ReduceOp::Max).unwrap();
    still == [1]
}

#[test]
fn a_program_goes_on_among_its_hosts_when_its_switch_is_gone() {
    let fabric = LoopbackFabric::that_remakes_groups();
    fabric.run(RANKS, |world| {
        assert!(runs_in_the_switch(world));
        for number in 0..STEPS {
            if number == LOST && world.rank() == 0 {
                fabric.stop_switch();
            }
            step(world, number);
        }
        let mut number = STEPS;
        while runs_in_the_switch(world) {
            step(world, number);
            number += 1;
            assert!(number < 10_000, "nobody has noticed that the switch is gone");
        }
        assert_eq!(world.design(), "ring");
    });
}
