//! What ranks, switches and operators' tools call: blocking calls and a channel of instructions, over one background
//! thread that keeps the connection alive.

mod outstanding;
mod releases;

use crate::connector::Connector;
use crate::credentials::MANAGER_NAME;
use crate::waits::Waits;
use crate::{
    CallRecord, Credentials, DecodeError, Explanation, GroupArrivals, GroupCalls, GroupName, GroupStatus,
    Managers, NodeAnswer, NodePaths, NodeStatus, RankArrivals, convert, proto,
};
use outstanding::Releases;
use proto::control_client::ControlClient as Stub;
use quincunx_collective::GroupId;
use quincunx_control::{
    Agent, AgentAction, GroupRequest, GroupSummary, HeldGroup, Instruction, LinkReport, LinkRow,
    NodeDescription, PortReport, Report, Role,
};
use quincunx_units::Duration;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::time::{Instant, SystemTime};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

/// How long to wait for what, and who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// For the manager to come up.
    pub connect_timeout: Duration,
    /// For an answer. Must be longer than the manager's install timeout.
    pub call_timeout: Duration,
    /// How long the manager may be silent before it counts as gone, or half as long again; two seconds at most where another one stands by. One
    /// that ends is noticed at once.
    pub keep_alive: Duration,
    /// How long a node whose connection is gone tries to attach again; not at all, and it hears of the end at once.
    pub patience: Duration,
    /// What the client shows, and whom it trusts. Without, it speaks to managers on loopback alone.
    pub credentials: Option<Credentials>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(10),
            patience: Duration::ZERO,
            credentials: None,
        }
    }
}

impl ClientConfig {
    /// How a connection is made and kept.
    pub(crate) fn endpoint(&self, managers: &Managers) -> Result<Endpoint, ClientError> {
        let keep_alive = self.keep_alive.min(managers.silence());
        let scheme = if self.credentials.is_some() { "https" } else { "http" };
        // Certificates are of managers, and not of hosts: who is called is for the connector to say.
        let endpoint = Endpoint::from_shared(format!("{scheme}://{MANAGER_NAME}"))
            .map_err(|error| ClientError::System { reason: error.to_string() })?
            .connect_timeout(self.connect_timeout.into())
            .http2_keep_alive_interval((keep_alive / 2).into())
            .keep_alive_timeout(keep_alive.into())
            .keep_alive_while_idle(true);
        let Some(credentials) = &self.credentials else { return Ok(endpoint) };
        let wrong = |error| ClientError::Credentials { reason: root_cause(&error) };
        endpoint.tls_config(credentials.client()).map_err(wrong)
    }
}

/// Why a call did not succeed. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody there.
    #[error(
        "expected a manager at {address} within {after}, found none ({reason}); start it, or correct the address (--manager, QUINCUNX_MANAGER)"
    )]
    Connect {
        /// Where.
        address: Managers,
        /// How long it was waited for.
        after: Duration,
        /// The last attempt's failure.
        reason: String,
    },
    /// The manager says no, in its own words.
    #[error("{0}")]
    Refused(String),
    /// No answer in time.
    #[error("expected an answer to {call} within {after}, found none; see whether the manager runs")]
    TimedOut {
        /// The call.
        call: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection broke.
    #[error(
        "expected a connection to the manager, but it is gone ({reason}); start the manager and this node again"
    )]
    Lost {
        /// How.
        reason: String,
    },
    /// Whoever answers is no manager, or one that asks for certificates.
    #[error(
        "expected a manager that speaks gRPC, found something else ({reason}); if it asks for certificates, show one (--identity, QUINCUNX_IDENTITY), else correct the address"
    )]
    Protocol {
        /// How it differs.
        reason: String,
    },
    /// Nodes did not turn up.
    #[error("expected {missing} to attach within {after}, found only {found} nodes; see whether they run")]
    NodesMissing {
        /// Who.
        missing: String,
        /// How long they were waited for.
        after: Duration,
        /// Nodes that have attached.
        found: usize,
    },
    /// The manager speaks another language.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// What is shown is no good.
    #[error(
        "expected credentials that are good, found \"{reason}\"; make new ones with `quincunx manager init`"
    )]
    Credentials {
        /// Why.
        reason: String,
    },
    /// No thread or socket to be had.
    #[error("expected to start the control client's thread, but the system refuses: {reason}")]
    System {
        /// Why.
        reason: String,
    },
}

