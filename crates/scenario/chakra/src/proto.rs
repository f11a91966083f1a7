//! The part of Chakra's `et_def.proto` that replays need: names shortened, field numbers as in the public schema. Fields and attributes that
//! are not here are skipped on reading, as protobuf has it.

/// The first message of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metadata {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
}

/// Each further one.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(crate) data: Vec<u64>,
    /// In microseconds.
    #[prost(uint64, tag = "6")]
    pub(crate) start: u64,
    /// In microseconds.
    #[prost(uint64, tag = "7")]
    pub(crate) duration: u64,
    #[prost(message, repeated, tag = "10")]
    pub(crate) attributes: Vec<Attribute>,
}

/// What a [`Node`] is.
pub(crate) mod kind {
    pub(crate) const METADATA: i32 = 1;
    pub(crate) const LOAD: i32 = 2;
    pub(crate) const STORE: i32 = 3;
    pub(crate) const COMPUTE: i32 = 4;
    pub(crate) const SEND: i32 = 5;
    pub(crate) const RECEIVE: i32 = 6;
    pub(crate) const COLLECTIVE: i32 = 7;
}

/// A named value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(oneof = "Value", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub(crate) value: Option<Value>,
}

/// Of one of these types; lists and bytes are skipped.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    /// A number without a fraction, of whatever type.
    pub(crate) fn whole(&self) -> Option<i128> {
        // What is no number or endless has no fraction of zero.
        let float = |value: f64| (value.fract() == 0.0).then_some(value as i128);
        match *self {
            Self::Double(value) => float(value),
            Self::Float(value) => float(value.into()),
            Self::Int32(value) | Self::Sint32(value) | Self::Sfixed32(value) => Some(value.into()),
            Self::Int64(value) | Self::Sint64(value) | Self::Sfixed64(value) => Some(value.into()),
            Self::Uint32(value) | Self::Fixed32(value) => Some(value.into()),
            Self::Uint64(value) | Self::Fixed64(value) => Some(value.into()),
            Self::Bool(value) => Some(value.into()),
            // Converters write numbers as text, too.
            Self::Text(ref text) => text.trim().parse().ok(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Double(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Int32(value) | Self::Sint32(value) | Self::Sfixed32(value) => value.fmt(f),
            Self::Int64(value) | Self::Sint64(value) | Self::Sfixed64(value) => value.fmt(f),
            Self::Uint32(value) | Self::Fixed32(value) => value.fmt(f),
            Self::Uint64(value) | Self::Fixed64(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}
