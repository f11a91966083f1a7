//! Between the messages on the wire and the control plane's own types. Encoding cannot fail; decoding checks all.

use crate::{NodeStatus, proto};
use quincunx_collective::{GroupId, Rank};
use quincunx_control::{
    Design, EdgeContext, Fallback, GroupFailure, GroupParameters, GroupState, GroupSummary, Holding,
    HostDesign, Instruction, LinkRates, MeshDesign, MeshSetup, NodeDescription, Peer, QueuePairContext,
    RankContext, Report, Retry, Role, SwitchContext,
};
use quincunx_fabric::{Mode, Relays};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::{Endpoint, MAX_QPN, Psn, QpNumber};

#[cfg(test)]
mod tests;

/// A message that makes no sense: its sender has another version of the protocol, or a fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected} in the field {field}, found {found}; run the same version at both ends")]
pub struct DecodeError {
    /// What would have been right.
    pub expected: &'static str,
    /// Where.
    pub field: &'static str,
    /// What was there.
    pub found: String,
}

type Decoded<T> = Result<T, DecodeError>;

fn wrong<T>(field: &'static str, expected: &'static str, found: impl ToString) -> Decoded<T> {
    Err(DecodeError { expected, field, found: found.to_string() })
}

fn present<T>(field: &'static str, value: Option<T>) -> Decoded<T> {
    value.map_or_else(|| wrong(field, "a value", "none"), Ok)
}

fn narrow<T: TryFrom<u32>>(field: &'static str, expected: &'static str, value: u32) -> Decoded<T> {
    T::try_from(value).or_else(|_| wrong(field, expected, value))
}

fn psn(field: &'static str, value: u32) -> Decoded<Psn> {
    if value > MAX_QPN { wrong(field, "24 bits", value) } else { Ok(Psn::new(value)) }
}

fn each<T, U>(values: Vec<T>, decode: impl Fn(T) -> Decoded<U>) -> Decoded<Vec<U>> {
    values.into_iter().map(decode).collect()
}

// Words

pub(crate) fn encode_mode(mode: Mode) -> i32 {
    let mode = match mode {
        Mode::I => proto::Mode::I,
        Mode::II => proto::Mode::Ii,
        Mode::III => proto::Mode::Iii,
    };
    mode.into()
}

fn decode_mode(mode: i32) -> Decoded<Mode> {
    match proto::Mode::try_from(mode) {
        Ok(proto::Mode::I) => Ok(Mode::I),
        Ok(proto::Mode::Ii) => Ok(Mode::II),
        Ok(proto::Mode::Iii) => Ok(Mode::III),
        Ok(proto::Mode::Unspecified) | Err(_) => wrong("mode", "mode 1, 2 or 3", mode),
    }
}

pub(crate) fn encode_design(design: Design) -> i32 {
    let design = match design {
        Design::Epic(Mode::I) => proto::Design::Epic1,
        Design::Epic(Mode::II) => proto::Design::Epic2,
        Design::Epic(Mode::III) => proto::Design::Epic3,
        Design::Host(HostDesign::Ring) => proto::Design::Ring,
        Design::Host(HostDesign::Tree) => proto::Design::Tree,
        Design::Host(HostDesign::Direct) => proto::Design::Direct,
        Design::Mesh(MeshDesign::MultiWrite) => proto::Design::Multiwrite,
        Design::Mesh(MeshDesign::Unicast) => proto::Design::UnicastMultipath,
        Design::Mesh(MeshDesign::Writes) => proto::Design::Writes,
    };
    design.into()
}