/// A connection to the manager. Cheap to clone; closed when all clones and attachments are gone.
///
/// Its methods block, each no longer than its configuration says. They must not be called from asynchronous code.
#[derive(Clone, Debug)]
pub struct ControlClient {
    background: Arc<Background>,
    stub: Stub<Channel>,
    config: ClientConfig,
    releases: Arc<Releases>,
}

/// A node's place at the manager: lasts until it is dropped, or the connection breaks.
#[derive(Debug)]
pub struct Attachment {
    reporter: Reporter,
    instructions: mpsc::Receiver<Result<Instruction, ClientError>>,
    pump: tokio::task::AbortHandle,
}

/// What tells the manager of a node's groups and links, from any of the node's threads. Clones are the same.
#[derive(Clone, Debug)]
pub struct Reporter {
    client: ControlClient,
    node: String,
    links: Arc<Mutex<Vec<LinkReport>>>,
    agent: Arc<Mutex<Agent>>,
    notify: mpsc::Sender<Result<Instruction, ClientError>>,
}

/// What became of [`ControlClient::revoke`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// Nodes that were attached by such a certificate, and are not any more.
    pub detached: Vec<String>,
    /// All who are revoked.
    pub revoked: Vec<String>,
    /// Whether the manager has kept it for the next one.
    pub kept: bool,
}

/// How long a node that ends waits for the manager to hear of it.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(200);

/// How long a node's name or address may still be that of one which has just ended: the manager hears of an end when its connection does. At
/// most half of a call, so that a refusal is told.
const HANDOVER: std::time::Duration = std::time::Duration::from_secs(1);

/// Pause between looks at something that is waited for; it doubles up to the longest.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);
const LONGEST_POLL: std::time::Duration = std::time::Duration::from_millis(80);

/// The longest answer that is taken: lists of many groups.
const LONGEST_ANSWER: usize = 64 << 20;

impl ControlClient {
    /// Connects to the manager, waiting for it to come up. Of several, it is the one that serves, and after its end the next one that does.
    pub fn connect(manager: impl Into<Managers>, config: ClientConfig) -> Result<Self, ClientError> {
        let manager = manager.into();
        let runtime = background()?;
        let endpoint = config.endpoint(&manager)?;
        let connector = Connector::new(manager.clone());
        let deadline = Instant::now() + std::time::Duration::from(config.connect_timeout);
        let channel = loop {
            match runtime.block_on(endpoint.connect_with_connector(connector.clone())) {
                Ok(channel) => break channel,
                Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                Err(error) => {
                    let (after, reason) = (config.connect_timeout, root_cause(&error));
                    return Err(ClientError::Connect { address: manager, after, reason });
                }
            }
        };
        Ok(Self::over(channel, runtime, config))
    }

