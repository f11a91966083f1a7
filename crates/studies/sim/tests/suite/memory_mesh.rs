//! AllGather over MultiWrite on a full mesh of a memory fabric: the program that also runs above queue pairs.

use quincunx_collective::Collective;
use quincunx_scenario::Scenario;
use quincunx_sim::{LinkLoad, Measurement, Outputs, Request, ignore_progress, measure};
use quincunx_trace::{TrackContents, read};
use quincunx_wire::flit::{FlitHeader, Transaction};

use crate::captured::{Shared, packets};
use crate::requests::{lengths, request, scenario};

const DESIGNS: [&str; 3] = ["direct", "unicast-multipath", "multiwrite"];
const WHO: [&str; 2] = ["relay.relays=paired", "relay.relays=full"];

/// The preset; relays take no time.
fn mesh(changes: &[&str]) -> Scenario {
    let free = ["relay.preparation=0ns", "relay.message=0ns", "relay.copy=0ns"];
    scenario("mesh8-memory", &[&free, changes].concat())
}

fn gather(mesh: &Scenario, design: &str, size: u64) -> Request {
    request(mesh, design, Collective::AllGather, size)
}

fn run(request: &Request) -> Measurement {
    measure(request, Outputs::default(), &mut ignore_progress).unwrap()
}

fn refused(request: &Request) -> String {
    measure(request, Outputs::default(), &mut ignore_progress).unwrap_err().to_string()
}

#[test]
fn every_rank_has_its_whole_group_whoever_relays() {
    for (design, who) in DESIGNS.into_iter().flat_map(|design| WHO.map(|who| (design, who))) {
        let mesh = mesh(&[who]);
        for size in [0, 16, 4 << 10, 1_000_000] {
            assert_eq!(run(&gather(&mesh, design, size)).wrong, Some(0), "{design}, {size} bytes, {who}");
        }
    }
}

#[test]
fn a_relay_that_is_behind_makes_its_peers_wait_and_loses_nothing() {
    let slow = mesh(&["relay.message=50us", "relay.copy=10us", "relay.piece=512B"]);
    assert_eq!(run(&gather(&slow, "multiwrite", 400_000)).wrong, Some(0));
}

#[test]
fn large_messages_take_what_section_3_1_says() {
    let size: u64 = 96 << 20;
    // A rank's part over a link of 56 GB/s, in microseconds.
    let alone = (size / 4) as f64 / 56e3;
    for (who, shares) in WHO.into_iter().zip([[1.0, 0.75, 0.5], [1.0, 0.6, 0.5]]) {
        for (design, share) in DESIGNS.into_iter().zip(shares) {
            // Short links and pieces: what is fixed counts as little as in larger messages.
            let mesh = mesh(&[who, "link.latency=100ns", "relay.piece=16KiB"]);
            let time = run(&lengths(gather(&mesh, design, size))).time.as_micros_f64();
            let error = time / (share * alone) - 1.0;
            assert!((0.0..0.03).contains(&error), "{design}, {who}: {time} us, {error:.3} off");
        }
    }
}

#[test]
fn groups_whose_bitmap_is_in_the_payload_gather_everything() {
    let large = mesh(&["groups=9", "relay.piece=8KiB"]);
    assert_eq!(run(&gather(&large, "multiwrite", 200_000)).wrong, Some(0));
    let refused = refused(&lengths(gather(&large, "multiwrite", 4096)));
    assert!(refused.starts_with("expected at most 32 ranks"), "{refused}");
}

#[test]
fn what_multiwrite_does_not_offer_is_refused() {
    let refused = refused(&request(&mesh(&[]), "multiwrite", Collective::AllReduce, 1024));
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_relayed_message_is_a_write_and_a_multiwrite_with_the_bitmap_of_those_it_is_for() {
    let (trace, capture) = (Shared::default(), Shared::default());
    let mesh = mesh(&["link.payload=512B", "relay.piece=1KiB"]);
    let outputs = Outputs { trace: trace.out(), capture: capture.out() };
    let row = measure(&gather(&mesh, "multiwrite", 8 << 10), outputs, &mut ignore_progress).unwrap();
    let packets = packets(&capture.bytes());
    let sent = |name: &str| -> Vec<(Transaction, u32)> {
        let is_it = |link: &LinkLoad| link.name == name;
        let link = row.links.iter().position(is_it).unwrap() as u32;
        let of_link = packets.iter().filter(|(interface, _)| *interface == link);
        let headers = of_link.map(|(_, bytes)| FlitHeader::parse(bytes).unwrap().0);
        headers
            .map(|header| (header.transaction, header.tag))
            .filter(|(transaction, _)| transaction.carries_data())
            .collect()
    };
    let message =
        |destinations| [(Transaction::Write, 512), (Transaction::MultiWrite { destinations }, 1024)];
    // A kibibyte of each rank's two goes to its partner in the other group, once, and from there to each of the three.
    assert_eq!(sent("accelerator0 > accelerator4"), message(0b1110));
    assert_eq!(sent("accelerator4 > accelerator1"), message(0b0010));
    assert_eq!(sent("accelerator0 > accelerator1"), message(0b0010));
    let tracks = read(&trace.bytes()).unwrap();
    let slices = |track: &TrackContents| {
        track.slices.iter().filter(|(.., name)| name.starts_with("MULTIWRITE")).count()
    };
    // Ranks send one to each other member and to the partner, and relay one to each of the partner's group.
    assert_eq!(tracks.iter().map(slices).sum::<usize>(), 8 * (3 + 1 + 3));
}
