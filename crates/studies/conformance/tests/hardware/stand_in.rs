//! What stands where nodes are: hosts of ours, and in the switch's place a simulator that is told lines (`rtl/bench/sim.h`).

use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr;
use std::sync::{Arc, Mutex};

use quincunx_cluster::{Cluster, NodeIndex, Ports};
use quincunx_collective::Numbers;
use quincunx_design::Peer;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_needs::{Missing, program};
use quincunx_nodes::{Node, NodeCommand, NodeDrop, NodeEvent, NodeKind, NodeRejected, NodeTimer};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{
    Endpoint, Envelope, MacAddress, QpNumber, RoceHeader, emit_frame, frame_length, parse_frame,
};

/// The shape that the benches build, too: eight ports, twice four packets.
const BLOCK: [&str; 7] =
    ["inc_engine", "PORTS=8", "SLOTS=8", "MTU=1024", "BREAKABLE=1", "INSIDE_F32=0", "RANKS=16"];

/// Where the simulator's program is.
pub(crate) struct Simulator(PathBuf);

impl Simulator {
    /// Builds it, if its sources have changed.
    ///
    /// # Errors
    /// If the machine has not what that takes.
    pub(crate) fn build() -> Result<Self, Missing> {
        for (name, package) in [("verilator", "verilator"), ("g++", "g++"), ("python3", "python3")] {
            program(name, package)?;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let built = Command::new("python3")
            .arg("rtl/bench/simulators.py")
            .args(BLOCK)
            .current_dir(root)
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Ok(Self(String::from_utf8(built.stdout).unwrap().trim().into()))
    }
}

/// A node of ours, or hardware.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum StandIn {
    Ours(Box<Node<Numbers>>),
    Hardware(Arc<Hardware>),
}

impl StandIn {
    /// A host, or hardware that may break a rule: `-` for none.
    pub(crate) fn at(
        simulator: &Simulator,
        cluster: &Cluster,
        node: NodeIndex,
        ports: Ports,
        rule: &str,
    ) -> Self {
        match cluster.kind(node) {
            NodeKind::Host => Self::new(NodeKind::Host).unwrap(),
            NodeKind::Switch => Self::Hardware(Arc::new(Hardware::at(simulator, cluster, node, ports, rule))),
        }
    }
}

/// An edge of the group: the port, and the ends of its connection.
#[derive(Debug)]
struct Edge {
    port: PortId,
    local: Endpoint,
    remote: Endpoint,
}

#[derive(Debug)]
pub(crate) struct Hardware {
    edges: Vec<Edge>,
    process: Mutex<Process>,
}

/// One is like no other, whatever its state.
impl PartialEq for Hardware {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Hardware {}

impl Hash for Hardware {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self, state);
    }
}

impl Hardware {
    /// At the root of a tree, with ranks at all edges.
    fn at(simulator: &Simulator, cluster: &Cluster, node: NodeIndex, ports: Ports, rule: &str) -> Self {
        let context = cluster.context(node).unwrap();
        let mut toward = vec![0; usize::from(context.ranks)];
        let mut edges = Vec::new();
        for (edge, connection) in context.connections.iter().enumerate() {
            let Peer::Rank(rank) = connection.peer else { panic!("expected a rank at each edge") };
            toward[rank.index()] = edge;
            let port = match ports {
                Ports::Links => cluster.port(node, cluster.node_of(&connection.peer)).unwrap(),
                Ports::Socket => 0,
            };
            edges.push(Edge { port: PortId(port), local: connection.local, remote: connection.remote });
        }
        let toward: Vec<String> = toward.iter().map(usize::to_string).collect();
        let mut process = Process::start(simulator);
        let [count, ends] = [edges.len(), (1 << edges.len()) - 1];
        let (ranks, psn) = (context.ranks, context.initial_psn.value());
        process.ask("serial");
        process.ask(&format!("group {ranks} {count} - 4 32 {psn} 1 {ends} {} {rule}", toward.join(",")));
        Self { edges, process: Mutex::new(process) }
    }

