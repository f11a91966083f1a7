//! What may be seen of a memory fabric: its trace, its capture, how busy its links were.

use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction, pattern};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_scenario::{Fabric, Scenario};
use quincunx_sim::memory_fabric::{MemoryFabric, Outcome, Stream, run, run_with_outputs};
use quincunx_sim::{Outputs, ignore_progress};
use quincunx_trace::{TrackContents, read};
use quincunx_units::ByteCount;
use quincunx_wire::flit::{FlitHeader, Transaction};

use crate::captured::{Shared, packets};

const LENGTH: usize = 3 * 4 * 1000;

fn scenario(name: &str) -> Scenario {
    Scenario::find(name, &[], CATALOG).expect("a preset of the paper")
}

fn preset(name: &str) -> MemoryFabric {
    let Fabric::Memory(fabric) = scenario(name).fabric else { panic!("a memory fabric") };
    MemoryFabric::from(&fabric)
}

fn fabric() -> MemoryFabric {
    MemoryFabric { accelerators: 3, switches: 2, ..preset("scin-dgx8") }
}

/// An AllReduce by a design, with small tables if it has tables.
fn stream(design: &str) -> Stream {
    let design = CATALOG.find(design, FabricKind::Memory).expect("a design of the catalog");
    let mut settings = design.defaults();
    let tables: [(&str, Value); 2] = [("isa.waves", 3.into()), ("isa.wave", "512B".into())];
    for (key, value) in tables {
        if settings.has(key) {
            design.set(&mut settings, key, &value).expect("a value of the key");
        }
    }
    Stream { design, settings, request: all_reduce() }
}

fn all_reduce() -> InPlaceRequest {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    let span = Span { offset: 0, length: LENGTH };
    InPlaceRequest { collective: Collective::AllReduce, reduction, span }
}

fn inputs() -> Vec<Numbers> {
    (0..3).map(|rank| pattern(Rank(rank), LENGTH, DataType::F32)).collect()
}

fn watched(design: &str) -> (Outcome<Numbers>, Vec<u8>, Vec<u8>) {
    let (trace, capture) = (Shared::default(), Shared::default());
    let outputs = Outputs { trace: trace.out(), capture: capture.out() };
    let outcome =
        run_with_outputs(&fabric(), stream(design), inputs(), outputs, &mut ignore_progress).expect("a run");
    (outcome, trace.bytes(), capture.bytes())
}

fn tracks(design: &str) -> (Outcome<Numbers>, Vec<TrackContents>) {
    let (outcome, trace, _) = watched(design);
    (outcome, read(&trace).expect("a trace"))
}

#[test]
fn watching_changes_nothing() {
    for design in ["scin", "ring", "nvls"] {
        let Stream { design: by, settings, request } = stream(design);
        let unseen = run(&fabric(), by, &settings, request, inputs()).expect("a run");
        assert_eq!(watched(design).0, unseen, "{design:?}");
    }
}

#[test]
fn a_trace_has_a_track_for_each_direction_and_on_it_a_slice_for_each_packet() {
    let (outcome, trace, capture) = watched("scin");
    let tracks = read(&trace).expect("a trace");
    let packets = packets(&capture);
    for (number, link) in (0..).zip(&outcome.links) {
        let name = format!("{} > {}", link.from, link.to);
        let track = tracks.iter().find(|track| track.name == name).expect("a track of the link");
        assert_eq!(track.parent.as_ref(), Some(&link.from));
        let timed = packets.iter().filter(|(interface, bytes)| {
            let (header, _) = FlitHeader::parse(bytes).expect("a packet");
            *interface == number && header.transaction != Transaction::Credit
        });
        assert_eq!(track.slices.len(), timed.count(), "{name}");
        assert!(track.slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}: one at a time");
        let busy: u64 = track.slices.iter().map(|(from, to, _)| to - from).sum();
        assert!(busy.abs_diff(link.statistics.busy.as_nanos()) <= track.slices.len() as u64, "{name}");
    }
}

#[test]
fn a_trace_shows_how_many_credits_each_port_has_used() {
    let (_, tracks) = tracks("ring");
    let ports: Vec<_> = tracks.iter().filter(|track| track.name.starts_with("credits in use to ")).collect();
    assert_eq!(ports.len(), 3 * 2 * 2);
    for port in ports {
        assert!(port.values.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
        let (most, last) =
            (port.values.iter().map(|(_, value)| *value).fold(0.0, f64::max), port.values.last());
        assert!(most > 1.0 && last.is_some_and(|(_, value)| *value < most), "taken and given back: {port:?}");
    }
}

#[test]
fn a_trace_shows_each_wave_in_its_entry_of_the_wave_tables() {
    let (_, tracks) = tracks("scin");
    for switch in ["switch0", "switch1"] {
        let waves = tracks
            .iter()
            .filter(|track| track.name.starts_with("wave ") && track.parent.as_deref() == Some(switch));
        let mut bytes: Vec<(usize, usize)> = Vec::new();
        let mut entries = 0;
        for entry in waves {
            entries += 1;
            assert!(entry.slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one wave at a time");
            bytes.extend(entry.slices.iter().map(|(_, _, name)| {
                let range =
                    name.strip_prefix("bytes ").and_then(|name| name.split(',').next()).expect("a range");
                let (start, end) = range.split_once("..").expect("a range");
                (start.parse().expect("a number"), end.parse().expect("a number"))
            }));
        }
        bytes.sort_unstable();
        assert_eq!(entries, 3);
        assert!(bytes.windows(2).all(|pair| pair[0].1 == pair[1].0), "every byte once: {bytes:?}");
    }
    let (_, ring) = self::tracks("ring");
    assert!(ring.iter().all(|track| !track.name.starts_with("wave ")), "no tables, no waves");
}

#[test]
fn a_capture_holds_every_packet_as_it_is_on_the_wire() {
    let (outcome, _, capture) = watched("scin");
    let packets = packets(&capture);
    assert_eq!(packets.len() as u64, outcome.packets);
    // What is written to the first accelerator is what it has in the end.
    let mut memory = Numbers::zeroed(LENGTH);
    for (_, bytes) in &packets {
        let (header, payload) = FlitHeader::parse(bytes).expect("a packet");
        if header.transaction == Transaction::Write && header.destination.0 == 0 {
            assert!(header.inc);
            memory.write(header.address as usize, payload);
        }
    }
    assert_eq!(memory, outcome.memories[0]);
}

#[test]
fn links_say_how_busy_they_were_and_switches_what_they_need() {
    let scin = watched("scin").0;
    assert_eq!(scin.links.len(), 3 * 2 * 2);
    assert!(scin.links.iter().all(|link| link.utilisation > 0.0 && link.utilisation < 1.0));
    // Three tables of three waves of 512 codes with a scale of two bytes for 64 of them.
    assert_eq!(scin.switch_buffer, ByteCount::new(3 * 3 * (512 + 16)));
    assert_eq!(watched("ring").0.switch_buffer, ByteCount::new(0));
    assert!(watched("nvls").0.switch_buffer > ByteCount::new(0));
}
