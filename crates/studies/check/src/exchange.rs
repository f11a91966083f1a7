//! The RoCE queue pair alone: a host sends messages to another one over a link, and both notice how each ends.

use quincunx_collective::{Collective, Payload, Provenance, Rank};
use quincunx_design::{Catalog, Refusal};
use quincunx_driver_check::{End, NodeId};
use quincunx_engine::PortId;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Outcome, Program, QpIndex, ReceiveRequest, RegionId, RequestError,
    SendRequest, Slice, UNLIMITED_RETRIES, Verb, Verbs, WorkId,
};
use quincunx_nodes::{HostCommand, HostGroup, NodeCommand, NodeKind, NodeRejected};
use quincunx_roce::{INFINITE_RNR_RETRIES, Mutation, QueuePairConfig, RateConfig, Reliability};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Operation, RoceHeader};

use crate::arguments::Arguments;
use crate::connections::GROUP;
use crate::connections::{Connections, endpoint};
use crate::installed::installed_node;
use crate::network::{FIRST_PSN, MTU, Network, Protocol, Task};
use crate::study::Study;
use crate::subject::Subject;

const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);
const PORT: PortId = PortId(0);

/// The memory that messages arrive in: the first region that is registered.
const WINDOW: RegionId = RegionId(0);

/// What messages are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Sends, each into a receive request of its own.
    Send,
    /// Writes, of which the last has an immediate: whoever is told of that one has them all.
    Write,
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Write => "write",
        })
    }
}

/// What two queue pairs exchange.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExchangeSetup {
    /// What messages are.
    pub kind: Kind,
    /// How lost packets are sent again.
    pub reliability: Reliability,
    /// Of selective reliability: the receiver asks at every occasion for all that is missing, or once and never again.
    pub asks_again: bool,
    /// How many messages.
    pub messages: u8,
    /// Packets of each.
    pub packets: u32,
    /// Packets that may be in flight.
    pub window: Packets,
    /// Whether there are fewer while the way is congested.
    pub congestion_window: bool,
    /// How senders slow down where links mark congestion; they do not if it is not said.
    pub rate: Option<RateConfig>,
    /// A rule that both break.
    pub mutation: Option<Mutation>,
}

/// Why an exchange cannot be explored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// More packets than can be told apart, or none.
    #[error("expected 1 to {most} packets in all messages, found {found}; exchange less", most = Provenance::NUMBERS)]
    Packets {
        /// Packets of all messages.
        found: u32,
    },
    /// A host refuses its queue pair.
    #[error(transparent)]
    Rejected(#[from] NodeRejected),
}

/// Node 0 sends, node 1 receives.
#[derive(Clone, Debug)]
pub struct Pair {
    setup: ExchangeSetup,
}

impl Network {
    /// Two queue pairs to explore.
    ///
    /// # Errors
    /// If there are too many packets, or a host refuses its queue pair.
    pub fn of_queue_pairs(setup: ExchangeSetup) -> Result<Self, ExchangeError> {
        let packets = setup.packets * u32::from(setup.messages);
        if !(1..=Provenance::NUMBERS as u32).contains(&packets) {
            return Err(ExchangeError::Packets { found: packets });
        }
        let end = |node| End { node, port: PORT };
        let host = |local, remote| {
            let queue_pair = queue_pair(&setup, end(local), end(remote));
            let program = Box::new(Messages { setup, sends: local == SENDER, ended: 0, request: None });
            let group = HostGroup {
                group: GROUP,
                queue_pairs: vec![(PORT, queue_pair)],
                are_offloaded: false,
                program,
                contention: None,
            };
            installed_node(NodeKind::Host, [NodeCommand::Host(HostCommand::Install(Box::new(group)))])
        };
        let plain = ExchangeSetup { mutation: None, ..setup };
        let plain = setup.mutation.map(|_| Self::of_queue_pairs(plain)).transpose()?.map(|plain| plain.nodes);
        let nodes = vec![host(SENDER, RECEIVER)?, host(RECEIVER, SENDER)?];
        let ends = [end(SENDER), end(RECEIVER)];
        let [sender, receiver] = ends.map(endpoint);
        let connections = Connections::new([vec![(sender, receiver)], vec![(receiver, sender)]]);
        Ok(Self::on(vec![ends], nodes, connections, Pair { setup }).beside(plain))
    }
}

