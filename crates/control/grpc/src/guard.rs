//! Connections as they come in: no more at once than there is room for, and none that stays without saying anything.
//!
//! A connection counts from its acceptance to its end. One that has not sent the opening of HTTP/2 (24 bytes) in time is dropped; of these
//! there may be few at once, so that strangers who say nothing leave room for those who do. One too many is closed as it is accepted: the kernel's
//! queue does not fill with it.

use crate::metrics::ManagerMetrics;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// What HTTP/2 begins with, in bytes (RFC 9113, 3.4); a TLS handshake is longer.
const OPENING: usize = 24;

/// How long nobody is accepted when the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// How many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// At once.
    pub(crate) connections: usize,
    /// Of these, such as have said nothing yet.
    pub(crate) silent: usize,
    /// How long one may say nothing.
    pub(crate) patience: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    silent: AtomicUsize,
}

/// Accepted connections.
pub(crate) struct Incoming {
    listener: TcpListener,
    limits: Limits,
    counts: Arc<Counts>,
    metrics: Arc<ManagerMetrics>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Incoming {
    pub(crate) fn new(listener: TcpListener, limits: Limits, metrics: Arc<ManagerMetrics>) -> Self {
        Self { listener, limits, counts: Arc::default(), metrics, pause: None }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            let stream = match self.listener.poll_accept(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok((stream, _))) => stream,
                // Of one connection, or of all descriptors: never of the listener, which goes on.
                Poll::Ready(Err(error)) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    self.pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
                    continue;
                }
            };
            let counts = &self.counts;
            let is_full = counts.open.load(Ordering::Relaxed) >= self.limits.connections
                || counts.silent.load(Ordering::Relaxed) >= self.limits.silent;
            if is_full {
                self.metrics.connections_refused.inc();
                continue;
            }
            // Small messages, each of which somebody waits for.
            let _ = stream.set_nodelay(true);
            counts.open.fetch_add(1, Ordering::Relaxed);
            counts.silent.fetch_add(1, Ordering::Relaxed);
            self.metrics.connections.inc();
            let patience = Box::pin(tokio::time::sleep(self.limits.patience));
            let (counts, metrics) = (Arc::clone(counts), Arc::clone(&self.metrics));
            return Poll::Ready(Some(Ok(Connection {
                stream,
                counts,
                metrics,
                silence: Some((0, patience)),
            })));
        }
    }
}

/// One of them, until it is dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    counts: Arc<Counts>,
    metrics: Arc<ManagerMetrics>,
    /// Bytes that have come, and when their time is up; none once it has said enough.
    silence: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Connection {
    fn end_silence(&mut self) {
        if self.silence.take().is_some() {
            self.counts.silent.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end_silence();
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
        self.metrics.connections.dec();
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some((said, patience)) = &mut self.silence {
            *said += buffer.filled().len() - before;
            if *said >= OPENING {
                self.end_silence();
            } else if patience.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
