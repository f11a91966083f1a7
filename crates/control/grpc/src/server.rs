//! The manager's process: a thread that serves gRPC. HTTP/2 keep-alive drops the connection of a node that hangs.

use crate::audit::Audit;
use crate::dashboard;
use crate::guard::{Incoming, Limits};
use crate::metrics::ManagerMetrics;
use crate::pages::{MetricsServer, PageServer};
use crate::records::Record;
use crate::revoked::Revoked;
use crate::service::Service;
use crate::state::Shared;
use crate::store::{self, StoredState};
use crate::{Credentials, ManagerAddress, Quotas, StorePlace, proto};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
};
use proto::control_server::ControlServer;
use quincunx_control::{Manager, ManagerConfig};
use quincunx_design::Catalog;
use quincunx_units::Duration;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::{io, thread};
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Server;

/// What the operator sets.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the manager is set up with.
    pub manager: ManagerConfig,
    /// How long a node may be silent before it counts as gone, or half as long again: it may have been pinged just before. A process that ends is noticed
    /// at once.
    pub keep_alive: Duration,
    /// What the manager shows, and whom it trusts. Without, it serves on loopback alone, and whoever is there may do everything.
    pub credentials: Option<Credentials>,
    /// What tenants may have.
    pub quotas: Quotas,
    /// Where groups are kept that the next manager is to go on with; without, it knows nobody, and nodes forget what they had.
    pub store: Option<StorePlace>,
    /// Waits for the manager that has the store to end, and goes on with its groups.
    pub standby: bool,
    /// Where the audit log goes.
    pub audit: Option<PathBuf>,
    /// Where Prometheus finds its metrics; port 0 lets the system choose.
    pub metrics: Option<SocketAddr>,
    /// Where browsers find what it shows of itself, all of it to whoever comes; port 0 lets the system choose.
    pub dashboard: Option<SocketAddr>,
    /// Connections at once; one more is closed as it comes. Bounded by the descriptors that the process may have, too.
    pub max_connections: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            manager: ManagerConfig::default(),
            keep_alive: Duration::from_secs(10),
            credentials: None,
            quotas: Quotas::default(),
            store: None,
            standby: false,
            audit: None,
            metrics: None,
            dashboard: None,
            max_connections: 4096,
        }
    }
}

/// How long a connection may take until it is one: a TLS handshake, or the opening of HTTP/2.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Connections that have said nothing yet.
const SILENT: usize = 256;

/// Descriptors that are for other things than connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Calls of one connection at once.
const STREAMS: u32 = 128;

/// The longest message that is taken: names of 65,535 members fit.
const LONGEST_MESSAGE: usize = 4 << 20;

/// The longest headers that are taken; a call has some hundred bytes of them.
const LONGEST_HEADERS: u32 = 16 << 10;

/// What a connection may send before it is read: so much each may cost.
const WINDOW: u32 = 64 << 10;

/// How much longer than the nodes of a group a call may take.
const MARGIN: std::time::Duration = std::time::Duration::from_secs(30);

/// A manager that serves from a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct ManagerServer {
    address: SocketAddr,
    metrics: Option<MetricsServer>,
    dashboard: Option<PageServer>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