    /// The same without waiting: the connection is made when there is something to say, and again whenever it is gone.
    pub fn connect_later(manager: impl Into<Managers>, config: ClientConfig) -> Result<Self, ClientError> {
        let manager = manager.into();
        let runtime = background()?;
        let endpoint = config.endpoint(&manager)?;
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_with_connector_lazy(Connector::new(manager))
        };
        Ok(Self::over(channel, runtime, config))
    }

    fn over(channel: Channel, runtime: Runtime, config: ClientConfig) -> Self {
        let background = Arc::new(Background(Some(runtime)));
        let stub = Stub::new(channel).max_decoding_message_size(LONGEST_ANSWER);
        Self { background, stub, config, releases: Arc::default() }
    }

    /// Attaches a node. Its instructions come through the attachment. When the connection breaks, the node attaches again with the groups
    /// that it has, for as long as the configuration says.
    pub fn attach(&self, description: &NodeDescription) -> Result<Attachment, ClientError> {
        let request = attach_request(description, &[]);
        let mut stub = self.stub.clone();
        let until = Instant::now() + HANDOVER.min(std::time::Duration::from(self.config.call_timeout) / 2);
        let stream = self.call("Attach", async move {
            loop {
                match stub.attach(request.clone()).await {
                    Err(status) if status.code() == tonic::Code::AlreadyExists && Instant::now() < until => {
                        tokio::time::sleep(LONGEST_POLL).await;
                    }
                    answer => return answer,
                }
            }
        })?;
        let (notify, instructions) = mpsc::channel();
        let agent = Arc::new(Mutex::new(Agent::new(description)));
        let links = Arc::new(Mutex::new(description.links.clone()));
        let pump = Pump {
            client: self.clone(),
            description: description.clone(),
            links: Arc::clone(&links),
            agent: Arc::clone(&agent),
            sender: notify.clone(),
        };
        let pump = self.background.runtime().spawn(pump.run(stream)).abort_handle();
        let (client, node) = (self.clone(), description.name.clone());
        Ok(Attachment { reporter: Reporter { client, node, links, agent, notify }, instructions, pump })
    }

    /// Makes a group and waits until all its nodes have installed it. The summary says whether it fell back to a
    /// host ring, and why. While the manager is gone, it is asked again for as long as the client has patience: with one key, so that one
    /// group comes of it.
    pub fn init_group(&self, wanted: &GroupRequest) -> Result<GroupSummary, ClientError> {
        Ok(self.init_named_group("", wanted)?.summary)
    }

    /// The same for a group that operators call by a name of its own; empty is none.
    pub fn init_named_group(&self, name: &str, wanted: &GroupRequest) -> Result<GroupStatus, ClientError> {
        let wanted = GroupRequest { key: Some(wanted.key.unwrap_or_else(new_key)), ..wanted.clone() };
        let request = proto::InitGroupRequest { name: name.to_owned(), ..convert::encode_request(&wanted) };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.init_group(request).await }
        };
        let response = self.call_again("InitGroup", ask).0?;
        let missing = DecodeError { expected: "a value", field: "group", found: "none".to_string() };
        Ok(convert::decode_status(response.group.ok_or(missing)?)?)
    }

    /// Ends a group, and waits until its nodes have forgotten it: what it held is free then. Of a failed group it removes the record.
    /// Answers with the nodes that did not say so in time. While the manager is gone, it is asked again for as long as the client has patience.
    pub fn destroy_group(&self, group: GroupId) -> Result<Vec<String>, ClientError> {
        let request = proto::DestroyGroupRequest { group: group.0 };
        match self.call_again("DestroyGroup", |mut stub| async move { stub.destroy_group(request).await }) {
            (Ok(done), _) => Ok(done.silent),
            // The manager that was lost may have done it, and only its answer be missing.
            (Err(ClientError::Refused(_)), true) if !self.has_group(group)? => Ok(Vec::new()),
            (Err(error), _) => Err(error),
        }
    }

    fn has_group(&self, group: GroupId) -> Result<bool, ClientError> {
        Ok(self.list_groups()?.iter().any(|listed| listed.summary.group == group))
    }

    /// Says that a group with a lease is still needed.
    pub fn renew_group(&self, group: GroupId) -> Result<(), ClientError> {
        let request = proto::RenewGroupRequest { group: group.0 };
        let ask = |mut stub: Stub<Channel>| async move { stub.renew_group(request).await };
        self.call_again("RenewGroup", ask).0.map(|_| ())
    }

    /// Has new groups pass a switch by, or not any more. Answers with the groups that it has.
    pub fn drain_node(&self, node: &str, drains: bool) -> Result<Vec<GroupId>, ClientError> {
        let request = proto::DrainNodeRequest { node: node.to_owned(), drains };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.drain_node(request).await }
        };
        let response = self.call_again("DrainNode", ask).0?;
        Ok(response.groups.into_iter().map(GroupId).collect())
    }

    /// Has certificates of a name (`tenant/blue`, `node/leaf1`, `operator/bob`), or one (`serial/HEX`), not be heard any more, or be heard
    /// again. An empty name changes nothing.
    pub fn revoke(&self, who: &str, lift: bool) -> Result<Revocation, ClientError> {
        let request = proto::RevokeRequest { who: who.to_owned(), lift };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.revoke(request).await }
        };
        let answer = self.call_again("Revoke", ask).0?;
        let proto::RevokeResponse { detached, revoked, kept } = answer;
        Ok(Revocation { detached, revoked, kept })
    }

    /// All groups, by number; of those that failed, the last ones.
    pub fn list_groups(&self) -> Result<Vec<GroupStatus>, ClientError> {
        let ask =
            |mut stub: Stub<Channel>| async move { stub.list_groups(proto::ListGroupsRequest {}).await };
        let response = self.call_again("ListGroups", ask).0?;
        Ok(response.groups.into_iter().map(convert::decode_status).collect::<Result<_, _>>()?)
    }

    /// All attached nodes, by name.
    pub fn list_nodes(&self) -> Result<Vec<NodeStatus>, ClientError> {
        Ok(self.list(false)?.nodes.into_iter().map(convert::decode_node_status).collect::<Result<_, _>>()?)
    }

    /// All links that nodes say to have and that machines hear at their ports.
    pub fn list_links(&self) -> Result<Vec<LinkRow>, ClientError> {
        let links = self.list(true)?.links.into_iter();
        Ok(links.map(convert::cables::decode_row).collect::<Result<_, _>>()?)
    }

    fn list(&self, with_links: bool) -> Result<proto::ListNodesResponse, ClientError> {
        let request = proto::ListNodesRequest { with_links };
        self.call_again("ListNodes", |mut stub| async move { stub.list_nodes(request).await }).0
    }

    /// Tells the manager what a machine hears at its ports. Said once, without waiting: it is to be said again every few seconds. A refusal is
    /// logged.
    pub fn tell_cables(&self, machine: &str, ports: &[PortReport]) {
        let ports = ports.iter().map(convert::cables::encode_port).collect();
        let request = proto::ReportCablesRequest { machine: machine.to_owned(), ports };
        let (mut stub, after) = (self.stub.clone(), self.config.call_timeout);
        self.background.runtime().spawn(async move {
            match tokio::time::timeout(after.into(), stub.report_cables(request)).await {
                Ok(Err(status)) if is_refusal(&status) => {
                    tracing::warn!(
                        reason = status.message(),
                        "the manager does not take what is heard at ports"
                    );
                }
                Ok(Err(status)) => tracing::debug!(%status, "the manager does not hear of ports"),
                Err(_) => tracing::debug!("the manager does not hear of ports in time"),
                Ok(Ok(_)) => {}
            }
        });
    }

    /// How late each rank's contributions come to the group's switches, by their clocks.
    pub fn ask_arrivals(&self, group: &GroupName) -> Result<GroupArrivals, ClientError> {
        let request = proto::AskGroupRequest { group: Some(convert::encode_name(group)) };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.ask_arrivals(request).await }
        };
        Ok(convert::answers::decode_group_arrivals(self.call_again("AskArrivals", ask).0?)?)
    }

    /// Has each of these nodes send each other what finds out about the path between them: a run, whose number the answer is.
    pub fn probe_paths(&self, nodes: &[String]) -> Result<u64, ClientError> {
        let run = new_key() as u64;
        let request = proto::ProbePathsRequest { run, nodes: nodes.to_vec() };
        let mut stub = self.stub.clone();
        self.call("ProbePaths", async move { stub.probe_paths(request).await })?;
        Ok(run)
    }

    /// What nodes have found out in a run, in this order; nothing of those that do not answer.
    pub fn ask_paths(&self, run: u64, nodes: &[String]) -> Result<Vec<Option<NodeAnswer>>, ClientError> {
        let request = proto::AskPathsRequest { run, nodes: nodes.to_vec() };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.ask_paths(request).await }
        };
        let response = self.call_again("AskPaths", ask).0?;
        let answers = response.nodes.into_iter().map(convert::paths::decode_answer);
        Ok(answers.collect::<Result<_, _>>()?)
    }

    /// Why a group does not use the network, or why there is none: by number, or by the name under which it was asked for last.
    pub fn explain_group(&self, group: &GroupName) -> Result<Explanation, ClientError> {
        let request = proto::AskGroupRequest { group: Some(convert::encode_name(group)) };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.explain_group(request).await }
        };
        let response = self.call_again("ExplainGroup", ask).0?;
        Ok(convert::decode_explanation(response)?)
    }

    /// Which collective each rank of a group is in.
    pub fn ask_waits(&self, group: &GroupName) -> Result<Waits, ClientError> {
        let request = proto::AskGroupRequest { group: Some(convert::encode_name(group)) };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.ask_waits(request).await }
        };
        let response = self.call_again("AskWaits", ask).0?;
        Ok(convert::answers::decode_waits(response)?)
    }

    /// What each rank of a group has called lately, and when.
    pub fn ask_calls(&self, group: &GroupName) -> Result<GroupCalls, ClientError> {
        let request = proto::AskGroupRequest { group: Some(convert::encode_name(group)) };
        let ask = |mut stub: Stub<Channel>| {
            let request = request.clone();
            async move { stub.ask_calls(request).await }
        };
        let response = self.call_again("AskCalls", ask).0?;
        Ok(convert::answers::decode_group_calls(response)?)
    }

    /// Waits until all `hosts` and at least so many switches are attached: for whoever starts them all at once.
    pub fn wait_for_nodes(
        &self,
        hosts: &[String],
        switches: usize,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        let deadline = Instant::now() + std::time::Duration::from(timeout);
        let mut pause = POLL;
        loop {
            let nodes = self.list_nodes()?;
            let count = |role| nodes.iter().filter(|node| node.description.role == role).count();
            let attached = |name: &&String| nodes.iter().any(|node| node.description.name == **name);
            let lost: Vec<String> =
                hosts.iter().filter(|name| !attached(name)).map(|name| format!("\"{name}\"")).collect();
            let missing = match &lost[..] {
                [host] => format!("host {host}"),
                [_, ..] => format!("hosts {}", lost.join(", ")),
                [] if count(Role::Switch) < switches => format!("{switches} switches"),
                [] => return Ok(()),
            };
            if Instant::now() >= deadline {
                return Err(ClientError::NodesMissing { missing, after: timeout, found: nodes.len() });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_POLL);
        }
    }

    /// Sends a report, without waiting.
    fn send_report(
        &self,
        node: &str,
        group: GroupId,
        report: Report,
        notify: mpsc::Sender<Result<Instruction, ClientError>>,
    ) {
        let report = Some(convert::encode_report(report));
        let request = proto::ReportRequest { node: node.to_owned(), group: group.0, report };
        // What a rank has called it tells again itself, as long as that matters.
        let is_repeated = matches!(&request.report, Some(proto::report_request::Report::Called(_)));
        self.tell("Report", (!is_repeated).then_some(notify), move |mut stub| {
            let request = request.clone();
            async move { stub.report(request).await }
        });
    }

    /// Says something that may be said twice, without waiting. While the manager is gone, or has not taken the node back yet, it is said again
    /// for as long as the client has patience. What is in vain then comes through `notify`; that the manager is gone the attachment says itself.
    /// Without `notify` it is said once.
    fn tell<T, F: Future<Output = Result<Response<T>, Status>> + Send>(
        &self,
        call: &'static str,
        notify: Option<mpsc::Sender<Result<Instruction, ClientError>>>,
        say: impl Fn(Stub<Channel>) -> F + Send + 'static,
    ) where
        T: Send,
    {
        let (stub, after) = (self.stub.clone(), self.config.call_timeout);
        let end = Instant::now() + std::time::Duration::from(self.config.patience);
        self.background.runtime().spawn(async move {
            let error = loop {
                let error = match tokio::time::timeout(after.into(), say(stub.clone())).await {
                    Ok(Ok(_)) => return,
                    Ok(Err(status)) => refusal(&status),
                    Err(_) => ClientError::TimedOut { call, after },
                };
                if notify.is_none() || Instant::now() >= end {
                    break error;
                }
                tokio::time::sleep(LONGEST_POLL).await;
            };
            if let Some(notify) = notify
                && !matches!(error, ClientError::Lost { .. })
            {
                // Nobody listens any more when the attachment is gone.
                let _ = notify.send(Err(error));
            }
        });
    }

    /// A call that may be made twice, as its service says in `control.proto`: while no manager serves, it is made again for as long as the
    /// client has patience. Its answer, and whether a manager was lost before.
    fn call_again<T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        call: &'static str,
        ask: impl Fn(Stub<Channel>) -> F,
    ) -> (Result<T, ClientError>, bool) {
        let end = Instant::now() + std::time::Duration::from(self.config.patience);
        let mut was_lost = false;
        loop {
            match self.call(call, ask(self.stub.clone())) {
                // Where an agent is between, who answers while there is no manager may look like none.
                Err(ClientError::Lost { .. } | ClientError::Protocol { .. }) if Instant::now() < end => {
                    was_lost = true;
                    std::thread::sleep(LONGEST_POLL);
                }
                answer => return (answer, was_lost),
            }
        }
    }

    fn call<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ClientError> {
        let after = self.config.call_timeout;
        self.background.runtime().block_on(async {
            match tokio::time::timeout(after.into(), answer).await {
                Ok(Ok(response)) => Ok(response.into_inner()),
                Ok(Err(status)) => Err(refusal(&status)),
                Err(_) => Err(ClientError::TimedOut { call, after }),
            }
        })
    }
}

