//! How a client finds the manager that serves among those that stand by: at each connection anew.

use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

use crate::{ManagerAddress, Managers};

/// How long one of several may take before the next one is tried.
const EACH: Duration = Duration::from_secs(1);

/// Connects to one manager after the other until somebody is there. Who stands by is not, and who has just been lost comes last: a machine that
/// has stopped still takes connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    managers: Managers,
    /// Who is tried first.
    next: Arc<AtomicUsize>,
}

impl Connector {
    pub(crate) fn new(managers: Managers) -> Self {
        Self { managers, next: Arc::default() }
    }

    pub(crate) async fn connect(self) -> io::Result<TokioIo<Quiet>> {
        let all = self.managers.all();
        let first = self.next.load(Ordering::Relaxed);
        let mut last = io::Error::other("no manager is named");
        for index in first..first + all.len() {
            let index = index % all.len();
            match reach(&all[index], all.len() > 1).await {
                Ok(stream) => {
                    self.next.store((index + 1) % all.len(), Ordering::Relaxed);
                    stream.set_nodelay(true)?;
                    return Ok(TokioIo::new(Quiet(stream)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A connection that raises no SIGPIPE when its other end has gone. Programs in C leave that signal as it is, and it ends them. What is written in
/// one piece goes by `send`, with MSG_NOSIGNAL; in several pieces it would go by `writev`, which knows no such flag.
#[derive(Debug)]
pub(crate) struct Quiet(TcpStream);

impl Quiet {
    pub(crate) fn into_stream(self) -> TcpStream {
        self.0
    }
}

impl AsyncRead for Quiet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Quiet {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

async fn reach(manager: &ManagerAddress, is_one_of_several: bool) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect((manager.host(), manager.port()));
    if !is_one_of_several {
        return connecting.await;
    }
    let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer");
    tokio::time::timeout(EACH, connecting).await.map_err(silent)?
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Quiet>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}
