//! Ranks around a switch, over links that lose, copy and reorder packets: every rank gets the sum.

use crate::support::{Host, Packet, SHAPE, Switch, TIMEOUT, at, floats, integers, rank_of, to_floats};
use proptest::prelude::*;
use quincunx_atp::{AtpShape, WorkerConfig};
use quincunx_collective::{DataType, FixedPoint, largest_exponent};
use quincunx_engine::verbs::{Outcome, UNLIMITED_RETRIES};
use quincunx_units::Instant;

/// What the links do next: which packet arrives of those on their way, and whether it does, once or twice.
#[derive(Clone, Copy, Debug)]
struct Fate {
    which: prop::sample::Index,
    copies: u8,
}

fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let copies = prop_oneof![6 => Just(1u8), 2 => Just(0), 1 => Just(2)];
    let fate = (any::<prop::sample::Index>(), copies).prop_map(|(which, copies)| Fate { which, copies });
    prop::collection::vec(fate, 0..400)
}

fn any_shape() -> impl Strategy<Value = AtpShape> {
    let windows = prop::sample::select(vec![1u32, 2, 4, 8]);
    (windows, 1u32..9, any::<bool>()).prop_map(|(window, aggregators, server_sends)| AtpShape {
        window,
        aggregators,
        server_sends,
        ..SHAPE
    })
}

/// By edge: to the switch, or from it.
type UnderWay = (u16, bool, Packet);

struct Star {
    hosts: Vec<Host>,
    switch: Switch,
    under_way: Vec<UnderWay>,
    now: Instant,
    ranks: u16,
}

impl Star {
    fn new(shape: AtpShape, scale: Option<FixedPoint>, data_type: DataType, vectors: &[Vec<u8>]) -> Self {
        let ranks = vectors.len() as u16;
        let shape = AtpShape { ranks, ..shape };
        let host = |(rank, vector): (u16, &Vec<u8>)| {
            let config = WorkerConfig { retries: UNLIMITED_RETRIES, scale, ..rank_of(rank, shape) };
            Host::new(config, data_type, vector)
        };
        let hosts = (0..).zip(vectors).map(host).collect();
        Self { hosts, switch: Switch::new(shape), under_way: Vec::new(), now: at(0), ranks }
    }

    fn collect(&mut self) {
        for (rank, host) in (0..).zip(&mut self.hosts) {
            for (qp, packet) in host.leave(self.now) {
                self.under_way.push((if qp == 0 { rank } else { self.ranks }, true, packet));
            }
        }
    }

    fn deliver(&mut self, (edge, is_up, packet): &UnderWay) {
        if *is_up {
            let out = self.switch.take(*edge, packet);
            self.under_way.extend(out.packets.into_iter().map(|(edge, packet)| (edge, false, packet)));
        } else {
            let (rank, qp) = if *edge == self.ranks { (0, 1) } else { (*edge, 0) };
            self.hosts[usize::from(rank)].arrive(self.now, qp, packet);
        }
        self.collect();
    }

    /// All ranks run a collective, under these fates and then over links that lose nothing.
    fn run(&mut self, fates: &[Fate]) {
        for host in &mut self.hosts {
            host.start(self.now);
        }
        self.collect();
        let mut fates = fates.iter();
        for _ in 0..100_000 {
            if self.hosts.iter().all(|host| host.outcome.is_some()) {
                break;
            }
            if self.under_way.is_empty() {
                self.now = self.now + TIMEOUT * 128;
                let now = self.now;
                self.hosts.iter_mut().for_each(|host| host.time_out(now));
                self.collect();
                continue;
            }
            let (index, copies) = match fates.next() {
                Some(fate) => (fate.which.index(self.under_way.len()), fate.copies),
                None => (0, 1),
            };
            let packet = self.under_way.remove(index);
            if copies == 2 {
                self.under_way.push(packet.clone());
            }
            if copies > 0 {
                self.deliver(&packet);
            }
        }
        let outcomes: Vec<_> = self.hosts.iter().map(|host| host.outcome).collect();
        assert_eq!(outcomes, vec![Some(Outcome::Done); self.hosts.len()]);
    }
}

fn any_vectors<T: std::fmt::Debug + Clone>(
    element: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<Vec<T>>> {
    (1usize..5, 0usize..24).prop_flat_map(move |(ranks, length)| {
        prop::collection::vec(prop::collection::vec(element.clone(), length), ranks)
    })
}

proptest! {
    #[test]
    fn sums_of_integers_are_exact_whatever_links_do(
        vectors in any_vectors(any::<i32>()), shape in any_shape(), fates in any_fates(), times in 1usize..4,
    ) {
        let bytes: Vec<_> = vectors.iter().map(|vector| integers(vector)).collect();
        let mut star = Star::new(shape, None, DataType::I32, &bytes);
        let sum = |place: usize| vectors.iter().fold(0i32, |sum, vector| sum.wrapping_add(vector[place]));
        let expected: Vec<i32> = (0..vectors[0].len()).map(sum).collect();
        for part in fates.chunks(fates.len() / times + 1).chain([&[][..]]) {
            // What is still under way from the collective before arrives in this one.
            star.run(part);
            for host in &star.hosts {
                prop_assert_eq!(host.result(), integers(&expected));
            }
        }
    }

    #[test]
    fn sums_of_numbers_are_within_the_bound_and_the_same_at_all_ranks(
        vectors in any_vectors(-1e30f32..1e30), shape in any_shape(), fates in any_fates(),
    ) {
        let bytes: Vec<_> = vectors.iter().map(|vector| floats(vector)).collect();
        let mut star = Star::new(shape, None, DataType::F32, &bytes);
        star.run(&fates);
        let ranks = vectors.len() as u16;
        let found = to_floats(&star.hosts[0].result());
        for host in &star.hosts {
            prop_assert_eq!(host.result(), floats(&found));
        }
        for (place, found) in found.iter().enumerate() {
            // A packet has two elements.
            let block = place / 2 * 2..(place / 2 * 2 + 2).min(vectors[0].len());
            let of_block: Vec<f32> = vectors.iter().flat_map(|vector| vector[block.clone()].to_vec()).collect();
            let scale = FixedPoint::for_block(largest_exponent(&floats(&of_block)), ranks);
            let expected: f64 = vectors.iter().map(|vector| f64::from(vector[place])).sum();
            let rounding = f64::from(found.abs()) * f64::from(f32::EPSILON);
            let error = (f64::from(*found) - expected).abs();
            prop_assert!(error <= scale.error_bound(ranks) + rounding, "{error} at {place} of {found}");
        }
    }

    #[test]
    fn with_a_point_that_is_said_sums_saturate(
        vectors in any_vectors(1f32..1e6), shape in any_shape(), fates in any_fates(), fraction_bits in 0i8..24,
    ) {
        let bytes: Vec<_> = vectors.iter().map(|vector| floats(vector)).collect();
        let scale = FixedPoint::new(fraction_bits);
        let mut star = Star::new(shape, Some(scale), DataType::F32, &bytes);
        star.run(&fates);
        let largest = f64::from(scale.value(i32::MAX));
        for (place, found) in to_floats(&star.hosts[0].result()).iter().enumerate() {
            let expected: f64 = vectors.iter().map(|vector| f64::from(vector[place])).sum();
            let rounding = f64::from(*found) * f64::from(f32::EPSILON);
            let bound = scale.error_bound(vectors.len() as u16) + rounding;
            prop_assert!((f64::from(*found) - expected.min(largest)).abs() <= bound, "{found} for {expected}");
        }
    }
}
