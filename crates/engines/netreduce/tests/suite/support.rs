//! Frames as bytes, and a switch that takes them.

use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_netreduce::{
    EthernetDrop, EthernetHeader, EthernetSwitch, EthernetSwitchConfig, PortConfig, Shape,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::netreduce::{LENGTH, NetReduceHeader, PAYLOAD};
use quincunx_wire::{EthernetRepr, Gid, MacAddress, Operation, Psn, QpNumber, Reth, RoceHeader, v1};

/// Frames that came out, with their port, and why others did not.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Out {
    pub(crate) frames: Vec<(u16, Vec<u8>)>,
    pub(crate) drops: Vec<(u16, &'static str)>,
}

impl Sink<EthernetSwitch<Numbers>> for Out {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, EthernetHeader, Numbers>) {
        let mut bytes = vec![0; frame.header.frame_length(frame.payload.len())];
        frame.header.emit(frame.payload, &mut bytes);
        self.frames.push((port.0, bytes));
    }
    fn set_timer(&mut self, (): (), _: Duration) {}
    fn cancel_timer(&mut self, (): ()) {}
    fn emit(&mut self, event: std::convert::Infallible) {
        match event {}
    }
    fn drop_frame(&mut self, port: PortId, reason: EthernetDrop) {
        self.drops.push((port.0, reason.name()));
    }
}

pub(crate) struct Switch(EthernetSwitch<Numbers>);

pub(crate) fn sum_of(data_type: DataType) -> Reduction {
    Reduction { op: ReduceOp::Sum, data_type }
}

impl Switch {
    /// A switch of which all ports take part, and which adds integers, as after a reset.
    pub(crate) fn new(ports: u16) -> Self {
        let config = EthernetSwitchConfig {
            shape: Shape::of_ports(ports),
            reduction: sum_of(DataType::I32),
            ports: PortConfig::all(ports),
        };
        Self(EthernetSwitch::new(config).unwrap())
    }

    pub(crate) fn configure(&mut self, ports: PortConfig, data_type: DataType) {
        let Ok(()) = self.0.handle_command(Instant::ZERO, (ports, sum_of(data_type)), &mut Out::default());
    }

    /// A switch that knows where hosts 0 to `ports` - 1 are: each at the port of its number.
    pub(crate) fn that_knows(ports: u16) -> Self {
        let mut switch = Self::new(ports);
        for host in 0..ports {
            switch.take(host, &ethernet(host, 0xffff, 0x0806, b"who has"));
        }
        switch
    }

    pub(crate) fn take(&mut self, port: u16, frame: &[u8]) -> Out {
        let mut out = Out::default();
        let (header, range) = EthernetHeader::parse(frame, PAYLOAD).unwrap();
        let payload = Numbers::from(frame[range].to_vec());
        let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
        self.0.handle_frame(Instant::ZERO, PortId(port), frame, &mut out);
        self.0.assert_invariants();
        out
    }
}

/// A host's address; everybody's is host 0xffff's.
pub(crate) fn mac(host: u16) -> MacAddress {
    if host == 0xffff {
        return MacAddress([0xff; 6]);
    }
    let [high, low] = host.to_be_bytes();
    MacAddress([2, 0, 0, 0, high, low])
}

/// A frame of something else.
pub(crate) fn ethernet(from: u16, to: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&mac(to).0[..], &mac(from).0, &ethertype.to_be_bytes(), payload].concat()
}

/// What of a frame for aggregation differs between tests.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) operation: Operation,
    pub(crate) qp: u32,
    pub(crate) psn: u32,
    pub(crate) message: u32,
}

pub(crate) const FIRST: Operation =
    Operation::WriteFirst(Reth { virtual_address: 64, remote_key: 0, dma_length: 2048 });
pub(crate) const LAST: Operation = Operation::WriteLastImmediate(5);

impl Write {
    /// A First of host `from` for the next one of `ports`.
    pub(crate) fn first(from: u16, ports: u16) -> Self {
        let qp = 0x20 + u32::from(from);
        let psn = 0xff_fffe + 0x1000 * u32::from(from);
        Self { from, to: (from + 1) % ports, operation: FIRST, qp, psn, message: 0 }
    }

    /// The next one of its message.
    pub(crate) fn followed_by(self, operation: Operation) -> Self {
        Self { operation, psn: self.psn + 1, ..self }
    }

    /// With all elements the same word.
    pub(crate) fn of(self, word: [u8; 4]) -> Vec<u8> {
        let mut payload = word.repeat(PAYLOAD / 4);
        if matches!(self.operation, Operation::WriteFirst(_)) {
            let header = NetReduceHeader {
                message: self.message,
                rank: self.from,
                frames: 2,
                elements: 507,
                collective: 0,
            };
            payload[..LENGTH].copy_from_slice(&header.to_bytes());
        }
        self.carrying(&payload)
    }

    pub(crate) fn carrying(self, payload: &[u8]) -> Vec<u8> {
        let ip = |host: u16| Gid::from([10, 0, 0, host as u8]);
        let (qp, psn) = (QpNumber::new(self.qp), Psn::new(self.psn));
        let header = RoceHeader::new(ip(self.from), ip(self.to), qp, psn, self.operation);
        let addresses = EthernetRepr { destination: mac(self.to), source: mac(self.from) };
        let mut out = vec![0; v1::frame_length(&self.operation, payload.len())];
        v1::emit_frame(&addresses, &header, payload, &mut out);
        out
    }
}
