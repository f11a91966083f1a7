//! A few pages over HTTP, for a scraper or a browser that comes every second: a thread, one request at a time, an end to every wait.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest request that is read.
const LONGEST: usize = 8192;

/// A page as it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

impl Page {
    /// What Prometheus reads.
    fn metrics(text: String) -> Self {
        Self { kind: "application/openmetrics-text; version=1.0.0; charset=utf-8", text }
    }
}

/// Serves `/metrics` until it is dropped.
#[derive(Debug)]
pub struct MetricsServer(PageServer);

impl MetricsServer {
    /// Serves what `page` makes, anew for each request.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(
        address: impl ToSocketAddrs,
        page: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Self> {
        let page = move |path: &str| (path == "/metrics").then(|| Page::metrics(page()));
        PageServer::start(address, "/metrics", page).map(Self)
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// Serves pages until it is dropped.
#[derive(Debug)]
pub(crate) struct PageServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PageServer {
    /// Serves what `page` makes of a path, anew for each request. `paths` tells who asks for another one.
    pub(crate) fn start(
        address: impl ToSocketAddrs,
        paths: &'static str,
        page: impl Fn(&str) -> Option<Page> + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            for connection in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                match connection {
                    // Whoever breaks off has no use for an answer.
                    Ok(connection) => drop(answer(connection, paths, &page)),
                    // No descriptor is left: others' connections end.
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        };
        let thread = std::thread::Builder::new().name("pages".to_owned()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It waits for a connection.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(mut connection: TcpStream, paths: &str, page: &impl Fn(&str) -> Option<Page>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() >= LONGEST {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        match connection.read(&mut bytes)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&bytes[..read]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let plain = |text: String| Page { kind: "text/plain; charset=utf-8", text };
    let (status, Page { kind, text }) = match (words.next(), words.next()) {
        (Some(b"GET"), path) => match std::str::from_utf8(path.unwrap_or_default()).ok().and_then(page) {
            Some(page) => ("200 OK", page),
            None => ("404 Not Found", plain(format!("expected {paths}, found another path; ask for that\n"))),
        },
        _ => {
            let text = "expected GET, found another method; ask with that\n".to_owned();
            ("405 Method Not Allowed", plain(text))
        }
    };
    let length = text.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{text}"
    )
}
