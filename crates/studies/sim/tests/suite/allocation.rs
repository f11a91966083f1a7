//! A frame costs no allocation once a run has got going, if memory holds lengths alone.

use quincunx_collective::Collective;
use quincunx_sim::packet_fabric::simulate;

use crate::requests::{lengths, request, scenario};

/// Frames of a run, and allocations that it makes.
fn count(design: &str, size: u64) -> (u64, u64) {
    let request = lengths(request(&scenario("epic-star8", &[]), design, Collective::AllReduce, size));
    let mut frames = 0;
    let allocations = allocation_counter::measure(|| {
        frames = simulate(&request).unwrap().frames;
    });
    (frames, allocations.count_total)
}

#[test]
fn four_times_the_frames_take_hardly_more_allocations() {
    for design in ["epic-2", "epic-3", "ring"] {
        let (few_frames, few) = count(design, 2 << 20);
        let (many_frames, many) = count(design, 8 << 20);
        // Plans of longer collectives and deeper queues grow a few times; nothing grows with each frame.
        let more = many_frames - few_frames;
        assert!(
            many - few.min(many) < more / 100,
            "{design}: {few} and {many} allocations, {more} frames more"
        );
    }
}
