//! What rank and switch processes have in common: how they start, and what can go wrong.

use quincunx_collective::{Collective, Numbers};
use quincunx_control::{Encapsulation, NodeDescription, Role};
use quincunx_control_grpc::{Attachment, ClientConfig, ClientError, ControlClient, Managers, NodePaths};
use quincunx_design::{AnyDesign, Catalog, ConnectionContext, GroupContext, Refusal};
use quincunx_driver_hardware::ProgramError;
use quincunx_driver_net::{AnyTransport, Node, NodeError, NodeOptions, TransportOptions};
use quincunx_driver_verbs::DeviceError;
use quincunx_engine::verbs::Failure;
use quincunx_engine::{Engine, PortId};
use quincunx_sockets::sys::frames::interface_mtu;
use quincunx_sockets::{
    MacAddress, OpenError, PacketKind, Transport as _, UdpOptions, interface_of, mac_address_of, neighbour_of,
};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Framing, Gid, QpNumber, RoceHeader};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use crate::codec::{ROCE_PORT, RoceCodec, share_at};
use crate::{Capture, CaptureFile};

/// How often a process that waits looks for instructions of the manager.
pub(crate) const INSTRUCTION_POLL: Duration = Duration::from_millis(20);

/// How long the manager may take to hear that a rank has ended whose share of an address another one has taken.
const SUCCESSION: std::time::Duration = std::time::Duration::from_secs(2);

/// A node on its socket.
pub(crate) type SocketNode<E> = Node<E, RoceCodec, AnyTransport>;

/// What a neighbour of a group may have under way to a node, over all of the node's connections.
pub(crate) fn windows(design: &dyn AnyDesign, context: &GroupContext) -> Result<ByteCount, Refusal> {
    let transport = design.transport(&context.settings)?;
    Ok(transport.window_bytes() * context.connections.len() as u64)
}

/// What a node's receive buffer must hold for a group whose neighbours may have so much under way: before the node gets to run, all of
/// them may send their window, and send it again after a time-out. Of its own the kernel counts in up to as much again, for packets of
/// 1 KiB that are not merged.
pub(crate) fn room(windows: ByteCount) -> ByteCount {
    (windows + windows) * 2
}

/// The design of a context, for a node whose frames have this framing.
pub(crate) fn design_of(
    catalog: Catalog,
    framing: Framing,
    context: &GroupContext,
) -> Result<&'static dyn AnyDesign, Refusal> {
    let design = catalog.find(&context.design, context.fabric)?;
    if design.about().framing != framing {
        return Err(Refusal::new(
            format!("a design whose frames are {framing} like this node's"),
            format!("{}, whose frames are {}", design.name(), design.about().framing),
            format!("start the node with --framing {}", design.about().framing),
        ));
    }
    Ok(design)
}

/// Behind which of a node's ports each neighbour of a group is.
pub(crate) struct Bound {
    ports: BTreeMap<Gid, PortId>,
}

impl Bound {
    /// Binds everybody at the other end of a group's connections to the interface through which this machine sends there: who that is the
    /// manager says, which interface the machine's routing table. With `any_interface` nobody is bound. What comes from them by another one is dropped from now on.
    pub(crate) fn new<E>(
        node: &mut SocketNode<E>,
        context: &GroupContext,
        any_interface: bool,
    ) -> Result<Self, Refusal>
    where
        E: Engine<Header = RoceHeader, Payload = Numbers>,
    {
        if any_interface {
            return Ok(Self::anywhere());
        }
        let own = Gid::of(node.local().ip());
        // Of what passes through a switch, neither end is here; of what goes to another process at this address, both are.
        let ends = context.all_connections().flat_map(|connection| {
            let local = Some(connection.local.ip).filter(|local| *local != own);
            [local, Some(connection.remote.ip)].into_iter().flatten()
        });
        let mut ports = BTreeMap::new();
        for address in ends {
            if let Entry::Vacant(place) = ports.entry(address) {
                let interface = node.interface_to(address.address()).map_err(|error| {
                    Refusal::new(
                        format!("a way from {own} to {address}"),
                        format!("\"{error}\""),
                        "see whether `ip route get` knows one",
                    )
                })?;
                let port = node.codec_mut().port_of(interface);
                node.grow_ports(port.0 + 1);
                place.insert(port);
            }
        }
        Ok(Self { ports })
    }

    /// Binds nobody.
    pub(crate) fn anywhere() -> Self {
        Self { ports: BTreeMap::new() }
    }

    /// Of the other end of a connection.
    pub(crate) fn port(&self, connection: &ConnectionContext) -> PortId {
        self.port_to(connection.remote.ip)
    }

    /// Of an address in one of its connections.
    pub(crate) fn port_to(&self, address: Gid) -> PortId {
        self.ports.get(&address).copied().unwrap_or(PortId(0))
    }
}