impl Attachment {
    /// What the manager tells this node, in order. [`ClientError::Lost`] comes last; any other error is one message
    /// or report that went wrong.
    pub fn instructions(&self) -> &mpsc::Receiver<Result<Instruction, ClientError>> {
        &self.instructions
    }

    /// [`Reporter::report`].
    pub fn report(&self, group: GroupId, report: Report) {
        self.reporter.report(group, report);
    }

    /// What tells the manager of the node's groups and links.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// The connection that it is attached through.
    pub fn client(&self) -> &ControlClient {
        &self.reporter.client
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.reporter.node
    }
}

impl Reporter {
    /// Tells the manager of a group, without waiting: it is called from the data plane's loop. What goes wrong comes
    /// through the attachment's [`instructions`](Attachment::instructions).
    pub fn report(&self, group: GroupId, report: Report) {
        lock(&self.agent).tells(group, &report);
        let outcome = match &report {
            Report::Installed => Some(Ok(())),
            Report::Refused { reason } => Some(Err(reason.clone())),
            Report::DataPlaneFailed { .. }
            | Report::Corrupted { .. }
            | Report::Removed
            | Report::Suspended(_)
            | Report::Called { .. }
            | Report::Locked(_) => None,
            Report::Released => {
                lock(&self.agent).release(group, &mut Vec::new());
                return self.client.send_release(&self.node, group);
            }
        };
        if let Some(outcome) = outcome {
            let mut actions = Vec::new();
            lock(&self.agent).installed(group, outcome, &mut actions);
        }
        self.client.send_report(&self.node, group, report, self.notify.clone());
    }

