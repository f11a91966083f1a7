//! The manager's process: carries out over gRPC what the manager decides.
//!
//! All state is behind one lock that is held for one step of the manager at a time and never across a wait. An
//! attached node is its instruction stream: when the connection drops the stream, whatever the cause, the node is
//! detached. HTTP/2 keep-alive drops the connection of a node that hangs.

use crate::{convert, proto};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, AttachError, GroupSummary, InitGroupError, Manager, ManagerConfig, RequestId,
};
use quincunx_design::Catalog;
use quincunx_units::Duration;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::{io, thread};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};

use proto::control_server::{Control, ControlServer};

/// What the operator sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// What the manager is set up with.
    pub manager: ManagerConfig,
    /// How long a node may be silent before it counts as gone. A process that ends is noticed at once.
    pub keep_alive: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { manager: ManagerConfig::default(), keep_alive: Duration::from_secs(2) }
    }
}

/// A manager that serves from a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct ManagerServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Result<(), tonic::transport::Error>>>,
}

impl ManagerServer {
    /// Serves groups of these designs on `listener`.
    pub fn start(listener: TcpListener, catalog: Catalog, config: ServerConfig) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let incoming = {
            let _context = runtime.enter();
            TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?).with_nodelay(Some(true))
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let service = ControlServer::new(Service(Arc::new(Shared::new(catalog, config.manager))));
            // A ping after half of the time, its answer within the other half.
            let half = Some((config.keep_alive / 2).into());
            let serving = tonic::transport::Server::builder()
                .http2_keepalive_interval(half)
                .http2_keepalive_timeout(half)
                .serve_with_incoming(service, incoming);
            // Dropping the server, rather than waiting for nodes to leave, ends their streams: they notice.
            runtime.block_on(async {
                let mut serving = std::pin::pin!(serving);
                let mut stopped = std::pin::pin!(stopped);
                std::future::poll_fn(|context| match serving.as_mut().poll(context) {
                    Poll::Ready(result) => Poll::Ready(result),
                    Poll::Pending => stopped.as_mut().poll(context).map(|_| Ok(())),
                })
                .await
            })
        };
        let thread = thread::Builder::new().name("manager".to_string()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until something goes wrong: for a process that is nothing else.
    pub fn join(mut self) -> io::Result<()> {
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Ok(result)) => result.map_err(io::Error::other),
            Some(Err(_)) => Err(io::Error::other("expected the manager to serve, but its thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for ManagerServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its result has no taker any more.
            let _ = thread.join();
        }
    }
}

/// The manager and the other ends of its nodes, callers and timers.
#[derive(Debug)]
struct State {
    manager: Manager,
    /// By node name.
    streams: BTreeMap<String, mpsc::UnboundedSender<Result<proto::Instruction, Status>>>,
    /// Who waits for a group.
    callers: BTreeMap<RequestId, oneshot::Sender<Result<GroupSummary, InitGroupError>>>,
    timers: BTreeMap<GroupId, tokio::task::AbortHandle>,
    next_request: u64,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

impl Shared {
    fn new(catalog: Catalog, config: ManagerConfig) -> Self {
        Self(Mutex::new(State {
            manager: Manager::new(catalog, config),
            streams: BTreeMap::new(),
            callers: BTreeMap::new(),
            timers: BTreeMap::new(),
            next_request: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no step of the manager panics")
    }

    /// Carries out what a step of the manager asks for.
    fn perform(self: &Arc<Self>, state: &mut State, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Instruct { node, instruction } => {
                    if let Some(stream) = state.streams.get(&node) {
                        // It fails when the connection is just breaking: the stream's end follows, and says so.
                        let _ = stream.send(Ok(convert::encode_instruction(&instruction)));
                    }
                }
                Action::Answer { request, answer } => {
                    if let Some(caller) = state.callers.remove(&request) {
                        // It fails when the caller is just going away: it abandons the request then.
                        let _ = caller.send(answer);
                    }
                }
                Action::SetInstallTimer { group, after } => {
                    let shared = self.clone();
                    let expire = async move {
                        tokio::time::sleep(after.into()).await;
                        let mut state = shared.lock();
                        let mut actions = Vec::new();
                        state.timers.remove(&group);
                        state.manager.handle_install_timeout(group, &mut actions);
                        shared.perform(&mut state, actions);
                    };
                    state.timers.insert(group, tokio::spawn(expire).abort_handle());
                }
                Action::CancelInstallTimer { group } => {
                    if let Some(timer) = state.timers.remove(&group) {
                        timer.abort();
                    }
                }
            }
        }
    }
}

/// Waits for a group; gives it up when the call is cancelled.
struct Caller {
    request: RequestId,
    shared: Arc<Shared>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let mut actions = Vec::new();
        state.callers.remove(&self.request);
        state.manager.abandon(self.request, &mut actions);
        self.shared.perform(&mut state, actions);
    }
}

/// The instructions to a node. Its end is the node's end.
#[derive(Debug)]
struct Instructions {
    node: String,
    receiver: mpsc::UnboundedReceiver<Result<proto::Instruction, Status>>,
    shared: Arc<Shared>,
}

impl Stream for Instructions {
    type Item = Result<proto::Instruction, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}

impl Drop for Instructions {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let mut actions = Vec::new();
        state.streams.remove(&self.node);
        state.manager.detach(&self.node, "its connection to the manager is gone", &mut actions);
        self.shared.perform(&mut state, actions);
    }
}

