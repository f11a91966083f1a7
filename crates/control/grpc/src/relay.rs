//! The agent of a machine: nodes of the machine speak with it over loopback, as with a manager, and it speaks with the manager in their place,
//! with the machine's certificate. So the processes that parse frames of strangers have no keys, and nodes know nothing of managers that
//! stand by. It passes bytes on and keeps nothing: started again, it has nodes attach again. The manager waits for them, for it has been told which
//! connections are passed on, and hears of each that its node has closed.

use crate::connector::Connector;
use crate::credentials::{Credentials, MANAGER_NAME};
use crate::{ClientConfig, Managers, proto};
use nix::sys::socket::{Backlog, listen};
use proto::control_client::ControlClient as Stub;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::transport::{Channel, Endpoint};

/// How long the manager may take to show what it is, and to hear of a connection. One that cannot hear of it takes the agent's end for that of
/// its nodes.
const LIMIT: Duration = Duration::from_secs(5);

/// Between looks for a manager while there is none.
const LOOK: Duration = Duration::from_millis(20);

/// A node that says goodbye closes within this time what its manager has closed in answer: it was the node that ended. A node that did not closes
/// it when it hears of the end, which it does after this time.
const GOODBYE: Duration = Duration::from_millis(50);

/// Bytes that are passed on at once.
const PIECE: usize = 16 << 10;

/// Connections at once; a node has one, and a tool has one while it asks.
const CONNECTIONS: usize = 1024;

/// How long nobody is accepted after the system has refused a connection, for want of files say.
const PAUSE: Duration = Duration::from_millis(50);

/// An agent that serves in a thread of its own until it is dropped; its connections end with it.
#[derive(Debug)]
pub struct AgentServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

impl AgentServer {
    /// Serves nodes and tools that connect to `listener`, at the manager that serves among `managers`.
    ///
    /// # Errors
    /// If the listener is not on loopback, where everybody on the wire would speak with the machine's certificate; if the credentials are no
    /// good; or if the system has no thread.
    pub fn start(
        listener: TcpListener,
        managers: Managers,
        credentials: Option<&Credentials>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!(
                "expected an agent to listen on loopback, found {address}; nodes on other machines have agents, or certificates, of their own"
            )));
        }
        // What `ManagerServer::bind` has bound does not listen yet.
        listen(&listener, Backlog::MAXALLOWABLE)?;
        let tls = credentials.map(Credentials::raw_client).transpose()?;
        let config = ClientConfig { credentials: credentials.cloned(), ..ClientConfig::default() };
        let own = config.endpoint(&managers).map_err(io::Error::other)?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async {
                let relay = Relay::new(managers, tls, &own);
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tokio::select! {
                    () = relay.serve(&listener) => Ok(()),
                    _ = stopped => Ok(()),
                }
            })
        };
        let thread = thread::Builder::new().name("agent".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If it cannot go on.
    pub fn join(mut self) -> io::Result<()> {
        let served = self.thread.take().expect("it is joined once").join();
        served.unwrap_or_else(|_| {
            Err(io::Error::other("expected the agent to serve, found a fault of it; see above"))
        })
    }
}

impl Drop for AgentServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Relay {
    connector: Connector,
    /// How long there may be no manager: nodes do not know that there are several.
    patience: Duration,
    tls: Option<TlsConnector>,
    /// By a connection of the agent's own, which is made when there is something to say.
    manager: Stub<Channel>,
}

impl Relay {
    fn new(managers: Managers, tls: Option<Arc<tokio_rustls::rustls::ClientConfig>>, own: &Endpoint) -> Self {
        let manager = Stub::new(own.connect_with_connector_lazy(Connector::new(managers.clone())));
        let patience = managers.patience().into();
        Self { connector: Connector::new(managers), patience, tls: tls.map(TlsConnector::from), manager }
    }

    async fn serve(&self, listener: &tokio::net::TcpListener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
            let near = match listener.accept().await {
                Ok((near, _)) => near,
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let relay = self.clone();
            tokio::spawn(async move {
                if let Err(error) = relay.pass(near).await {
                    tracing::warn!(%error, "a connection to the manager has ended");
                }
                drop(permit);
            });
        }
    }

