//! A node's frames as a pcapng file that Wireshark opens.

use quincunx_driver_net::{Datagram, Direction, Observer};
use quincunx_units::Instant;
use quincunx_wire::pcapng::{InterfaceId, Writer};
use quincunx_wire::{Envelope, HEADERS_BELOW_BTH, MacAddress, UdpPath, emit_headers};
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// An observer that writes what it sees. What is left is written when it is dropped.
pub struct Capture {
    file: File,
    writer: Writer,
    interface: InterfaceId,
    /// When the node's clock stood at zero, since 1970.
    epoch: Option<std::time::Duration>,
    frame: Vec<u8>,
}

impl Capture {
    /// A new capture file of the node `name`.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, name: &str) -> std::io::Result<Self> {
        let mut writer = Writer::new("quincunx");
        let interface = writer.interface(name);
        Ok(Self { file: File::create(path)?, writer, interface, epoch: None, frame: Vec::new() })
    }

    fn flush(&mut self) {
        // A full disk ends the capture, not the collective.
        let _ = self.file.write_all(&self.writer.take());
    }
}

/// A locally administered hardware address that shows the IP address: a socket does not tell the real one.
fn hardware_address(address: Ipv4Addr) -> MacAddress {
    let [a, b, c, d] = address.octets();
    MacAddress([0x02, 0, a, b, c, d])
}

impl Observer for Capture {
    fn observe(&mut self, now: Instant, _: Direction, datagram: &Datagram, bytes: &[u8]) {
        let since_start = std::time::Duration::from_nanos(now.as_picos() / 1_000);
        let epoch = *self.epoch.get_or_insert_with(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(since_start)
        });
        let path = UdpPath {
            source: *datagram.source.ip(),
            destination: *datagram.destination.ip(),
            source_port: datagram.source.port(),
            traffic_class: datagram.tos,
        };
        let envelope = Envelope {
            identification: datagram.identification,
            ..Envelope::new(hardware_address(path.source), hardware_address(path.destination))
        };
        self.frame.resize(HEADERS_BELOW_BTH, 0);
        emit_headers(&envelope, &path, bytes.len(), &mut self.frame);
        self.frame.extend_from_slice(bytes);
        self.writer.packet(self.interface, epoch + since_start, &self.frame);
        if self.writer.buffered() >= BUFFER {
            self.flush();
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.flush();
    }
}
