//! A node's frames as a pcapng file that Wireshark opens.

use quincunx_driver_net::{Direction, Observer};
use quincunx_sockets::Datagram;
use quincunx_units::Instant;
use quincunx_wire::grh::{GrhRepr, GrhView};
use quincunx_wire::pcapng::{InterfaceId, Writer};
use quincunx_wire::{
    Envelope, EthernetRepr, Framing, Gid, MacAddress, UdpPath, emit_headers, ethernet, headers_below_bth, v1,
};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// Where a node's frames are to be written, and why they are not all there, once that is known.
#[derive(Clone, Debug)]
pub struct CaptureFile {
    /// The file.
    pub path: PathBuf,
    failure: Arc<OnceLock<String>>,
}

impl CaptureFile {
    /// A file that nothing is wrong with yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, failure: Arc::default() }
    }

    /// Another file of the same node: what goes wrong with either is known of both.
    pub fn beside(&self, path: PathBuf) -> Self {
        Self { path, ..self.clone() }
    }

    /// Why frames are missing, if some are; to be asked when the node has ended.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

/// An observer that writes what it sees. What is left is written when it is dropped.
pub struct Capture {
    file: File,
    place: CaptureFile,
    writer: Writer,
    interface: InterfaceId,
    framing: Framing,
    /// When the node's clock stood at zero, since 1970.
    epoch: Option<std::time::Duration>,
    frame: Vec<u8>,
}

impl Capture {
    /// A new capture file of the node `name`, whose frames travel so.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(place: &CaptureFile, name: &str, framing: Framing) -> std::io::Result<Self> {
        let mut writer = Writer::new("quincunx");
        let interface = writer.interface(name);
        let (file, place) = (File::create(&place.path)?, place.clone());
        Ok(Self { file, place, writer, interface, framing, epoch: None, frame: Vec::new() })
    }

    /// The headers that a UDP socket keeps to itself.
    fn begin_v2(&mut self, datagram: &Datagram, length: usize) {
        let path = UdpPath {
            source: datagram.source.ip().into(),
            destination: datagram.destination.ip().into(),
            source_port: datagram.source.port(),
            traffic_class: datagram.tos,
        };
        let envelope = Envelope {
            identification: datagram.identification,
            ..Envelope::new(MacAddress::showing(path.source), MacAddress::showing(path.destination))
        };
        self.frame.resize(headers_below_bth(path.destination), 0);
        emit_headers(&envelope, &path, length, &mut self.frame);
    }

    /// The Ethernet header alone, between those whom the frame itself names.
    fn begin_v1(&mut self, datagram: &Datagram, bytes: &[u8]) {
        let named = GrhView::split(bytes).and_then(|(view, _)| GrhRepr::parse(&view));
        let [source, destination] = match named {
            Ok(GrhRepr { source, destination, .. }) => [source, destination],
            Err(_) => [datagram.source, datagram.destination].map(|end| Gid::of(end.ip())),
        }
        .map(MacAddress::showing);
        let mut header = [0; ethernet::LENGTH];
        EthernetRepr { destination, source }.emit_with(v1::ETHERTYPE, &mut header);
        self.frame.clear();
        self.frame.extend_from_slice(&header);
    }

    fn flush(&mut self) {
        let bytes = self.writer.take();
        if self.place.failure().is_some() {
            return;
        }
        // A full disk ends the capture, not the collective.
        if let Err(error) = self.file.write_all(&bytes) {
            let path = self.place.path.display();
            let failure =
                format!("expected to write all frames to {path}, found \"{error}\"; make room there");
            let _ = self.place.failure.set(failure);
        }
    }
}

impl Observer for Capture {
    fn observe(&mut self, now: Instant, _: Direction, datagram: &Datagram, bytes: &[u8]) {
        let since_start = std::time::Duration::from_nanos(now.as_picos() / 1_000);
        let epoch = *self.epoch.get_or_insert_with(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(since_start)
        });
        match self.framing {
            Framing::RoceV2 => self.begin_v2(datagram, bytes.len()),
            Framing::RoceV1 => self.begin_v1(datagram, bytes),
        }
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