    /// Answers whoever asks when the node's rank has called what. Said once, without waiting.
    pub fn tell_times(&self, group: GroupId, record: &CallRecord) {
        let timed = convert::encode_timed(record, unix_nanos(), machine());
        self.answer(group.0, proto::report_request::Report::Timed(timed));
    }

    /// Answers whoever asks when contributions to a group came to this switch. Said once, without waiting.
    pub fn tell_arrivals(&self, group: GroupId, arrivals: &[RankArrivals]) {
        let arrivals = convert::encode_arrivals(arrivals);
        self.answer(group.0, proto::report_request::Report::Arrivals(arrivals));
    }

    /// Answers whoever asks what the node has found out about paths in a run. Said once, without waiting.
    pub fn tell_paths(&self, run: u64, paths: &NodePaths) {
        let paths = convert::paths::encode_paths(run, paths, unix_nanos(), machine());
        self.answer(0, proto::report_request::Report::Paths(paths));
    }

    fn answer(&self, group: u32, report: proto::report_request::Report) {
        let request = proto::ReportRequest { node: self.node.clone(), group, report: Some(report) };
        self.client.tell("Report", None, move |mut stub| {
            let request = request.clone();
            async move { stub.report(request).await }
        });
    }

    /// Tells the manager which of the node's links are up: all of them. Without waiting, as [`report`](Self::report); a manager that the node
    /// attaches to later hears of the same links.
    pub fn update_links(&self, links: &[LinkReport]) {
        *lock_links(&self.links) = links.to_vec();
        let (node, links) = (self.node.clone(), Arc::clone(&self.links));
        self.client.tell("UpdateLinks", Some(self.notify.clone()), move |mut stub| {
            // As they are by now: of two calls close to each other the later one must not be heard first.
            let links = lock_links(&links).iter().map(convert::encode_link).collect();
            let request = proto::UpdateLinksRequest { node: node.clone(), links };
            async move { stub.update_links(request).await }
        });
    }

