//! Writes the seeds of the fuzz target `control_rpc`: `cargo run -p quincunx-control-grpc --example seed_corpus`.

use prost::Message;
use quincunx_control_grpc::proto;
use quincunx_design::AnyDesign;
use quincunx_designs::CATALOG;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/control_rpc");
    std::fs::create_dir_all(&folder)?;
    for (name, messages) in seeds() {
        std::fs::write(folder.join(name), messages.concat())?;
    }
    Ok(())
}

/// A message as the target reads it.
fn message(kind: u8, message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    [&[kind], &(bytes.len() as u16).to_le_bytes()[..], &bytes].concat()
}

fn node(name: &str, last: u8, role: proto::Role) -> proto::NodeDescription {
    let is_switch = role == proto::Role::Switch;
    let designs =
        CATALOG.above_queue_pairs().filter(|_| is_switch).map(|design| design.name().to_owned()).collect();
    proto::NodeDescription {
        name: name.to_owned(),
        role: role.into(),
        address: format!("127.0.0.{last}"),
        encapsulation: proto::Encapsulation::Udp.into(),
        designs,
        max_endpoints: 64,
        memory_bytes: if is_switch { 1 << 20 } else { 0 },
        links: vec![proto::LinkReport {
            interface: String::new(),
            neighbour: if is_switch { "a" } else { "s" }.into(),
            lanes: 1,
            rate: 0,
            down: false,
        }],
        ..proto::NodeDescription::default()
    }
}

fn attach(name: &str, last: u8, role: proto::Role) -> Vec<u8> {
    message(0, &proto::AttachRequest { node: Some(node(name, last, role)), held: Vec::new() })
}

fn wanted(design: &dyn AnyDesign, name: &str, mesh: &str) -> proto::InitGroupRequest {
    proto::InitGroupRequest {
        members: vec!["a".into(), "b".into()],
        design: Some(proto::Design {
            name: design.name().into(),
            version: design.about().version,
            parameters: design.defaults().to_text(),
        }),
        mesh: mesh.into(),
        direct_rate: 1,
        cross_rate: 1,
        demand: Some(proto::init_group_request::Demand::Vectors(proto::Vectors { longest_bytes: 4096 })),
        name: name.into(),
        lease_us: 1_000_000,
        phase: Some(proto::Phase { job: "gpt".into(), number: 1, duty_percent: 50 }),
        idempotency_key: vec![7; 16],
    }
}

fn report(node: &str, report: proto::report_request::Report) -> Vec<u8> {
    message(1, &proto::ReportRequest { node: node.into(), group: 1, report: Some(report) })
}

fn seeds() -> Vec<(String, Vec<Vec<u8>>)> {
    use proto::report_request::Report;
    let there = || {
        vec![
            attach("a", 1, proto::Role::Host),
            attach("b", 2, proto::Role::Host),
            attach("s", 9, proto::Role::Switch),
        ]
    };
    let mut seeds = Vec::new();
    for design in CATALOG.above_queue_pairs() {
        let mut day = there();
        day.push(message(2, &wanted(design, "train", "")));
        day.extend(["a", "b", "s"].map(|node| report(node, Report::Installed(proto::Installed {}))));
        // The same name, then another that finds less room.
        day.push(message(2, &wanted(design, "train", "")));
        day.push(message(2, &wanted(design, "", "mesh-2x1")));
        let failed = proto::DataPlaneFailed { reason: "gone".into() };
        day.push(report("s", Report::DataPlaneFailed(failed)));
        day.push(message(3, &proto::DestroyGroupRequest { group: 1 }));
        let name = format!("run-{}", design.name());
        if seeds.iter().all(|(other, _)| *other != name) {
            seeds.push((name, day));
        }
    }
    let first = CATALOG.above_queue_pairs().next().expect("a catalog with designs");
    let mut refused = there();
    refused.push(message(2, &wanted(first, "train", "")));
    refused.push(report("a", Report::Refused(proto::Refused { reason: "no room".into() })));
    seeds.push(("run-refused".into(), refused));
    let mut large = there();
    for shape in ["mesh-65535x1", "mesh-65535x65535", "mesh-0x0", "mesh-", "tree-"] {
        large.push(message(2, &wanted(first, shape, shape)));
    }
    seeds.push(("large-meshes".into(), large));
    let mut cut = message(2, &wanted(first, "train", ""));
    cut.truncate(cut.len() / 2);
    seeds.push(("cut-short".into(), vec![cut]));
    let group = proto::Group { group: 1, state: proto::GroupState::Ready.into(), ..Default::default() };
    let holding = proto::Holding { node: "s".into(), endpoints: 2, memory_bytes: 4096, offset_bytes: 4096 };
    let used = proto::NodeUse { group: 1, holding: Some(holding) };
    let of_switch = proto::Node {
        description: Some(node("s", 9, proto::Role::Switch)),
        uses: vec![used.clone()],
        ..Default::default()
    };
    let holder = proto::Holder { r#use: Some(used), name: "train".into(), tenant: "blue".into() };
    let why =
        proto::ExplainGroupResponse { group: Some(group.clone()), then: vec![holder], ..Default::default() };
    seeds.push(("answers".into(), vec![message(5, &group), message(6, &of_switch), message(7, &why)]));
    seeds
}
