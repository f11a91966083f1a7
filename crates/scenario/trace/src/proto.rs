//! The part of Perfetto's trace format that we write: names shortened, field numbers as in its `track_event.proto`,
//! `track_descriptor.proto` and `trace_packet.proto`.

use crate::Track;

/// What a [`TrackEvent`] says.
pub(crate) mod kind {
    pub(crate) const SLICE_BEGIN: i32 = 1;
    pub(crate) const SLICE_END: i32 = 2;
    pub(crate) const INSTANT: i32 = 3;
    pub(crate) const COUNTER: i32 = 4;
}

/// A whole trace.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packets: Vec<TracePacket>,
}

/// One thing in a trace.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TracePacket {
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(crate) event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    pub(crate) track: Option<TrackDescriptor>,
}

/// What happened.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    pub(crate) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(crate) name: Option<String>,
    #[prost(double, optional, tag = "44")]
    pub(crate) value: Option<f64>,
}

/// Where it happened.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(crate) counter: Option<CounterDescriptor>,
}

/// What a counter counts in.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub(crate) unit_name: Option<String>,
}

impl TrackEvent {
    pub(crate) fn new(kind: i32, track: Track) -> Self {
        Self { kind: Some(kind), track: Some(track.0), name: None, value: None }
    }
}