/// How a rank or switch process starts.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// What it says of itself to the manager; its address is also where its frames go. What they travel in follows from the transport,
    /// whatever it says.
    pub description: NodeDescription,
    /// Where the manager serves.
    pub manager: Managers,
    /// How it waits for the manager.
    pub control: ClientConfig,
    /// How its frames travel: groups of designs that want another framing are refused.
    pub framing: Framing,
    /// Its socket, which must suit the framing. Of RoCE v1, a UDP socket carries frames as its payload: a host's has the address of its
    /// switch in [`via`](UdpOptions::via), a switch's sends to whom frames are for.
    pub transport: TransportOptions,
    /// Take a neighbour's frames by whatever interface they come, and not only by the one through which this machine sends there. Needed
    /// where ways there and back differ; whoever reaches the machine can then send as anybody.
    pub any_interface: bool,
    /// The node's queue pairs are those of the RDMA device at its address, by libibverbs, and not its own on that socket, which is not
    /// opened then. What they cannot do is refused group by group: of a switch all groups whose connections do not end there.
    pub offload: bool,
    /// What a switch runs is simulated by this program, which was built of a block in `rtl/`. Groups that it cannot be in are refused.
    pub hardware: Option<PathBuf>,
    /// A switch loses and doubles what it sends to ranks as it does what arrives.
    pub lose_sent: bool,
    /// How its node runs.
    pub node: NodeOptions,
    /// A capture of all its frames, written here.
    pub capture: Option<CaptureFile>,
}

