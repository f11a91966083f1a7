//! Between the messages on the wire and the control plane's own types. Encoding cannot fail; decoding checks all.

use crate::{Explanation, GroupStatus, Holder, NodeStatus, proto};
use quincunx_collective::{GroupId, Rank};
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_control::{
    Encapsulation, Fallback, GroupFailure, GroupRecord, GroupRequest, GroupState, GroupSummary, HeldGroup,
    Holder as Claim, Holding, Instruction, LinkReport, LockUse, NodeDescription, Phase, Progress,
    RecreatedGroup, Report, Role, SharedMemory,
};
use quincunx_design::{
    ConnectionContext, Contention, Demand, FabricKind, GroupContext, LinkRates, Node, Peer,
    Role as DesignRole, Settings,
};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::{Endpoint, MAX_QPN, QpNumber};
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) mod answers;
pub(crate) mod cables;
mod calls;
mod decoding;
pub(crate) mod paths;
#[cfg(test)]
mod tests;

pub(crate) use calls::{decode_arrivals, decode_timed, encode_arrivals, encode_name, encode_timed};
pub use decoding::DecodeError;
use decoding::{Decoded, each, narrow, present, psn, queue_pair, start_of, wrong};

// Nodes

pub(crate) fn encode_node(node: &NodeDescription) -> proto::NodeDescription {
    let role = match node.role {
        Role::Host => proto::Role::Host,
        Role::Switch => proto::Role::Switch,
    };
    let encapsulation = match node.encapsulation {
        Encapsulation::Udp => proto::Encapsulation::Udp,
        Encapsulation::Ethernet => proto::Encapsulation::Ethernet,
    };
    proto::NodeDescription {
        name: node.name.clone(),
        role: role.into(),
        address: node.address.to_string(),
        share: node.share.into(),
        core_addresses: node.cores.iter().map(ToString::to_string).collect(),
        encapsulation: encapsulation.into(),
        designs: node.designs.iter().cloned().collect(),
        versions: node.versions.iter().map(encode_version).collect(),
        max_endpoints: node.max_endpoints,
        queue_pairs: node.queue_pairs.iter().map(|qp| qp.value()).collect(),
        memory_bytes: node.memory.bytes(),
        memory_unit_bytes: node.memory_unit.bytes(),
        one_group_a_port: node.one_group_a_port,
        max_fan_in: node.max_fan_in.map_or(0, u32::from),
        links: node.links.iter().map(encode_link).collect(),
    }
}

fn encode_version((design, version): (&String, &u32)) -> proto::DesignVersion {
    proto::DesignVersion { design: design.clone(), version: *version }
}

pub(crate) fn encode_link(link: &LinkReport) -> proto::LinkReport {
    proto::LinkReport {
        neighbour: link.neighbour.clone(),
        lanes: link.parallel_links.into(),
        rate: link.rate.map_or(0, BitRate::bits_per_second),
        down: link.parallel_links == 0,
        interface: link.interface.clone().unwrap_or_default(),
    }
}

pub(crate) fn decode_links(links: Vec<proto::LinkReport>) -> Decoded<Vec<LinkReport>> {
    each(links, decode_link)
}

fn decode_link(link: proto::LinkReport) -> Decoded<LinkReport> {
    let parallel_links = if link.down { 0 } else { narrow("links.lanes", "16 bits", link.lanes.max(1))? };
    let interface = Some(link.interface).filter(|interface| !interface.is_empty());
    Ok(LinkReport { neighbour: link.neighbour, parallel_links, rate: BitRate::new(link.rate), interface })
}

fn encode_region(region: Region) -> proto::Region {
    proto::Region { offset_bytes: region.offset.bytes(), length_bytes: region.length.bytes() }
}

fn decode_region(region: proto::Region) -> Region {
    Region { offset: ByteCount::new(region.offset_bytes), length: ByteCount::new(region.length_bytes) }
}

pub(crate) fn encode_held(held: &HeldGroup) -> proto::HeldGroup {
    proto::HeldGroup {
        group: held.group.0,
        region: held.region.map(encode_region),
        queue_pairs: held.endpoints.iter().map(|qp| qp.value()).collect(),
        released: held.is_released,
    }
}

pub(crate) fn decode_held(held: Vec<proto::HeldGroup>) -> Decoded<Vec<HeldGroup>> {
    each(held, |held| {
        Ok(HeldGroup {
            group: GroupId(held.group),
            region: held.region.map(decode_region),
            endpoints: each(held.queue_pairs, |number| queue_pair("held.queue_pairs", number))?
                .into_iter()
                .collect(),
            is_released: held.released,
        })
    })
}