impl ManagerServer {
    /// Takes an address to serve at. Nobody is heard there before [`start`](Self::start): who stands by is not taken for who serves.
    ///
    /// # Errors
    /// If there is no such address on this machine, or somebody has it.
    pub fn bind(address: &ManagerAddress) -> io::Result<TcpListener> {
        let mut last = io::Error::other("the name has no address");
        for address in (address.host(), address.port()).to_socket_addrs()? {
            let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
            let bound = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).and_then(|socket| {
                // A manager that starts again does not wait for connections of the one before to fade away.
                setsockopt(&socket, ReuseAddr, &true)?;
                bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
                Ok(TcpListener::from(socket))
            });
            match bound {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    /// Serves groups of these designs on `listener`. Who stands by waits here until the store is free.
    ///
    /// # Errors
    /// If the listener is not on loopback and there are no credentials; if these are no good; if the audit log or the address for metrics
    /// cannot be had.
    pub fn start(listener: TcpListener, catalog: Catalog, config: ServerConfig) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && config.credentials.is_none() {
            return Err(io::Error::other(format!(
                "expected credentials for a manager at {address}, which is not on loopback, found none; make some with `quincunx manager init DIR` and name them with --identity DIR/manager.pem"
            )));
        }
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let metrics = Arc::new(ManagerMetrics::default());
        let audit = config.audit.as_deref().map(|path| {
            Audit::open(path).map_err(|error| {
                io::Error::other(format!(
                    "expected to add to the audit log {}, found \"{error}\"; name a file in a folder that exists",
                    path.display()
                ))
            })
        });
        let audit = audit.transpose()?;
        let (lost, mut store_lost) = mpsc::channel(1);
        let open = |place| store::open(place, config.standby, &lost);
        let store = config.store.as_ref().map(open).transpose().map_err(io::Error::other)?;
        let (store, StoredState { numbers, groups, revoked }) = match store {
            Some((store, stored)) => (Some(store), stored),
            None => (None, StoredState::default()),
        };
        // Who stands by is not there for anybody until now. The queue is longer than the standard library's: with that, a flood has those who
        // have something to say wait for a second and more.
        listen(&listener, Backlog::MAXALLOWABLE)?;
        let names: Vec<_> = groups
            .iter()
            .map(|(record, name)| {
                let (tenant, asked) = (record.request.owner.clone(), record.request.design.clone());
                (record.group, Record { name: name.clone(), tenant, asked, lack: None })
            })
            .collect();
        let mut actions = Vec::new();
        let records = groups.into_iter().map(|(record, _)| record).collect();
        let manager = Manager::restore(catalog, config.manager, numbers, records, &mut actions);
        let shared = Arc::new(Shared::new(manager, config.quotas, Arc::clone(&metrics), audit, store, lost));
        {
            // Timers of groups that an earlier manager made.
            let _context = runtime.enter();
            let mut state = shared.lock();
            state.revoked = Revoked::new(revoked);
            if numbers > StoredState::default().numbers {
                let limit = std::time::Duration::from(config.manager.restart_timeout);
                state.settles_until = Some(std::time::Instant::now() + limit);
            }
            names.into_iter().for_each(|(group, record)| state.records.restore(group, record));
            shared.perform(&mut state, actions);
        }
        let limits = Limits {
            connections: config.max_connections.min(descriptors()),
            silent: SILENT.min(config.max_connections),
            patience: PATIENCE,
        };
        let incoming = {
            let _context = runtime.enter();
            Incoming::new(tokio::net::TcpListener::from_std(listener)?, limits, Arc::clone(&metrics))
        };
        let mut server = Server::builder()
            .http2_keepalive_interval(Some((config.keep_alive / 2).into()))
            .http2_keepalive_timeout(Some(config.keep_alive.into()))
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_max_header_list_size(LONGEST_HEADERS)
            .timeout(std::time::Duration::from(config.manager.install_timeout) + MARGIN);
        let has_tls = config.credentials.is_some();
        if let Some(credentials) = &config.credentials {
            server = server.tls_config(credentials.server().timeout(PATIENCE)).map_err(|error| {
                let reason = crate::client::root_cause(&error);
                io::Error::other(format!("expected credentials that are good, found \"{reason}\"; make new ones with `quincunx manager init`"))
            })?;
        }
        let page = {
            let (shared, metrics) = (Arc::clone(&shared), Arc::clone(&metrics));
            move || {
                let state = shared.lock();
                metrics.render(&state.manager, state.stalled())
            }
        };
        let serve_metrics = |address| {
            MetricsServer::start(address, page).map_err(|error| {
                io::Error::other(format!(
                    "expected to serve metrics at {address}, found \"{error}\"; choose another address"
                ))
            })
        };
        let metrics = config.metrics.map(serve_metrics).transpose()?;
        let serve_dashboard = |address| {
            dashboard::serve(address, Arc::clone(&shared)).map_err(|error| {
                io::Error::other(format!(
                    "expected to serve the dashboard at {address}, found \"{error}\"; choose another address"
                ))
            })
        };
        let dashboard = config.dashboard.map(serve_dashboard).transpose()?;
        let (stop, stopped) = oneshot::channel();
        let stopping = Arc::clone(&shared);
        let service =
            ControlServer::new(Service { shared, has_tls }).max_decoding_message_size(LONGEST_MESSAGE);
        let serve = move || {
            let reflection = |builder: tonic_reflection::server::Builder<'static>| {
                builder
                    .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
                    .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            };
            let configure = tonic_reflection::server::Builder::configure;
            runtime.block_on(async {
                let (reporter, health) = tonic_health::server::health_reporter();
                reporter.set_serving::<ControlServer<Service>>().await;
                let expected = "the descriptors are the compiler's own";
                let serving = server
                    .add_service(service)
                    .add_service(health)
                    .add_service(reflection(configure()).build_v1().expect(expected))
                    .add_service(reflection(configure()).build_v1alpha().expect(expected))
                    .serve_with_incoming(incoming);
                // Dropping the server, rather than waiting for nodes to leave, ends their streams: they notice.
                let mut serving = std::pin::pin!(serving);
                let mut stopped = std::pin::pin!(stopped);
                std::future::poll_fn(|context| {
                    let end = if let Poll::Ready(Some(error)) = store_lost.poll_recv(context) {
                        Poll::Ready(Err(io::Error::other(error)))
                    } else if let Poll::Ready(result) = serving.as_mut().poll(context) {
                        Poll::Ready(result.map_err(io::Error::other))
                    } else {
                        stopped.as_mut().poll(context).map(|_| Ok(()))
                    };
                    if end.is_ready() {
                        stopping.stop();
                    }
                    end
                })
                .await
            })
        };
        let thread = thread::Builder::new().name("manager".to_string()).spawn(serve)?;
        Ok(Self { address, metrics, dashboard, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where Prometheus finds its metrics, if anywhere.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// Where browsers find what it shows, if anywhere.
    pub fn dashboard_address(&self) -> Option<SocketAddr> {
        self.dashboard.as_ref().map(PageServer::address)
    }

    /// Serves until something goes wrong: for a process that is nothing else.
    pub fn join(mut self) -> io::Result<()> {
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Ok(result)) => result,
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

/// Descriptors that connections may take: as many as the system gives this process, when asked for all.
fn descriptors() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return usize::MAX };
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    let most = if raised { hard } else { soft };
    usize::try_from(most.saturating_sub(OTHER_DESCRIPTORS).max(16)).unwrap_or(usize::MAX)
}
