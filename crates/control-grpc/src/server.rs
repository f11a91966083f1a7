//! The manager's process: carries out over gRPC what the manager decides.
//!
//! All state is behind one lock that is held for one step of the manager at a time and never across a wait. An
//! attached node is its instruction stream: when the connection drops the stream, whatever the cause, the node is
//! detached. HTTP/2 keep-alive drops the connection of a node that hangs.

use crate::{convert, proto};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, AttachError, GroupSummary, InitGroupError, Manager, ManagerConfig, ManagerTimer, RequestId,
};
use quincunx_design::Catalog;
use quincunx_units::{Duration, Instant};
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
#[derive(Clone, Copy, Debug)]
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
    /// Who waits for a group's end.
    enders: BTreeMap<RequestId, oneshot::Sender<Vec<String>>>,
    timers: BTreeMap<ManagerTimer, tokio::task::AbortHandle>,
    next_request: u64,
    started: std::time::Instant,
}

impl State {
    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }
}

#[derive(Debug)]
struct Shared(Mutex<State>);

impl Shared {
    fn new(catalog: Catalog, config: ManagerConfig) -> Self {
        Self(Mutex::new(State {
            manager: Manager::new(catalog, config),
            streams: BTreeMap::new(),
            callers: BTreeMap::new(),
            enders: BTreeMap::new(),
            timers: BTreeMap::new(),
            next_request: 0,
            started: std::time::Instant::now(),
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
                Action::Destroyed { request, silent } => {
                    if let Some(caller) = state.enders.remove(&request) {
                        let _ = caller.send(silent);
                    }
                }
                Action::SetTimer { timer, after } => {
                    let shared = self.clone();
                    let expire = async move {
                        tokio::time::sleep(after.into()).await;
                        shared.step(|state, actions| {
                            state.timers.remove(&timer);
                            state.manager.handle_timer(timer, actions);
                        });
                    };
                    if let Some(earlier) = state.timers.insert(timer, tokio::spawn(expire).abort_handle()) {
                        earlier.abort();
                    }
                }
                Action::CancelTimer { timer } => {
                    if let Some(timer) = state.timers.remove(&timer) {
                        timer.abort();
                    }
                }
                // Nothing is kept yet: a manager that starts again knows nobody.
                Action::Keep(_) => {}
            }
        }
    }

    /// One step of the manager, and what it asks for.
    fn step<T>(self: &Arc<Self>, act: impl FnOnce(&mut State, &mut Vec<Action>) -> T) -> T {
        let mut state = self.lock();
        let now = Instant::ZERO + state.started.elapsed().into();
        state.manager.advance(now);
        let mut actions = Vec::new();
        let result = act(&mut state, &mut actions);
        self.perform(&mut state, actions);
        result
    }
}

/// Waits for a group; gives it up when the call is cancelled.
struct Caller {
    request: RequestId,
    shared: Arc<Shared>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.shared.step(|state, actions| {
            state.callers.remove(&self.request);
            state.enders.remove(&self.request);
            state.manager.abandon(self.request, actions);
        });
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
        self.shared.step(|state, actions| {
            state.streams.remove(&self.node);
            state.manager.disconnect(&self.node, "its connection to the manager is gone", actions);
        });
    }
}

struct Service(Arc<Shared>);

#[tonic::async_trait]
impl Control for Service {
    type AttachStream = Instructions;

    async fn attach(&self, request: Request<proto::AttachRequest>) -> Result<Response<Instructions>, Status> {
        let proto::AttachRequest { node, held } = request.into_inner();
        let Some(node) = node else {
            return Err(Status::invalid_argument(
                "expected a node description, found none; say who attaches",
            ));
        };
        let node = convert::decode_node(node).map_err(invalid)?;
        let held = convert::decode_held(held).map_err(invalid)?;
        let name = node.name.clone();
        let (sender, receiver) = mpsc::unbounded_channel();
        let attached = self.0.step(|state, actions| {
            state.manager.attach(node, &held, actions)?;
            state.streams.insert(name.clone(), sender);
            Ok(())
        });
        attached.map_err(|error: AttachError| {
            let code = match error {
                AttachError::NoName => Code::InvalidArgument,
                AttachError::NameTaken { .. } | AttachError::AddressTaken { .. } => Code::AlreadyExists,
            };
            Status::new(code, error.to_string())
        })?;
        Ok(Response::new(Instructions { node: name, receiver, shared: self.0.clone() }))
    }

    async fn report(
        &self,
        request: Request<proto::ReportRequest>,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        let proto::ReportRequest { node, group, report } = request.into_inner();
        let report = convert::decode_report(report).map_err(invalid)?;
        let group = GroupId(group);
        let result = self.0.step(|state, actions| state.manager.handle_report(&node, group, report, actions));
        result.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(proto::ReportResponse {}))
    }

    async fn init_group(
        &self,
        request: Request<proto::InitGroupRequest>,
    ) -> Result<Response<proto::InitGroupResponse>, Status> {
        let wanted = convert::decode_request(request.into_inner()).map_err(invalid)?;
        let (sender, answer) = oneshot::channel();
        let request = self.0.step(|state, actions| {
            let request = state.request();
            state.callers.insert(request, sender);
            state.manager.init_group(request, &wanted, actions);
            request
        });
        let _caller = Caller { request, shared: self.0.clone() };
        // The manager answers within the install timeout.
        let answer =
            answer.await.map_err(|_| Status::unavailable("expected an answer, but the manager stops"))?;
        let group = answer.map_err(|error| Status::new(init_code(&error), error.to_string()))?;
        Ok(Response::new(proto::InitGroupResponse { group: Some(convert::encode_group(&group)) }))
    }

    async fn renew_group(
        &self,
        request: Request<proto::RenewGroupRequest>,
    ) -> Result<Response<proto::RenewGroupResponse>, Status> {
        let group = GroupId(request.into_inner().group);
        let result = self.0.step(|state, actions| state.manager.renew(group, actions));
        result.map_err(|error| Status::not_found(error.to_string()))?;
        Ok(Response::new(proto::RenewGroupResponse {}))
    }

    async fn destroy_group(
        &self,
        request: Request<proto::DestroyGroupRequest>,
    ) -> Result<Response<proto::DestroyGroupResponse>, Status> {
        let group = GroupId(request.into_inner().group);
        let (sender, answer) = oneshot::channel();
        let result = self.0.step(|state, actions| {
            let request = state.request();
            state.enders.insert(request, sender);
            state.manager.destroy_group(request, group, actions).map(|()| request)
        });
        let request = result.map_err(|error| Status::not_found(error.to_string()))?;
        let _caller = Caller { request, shared: self.0.clone() };
        let silent =
            answer.await.map_err(|_| Status::unavailable("expected an answer, but the manager stops"))?;
        Ok(Response::new(proto::DestroyGroupResponse { silent }))
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
        InitGroupError::NoSwitch { .. } | InitGroupError::MixedEncapsulation { .. } => {
            Code::FailedPrecondition
        }
        InitGroupError::HostEndpoints { .. } | InitGroupError::NoRoom(_) => Code::ResourceExhausted,
        InitGroupError::Failed(_) | InitGroupError::Destroyed => Code::Aborted,
    }
}