pub(crate) fn decode_node(node: proto::NodeDescription) -> Decoded<NodeDescription> {
    let role = match proto::Role::try_from(node.role) {
        Ok(proto::Role::Host) => Role::Host,
        Ok(proto::Role::Switch) => Role::Switch,
        Ok(proto::Role::Unspecified) | Err(_) => return wrong("role", "host or switch", node.role),
    };
    let encapsulation = match proto::Encapsulation::try_from(node.encapsulation) {
        Ok(proto::Encapsulation::Udp) => Encapsulation::Udp,
        Ok(proto::Encapsulation::Ethernet) => Encapsulation::Ethernet,
        Ok(proto::Encapsulation::Unspecified) | Err(_) => {
            return wrong("encapsulation", "UDP or Ethernet", node.encapsulation);
        }
    };
    let address = |field, text: &str| text.parse().or_else(|_| wrong(field, "an IP address", text));
    Ok(NodeDescription {
        name: node.name,
        role,
        address: address("address", &node.address)?,
        share: narrow("share", "8 bits", node.share)?,
        cores: each(node.core_addresses, |core| address("core_addresses", &core))?,
        encapsulation,
        designs: node.designs.into_iter().collect(),
        versions: node.versions.into_iter().map(|known| (known.design, known.version)).collect(),
        max_endpoints: node.max_endpoints,
        queue_pairs: each(node.queue_pairs, |number| queue_pair("queue_pairs", number))?,
        memory: ByteCount::new(node.memory_bytes),
        memory_unit: ByteCount::new(node.memory_unit_bytes.max(1)),
        one_group_a_port: node.one_group_a_port,
        max_fan_in: match narrow("max_fan_in", "16 bits", node.max_fan_in)? {
            0 => None,
            most => Some(most),
        },
        links: each(node.links, decode_link)?,
    })
}

// Contexts

fn encode_endpoint(endpoint: Endpoint) -> proto::Endpoint {
    proto::Endpoint { address: endpoint.ip.to_string(), queue_pair: endpoint.qp.value() }
}

fn decode_endpoint(field: &'static str, endpoint: Option<proto::Endpoint>) -> Decoded<Endpoint> {
    let endpoint = present(field, endpoint)?;
    let ip: IpAddr =
        endpoint.address.parse().or_else(|_| wrong(field, "an IP address", &endpoint.address))?;
    if endpoint.queue_pair > MAX_QPN {
        return wrong(field, "a queue pair number of 24 bits", endpoint.queue_pair);
    }
    Ok(Endpoint { ip: ip.into(), qp: QpNumber::new(endpoint.queue_pair) })
}

fn encode_peer(peer: &Peer) -> proto::Peer {
    let kind = match peer {
        Peer::Rank(rank) => proto::peer::Kind::Rank(rank.0.into()),
        Peer::Switch(name) => proto::peer::Kind::Switch(name.clone()),
    };
    proto::Peer { kind: Some(kind) }
}

fn decode_peer(peer: Option<proto::Peer>) -> Decoded<Peer> {
    match present("peer", peer.and_then(|peer| peer.kind))? {
        proto::peer::Kind::Rank(rank) => Ok(Peer::Rank(Rank(narrow("peer.rank", "16 bits", rank)?))),
        proto::peer::Kind::Switch(name) => Ok(Peer::Switch(name)),
    }
}

fn encode_design(name: &str, version: u32, settings: &Settings) -> proto::Design {
    proto::Design { name: name.to_string(), version, parameters: settings.to_text() }
}

fn decode_design(design: Option<proto::Design>) -> Decoded<(String, u32, Settings)> {
    let proto::Design { name, version, parameters } = present("design", design)?;
    let settings = Settings::parse(&parameters)
        .or_else(|_| wrong("design.parameters", "a JSON object", start_of(&parameters)))?;
    Ok((name, version, settings))
}

fn encode_fabric(fabric: FabricKind) -> proto::Fabric {
    match fabric {
        FabricKind::Tree => proto::Fabric::Tree,
        FabricKind::Ring => proto::Fabric::Ring,
        FabricKind::Mesh => proto::Fabric::Mesh,
        FabricKind::Servers => proto::Fabric::Servers,
        // No manager serves memory fabrics.
        FabricKind::Memory | FabricKind::MemoryMesh => proto::Fabric::Unspecified,
    }
}

fn decode_fabric(fabric: i32) -> Decoded<FabricKind> {
    match proto::Fabric::try_from(fabric) {
        Ok(proto::Fabric::Tree) => Ok(FabricKind::Tree),
        Ok(proto::Fabric::Ring) => Ok(FabricKind::Ring),
        Ok(proto::Fabric::Mesh) => Ok(FabricKind::Mesh),
        Ok(proto::Fabric::Servers) => Ok(FabricKind::Servers),
        Ok(proto::Fabric::Unspecified) | Err(_) => {
            wrong("fabric", "a kind of fabric of this version", fabric)
        }
    }
}

fn encode_connection(connection: &ConnectionContext) -> proto::Connection {
    proto::Connection {
        local: Some(encode_endpoint(connection.local)),
        remote: Some(encode_endpoint(connection.remote)),
        peer: Some(encode_peer(&connection.peer)),
    }
}