    /// Passes on what either end says, until one of them ends.
    async fn pass(self, near: TcpStream) -> io::Result<()> {
        near.set_nodelay(true)?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no manager in time");
        let far = tokio::time::timeout(self.patience, self.reach()).await.map_err(late)?;
        let connection = far.local_addr()?;
        let Some(tls) = self.tls.clone() else { return self.join(near, far, connection).await };
        let name = ServerName::try_from(MANAGER_NAME).expect("it is a name");
        let far = tokio::time::timeout(LIMIT, tls.connect(name, far)).await.map_err(late)??;
        self.join(near, far, connection).await
    }

    /// A connection to the manager, once there is one.
    async fn reach(&self) -> TcpStream {
        loop {
            match self.connector.clone().connect().await {
                Ok(far) => return far.into_inner().into_stream(),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn join(
        self,
        mut near: TcpStream,
        mut far: impl AsyncRead + AsyncWrite + Unpin,
        connection: SocketAddr,
    ) -> io::Result<()> {
        self.tell(connection, false).await;
        if node_ends(&mut near, &mut far).await {
            // Before the connection is: then the manager does not wait for the node.
            self.tell(connection, true).await;
        }
        Ok(())
    }

    /// Says what becomes of a connection.
    async fn tell(&self, connection: SocketAddr, ended: bool) {
        let mut manager = self.manager.clone();
        let request = proto::RelayRequest { connection: connection.to_string(), ended };
        let told = tokio::time::timeout(LIMIT, manager.relay(request)).await;
        if !matches!(told, Ok(Ok(_))) {
            tracing::debug!(%connection, ended, "the manager does not hear of a connection");
        }
    }
}

/// Passes on what either end says, until one of them ends: whether it was the node.
async fn node_ends(
    near: &mut (impl AsyncRead + AsyncWrite + Unpin),
    far: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> bool {
    let (mut near_reads, mut near_writes) = tokio::io::split(near);
    let (mut far_reads, mut far_writes) = tokio::io::split(far);
    let ended = tokio::select! {
        ended = carry(&mut near_reads, &mut far_writes) => ended,
        ended = carry(&mut far_reads, &mut near_writes) => ended.reversed(),
    };
    match ended {
        End::Reader => true,
        End::Writer => {
            tokio::time::timeout(GOODBYE, carry(&mut near_reads, &mut tokio::io::sink())).await.is_ok()
        }
    }
}

/// Which end of a way has ended.
enum End {
    Reader,
    Writer,
}

impl End {
    fn reversed(self) -> Self {
        match self {
            Self::Reader => Self::Writer,
            Self::Writer => Self::Reader,
        }
    }
}

/// Passes on what one end says to the other one.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> End {
    let mut piece = vec![0; PIECE];
    loop {
        let Ok(count @ 1..) = from.read(&mut piece).await else { return End::Reader };
        // What TLS has taken is not yet on its way.
        let passed = async { to.write_all(&piece[..count]).await.and(to.flush().await) };
        if passed.await.is_err() {
            return End::Writer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};

    /// A node, its manager, and whether it is the node that ends.
    fn connection() -> (DuplexStream, DuplexStream, tokio::task::JoinHandle<bool>) {
        let (node, mut near) = duplex(PIECE);
        let (mut far, manager) = duplex(PIECE);
        (node, manager, tokio::spawn(async move { node_ends(&mut near, &mut far).await }))
    }

    #[tokio::test]
    async fn a_node_that_ends_is_told_from_a_manager_that_ends() {
        let (node, manager, ends) = connection();
        drop(node);
        assert!(ends.await.unwrap());
        drop(manager);

        let (node, manager, ends) = connection();
        drop(manager);
        assert!(!ends.await.unwrap());
        drop(node);
    }

    #[tokio::test]
    async fn a_manager_that_closes_when_a_node_says_goodbye_does_not_end_first() {
        let (mut node, mut manager, ends) = connection();
        node.write_all(b"goodbye").await.unwrap();
        let mut heard = [0; 7];
        manager.read_exact(&mut heard).await.unwrap();
        drop(manager);
        tokio::task::yield_now().await;
        drop(node);
        assert!(ends.await.unwrap());
    }
}