struct Service(Arc<Shared>);

#[tonic::async_trait]
impl Control for Service {
    type AttachStream = Instructions;

    async fn attach(&self, request: Request<proto::AttachRequest>) -> Result<Response<Instructions>, Status> {
        let Some(node) = request.into_inner().node else {
            return Err(Status::invalid_argument(
                "expected a node description, found none; say who attaches",
            ));
        };
        let node = convert::decode_node(node).map_err(invalid)?;
        let name = node.name.clone();
        let mut state = self.0.lock();
        state.manager.attach(node).map_err(|error| {
            let code = match error {
                AttachError::NoName => Code::InvalidArgument,
                AttachError::NameTaken { .. } | AttachError::AddressTaken { .. } => Code::AlreadyExists,
            };
            Status::new(code, error.to_string())
        })?;
        let (sender, receiver) = mpsc::unbounded_channel();
        state.streams.insert(name.clone(), sender);
        Ok(Response::new(Instructions { node: name, receiver, shared: self.0.clone() }))
    }

    async fn report(
        &self,
        request: Request<proto::ReportRequest>,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        let proto::ReportRequest { node, group, report } = request.into_inner();
        let report = convert::decode_report(report).map_err(invalid)?;
        let mut state = self.0.lock();
        let mut actions = Vec::new();
        let result = state.manager.handle_report(&node, GroupId(group), report, &mut actions);
        self.0.perform(&mut state, actions);
        result.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(proto::ReportResponse {}))
    }

    async fn init_group(
        &self,
        request: Request<proto::InitGroupRequest>,
    ) -> Result<Response<proto::InitGroupResponse>, Status> {
        let wanted = convert::decode_request(request.into_inner()).map_err(invalid)?;
        let (sender, answer) = oneshot::channel();
        let _caller = {
            let mut state = self.0.lock();
            let request = RequestId(state.next_request);
            state.next_request += 1;
            state.callers.insert(request, sender);
            let mut actions = Vec::new();
            state.manager.init_group(request, &wanted, &mut actions);
            self.0.perform(&mut state, actions);
            Caller { request, shared: self.0.clone() }
        };
        // The manager answers within the install timeout.
        let answer =
            answer.await.map_err(|_| Status::unavailable("expected an answer, but the manager stops"))?;
        let group = answer.map_err(|error| Status::new(init_code(&error), error.to_string()))?;
        Ok(Response::new(proto::InitGroupResponse { group: Some(convert::encode_group(&group)) }))
    }

    async fn destroy_group(
        &self,
        request: Request<proto::DestroyGroupRequest>,
    ) -> Result<Response<proto::DestroyGroupResponse>, Status> {
        let group = GroupId(request.into_inner().group);
        let mut state = self.0.lock();
        let mut actions = Vec::new();
        let result = state.manager.destroy_group(group, &mut actions);
        self.0.perform(&mut state, actions);
        result.map_err(|error| Status::not_found(error.to_string()))?;
        Ok(Response::new(proto::DestroyGroupResponse {}))
    }

    async fn list_groups(
        &self,
        _: Request<proto::ListGroupsRequest>,
    ) -> Result<Response<proto::ListGroupsResponse>, Status> {
        let groups = self.0.lock().manager.groups().map(|group| convert::encode_group(&group)).collect();
        Ok(Response::new(proto::ListGroupsResponse { groups }))
    }

    async fn list_nodes(
        &self,
        _: Request<proto::ListNodesRequest>,
    ) -> Result<Response<proto::ListNodesResponse>, Status> {
        let state = self.0.lock();
        let node = |node: &quincunx_control::NodeDescription| {
            let holdings = state.manager.holdings(&node.name);
            let used = |(group, holding): &(GroupId, _)| proto::NodeUse {
                group: group.0,
                holding: Some(convert::encode_holding(holding)),
            };
            proto::Node {
                description: Some(convert::encode_node(node)),
                uses: holdings.iter().map(used).collect(),
            }
        };
        Ok(Response::new(proto::ListNodesResponse { nodes: state.manager.nodes().map(node).collect() }))
    }
}

fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

fn init_code(error: &InitGroupError) -> Code {
    match error {
        InitGroupError::NoMembers
        | InitGroupError::DuplicateMember { .. }
        | InitGroupError::NotAHost { .. }
        | InitGroupError::Refused(_) => Code::InvalidArgument,
        InitGroupError::MissingMember { .. } => Code::NotFound,
        InitGroupError::TooFewSwitches { .. } | InitGroupError::MixedEncapsulation { .. } => {
            Code::FailedPrecondition
        }
        InitGroupError::HostEndpoints { .. } | InitGroupError::NoRoom(_) => Code::ResourceExhausted,
        InitGroupError::Failed(_) | InitGroupError::Destroyed => Code::Aborted,
    }
}
