//! What EPIC's appendix F says of the three modes in closed form, as our engines have it: where the count is another than the
//! paper's, this is the one that `experiments/epic/F1.toml` and its neighbours tell of.

use quincunx_collective::Collective;
use quincunx_design::Transport;
use quincunx_designs::CATALOG;
use quincunx_scenario::{PacketLink, Scenario};
use quincunx_sim::packet_fabric::{Row, simulate};
use quincunx_units::ByteCount;

use crate::requests::{IDEALISED, lengths, request, scenario};

/// Frames are their payload, as the formulas count them.
fn on(shape: &str) -> Scenario {
    scenario(shape, &["link.framing=0B"])
}

fn transport(scenario: &Scenario) -> Transport {
    let design = scenario.design(CATALOG, "epic-3").unwrap();
    design.transport(&scenario.settings(design).unwrap()).unwrap()
}

fn link(scenario: &Scenario) -> &PacketLink {
    scenario.fabric.packet_link().unwrap()
}

fn all_reduce(scenario: &Scenario, design: &str, size: u64) -> Row {
    simulate(&lengths(request(scenario, design, Collective::AllReduce, size))).unwrap()
}

/// F.1: (2H - 2) L + (2H - 3) MU/B + S/B; in Mode-II a rank knows of its end 2L later, from its switch.
#[test]
fn latency_is_the_path_a_message_or_packet_at_each_switch_but_the_first_link_and_the_vector() {
    let size = 1 << 20;
    for (shape, depth) in [("star-8", 2), ("tree-3-2", 3), ("tree-4-2", 4)] {
        let scenario = on(shape);
        let setup = transport(&scenario);
        let packets = u64::from(setup.message);
        for (design, unit, more) in [("epic-1", packets, 0), ("epic-2", 1, 2), ("epic-3", 1, 0)] {
            let rate = link(&scenario).rate;
            let expected = link(&scenario).latency * (2 * depth - 2 + more)
                + rate.time_for(setup.mtu * unit) * (2 * depth - 3)
                + rate.time_for(ByteCount::new(size));
            let found = all_reduce(&scenario, design, size).time;
            let apart = found.max(expected).as_picos() - found.min(expected).as_picos();
            // Each packet is rounded to a picosecond.
            assert!(apart < 1000, "{design} on {shape}: {expected} expected, {found} found");
        }
    }
}

/// F.3, with the window of a hop in Modes I and III, and of the path in Mode-II; and four bytes of degree a slot.
#[test]
fn buffers_are_windows_two_in_modes_ii_and_iii_and_one_an_edge_and_two_more_in_mode_i() {
    for (shape, edges) in [("star-8", 8), ("tree-3-2", 3)] {
        let scenario = on(shape);
        let setup = transport(&scenario);
        let packets = u64::from(setup.window_packets());
        let window = setup.mtu * packets;
        let found = |design| all_reduce(&scenario, design, 4096).switch_buffer;
        let degrees = |slots: u64| ByteCount::new(4 * slots);
        assert_eq!(found("epic-1"), window * (edges + 2) + degrees(2 * u64::from(setup.window)));
        assert_eq!(found("epic-2"), window * 2 + degrees(2 * packets));
        assert_eq!(found("epic-3"), window * 2 + degrees(2 * packets));
    }
}

/// F.4, with F(r) = r: r squared in Modes I and III on a star, r to the 2 (D - 1) in Mode-II.
#[test]
fn loss_on_all_links_costs_mode_ii_the_product_over_ranks_and_the_others_the_worst_of_them() {
    let lossless = on("star-8");
    let success: f64 = 0.99;
    let setup = scenario(
        "star-8",
        &[&IDEALISED[..], &["link.framing=0B", "loss.links=8", "loss.probability=1%"]].concat(),
    );
    for (design, hops) in [("epic-1", 2), ("epic-2", 14), ("epic-3", 2)] {
        let time = |setup| all_reduce(setup, design, 8 << 20).time.as_micros_f64();
        let (share, expected) = (time(&lossless) / time(&setup), success.powi(hops));
        assert!((share / expected - 1.0).abs() < 0.05, "{design}: {expected:.3} expected, {share:.3} found");
    }
}
