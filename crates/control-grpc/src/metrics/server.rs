//! One page over HTTP, for a scraper that comes every few seconds: a thread, one request at a time, an end to every wait.

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

/// What the page is, as Prometheus knows it.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics` until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves what `page` makes, anew for each request.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(
        address: impl ToSocketAddrs,
        page: impl Fn() -> String + Send + 'static,
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
                    Ok(connection) => drop(answer(connection, &page)),
                    // No descriptor is left: others' connections end.
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It waits for a connection.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(mut connection: TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
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
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", page()),
        (Some(b"GET"), _) => {
            ("404 Not Found", "expected /metrics, found another path; ask for that\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "expected GET, found another method; ask with that\n".to_owned()),
    };
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