    /// The same as [`ControlClient::tell_cables`], of this node's own ports.
    pub fn tell_cables(&self, ports: &[PortReport]) {
        self.client.tell_cables(&self.node, ports);
    }
}

/// Whether a manager has understood, and does not want it.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::PermissionDenied | tonic::Code::InvalidArgument)
}

/// One worker: it answers keep-alive pings while the caller computes.
fn background() -> Result<Runtime, ClientError> {
    let system = |error: std::io::Error| ClientError::System { reason: error.to_string() };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("control").enable_all().build().map_err(system)
}

/// A key that no other request has, but by a chance that nobody meets: two words from what the standard library seeds its maps with.
fn new_key() -> u128 {
    let word = |salt: u8| u128::from(RandomState::new().hash_one((salt, std::process::id(), Instant::now())));
    word(0) << 64 | word(1)
}

fn attach_request(description: &NodeDescription, held: &[HeldGroup]) -> proto::AttachRequest {
    proto::AttachRequest {
        node: Some(convert::encode_node(description)),
        held: held.iter().map(convert::encode_held).collect(),
    }
}

fn lock(agent: &Mutex<Agent>) -> MutexGuard<'_, Agent> {
    agent.lock().expect("no step of an agent panics")
}

fn lock_links(links: &Mutex<Vec<LinkReport>>) -> MutexGuard<'_, Vec<LinkReport>> {
    links.lock().expect("nothing is done with links that could panic")
}