fn queue_pair(setup: &ExchangeSetup, local: End, remote: End) -> QueuePairConfig {
    QueuePairConfig {
        local: endpoint(local),
        remote: endpoint(remote),
        mtu: MTU,
        send_psn: FIRST_PSN,
        expected_psn: FIRST_PSN,
        acknowledge_every: Packets::new(1),
        // What has been missing for half of it is asked for again. Time passes where the clock moves on, and nowhere else.
        retry_timeout: if setup.asks_again { Duration::from_picos(1) } else { Duration::from_micros(100) },
        retry_count: UNLIMITED_RETRIES,
        rnr_timer: 1,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        credits: false,
        window: setup.window,
        congestion_window: setup.congestion_window,
        remote_write: setup.kind == Kind::Write,
        reliability: setup.reliability,
        rate: setup.rate,
        mutation: setup.mutation,
    }
}

impl ExchangeSetup {
    fn length(&self) -> usize {
        self.packets as usize * MTU
    }

    /// The place of a message in the window: behind an element that nobody writes to. So is the window's end.
    fn place(&self, message: u8) -> Slice {
        let offset = usize::from(message) * (self.length() + MTU) + MTU;
        Slice { region: WINDOW, offset, length: self.length() }
    }

    fn window_length(&self) -> usize {
        self.place(self.messages).offset
    }

    /// A message: no two packets of all messages are the same.
    fn message(&self, message: u8) -> Provenance {
        let first = usize::from(message) * self.packets as usize;
        Provenance::of_rank(Rank(SENDER.0), self.length()).moved(first)
    }

    /// Receive requests that the messages take.
    fn receives(&self) -> u8 {
        match self.kind {
            Kind::Send => self.messages,
            Kind::Write => 1,
        }
    }
}

/// Sends or receives the messages, and holds that each ends once and in order, with its contents where they belong.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Messages {
    setup: ExchangeSetup,
    sends: bool,
    /// Work requests that have ended.
    ended: u8,
    request: Option<CollectiveRequest>,
}

impl Messages {
    fn send(&self, input: Slice, verbs: &mut dyn Verbs<Provenance>) {
        let ExchangeSetup { kind, messages, .. } = self.setup;
        for message in 0..messages {
            let length = self.setup.length();
            let source = Slice { offset: usize::from(message) * length, length, ..input };
            let (verb, immediate) = match kind {
                Kind::Send => (Verb::Send, None),
                Kind::Write => {
                    let place = self.setup.place(message);
                    let verb =
                        Verb::Write { remote_address: place.offset as u64, remote_key: place.region.0 };
                    (verb, (message + 1 == messages).then_some(0))
                }
            };
            let request = SendRequest { id: WorkId(message.into()), verb, source, immediate };
            verbs.post_send(QpIndex(0), request);
        }
    }

    fn receive(&self, verbs: &mut dyn Verbs<Provenance>) {
        for receive in 0..self.setup.receives() {
            let sink = match self.setup.kind {
                Kind::Send => self.setup.place(receive),
                Kind::Write => Slice { region: WINDOW, offset: 0, length: 0 },
            };
            verbs.post_receive(QpIndex(0), ReceiveRequest { id: WorkId(receive.into()), sink });
        }
    }

    /// What is wrong with a completion.
    fn fault(&self, completion: Completion, verbs: &mut dyn Verbs<Provenance>) -> Option<String> {
        let next = WorkId(self.ended.into());
        let last = self.setup.place(self.setup.messages - 1);
        let expected = match (self.sends, self.setup.kind) {
            (true, _) => Completion::Sent { id: next },
            (false, Kind::Send) => {
                Completion::Received { id: next, length: self.setup.length(), immediate: None }
            }
            (false, Kind::Write) => Completion::Written { id: next, target: last, immediate: 0 },
        };
        if completion != expected || self.request.is_none() {
            return Some(format!("{completion:?}, which is not {expected:?}, the next"));
        }
        let whole = match (self.sends, self.setup.kind) {
            (true, _) => 0..0,
            (false, Kind::Send) => self.ended..self.ended + 1,
            (false, Kind::Write) => 0..self.setup.messages,
        };
        whole.into_iter().find_map(|message| {
            let found = Provenance::from_view(verbs.memory().view(self.setup.place(message)));
            let expected = self.setup.message(message);
            (found != expected).then(|| format!("message {message} as {found}, which is not {expected}"))
        })
    }
}