pub(crate) fn decode_design(design: i32) -> Decoded<Design> {
    match proto::Design::try_from(design) {
        Ok(proto::Design::Epic1) => Ok(Design::Epic(Mode::I)),
        Ok(proto::Design::Epic2) => Ok(Design::Epic(Mode::II)),
        Ok(proto::Design::Epic3) => Ok(Design::Epic(Mode::III)),
        Ok(proto::Design::Ring) => Ok(Design::Host(HostDesign::Ring)),
        Ok(proto::Design::Tree) => Ok(Design::Host(HostDesign::Tree)),
        Ok(proto::Design::Direct) => Ok(Design::Host(HostDesign::Direct)),
        Ok(proto::Design::Multiwrite) => Ok(Design::Mesh(MeshDesign::MultiWrite)),
        Ok(proto::Design::UnicastMultipath) => Ok(Design::Mesh(MeshDesign::Unicast)),
        Ok(proto::Design::Writes) => Ok(Design::Mesh(MeshDesign::Writes)),
        Ok(proto::Design::Unspecified) | Err(_) => wrong("design", "a design of this version", design),
    }
}

// Nodes

pub(crate) fn encode_node(node: &NodeDescription) -> proto::NodeDescription {
    let role = match node.role {
        Role::Host => proto::Role::Host,
        Role::Switch => proto::Role::Switch,
    };
    proto::NodeDescription {
        name: node.name.clone(),
        role: role.into(),
        address: node.address.to_string(),
        modes: node.modes.iter().map(|&mode| encode_mode(mode)).collect(),
        max_endpoints: node.max_endpoints,
        memory_bytes: node.memory.bytes(),
    }
}

pub(crate) fn decode_node(node: proto::NodeDescription) -> Decoded<NodeDescription> {
    let role = match proto::Role::try_from(node.role) {
        Ok(proto::Role::Host) => Role::Host,
        Ok(proto::Role::Switch) => Role::Switch,
        Ok(proto::Role::Unspecified) | Err(_) => return wrong("role", "host or switch", node.role),
    };
    let address =
        node.address.parse().or_else(|_| wrong("address", "a dotted IPv4 address", &node.address))?;
    Ok(NodeDescription {
        name: node.name,
        role,
        address,
        modes: node.modes.into_iter().map(decode_mode).collect::<Decoded<_>>()?,
        max_endpoints: node.max_endpoints,
        memory: ByteCount::new(node.memory_bytes),
    })
}

// Contexts

fn encode_endpoint(endpoint: Endpoint) -> proto::Endpoint {
    proto::Endpoint { address: endpoint.ip.to_string(), queue_pair: endpoint.qp.value() }
}