/// What ends a stream of instructions.
enum End {
    /// The connection is gone, or the manager.
    Lost(String),
    /// The manager's word that it wants this node no more.
    Refused(String),
}

/// Whether the manager will not take the node again, however often it asks.
fn is_final(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unauthenticated | tonic::Code::PermissionDenied)
}

/// What brings instructions from the manager to the node, by way of its agent.
struct Pump {
    client: ControlClient,
    description: NodeDescription,
    /// As the node has told them last.
    links: Arc<Mutex<Vec<LinkReport>>>,
    agent: Arc<Mutex<Agent>>,
    sender: mpsc::Sender<Result<Instruction, ClientError>>,
}

impl Pump {
    async fn run(self, mut stream: Streaming<proto::Instruction>) {
        loop {
            let reason = match self.read(&mut stream).await {
                Some(End::Lost(reason)) => reason,
                Some(End::Refused(reason)) => {
                    let _ = self.sender.send(Err(ClientError::Refused(reason)));
                    return;
                }
                // Nobody listens any more.
                None => return,
            };
            match self.attach_again().await {
                Ok(Some(again)) => {
                    stream = again;
                    for (group, report) in lock(&self.agent).tells_again() {
                        let (node, sender) = (&self.description.name, self.sender.clone());
                        self.client.send_report(node, group, report.clone(), sender);
                    }
                }
                Ok(None) => {
                    let _ = self.sender.send(Err(ClientError::Lost { reason }));
                    return;
                }
                Err(reason) => {
                    let _ = self.sender.send(Err(ClientError::Refused(reason)));
                    return;
                }
            }
        }
    }

    /// Reads a stream to its end, and says what ended it; nothing if nobody listens.
    async fn read(&self, stream: &mut Streaming<proto::Instruction>) -> Option<End> {
        loop {
            let instruction = match stream.message().await {
                Ok(Some(instruction)) => convert::decode_instruction(instruction),
                Ok(None) => return Some(End::Lost("the manager has stopped".to_string())),
                Err(status) if is_final(&status) => return Some(End::Refused(status.message().to_owned())),
                Err(status) => return Some(End::Lost(describe(&status))),
            };
            match instruction {
                Ok(instruction) => self.take(instruction).ok()?,
                Err(error) => self.sender.send(Err(error.into())).ok()?,
            }
        }
    }