fn decode_connections(connections: Vec<proto::Connection>) -> Decoded<Vec<ConnectionContext>> {
    if connections.len() > usize::from(u16::MAX) {
        return wrong("connections", "at most 65535 connections", connections.len());
    }
    each(connections, |connection| {
        Ok(ConnectionContext {
            local: decode_endpoint("connections.local", connection.local)?,
            remote: decode_endpoint("connections.remote", connection.remote)?,
            peer: decode_peer(connection.peer)?,
        })
    })
}

fn encode_contention(contention: &Contention) -> proto::Contention {
    proto::Contention {
        fallback: contention.fallback.as_ref().map(|fallback| Box::new(encode_context(fallback))),
        edges: contention.edges.iter().map(encode_connection).collect(),
        has_parent: contention.has_parent,
        patience_us: micros(contention.patience),
    }
}

fn decode_contention(contention: proto::Contention) -> Decoded<Contention> {
    let fallback = contention.fallback.map(|fallback| decode_context(*fallback)).transpose()?;
    if fallback.as_ref().is_some_and(|fallback| fallback.contention.is_some()) {
        return wrong("contention.fallback", "what runs without locks", "locks");
    }
    let edges = decode_connections(contention.edges)?;
    if edges.len() < usize::from(contention.has_parent) {
        return wrong("contention.edges", "an edge to the parent", "none");
    }
    let patience = from_micros("contention.patience_us", contention.patience_us)?;
    Ok(Contention { fallback, edges, has_parent: contention.has_parent, patience })
}

fn encode_context(context: &GroupContext) -> proto::GroupContext {
    use proto::group_context::Node as Encoded;
    let node = match context.node {
        Node::Rank(rank) => Encoded::Rank(rank.0.into()),
        Node::Switch => Encoded::Switch(proto::SwitchNode {}),
    };
    proto::GroupContext {
        group: context.group.0,
        design: Some(encode_design(&context.design, context.version, &context.settings)),
        node: Some(node),
        role: context.role.to_text(),
        ranks: context.ranks.into(),
        fabric: encode_fabric(context.fabric).into(),
        domains: context.domains.into(),
        initial_psn: context.initial_psn.value(),
        remote_write: context.remote_write,
        credits: context.credits,
        channels: context.channels.into(),
        memory_bytes: context.memory.bytes(),
        memory_offset_bytes: context.memory_offset.bytes(),
        connections: context.connections.iter().map(encode_connection).collect(),
        contention: context.contention.as_deref().map(|contention| Box::new(encode_contention(contention))),
    }
}

fn decode_context(context: proto::GroupContext) -> Decoded<GroupContext> {
    use proto::group_context::Node as Encoded;
    let ranks: u16 = narrow("ranks", "16 bits", context.ranks)?;
    let domains: u16 = narrow("domains", "16 bits", context.domains)?;
    if domains == 0 || !ranks.is_multiple_of(domains) {
        return wrong("domains", "domains of one size", domains);
    }
    let node = match present("node", context.node)? {
        Encoded::Rank(rank) if rank < ranks.into() => Node::Rank(Rank(rank as u16)),
        Encoded::Rank(rank) => return wrong("rank", "a rank of the group", rank),
        Encoded::Switch(proto::SwitchNode {}) => Node::Switch,
    };
    let (design, version, settings) = decode_design(context.design)?;
    Ok(GroupContext {
        group: GroupId(context.group),
        design,
        version,
        settings,
        node,
        role: DesignRole::parse(&context.role).or_else(|_| wrong("role", "JSON", start_of(&context.role)))?,
        ranks,
        fabric: decode_fabric(context.fabric)?,
        domains,
        initial_psn: psn("initial_psn", context.initial_psn)?,
        remote_write: context.remote_write,
        credits: context.credits,
        channels: narrow("channels", "16 bits", context.channels.max(1))?,
        memory: ByteCount::new(context.memory_bytes),
        memory_offset: ByteCount::new(context.memory_offset_bytes),
        connections: decode_connections(context.connections)?,
        contention: context
            .contention
            .map(|contention| decode_contention(*contention))
            .transpose()?
            .map(Box::new),
    })
}

// Requests