/// What ends a rank or switch process, or a rank's call.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The socket cannot be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The socket does not suit the framing.
    #[error("expected {expected}, found {found}; change the node's link")]
    Link {
        /// What would be right.
        expected: String,
        /// What was given.
        found: &'static str,
    },
    /// There is no hardware.
    #[error(transparent)]
    Hardware(#[from] ProgramError),
    /// A switch cannot have several cores.
    #[error(
        "expected one --address beside {found}, found several; each core receives at its own address, so start one switch a core"
    )]
    Cores {
        /// What frames it has.
        found: &'static str,
    },
    /// A core of a switch has ended, and the switch with it.
    #[error("expected the core at {address} to run, but it has ended ({reason}); start the switch again")]
    CoreEnded {
        /// Which.
        address: IpAddr,
        /// Why.
        reason: String,
    },
    /// The socket or the wait failed.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A switch's name or one of its interfaces' is none for LLDP.
    #[error(transparent)]
    Name(#[from] quincunx_lldp::BadName),
    /// The RDMA device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The manager.
    #[error(transparent)]
    Control(#[from] ClientError),
    /// The manager ended the group.
    #[error("expected group {group} to live, but {node} failed: {reason}; make a new group without it")]
    GroupFailed {
        /// The group.
        group: u32,
        /// Who failed.
        node: String,
        /// How.
        reason: String,
    },
    /// The ranks of a group have called different collectives: which two differ, and in what.
    #[error("{0}")]
    Disagreement(String),
    /// A queue pair failed under a collective.
    #[error("expected {peer} to go on, but the queue pair to it failed: {failure}")]
    PeerFailed {
        /// Who.
        peer: String,
        /// How.
        failure: Failure,
    },
    /// A result is not what its checksum says.
    #[error(
        "expected the result of {collective} in group {group} to agree with its checksum, found another: data was changed where no CRC \
         covers it, or frames were forged; take none of it, and look at the switches of the group"
    )]
    Corrupted {
        /// The group.
        group: u32,
        /// What was run in it.
        collective: Collective,
    },
    /// The application asked for something that cannot be.
    #[error(transparent)]
    Rejected(#[from] quincunx_nodes::HostRejected),
    /// Time is up.
    #[error("expected {what} within {limit}, found nothing; see whether all ranks and switches run")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        limit: Duration,
    },
    /// The capture cannot be written.
    #[error("expected to write the capture {path}, found \"{error}\"; name a file in a folder that exists")]
    Capture {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// What frames travel in that leave such a socket.
pub const fn encapsulation(transport: &TransportOptions) -> Encapsulation {
    match transport {
        TransportOptions::Udp(_) | TransportOptions::Packet(PacketKind::Udp) | TransportOptions::Ports(_) => {
            Encapsulation::Udp
        }
        TransportOptions::Packet(PacketKind::GlobalRoute | PacketKind::BridgedGlobalRoute) => {
            Encapsulation::Ethernet
        }
    }
}

/// Refuses a socket that frames would not come through, or would pass their switch by.
fn check(options: &ProcessOptions) -> Result<(), RuntimeError> {
    let (framing, role) = (options.framing, options.description.role);
    let (suits, found) = match &options.transport {
        TransportOptions::Udp(UdpOptions { via: None, .. }) => {
            (framing == Framing::RoceV2 || role == Role::Switch, "a UDP socket that sends to their receivers")
        }
        TransportOptions::Udp(UdpOptions { via: Some(_), .. }) => {
            (framing == Framing::RoceV1 && role == Role::Host, "a UDP socket that sends all to one switch")
        }
        TransportOptions::Ports(_) => {
            (framing == Framing::RoceV2 && role == Role::Switch, "the ports of a switch for UDP")
        }
        TransportOptions::Packet(PacketKind::Udp) => (framing == Framing::RoceV2, "a packet socket for UDP"),
        TransportOptions::Packet(PacketKind::GlobalRoute) => {
            (framing == Framing::RoceV1 && role == Role::Host, "a packet socket for RoCE v1 frames to a host")
        }
        TransportOptions::Packet(PacketKind::BridgedGlobalRoute) => {
            (framing == Framing::RoceV1 && role == Role::Switch, "a packet socket on the ports of a bridge")
        }
    };
    if suits {
        return Ok(());
    }
    let node = match role {
        Role::Host => "host",
        Role::Switch => "switch",
    };
    Err(RuntimeError::Link { expected: format!("a link for the {framing} frames of a {node}"), found })
}

/// The socket as asked for; a rank's UDP socket may have others of this machine at its address.
fn shared(options: &ProcessOptions) -> TransportOptions {
    match (&options.transport, options.description.role) {
        (TransportOptions::Udp(udp), Role::Host) => {
            TransportOptions::Udp(UdpOptions { shared_by: Some(share_at(options.framing)), ..*udp })
        }
        (other, _) => other.clone(),
    }
}

/// Opens a node's socket.
pub(crate) fn open<E>(engine: E, options: &ProcessOptions) -> Result<SocketNode<E>, RuntimeError>
where
    E: Engine<Header = RoceHeader, Payload = Numbers>,
{
    check(options)?;
    let local = SocketAddr::new(options.description.address, ROCE_PORT);
    let transport = AnyTransport::open(local, &shared(options))?;
    let mut node = Node::new(engine, 1, RoceCodec::new(options.framing), transport, options.node.clone())?;
    if let Some(place) = &options.capture {
        let capture = Capture::create(place, &options.description.name, options.framing)
            .map_err(|error| RuntimeError::Capture { path: place.path.display().to_string(), error })?;
        node.set_observer(Some(Box::new(capture)));
    }
    Ok(node)
}

/// Sends what is due to find out about paths.
pub(crate) fn probe<E>(node: &mut SocketNode<E>)
where
    E: Engine<Header = RoceHeader, Payload = Numbers>,
{
    while node.codec_mut().prober.is_busy() {
        let now = node.now();
        let prober = &mut node.codec_mut().prober;
        prober.advance(now);
        let Some(next) = prober.next(now) else { return };
        let destination = SocketAddr::new(next.destination, ROCE_PORT);
        let is_taken = match next.is_known_to_pass {
            true => node.queue_aside(destination, next.share, &next.bytes),
            false => node.send_aside(destination, next.share, &next.bytes),
        };
        if !is_taken {
            return;
        }
        node.codec_mut().prober.sent(now);
    }
}

/// What a node has found out about paths in a run, and what it is itself.
pub(crate) fn paths<E>(node: &mut SocketNode<E>, run: u64) -> NodePaths
where
    E: Engine<Header = RoceHeader, Payload = Numbers>,
{
    // It tells what there is, and never shrinks it.
    let receive_buffer = node.grow_receive_buffer(ByteCount::new(0)).ok();
    let interface = interface_of(node.local().ip()).ok().flatten();
    let mtu = interface.as_ref().and_then(|name| interface_mtu(node.transport_mut().socket(), name).ok());
    let mac = interface.as_ref().and_then(|name| mac_address_of(name)).map(MacAddress::number);
    let neighbour = |peer| neighbour_of(peer).map(MacAddress::number);
    let told = node.codec_mut().prober.tell(run, neighbour);
    NodePaths { receive_buffer, mtu: mtu.map(|mtu| mtu as u32), mac, ..told }
}

/// Attaches a node to the manager; `queue_pairs` are those that it has, if it does not make them with any number, and `share` is that of its
/// address.
pub(crate) fn attach(
    options: &ProcessOptions,
    queue_pairs: Vec<QpNumber>,
    share: u8,
) -> Result<Attachment, RuntimeError> {
    let client = ControlClient::connect(options.manager.clone(), options.control.clone())?;
    let encapsulation = encapsulation(&options.transport);
    let description = NodeDescription { encapsulation, queue_pairs, share, ..options.description.clone() };
    let end = Instant::now() + SUCCESSION;
    loop {
        match client.attach(&description) {
            Err(ClientError::Refused(_)) if Instant::now() < end && is_known(&client, &description) => {
                std::thread::sleep(INSTRUCTION_POLL.into());
            }
            attached => return Ok(attached?),
        }
    }
}

/// Whether the manager knows a host with that share of the address. It has ended, for this one has the share now.
fn is_known(client: &ControlClient, own: &NodeDescription) -> bool {
    let is_it = |other: &NodeDescription| (other.address, other.share) == (own.address, own.share);
    own.role == Role::Host
        && client.list_nodes().is_ok_and(|all| all.iter().any(|node| is_it(&node.description)))
}