    /// The agent decides; what it wants done the node does, which says so by [`Reporter::report`].
    fn take(
        &self,
        instruction: Instruction,
    ) -> Result<(), mpsc::SendError<Result<Instruction, ClientError>>> {
        let mut actions = Vec::new();
        lock(&self.agent).handle(instruction, &mut actions);
        for action in actions {
            match action {
                AgentAction::Install(context) => self.sender.send(Ok(Instruction::Install(context)))?,
                AgentAction::Begin(group) => self.sender.send(Ok(Instruction::Ready(group)))?,
                AgentAction::Remove { group, failure: None } => {
                    self.sender.send(Ok(Instruction::Remove(group)))?
                }
                AgentAction::Remove { group, failure: Some(failure) } => {
                    self.sender.send(Ok(Instruction::Failed { group, failure }))?;
                }
                AgentAction::Suspend { group, failure } => {
                    self.sender.send(Ok(Instruction::Suspend { group, failure }))?;
                }
                AgentAction::Resume { group, from, first } => {
                    self.sender.send(Ok(Instruction::Resume { group, from, first }))?;
                }
                AgentAction::TellCalls(group) => self.sender.send(Ok(Instruction::TellCalls(group)))?,
                AgentAction::ProbePaths(probe) => self.sender.send(Ok(Instruction::ProbePaths(probe)))?,
                AgentAction::TellPaths(run) => self.sender.send(Ok(Instruction::TellPaths(run)))?,
                AgentAction::MoveMemory(block) => self.sender.send(Ok(Instruction::MoveMemory(block)))?,
                AgentAction::TellTimes(group) => self.sender.send(Ok(Instruction::TellTimes(group)))?,
                // The node says that itself, when it is done.
                AgentAction::Report { report: Report::Removed, .. } => {}
                AgentAction::Report { group, report } => {
                    self.client.send_report(&self.description.name, group, report, self.sender.clone());
                }
            }
        }
        Ok(())
    }

    /// Attaches again with what the node has, for as long as it may try; nothing if that is over, and the manager's word if it wants this
    /// node no more.
    async fn attach_again(&self) -> Result<Option<Streaming<proto::Instruction>>, String> {
        let end = Instant::now() + std::time::Duration::from(self.client.config.patience);
        while Instant::now() < end {
            let held = lock(&self.agent).attaches_with();
            let mut stub = self.client.stub.clone();
            let links = lock_links(&self.links).clone();
            let description = NodeDescription { links, ..self.description.clone() };
            let attaching = stub.attach(attach_request(&description, &held));
            // The manager may still take the earlier connection for alive.
            match tokio::time::timeout(self.client.config.connect_timeout.into(), attaching).await {
                Ok(Ok(response)) => return Ok(Some(response.into_inner())),
                Ok(Err(status)) if is_final(&status) => return Err(status.message().to_owned()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
        Ok(None)
    }
}

impl Drop for Attachment {
    /// Says that the node ends in order, and waits for that a moment; dropping the stream detaches it.
    fn drop(&mut self) {
        if !self.pump.is_finished() {
            let Reporter { client, node, .. } = &self.reporter;
            let (mut stub, request) = (client.stub.clone(), proto::DetachRequest { node: node.clone() });
            client.background.runtime().block_on(async {
                // Whoever cannot say it counts as gone.
                let _ = tokio::time::timeout(FAREWELL, stub.detach(request)).await;
            });
        }
        self.pump.abort();
    }
}

/// The runtime, stopped without waiting for it when nobody needs it any more.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Background {
    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only when dropped")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A number that this machine has until it is started again, the same in all of its containers; zero if nobody knows.
fn machine() -> u64 {
    static MACHINE: OnceLock<u64> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
}

/// What this machine's clock says, since 1970.
fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The transport's own failures come as statuses too; they are not the manager's word.
fn refusal(status: &Status) -> ClientError {
    match status.code() {
        // What the manager says itself has no source here.
        tonic::Code::Internal if std::error::Error::source(status).is_some() => {
            ClientError::Protocol { reason: describe(status) }
        }
        tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Cancelled => {
            ClientError::Lost { reason: describe(status) }
        }
        _ => ClientError::Refused(status.message().to_string()),
    }
}

fn describe(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => root_cause(source),
        None => status.message().to_string(),
    }
}

/// What is at the bottom of an error: the layers above it only repeat where they stood.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}