    /// What leaves for a frame, by edge.
    fn hear(&self, edge: usize, header: &RoceHeader, payload: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let header = RoceHeader {
            source: neighbour(Some(edge)),
            destination: neighbour(None),
            destination_qp: QpNumber::new(0x100 + edge as u32),
            ..*header
        };
        let mut bytes = vec![0; frame_length(&header.operation, payload.len())];
        let envelope =
            Envelope::new(MacAddress([2, 0, 0, 0, 0, edge as u8 + 1]), MacAddress([2, 0, 0, 0, 0, 254]));
        emit_frame(&envelope, &header, payload, &mut bytes);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut process = self.process.lock().unwrap();
        process.ask(&format!("frame {edge} {digits}"));
        let answers = process.ask("run");
        let outs = answers.iter().filter_map(|answer| answer.strip_prefix("out "));
        let read = |out: &str| {
            let words: Vec<&str> = out.split(' ').collect();
            let byte = |at| u8::from_str_radix(&words[3][at..at + 2], 16).unwrap();
            (words[0].parse().unwrap(), (0..words[3].len()).step_by(2).map(byte).collect())
        };
        outs.map(read).collect()
    }
}

/// Who is at an edge for the simulator; the switch, if there is none.
fn neighbour(edge: Option<usize>) -> IpAddr {
    IpAddr::from([10, 0, 0, edge.map_or(254, |edge| edge as u8 + 1)])
}

#[derive(Debug)]
struct Process {
    child: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Process {
    fn start(simulator: &Simulator) -> Self {
        let mut child =
            Command::new(&simulator.0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, says) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, told, says: BufReader::new(says) }
    }

    /// The lines that answer one.
    fn ask(&mut self, line: &str) -> Vec<String> {
        writeln!(self.told, "{line}").unwrap();
        let answers = self.says.by_ref().lines().map(Result::unwrap);
        let answers: Vec<String> = answers.take_while(|answer| !answer.starts_with("end")).collect();
        let is_wrong = |answer: &&String| answer.starts_with("error") || answer.starts_with("fault");
        assert_eq!(answers.iter().find(is_wrong), None, "{line}");
        answers
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Engine for StandIn {
    type Config = NodeKind;
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = Numbers;
    type Timer = NodeTimer;
    type Command = NodeCommand<Numbers>;
    type Rejected = NodeRejected;
    type Event = NodeEvent<Numbers>;
    type DropReason = NodeDrop;

    fn new(kind: NodeKind) -> Result<Self, Self::ConfigError> {
        Node::new(kind).map(Box::new).map(Self::Ours)
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, Numbers>,
        out: &mut impl Sink<Self>,
    ) {
        match self {
            Self::Ours(node) => node.handle_frame(now, port, frame, &mut OfOurs(out)),
            Self::Hardware(hardware) => {
                // Over which edge it has come its queue pair says.
                let qp = frame.header.destination_qp;
                let edge = hardware.edges.iter().position(|edge| edge.local.qp == qp).unwrap();
                for (edge, bytes) in hardware.hear(edge, frame.header, frame.payload) {
                    let (_, header, payload) = parse_frame(&bytes).unwrap();
                    let Edge { port, local, remote } = &hardware.edges[edge];
                    let header = RoceHeader {
                        source: local.ip,
                        destination: remote.ip,
                        destination_qp: remote.qp,
                        ..header
                    };
                    out.transmit(*port, Frame { header: &header, payload });
                }
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: NodeTimer, out: &mut impl Sink<Self>) {
        match self {
            Self::Ours(node) => node.handle_timer(now, timer, &mut OfOurs(out)),
            Self::Hardware(_) => {}
        }
    }

    /// Hardware has been told of its group already.
    fn handle_command(
        &mut self,
        now: Instant,
        command: NodeCommand<Numbers>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), NodeRejected> {
        match self {
            Self::Ours(node) => node.handle_command(now, command, &mut OfOurs(out)),
            Self::Hardware(_) => Ok(()),
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        matches!(self, Self::Ours(node) if node.wants_transmit(port))
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        match self {
            Self::Ours(node) => node.handle_transmit_slot(now, port, &mut OfOurs(out)),
            Self::Hardware(_) => {}
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Ours(node) => node.assert_invariants(),
            Self::Hardware(_) => {}
        }
    }
}

/// What a node of ours says, as that of the stand-in that it is.
struct OfOurs<'a, S>(&'a mut S);

impl<S: Sink<StandIn>> Sink<Node<Numbers>> for OfOurs<'_, S> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.0.transmit(port, frame);
    }

    fn set_timer(&mut self, timer: NodeTimer, after: Duration) {
        self.0.set_timer(timer, after);
    }

    fn cancel_timer(&mut self, timer: NodeTimer) {
        self.0.cancel_timer(timer);
    }

    fn emit(&mut self, event: NodeEvent<Numbers>) {
        self.0.emit(event);
    }

    fn drop_frame(&mut self, port: PortId, reason: NodeDrop) {
        self.0.drop_frame(port, reason);
    }
}