pub(crate) fn encode_request(wanted: &GroupRequest) -> proto::InitGroupRequest {
    use proto::init_group_request::Demand as Encoded;
    let demand = match wanted.demand {
        Demand::Vectors { longest } => Encoded::Vectors(proto::Vectors { longest_bytes: longest.bytes() }),
        Demand::Tokens { most, length } => {
            Encoded::Tokens(proto::Tokens { most, length_bytes: length.bytes() })
        }
        Demand::Writes { slots, length } => {
            Encoded::Writes(proto::Writes { slots, length_bytes: length.bytes() })
        }
    };
    proto::InitGroupRequest {
        members: wanted.members.clone(),
        design: Some(encode_design(&wanted.design, wanted.version, &wanted.settings)),
        mesh: wanted.mesh.map_or_else(String::new, |mesh| mesh.to_string()),
        direct_rate: wanted.rates.direct.bits_per_second(),
        cross_rate: wanted.rates.cross.bits_per_second(),
        demand: Some(demand),
        lease_us: wanted.lease.map_or(0, micros),
        phase: wanted.phase.as_ref().map(|phase| proto::Phase {
            job: phase.job.clone(),
            number: phase.number.into(),
            duty_percent: phase.duty.into(),
        }),
        name: String::new(),
        idempotency_key: wanted.key.map_or_else(Vec::new, |key| key.to_be_bytes().to_vec()),
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_picos() / Duration::from_micros(1).as_picos()
}

/// More than a century is for ever, and no number of picoseconds.
fn from_micros(field: &'static str, micros: u64) -> Decoded<Duration> {
    match micros {
        0..1_000_000_000_000 => Ok(Duration::from_micros(micros)),
        _ => wrong(field, "less than a million seconds", micros),
    }
}

pub(crate) fn decode_request(request: proto::InitGroupRequest) -> Decoded<GroupRequest> {
    use proto::init_group_request::Demand as Encoded;
    let (design, version, settings) = decode_design(request.design)?;
    let rate = |field, rate| BitRate::new(rate).map_or_else(|| wrong(field, "a rate above zero", rate), Ok);
    let demand = match present("demand", request.demand)? {
        Encoded::Vectors(vectors) => Demand::Vectors { longest: ByteCount::new(vectors.longest_bytes) },
        Encoded::Tokens(tokens) => {
            Demand::Tokens { most: tokens.most, length: ByteCount::new(tokens.length_bytes) }
        }
        Encoded::Writes(writes) => {
            Demand::Writes { slots: writes.slots, length: ByteCount::new(writes.length_bytes) }
        }
    };
    let mesh = match request.mesh.as_str() {
        "" => None,
        name => match name.parse() {
            Ok(mesh) => Some(mesh),
            Err(_) => return wrong("mesh", "a mesh such as mesh-2x4", start_of(name)),
        },
    };
    let key = match &request.idempotency_key[..] {
        [] => None,
        key => match key.try_into() {
            Ok(key) => Some(u128::from_be_bytes(key)),
            Err(_) => return wrong("idempotency_key", "16 bytes, or none", format!("{} bytes", key.len())),
        },
    };
    let phase = |phase: proto::Phase| {
        let duty = match phase.duty_percent {
            duty @ 0..=100 => duty as u8,
            duty => return wrong("phase.duty_percent", "at most 100", duty),
        };
        Ok(Phase { job: phase.job, number: narrow("phase.number", "16 bits", phase.number)?, duty })
    };
    Ok(GroupRequest {
        // Who asks, the connection says.
        owner: String::new(),
        members: request.members,
        design,
        version,
        settings,
        mesh,
        rates: LinkRates {
            direct: rate("direct_rate", request.direct_rate)?,
            cross: rate("cross_rate", request.cross_rate)?,
        },
        demand,
        lease: match request.lease_us {
            0 => None,
            lease => Some(from_micros("lease_us", lease)?),
        },
        phase: request.phase.map(phase).transpose()?,
        key,
    })
}

// Instructions and reports

fn encode_failure(failure: &GroupFailure) -> proto::Failure {
    proto::Failure { node: failure.node.clone(), reason: failure.reason.clone() }
}

fn decode_failure(failure: Option<proto::Failure>) -> Decoded<GroupFailure> {
    let proto::Failure { node, reason } = present("failure", failure)?;
    Ok(GroupFailure { node, reason })
}

pub(crate) fn encode_instruction(instruction: &Instruction) -> proto::Instruction {
    use proto::instruction::Kind;
    let kind = match instruction {
        Instruction::Install(context) => Kind::Install(encode_context(context)),
        Instruction::Ready(group) => Kind::Ready(proto::GroupReady { group: group.0 }),
        Instruction::Remove(group) => Kind::Remove(proto::RemoveGroup { group: group.0 }),
        Instruction::TellCalls(group) => Kind::TellCalls(proto::TellCalls { group: group.0 }),
        Instruction::TellTimes(group) => Kind::TellTimes(proto::TellTimes { group: group.0 }),
        Instruction::ProbePaths(probe) => Kind::ProbePaths(paths::encode_probe(probe)),
        Instruction::TellPaths(run) => Kind::TellPaths(proto::TellPaths { run: *run }),
        Instruction::MoveMemory(MovedBlock { from, to }) => Kind::MoveMemory(proto::MoveMemory {
            from_bytes: from.offset.bytes(),
            length_bytes: from.length.bytes(),
            to_bytes: to.bytes(),
        }),
        Instruction::Failed { group, failure } => {
            Kind::Failed(proto::GroupFailed { group: group.0, failure: Some(encode_failure(failure)) })
        }
        Instruction::Suspend { group, failure } => {
            Kind::Suspend(proto::SuspendGroup { group: group.0, failure: Some(encode_failure(failure)) })
        }
        Instruction::Resume { group, from, first } => {
            Kind::Resume(proto::ResumeGroup { group: group.0, from: from.0, first: *first })
        }
    };
    proto::Instruction { kind: Some(kind) }
}

pub(crate) fn decode_instruction(instruction: proto::Instruction) -> Decoded<Instruction> {
    use proto::instruction::Kind;
    Ok(match present("kind", instruction.kind)? {
        Kind::Install(context) => Instruction::Install(Box::new(decode_context(context)?)),
        Kind::Ready(ready) => Instruction::Ready(GroupId(ready.group)),
        Kind::Remove(remove) => Instruction::Remove(GroupId(remove.group)),
        Kind::TellCalls(tell) => Instruction::TellCalls(GroupId(tell.group)),
        Kind::TellTimes(tell) => Instruction::TellTimes(GroupId(tell.group)),
        Kind::ProbePaths(probe) => Instruction::ProbePaths(Box::new(paths::decode_probe(probe)?)),
        Kind::TellPaths(tell) => Instruction::TellPaths(tell.run),
        Kind::MoveMemory(proto::MoveMemory { from_bytes, length_bytes, to_bytes }) => {
            let from = Region { offset: ByteCount::new(from_bytes), length: ByteCount::new(length_bytes) };
            Instruction::MoveMemory(MovedBlock { from, to: ByteCount::new(to_bytes) })
        }
        Kind::Failed(failed) => {
            Instruction::Failed { group: GroupId(failed.group), failure: decode_failure(failed.failure)? }
        }
        Kind::Suspend(suspend) => {
            Instruction::Suspend { group: GroupId(suspend.group), failure: decode_failure(suspend.failure)? }
        }
        Kind::Resume(proto::ResumeGroup { group, from, first }) => {
            Instruction::Resume { group: GroupId(group), from: GroupId(from), first }
        }
    })
}

pub(crate) fn encode_report(report: Report) -> proto::report_request::Report {
    use proto::report_request::Report as Encoded;
    match report {
        Report::Installed => Encoded::Installed(proto::Installed {}),
        Report::Refused { reason } => Encoded::Refused(proto::Refused { reason }),
        Report::DataPlaneFailed { reason } => Encoded::DataPlaneFailed(proto::DataPlaneFailed { reason }),
        Report::Corrupted { reason } => Encoded::Corrupted(proto::Corrupted { reason }),
        Report::Removed => Encoded::Removed(proto::Removed {}),
        Report::Suspended(Progress { complete, repeats_from }) => {
            Encoded::Suspended(proto::Suspended { complete, repeats_from })
        }
        Report::Locked(uses) => Encoded::Locked(encode_lock_use(uses)),
        Report::Called { calls, is_stalled, standing } => {
            Encoded::Called(calls::encode(&calls, is_stalled, &standing))
        }
        Report::Released => Encoded::Released(proto::Released {}),
    }
}

fn encode_lock_use(uses: LockUse) -> proto::LockUse {
    let LockUse { granted, refused, in_vain, held_by, held } = uses;
    let held_by = held_by.map_or(0, |group| group.0);
    proto::LockUse { granted, refused, in_vain, held_by, held_us: micros(held) }
}

fn decode_lock_use(uses: proto::LockUse) -> LockUse {
    let proto::LockUse { granted, refused, in_vain, held_by, held_us } = uses;
    let held_by = (held_by != 0).then_some(GroupId(held_by));
    LockUse { granted, refused, in_vain, held_by, held: Duration::from_micros(held_us) }
}

pub(crate) fn decode_report(report: Option<proto::report_request::Report>) -> Decoded<Report> {
    use proto::report_request::Report as Encoded;
    Ok(match present("report", report)? {
        Encoded::Installed(proto::Installed {}) => Report::Installed,
        Encoded::Refused(proto::Refused { reason }) => Report::Refused { reason },
        Encoded::DataPlaneFailed(proto::DataPlaneFailed { reason }) => Report::DataPlaneFailed { reason },
        Encoded::Corrupted(proto::Corrupted { reason }) => Report::Corrupted { reason },
        Encoded::Removed(proto::Removed {}) => Report::Removed,
        Encoded::Suspended(proto::Suspended { complete, repeats_from }) => {
            Report::Suspended(Progress { complete, repeats_from })
        }
        Encoded::Locked(uses) => Report::Locked(decode_lock_use(uses)),
        Encoded::Called(called) => {
            let (calls, is_stalled, standing) = calls::decode(called)?;
            Report::Called { calls, is_stalled, standing }
        }
        Encoded::Released(proto::Released {}) => Report::Released,
        // Who asks for it takes it before.
        Encoded::Arrivals(_) => return wrong("report", "what the manager decides by", "arrivals"),
        Encoded::Paths(_) => return wrong("report", "what the manager decides by", "counts of paths"),
        Encoded::Timed(_) => return wrong("report", "what the manager decides by", "times of calls"),
    })
}

// Groups

fn encode_fallback(fallback: &Fallback) -> proto::Fallback {
    use proto::fallback::Lack;
    let (switch, lack, holders) = match fallback {
        Fallback::SwitchMemory { switch, needed, free, longest, holders } => {
            let lack = proto::LackOfMemory {
                needed_bytes: needed.bytes(),
                free_bytes: free.bytes(),
                longest_bytes: longest.bytes(),
            };
            (switch.as_str(), Lack::Memory(lack), holders.as_slice())
        }
        Fallback::SwitchEndpoints { switch, needed, free, holders } => (
            switch.as_str(),
            Lack::Endpoints(proto::LackOfEndpoints { needed: *needed, free: *free }),
            &holders[..],
        ),
        Fallback::FanIn { switch, needed, most } => {
            let lack = proto::LackOfFanIn { needed: (*needed).into(), most: (*most).into() };
            (switch.as_str(), Lack::FanIn(lack), &[][..])
        }
        Fallback::PortTaken { switch, link, holders } => {
            (switch.as_str(), Lack::Port(proto::PortTaken { link: link.clone() }), &holders[..])
        }
        Fallback::GroupQuota { owner, limit, holders } => {
            let lack = proto::GroupQuota { owner: owner.clone(), limit: *limit };
            ("", Lack::GroupQuota(lack), &holders[..])
        }
        Fallback::MemoryQuota { owner, limit, wanted, holders } => {
            let (limit_bytes, wanted_bytes) = (limit.bytes(), wanted.bytes());
            let lack = proto::MemoryQuota { owner: owner.clone(), limit_bytes, wanted_bytes };
            ("", Lack::MemoryQuota(lack), &holders[..])
        }
        Fallback::Draining { design, members, switches } => {
            let (design, members, switches) = (design.clone(), members.clone(), switches.clone());
            ("", Lack::Draining(proto::Draining { design, members, switches }), &[][..])
        }
        Fallback::OtherVersion { design, version, nodes } => {
            let (design, nodes) = (design.clone(), nodes.clone());
            ("", Lack::OtherVersion(proto::OtherVersion { design, version: *version, nodes }), &[][..])
        }
        Fallback::NoTree { design, policy, members, holders } => {
            let (design, policy, members) = (design.clone(), policy.clone(), members.clone());
            ("", Lack::Tree(proto::NoTree { design, policy, members }), &holders[..])
        }
    };
    let claim = |claim: &Claim| proto::Claim {
        group: claim.group.0,
        what: claim.what.clone(),
        lease_us: claim.lease.map(micros),
    };
    proto::Fallback {
        switch: switch.to_string(),
        lack: Some(lack),
        claims: holders.iter().map(claim).collect(),
    }
}

fn decode_fallback(fallback: proto::Fallback) -> Decoded<Fallback> {
    use proto::fallback::Lack;
    let claim = |claim: proto::Claim| {
        let lease = claim.lease_us.map(|lease| from_micros("fallback.claims.lease_us", lease)).transpose()?;
        Ok(Claim { group: GroupId(claim.group), what: claim.what, lease })
    };
    let (switch, holders) = (fallback.switch, each(fallback.claims, claim)?);
    Ok(match present("fallback.lack", fallback.lack)? {
        Lack::Memory(lack) => {
            let [needed, free, longest] =
                [lack.needed_bytes, lack.free_bytes, lack.longest_bytes].map(ByteCount::new);
            Fallback::SwitchMemory { switch, needed, free, longest, holders }
        }
        Lack::Endpoints(proto::LackOfEndpoints { needed, free }) => {
            Fallback::SwitchEndpoints { switch, needed, free, holders }
        }
        Lack::FanIn(proto::LackOfFanIn { needed, most }) => {
            let [needed, most] = [("fallback.fan_in.needed", needed), ("fallback.fan_in.most", most)]
                .map(|(field, value)| narrow(field, "16 bits", value));
            Fallback::FanIn { switch, needed: needed?, most: most? }
        }
        Lack::Port(proto::PortTaken { link }) => Fallback::PortTaken { switch, link, holders },
        Lack::GroupQuota(proto::GroupQuota { owner, limit }) => {
            Fallback::GroupQuota { owner, limit, holders }
        }
        Lack::MemoryQuota(proto::MemoryQuota { owner, limit_bytes, wanted_bytes }) => {
            let [limit, wanted] = [limit_bytes, wanted_bytes].map(ByteCount::new);
            Fallback::MemoryQuota { owner, limit, wanted, holders }
        }
        Lack::Draining(proto::Draining { design, members, switches }) => {
            Fallback::Draining { design, members, switches }
        }
        Lack::OtherVersion(proto::OtherVersion { design, version, nodes }) => {
            Fallback::OtherVersion { design, version, nodes }
        }
        Lack::Tree(proto::NoTree { design, policy, members }) => {
            Fallback::NoTree { design, policy, members, holders }
        }
    })
}

pub(crate) fn encode_holding(holding: &Holding) -> proto::Holding {
    proto::Holding {
        node: holding.node.clone(),
        endpoints: holding.endpoints,
        memory_bytes: holding.memory.bytes(),
        offset_bytes: holding.offset.bytes(),
    }
}

fn decode_holding(holding: proto::Holding) -> Holding {
    let proto::Holding { node, endpoints, memory_bytes, offset_bytes } = holding;
    Holding { node, endpoints, memory: ByteCount::new(memory_bytes), offset: ByteCount::new(offset_bytes) }
}

pub(crate) fn encode_group(group: &GroupSummary) -> proto::Group {
    let (state, failure) = match &group.state {
        GroupState::Installing => (proto::GroupState::Installing, None),
        GroupState::Ready => (proto::GroupState::Ready, None),
        GroupState::Suspended(failure) => (proto::GroupState::Suspended, Some(encode_failure(failure))),
        GroupState::Failed(failure) => (proto::GroupState::Failed, Some(encode_failure(failure))),
    };
    let shared = |shared: &SharedMemory| proto::SharedMemory {
        switch: shared.switch.clone(),
        with: shared.with.iter().map(|group| group.0).collect(),
        uses: Some(encode_lock_use(shared.uses)),
        duty_percent: shared.duty.map(u32::from),
    };
    proto::Group {
        contends: group.shared.is_some(),
        shared: group.shared.iter().flatten().map(shared).collect(),
        group: group.group.0,
        design: group.design.clone(),
        fallback: group.fallback.as_ref().map(encode_fallback),
        state: state.into(),
        failure,
        members: group.members.clone(),
        switches: group.switches.iter().map(encode_holding).collect(),
        tenant: group.owner.clone(),
        conflicts: group.conflicts,
        remade: group.recreated.as_ref().map(encode_recreated),
        lease_us: group.lease.map(micros),
        ..proto::Group::default()
    }
}

pub(crate) fn encode_status(status: &GroupStatus) -> proto::Group {
    let GroupStatus { summary, name, tenant, asked, stalled } = status;
    let (name, tenant, asked) = (name.clone(), tenant.clone(), asked.clone());
    let stalled_us = stalled.map(|stalled| stalled.as_nanos() / 1000);
    proto::Group { name, tenant, asked, stalled_us, ..encode_group(summary) }
}

pub(crate) fn decode_status(mut group: proto::Group) -> Decoded<GroupStatus> {
    let [name, asked] = [&mut group.name, &mut group.asked].map(std::mem::take);
    let (tenant, stalled) = (group.tenant.clone(), group.stalled_us.map(Duration::from_micros));
    Ok(GroupStatus { summary: decode_group(group)?, name, tenant, asked, stalled })
}

pub(crate) fn decode_group(group: proto::Group) -> Decoded<GroupSummary> {
    let state = match proto::GroupState::try_from(group.state) {
        Ok(proto::GroupState::Installing) => GroupState::Installing,
        Ok(proto::GroupState::Ready) => GroupState::Ready,
        Ok(proto::GroupState::Suspended) => GroupState::Suspended(decode_failure(group.failure)?),
        Ok(proto::GroupState::Failed) => GroupState::Failed(decode_failure(group.failure)?),
        Ok(proto::GroupState::Unspecified) | Err(_) => {
            return wrong("state", "a state of this version", group.state);
        }
    };
    let shared = |shared: proto::SharedMemory| SharedMemory {
        switch: shared.switch,
        with: shared.with.into_iter().map(GroupId).collect(),
        uses: shared.uses.map(decode_lock_use).unwrap_or_default(),
        duty: shared.duty_percent.map(|duty| duty.min(100) as u8),
    };
    Ok(GroupSummary {
        shared: group.contends.then(|| group.shared.into_iter().map(shared).collect()),
        group: GroupId(group.group),
        design: group.design,
        fallback: group.fallback.map(decode_fallback).transpose()?,
        state,
        members: group.members,
        switches: group.switches.into_iter().map(decode_holding).collect(),
        owner: group.tenant,
        conflicts: group.conflicts,
        recreated: group.remade.map(decode_recreated).transpose()?,
        lease: group.lease_us.map(|lease| from_micros("lease_us", lease)).transpose()?,
    })
}

fn encode_use((group, holding): (GroupId, &Holding)) -> proto::NodeUse {
    proto::NodeUse { group: group.0, holding: Some(encode_holding(holding)) }
}

fn decode_use(used: proto::NodeUse) -> Decoded<(GroupId, Holding)> {
    Ok((GroupId(used.group), decode_holding(present("uses.holding", used.holding)?)))
}

pub(crate) fn encode_node_status(node: &NodeStatus) -> proto::Node {
    proto::Node {
        description: Some(encode_node(&node.description)),
        uses: node.uses.iter().map(|(group, holding)| encode_use((*group, holding))).collect(),
        drains: node.drains,
    }
}

pub(crate) fn decode_node_status(node: proto::Node) -> Decoded<NodeStatus> {
    let description = decode_node(present("description", node.description)?)?;
    Ok(NodeStatus { description, uses: each(node.uses, decode_use)?, drains: node.drains })
}

// Explanations

pub(crate) fn encode_explanation(explanation: &Explanation) -> proto::ExplainGroupResponse {
    let holder = |holder: &Holder| proto::Holder {
        r#use: Some(encode_use((holder.group, &holder.holding))),
        name: holder.name.clone(),
        tenant: holder.tenant.clone(),
    };
    let (memory_bytes, endpoints) = explanation.capacity.unwrap_or_default();
    proto::ExplainGroupResponse {
        asked: explanation.asked.clone(),
        group: explanation.group.as_ref().map(encode_status),
        reason: explanation.reason.clone(),
        memory_bytes,
        endpoints,
        then: explanation.then.iter().map(holder).collect(),
        now: explanation.now.iter().map(holder).collect(),
    }
}

pub(crate) fn decode_explanation(explanation: proto::ExplainGroupResponse) -> Decoded<Explanation> {
    let holder = |holder: proto::Holder| {
        let (group, holding) = decode_use(present("holder.use", holder.r#use)?)?;
        Ok(Holder { group, holding, name: holder.name, tenant: holder.tenant })
    };
    let capacity = (explanation.memory_bytes, explanation.endpoints);
    Ok(Explanation {
        asked: explanation.asked,
        group: explanation.group.map(decode_status).transpose()?,
        reason: explanation.reason,
        capacity: (capacity != (0, 0)).then_some(capacity),
        then: each(explanation.then, holder)?,
        now: each(explanation.now, holder)?,
    })
}

// Records

pub(crate) fn encode_record(record: &GroupRecord, name: &str) -> proto::GroupRecord {
    let node =
        |(node, (endpoints, region)): (&String, &(BTreeSet<QpNumber>, Option<Region>))| proto::NodeRecord {
            node: node.clone(),
            queue_pairs: endpoints.iter().map(|qp| qp.value()).collect(),
            region: region.map(encode_region),
        };
    let request = encode_request(&record.request);
    proto::GroupRecord {
        group: record.group.0,
        request: Some(proto::InitGroupRequest { name: name.to_owned(), ..request }),
        tenant: record.request.owner.clone(),
        design: record.design.clone(),
        fallback: record.fallback.as_ref().map(encode_fallback),
        nodes: record.nodes.iter().map(node).collect(),
        switches: record.switches.clone(),
        links: record.links.iter().flatten().cloned().collect(),
        conflicts: record.conflicts,
        remade: record.recreated.as_ref().map(encode_recreated),
        contends: record.contends,
    }
}

fn encode_recreated(recreated: &RecreatedGroup) -> proto::Remade {
    proto::Remade {
        earlier: recreated.earlier.iter().map(|group| group.0).collect(),
        first: recreated.first,
        failure: Some(encode_failure(&recreated.failure)),
    }
}

fn decode_recreated(remade: proto::Remade) -> Decoded<RecreatedGroup> {
    if remade.earlier.is_empty() {
        return wrong("remade.earlier", "the number that the group had", "none");
    }
    Ok(RecreatedGroup {
        earlier: remade.earlier.into_iter().map(GroupId).collect(),
        first: remade.first,
        failure: decode_failure(remade.failure)?,
    })
}

/// The record, and what operators call the group.
pub(crate) fn decode_record(record: proto::GroupRecord) -> Decoded<(GroupRecord, String)> {
    let mut request = present("record.request", record.request)?;
    let name = std::mem::take(&mut request.name);
    let node = |node: proto::NodeRecord| {
        let (region, queue_pairs) = (node.region, node.queue_pairs);
        let held = proto::HeldGroup { group: record.group, region, queue_pairs, released: false };
        let held = decode_held(vec![held])?.remove(0);
        Ok((node.node, (held.endpoints, held.region)))
    };
    let (links, rest) = record.links.as_chunks::<2>();
    if !rest.is_empty() {
        return wrong("record.links", "two names a link", record.links.len());
    }
    let decoded = GroupRecord {
        group: GroupId(record.group),
        request: GroupRequest { owner: record.tenant, ..decode_request(request)? },
        design: record.design,
        fallback: record.fallback.map(decode_fallback).transpose()?,
        nodes: each(record.nodes, node)?.into_iter().collect(),
        switches: record.switches,
        links: links.to_vec(),
        conflicts: record.conflicts,
        recreated: record.remade.map(decode_recreated).transpose()?,
        contends: record.contends,
    };
    Ok((decoded, name))
}
