//! What becomes of the samples, key by key and note by note.

use crate::{folder, sample, samples, scenario};
use quincunx_design::FabricKind;
use quincunx_fabric::Topology;
use quincunx_import::import;
use quincunx_scenario::{Fabric, PacketFabric, TopologyName};

#[test]
fn each_sample_becomes_the_fabric_that_is_written_down() {
    let is_written = std::env::var("IMPORT_GOLDEN").is_ok_and(|value| value == "write");
    let samples = samples();
    assert!(samples.len() >= 11, "{} samples", samples.len());
    for (name, text) in samples {
        let imported = import(&name, &text).unwrap();
        let path = folder().join("golden").join(format!("{name}.toml"));
        if is_written {
            std::fs::write(&path, &imported.text).unwrap();
        }
        assert_eq!(imported.text, std::fs::read_to_string(&path).unwrap(), "{}", path.display());
        assert!(scenario(&imported).is_ok(), "{name}: {:?}", scenario(&imported).err());
    }
}

fn topology(name: &str) -> Topology {
    let imported = import(name, &sample(name)).unwrap();
    let Fabric::Packet(PacketFabric { topology: TopologyName::Listed(topology), .. }) =
        scenario(&imported).unwrap().fabric
    else {
        panic!("{name} has a list of nodes")
    };
    *topology
}

/// The links of a node: who is at the other end, the rate, and the cost.
fn links(topology: &Topology, node: &str) -> Vec<(String, String, u16)> {
    let node = topology.find(node).unwrap();
    let ports = topology.node(node).ports.iter().map(|link| topology.links()[link.0 as usize]);
    let mut found: Vec<_> = ports
        .map(|link| {
            let other = link.ends.into_iter().find(|end| end.node != node).unwrap();
            (topology.node(other.node).name.clone(), link.properties.rate.to_string(), link.cost)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn gpus_around_nvswitches_are_a_memory_fabric_with_the_rates_that_nccl_counts_with() {
    let scenario = scenario(&import("h", &sample("hgx-h100.xml")).unwrap()).unwrap();
    assert_eq!(scenario.kind(), FabricKind::Memory);
    let Fabric::Memory(fabric) = scenario.fabric else { panic!("a memory fabric") };
    assert_eq!((fabric.accelerators, fabric.switches), (2, 4));
    // 18 links of 20.6 GB/s, over four switches.
    assert_eq!(fabric.link.rate.bits_per_second(), 18 * 20_600_000_000 * 8 / 4);
}

#[test]
fn gpus_without_nvswitches_are_at_pcie_and_have_the_nvlinks_that_there_are() {
    let pairs = topology("ncv4.xml");
    let expected = [("cpu-0", "96Gbit/s"), ("gpu-1", "1.92Tbit/s")];
    assert_eq!(links(&pairs, "gpu-0"), expected.map(|(name, rate)| (name.into(), rate.into(), 1)));
    // Zen 3, processors joined each with each.
    assert_eq!(links(&pairs, "cpu-3").len(), 4);
    assert!(links(&pairs, "cpu-3").contains(&("cpu-0".into(), "192Gbit/s".into(), 1)));
    let tree = topology("pcie.xml");
    assert_eq!(links(&tree, "gpu-1"), [("pci-0".into(), "48Gbit/s".into(), 1)]);
    assert_eq!(
        links(&tree, "cpu-1"),
        [("pci-0".into(), "96Gbit/s".into(), 1), ("pci-2".into(), "192Gbit/s".into(), 1)]
    );
}

#[test]
fn a_server_s_own_links_cost_less_than_those_to_the_network() {
    let rail = topology("simai-rail.topo");
    let expected = [("nvswitch-5", "2.88Tbit/s", 1), ("switch-7", "400Gbit/s", 8)];
    assert_eq!(links(&rail, "host-3"), expected.map(|(name, rate, cost)| (name.into(), rate.into(), cost)));
    let hosts = topology("ns3-8.txt");
    assert_eq!(links(&hosts, "host-7"), [("switch-8".into(), "100Gbit/s".into(), 1)]);
}

#[test]
fn a_nic_with_two_links_is_a_node_and_nvswitches_of_a_server_are_one() {
    let dual = topology("simai-dual-tor.topo");
    let expected = [("nic-0", "400Gbit/s", 1), ("nvswitch-4", "2.88Tbit/s", 1)];
    assert_eq!(links(&dual, "host-0"), expected.map(|(name, rate, cost)| (name.into(), rate.into(), cost)));
    let expected = [("host-0", "400Gbit/s", 1), ("switch-12", "200Gbit/s", 8), ("switch-14", "200Gbit/s", 8)];
    assert_eq!(links(&dual, "nic-0"), expected.map(|(name, rate, cost)| (name.into(), rate.into(), cost)));
    assert_eq!(dual.find("nvswitch-5"), None);
}

#[test]
fn a_link_that_stands_there_twice_is_two_whichever_end_comes_first() {
    let imported = import("f", "3 1 3\n2\n0 2 1Gbps 1us 0\n2 0 1Gbps 1us 0\n1 2 1Gbps 1us 0\n").unwrap();
    assert_eq!(imported.text.matches("count = 2").count(), 1, "{}", imported.text);
    assert!(
        imported.text.contains("between = [\"host-0\", \"nic-0\"]\nrate = \"2Gbit/s\""),
        "{}",
        imported.text
    );
}

#[test]
fn dimensions_of_astra_sim_are_switches_that_cost_more_the_further_out_they_are() {
    let servers = topology("astra-hgx-h100.yml");
    let expected = [("switch-1-1", "3.4359738368Tbit/s", 1), ("switch-2-0", "429.4967296Gbit/s", 2)];
    assert_eq!(links(&servers, "npu-7"), expected.map(|(name, rate, cost)| (name.into(), rate.into(), cost)));
    let meshes = topology("astra-mesh.json");
    let names: Vec<_> = links(&meshes, "npu-4").into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["npu-3", "npu-5", "switch-2-0"]);
}

#[test]
fn what_is_not_in_the_fabric_is_said_with_its_line() {
    let said = |name: &str| {
        import(name, &sample(name)).unwrap().notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let notes = said("pcie.xml");
    for part in [
        "pcie.xml:6: colour of <gpu>: not understood",
        "pcie.xml:17: <accelerator>: not understood",
        "pcie.xml: affinity of <cpu>, class of <pci>, gdr of <gpu>: says nothing of links between GPUs",
    ] {
        assert!(notes.contains(&part.to_owned()), "{part}: {notes:?}");
    }
    assert_eq!(notes.len(), 3);
    assert!(said("hgx-h100.xml")[0].starts_with("hgx-h100.xml:14: <net> of 400Gbit/s (2 times): "));
    assert_eq!(said("ns3-8.txt"), Vec::<String>::new());
    let lossy = sample("ns3-8.txt").replacen("0.0005ms 0\n", "0.0005ms 0.01\n", 2) + "more words\n";
    let notes = import("f", &lossy).unwrap().notes;
    assert!(notes[0].to_string().starts_with("f:3: the error rate 0.01 (2 times): "), "{}", notes[0]);
    assert!(notes[1].to_string().starts_with("f:11: 2 words from \"more\" on: "), "{}", notes[1]);
}