impl Program<Provenance> for Messages {
    fn initialise(&mut self, verbs: &mut dyn Verbs<Provenance>) {
        let window = verbs.memory().register(Provenance::zeroed(self.setup.window_length()));
        assert_eq!(window, WINDOW, "the window comes first");
    }

    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Result<Option<Outcome>, RequestError> {
        self.request = Some(request);
        if self.sends {
            self.send(request.input, verbs)
        } else {
            self.receive(verbs)
        }
        Ok(None)
    }

    /// # Panics
    /// If the completion is not the next one, or what it completes is not in its place.
    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Option<Outcome> {
        if let Completion::Failed { failure, .. } = completion {
            return Some(Outcome::Failed { qp, failure });
        }
        if let Some(fault) = self.fault(completion, verbs) {
            panic!("the {} is told of {fault}", if self.sends { "sender" } else { "receiver" });
        }
        self.ended += 1;
        let all = if self.sends { self.setup.messages } else { self.setup.receives() };
        let request = self.request.take_if(|_| self.ended == all)?;
        if !self.sends {
            // With what lies between messages.
            let window = Slice { region: WINDOW, offset: 0, length: self.setup.window_length() };
            verbs.memory().copy(request.output, window);
        }
        Some(Outcome::Done)
    }

    fn assert_invariants(&self) {}
}

impl Protocol for Pair {
    fn name(&self, node: NodeId) -> String {
        if node == SENDER { "sender" } else { "receiver" }.to_owned()
    }

    fn tasks(&self, _: NodeId) -> usize {
        1
    }

    fn task(&self, node: NodeId, _: usize) -> Task {
        let setup = &self.setup;
        let mut input = Provenance::zeroed(usize::from(setup.messages) * setup.length());
        let mut window = Provenance::zeroed(setup.window_length());
        for message in 0..setup.messages {
            let contents = setup.message(message);
            let view = contents.view(0..setup.length());
            input.write(usize::from(message) * setup.length(), view);
            window.write(setup.place(message).offset, view);
        }
        let nothing = Provenance::zeroed(0);
        // One rank's data go to all others.
        let collective = Collective::Broadcast { root: Rank(SENDER.0) };
        match node == SENDER {
            true => Task { collective, routes: None, input, expected: nothing },
            false => Task { collective, routes: None, input: nothing, expected: window },
        }
    }

    fn request(&self, header: &RoceHeader) -> String {
        match header.operation {
            Operation::Send(_) => "send".to_owned(),
            _ => "write".to_owned(),
        }
    }
}

/// The queue pair alone, as a study.
pub(crate) struct QueuePairStudy {
    name: &'static str,
    reliability: Reliability,
}

impl QueuePairStudy {
    pub(crate) const GO_BACK_N: Self = Self { name: "roce", reliability: Reliability::GoBackN };
    pub(crate) const SELECTIVE: Self = Self { name: "roce-selective", reliability: Reliability::Selective };
}

const KINDS: [(&str, Kind); 2] = [("send", Kind::Send), ("write", Kind::Write)];

impl Study for QueuePairStudy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        match self.reliability {
            Reliability::GoBackN => {
                "two queue pairs and nothing else: everything from a lost packet on is sent again"
            }
            Reliability::Datagrams => "two queue pairs that lose what links lose",
            Reliability::Selective => "two queue pairs and nothing else: what is lost is sent again",
        }
    }

    fn collectives(&self) -> &'static [&'static str] {
        &["send", "write"]
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[("--packets", "packets of each message [default: 3]"), ("--times", "messages"), ("--mutate", "")]
    }

    fn mutations(&self) -> Vec<&'static str> {
        Mutation::all().map(Mutation::name).collect()
    }

    fn subject(&self, _: Catalog, collective: &str, arguments: &Arguments) -> Result<Subject, Refusal> {
        let (_, kind) =
            KINDS.iter().find(|(name, _)| *name == collective).expect("it is asked whether it takes it");
        let packets = arguments.packets.unwrap_or(3);
        let mutation = arguments.mutate.as_deref().map(str::parse).transpose();
        let exchange = Network::of_queue_pairs(ExchangeSetup {
            kind: *kind,
            reliability: self.reliability,
            asks_again: true,
            messages: arguments.times,
            packets,
            window: Packets::new(arguments.window()),
            congestion_window: false,
            rate: None,
            mutation: mutation.map_err(|error| Refusal::of(&error))?,
        });
        let network = Box::new(exchange.map_err(|error| Refusal::of(&error))?);
        Ok(Subject { network, tree: None, packets, senders: None, is_lossless: false, is_single: false })
    }
}
