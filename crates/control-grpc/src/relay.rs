//! The agent of a machine: nodes of the machine speak with it over loopback, as with a manager, and it speaks with the manager in their place,
//! with the machine's certificate. So the processes that parse frames of strangers have no keys, and nodes know nothing of managers that
//! stand by. It passes bytes on and keeps nothing: started again, it has nodes attach again. To the manager they were gone meanwhile.

use crate::Managers;
use crate::connector::Connector;
use crate::credentials::{Credentials, MANAGER_NAME};
use nix::sys::socket::{Backlog, listen};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// How long the manager may take to take a connection, and to show what it is.
const LIMIT: Duration = Duration::from_secs(5);

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
        let relay = Relay { connector: Connector::new(managers), tls: tls.map(TlsConnector::from) };
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async {
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
    tls: Option<TlsConnector>,
}

impl Relay {
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
    async fn pass(self, mut near: TcpStream) -> io::Result<()> {
        near.set_nodelay(true)?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no manager in time");
        let far = tokio::time::timeout(LIMIT, self.connector.connect()).await.map_err(late)??;
        let mut far = far.into_inner();
        let Some(tls) = self.tls else {
            return tokio::io::copy_bidirectional(&mut near, &mut far).await.map(drop);
        };
        let name = ServerName::try_from(MANAGER_NAME).expect("it is a name");
        let mut far = tokio::time::timeout(LIMIT, tls.connect(name, far)).await.map_err(late)??;
        tokio::io::copy_bidirectional(&mut near, &mut far).await.map(drop)
    }
}