fn decode_endpoint(field: &'static str, endpoint: Option<proto::Endpoint>) -> Decoded<Endpoint> {
    let endpoint = present(field, endpoint)?;
    let ip =
        endpoint.address.parse().or_else(|_| wrong(field, "a dotted IPv4 address", &endpoint.address))?;
    if endpoint.queue_pair > MAX_QPN {
        return wrong(field, "a queue pair number of 24 bits", endpoint.queue_pair);
    }
    Ok(Endpoint { ip, qp: QpNumber::new(endpoint.queue_pair) })
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

fn encode_parameters(parameters: &GroupParameters) -> proto::GroupParameters {
    proto::GroupParameters {
        group: parameters.group.0,
        ranks: parameters.ranks.into(),
        // The manager refuses MTUs beyond 16 bits.
        mtu_bytes: parameters.mtu.bytes() as u32,
        message_packets: parameters.message_packets,
        window_messages: parameters.window_messages,
        reproducible: parameters.reproducible,
        initial_psn: parameters.initial_psn.value(),
        retry_timeout_picoseconds: parameters.retry.timeout.as_picos(),
        retry_count: parameters.retry.count.into(),
    }
}

fn decode_parameters(parameters: Option<proto::GroupParameters>) -> Decoded<GroupParameters> {
    let parameters = present("parameters", parameters)?;
    let window = u64::from(parameters.message_packets) * u64::from(parameters.window_messages);
    if window == 0 || window > GroupParameters::MAX_WINDOW_PACKETS {
        return wrong("parameters.window_messages", "a window of 1 to 4194304 packets", window);
    }
    Ok(GroupParameters {
        group: GroupId(parameters.group),
        ranks: narrow("parameters.ranks", "16 bits", parameters.ranks)?,
        mtu: ByteCount::new(parameters.mtu_bytes.into()),
        message_packets: parameters.message_packets,
        window_messages: parameters.window_messages,
        reproducible: parameters.reproducible,
        initial_psn: psn("parameters.initial_psn", parameters.initial_psn)?,
        retry: Retry {
            timeout: Duration::from_picos(parameters.retry_timeout_picoseconds),
            count: narrow("parameters.retry_count", "8 bits", parameters.retry_count)?,
        },
    })
}

pub(crate) fn encode_mesh(mesh: &MeshSetup) -> proto::MeshSetup {
    let relays = match mesh.relays {
        Relays::Paired => proto::Relays::Paired,
        Relays::Full => proto::Relays::Full,
    };
    proto::MeshSetup {
        shape: mesh.shape.to_string(),
        relays: relays.into(),
        piece_bytes: mesh.piece.bytes(),
        limit_bytes: mesh.limit.bytes(),
        direct_rate: mesh.rates.direct.bits_per_second(),
        cross_rate: mesh.rates.cross.bits_per_second(),
    }
}

pub(crate) fn decode_mesh(mesh: proto::MeshSetup) -> Decoded<MeshSetup> {
    let rate = |field, rate| BitRate::new(rate).map_or_else(|| wrong(field, "a rate above zero", rate), Ok);
    if mesh.piece_bytes == 0 {
        return wrong("mesh.piece_bytes", "a length above zero", mesh.piece_bytes);
    }
    Ok(MeshSetup {
        shape: mesh.shape.parse().or_else(|_| wrong("mesh.shape", "a mesh such as mesh-2x4", &mesh.shape))?,
        relays: match proto::Relays::try_from(mesh.relays) {
            Ok(proto::Relays::Paired) => Relays::Paired,
            Ok(proto::Relays::Full) => Relays::Full,
            Ok(proto::Relays::Unspecified) | Err(_) => {
                return wrong("mesh.relays", "paired or full", mesh.relays);
            }
        },
        piece: ByteCount::new(mesh.piece_bytes),
        limit: ByteCount::new(mesh.limit_bytes),
        rates: LinkRates {
            direct: rate("mesh.direct_rate", mesh.direct_rate)?,
            cross: rate("mesh.cross_rate", mesh.cross_rate)?,
        },
    })
}

fn encode_switch(context: &SwitchContext) -> proto::SwitchContext {
    let edge = |edge: &EdgeContext| proto::Edge {
        local: Some(encode_endpoint(edge.local)),
        remote: Some(encode_endpoint(edge.remote)),
        peer: Some(encode_peer(&edge.peer)),
    };
    proto::SwitchContext {
        parameters: Some(encode_parameters(&context.parameters)),
        mode: encode_mode(context.mode),
        slots: context.slots,
        parent: context.parent.map(u32::from),
        edges: context.edges.iter().map(edge).collect(),
        toward: context.toward.iter().map(|&edge| edge.into()).collect(),
    }
}

fn decode_switch(context: proto::SwitchContext) -> Decoded<SwitchContext> {
    let edge = |edge: proto::Edge| {
        Ok(EdgeContext {
            local: decode_endpoint("edges.local", edge.local)?,
            remote: decode_endpoint("edges.remote", edge.remote)?,
            peer: decode_peer(edge.peer)?,
        })
    };
    if context.edges.len() > usize::from(u16::MAX) {
        return wrong("edges", "at most 65535 edges", context.edges.len());
    }
    let edges = each(context.edges, edge)?;
    let index = |field, index: u32| match u16::try_from(index) {
        Ok(index) if usize::from(index) < edges.len() => Ok(index),
        _ => wrong(field, "the number of one of the edges", index),
    };
    let parameters = decode_parameters(context.parameters)?;
    if context.toward.len() != usize::from(parameters.ranks) {
        return wrong("toward", "an edge for each rank", context.toward.len());
    }
    Ok(SwitchContext {
        mode: decode_mode(context.mode)?,
        slots: context.slots,
        parent: context.parent.map(|parent| index("parent", parent)).transpose()?,
        toward: each(context.toward, |edge| index("toward", edge))?,
        parameters,
        edges,
    })
}

fn encode_rank(context: &RankContext) -> proto::RankContext {
    let queue_pair = |pair: &QueuePairContext| proto::QueuePair {
        local: Some(encode_endpoint(pair.local)),
        remote: Some(encode_endpoint(pair.remote)),
        peer: Some(encode_peer(&pair.peer)),
        send_psn: pair.send_psn.value(),
        receive_psn: pair.receive_psn.value(),
    };
    proto::RankContext {
        parameters: Some(encode_parameters(&context.parameters)),
        design: encode_design(context.design),
        rank: context.rank.0.into(),
        queue_pairs: context.queue_pairs.iter().map(queue_pair).collect(),
        mesh: context.mesh.as_ref().map(encode_mesh),
    }
}

fn decode_rank(context: proto::RankContext) -> Decoded<RankContext> {
    let queue_pair = |pair: proto::QueuePair| {
        Ok(QueuePairContext {
            local: decode_endpoint("queue_pairs.local", pair.local)?,
            remote: decode_endpoint("queue_pairs.remote", pair.remote)?,
            peer: decode_peer(pair.peer)?,
            send_psn: psn("queue_pairs.send_psn", pair.send_psn)?,
            receive_psn: psn("queue_pairs.receive_psn", pair.receive_psn)?,
        })
    };
    let parameters = decode_parameters(context.parameters)?;
    if context.rank >= parameters.ranks.into() {
        return wrong("rank", "a rank of the group", context.rank);
    }
    let mesh = context.mesh.map(decode_mesh).transpose()?;
    if let Some(mesh) = mesh.filter(|mesh| mesh.shape.ranks() != parameters.ranks) {
        return wrong("mesh.shape", "as many ranks as the group has", mesh.shape);
    }
    Ok(RankContext {
        parameters,
        design: decode_design(context.design)?,
        rank: Rank(context.rank as u16),
        mesh,
        queue_pairs: each(context.queue_pairs, queue_pair)?,
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
        Instruction::InstallSwitch(context) => Kind::InstallSwitch(encode_switch(context)),
        Instruction::InstallRank(context) => Kind::InstallRank(encode_rank(context)),
        Instruction::Ready(group) => Kind::Ready(proto::GroupReady { group: group.0 }),
        Instruction::Remove(group) => Kind::Remove(proto::RemoveGroup { group: group.0 }),
        Instruction::Failed { group, failure } => {
            Kind::Failed(proto::GroupFailed { group: group.0, failure: Some(encode_failure(failure)) })
        }
    };
    proto::Instruction { kind: Some(kind) }
}

pub(crate) fn decode_instruction(instruction: proto::Instruction) -> Decoded<Instruction> {
    use proto::instruction::Kind;
    Ok(match present("kind", instruction.kind)? {
        Kind::InstallSwitch(context) => Instruction::InstallSwitch(Box::new(decode_switch(context)?)),
        Kind::InstallRank(context) => Instruction::InstallRank(Box::new(decode_rank(context)?)),
        Kind::Ready(ready) => Instruction::Ready(GroupId(ready.group)),
        Kind::Remove(remove) => Instruction::Remove(GroupId(remove.group)),
        Kind::Failed(failed) => {
            Instruction::Failed { group: GroupId(failed.group), failure: decode_failure(failed.failure)? }
        }
    })
}

pub(crate) fn encode_report(report: Report) -> proto::report_request::Report {
    use proto::report_request::Report as Encoded;
    match report {
        Report::Installed => Encoded::Installed(proto::Installed {}),
        Report::Refused { reason } => Encoded::Refused(proto::Refused { reason }),
        Report::DataPlaneFailed { reason } => Encoded::DataPlaneFailed(proto::DataPlaneFailed { reason }),
    }
}

pub(crate) fn decode_report(report: Option<proto::report_request::Report>) -> Decoded<Report> {
    use proto::report_request::Report as Encoded;
    Ok(match present("report", report)? {
        Encoded::Installed(proto::Installed {}) => Report::Installed,
        Encoded::Refused(proto::Refused { reason }) => Report::Refused { reason },
        Encoded::DataPlaneFailed(proto::DataPlaneFailed { reason }) => Report::DataPlaneFailed { reason },
    })
}

// Groups

fn encode_fallback(fallback: &Fallback) -> proto::Fallback {
    use proto::fallback::Lack;
    match fallback {
        Fallback::SwitchMemory { switch, needed, free } => proto::Fallback {
            switch: switch.clone(),
            lack: Some(Lack::Memory(proto::LackOfMemory {
                needed_bytes: needed.bytes(),
                free_bytes: free.bytes(),
            })),
        },
        Fallback::SwitchEndpoints { switch, needed, free } => proto::Fallback {
            switch: switch.clone(),
            lack: Some(Lack::Endpoints(proto::LackOfEndpoints { needed: *needed, free: *free })),
        },
    }
}

fn decode_fallback(fallback: proto::Fallback) -> Decoded<Fallback> {
    use proto::fallback::Lack;
    let switch = fallback.switch;
    Ok(match present("fallback.lack", fallback.lack)? {
        Lack::Memory(proto::LackOfMemory { needed_bytes, free_bytes }) => {
            let (needed, free) = (ByteCount::new(needed_bytes), ByteCount::new(free_bytes));
            Fallback::SwitchMemory { switch, needed, free }
        }
        Lack::Endpoints(proto::LackOfEndpoints { needed, free }) => {
            Fallback::SwitchEndpoints { switch, needed, free }
        }
    })
}

pub(crate) fn encode_holding(holding: &Holding) -> proto::Holding {
    proto::Holding {
        node: holding.node.clone(),
        endpoints: holding.endpoints,
        memory_bytes: holding.memory.bytes(),
    }
}

fn decode_holding(holding: proto::Holding) -> Holding {
    let proto::Holding { node, endpoints, memory_bytes } = holding;
    Holding { node, endpoints, memory: ByteCount::new(memory_bytes) }
}

pub(crate) fn encode_group(group: &GroupSummary) -> proto::Group {
    let (state, failure) = match &group.state {
        GroupState::Installing => (proto::GroupState::Installing, None),
        GroupState::Ready => (proto::GroupState::Ready, None),
        GroupState::Failed(failure) => (proto::GroupState::Failed, Some(encode_failure(failure))),
    };
    proto::Group {
        group: group.group.0,
        design: encode_design(group.design),
        fallback: group.fallback.as_ref().map(encode_fallback),
        state: state.into(),
        failure,
        members: group.members.clone(),
        switches: group.switches.iter().map(encode_holding).collect(),
    }
}

pub(crate) fn decode_group(group: proto::Group) -> Decoded<GroupSummary> {
    let state = match proto::GroupState::try_from(group.state) {
        Ok(proto::GroupState::Installing) => GroupState::Installing,
        Ok(proto::GroupState::Ready) => GroupState::Ready,
        Ok(proto::GroupState::Failed) => GroupState::Failed(decode_failure(group.failure)?),
        Ok(proto::GroupState::Unspecified) | Err(_) => {
            return wrong("state", "a state of this version", group.state);
        }
    };
    Ok(GroupSummary {
        group: GroupId(group.group),
        design: decode_design(group.design)?,
        fallback: group.fallback.map(decode_fallback).transpose()?,
        state,
        members: group.members,
        switches: group.switches.into_iter().map(decode_holding).collect(),
    })
}

pub(crate) fn decode_status(node: proto::Node) -> Decoded<NodeStatus> {
    let used = |used: proto::NodeUse| {
        Ok((GroupId(used.group), decode_holding(present("uses.holding", used.holding)?)))
    };
    let description = decode_node(present("description", node.description)?)?;
    Ok(NodeStatus { description, uses: each(node.uses, used)? })
}
