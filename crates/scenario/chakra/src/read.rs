//! Reads a file: messages behind their lengths, then what each node has to have.

use crate::proto::{self, Attribute, Metadata, Value, kind};
use crate::{Cost, Node, Operation, Trace, TraceError, Work, order};
use prost::Message;
use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};

/// What a [`Duration`] holds at most, in whole microseconds.
const LONGEST_MICROS: u64 = u64::MAX / 1_000_000;

impl Trace {
    /// Reads a `.et` file, which came from `place`: its name, for messages.
    ///
    /// # Errors
    /// If it is none, or if a node cannot be carried out.
    pub fn read(place: &str, bytes: &[u8]) -> Result<Self, TraceError> {
        let mut rest = bytes;
        let first = message(place, bytes, &mut rest)?;
        let (at, body) = first.ok_or_else(|| TraceError::Empty { place: place.into() })?;
        let metadata: Metadata = decode(place, at, body, "the metadata of a Chakra trace")?;
        let mut nodes = Vec::new();
        while let Some((at, body)) = message(place, bytes, &mut rest)? {
            nodes.push(node(place, decode(place, at, body, "a node of a Chakra trace")?)?);
        }
        order::check(place, &nodes)?;
        Ok(Self { version: metadata.version, nodes })
    }
}

/// The next message, and where it begins.
fn message<'a>(
    place: &str,
    all: &[u8],
    rest: &mut &'a [u8],
) -> Result<Option<(usize, &'a [u8])>, TraceError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let start = all.len() - rest.len();
    let length = prost::encoding::decode_varint(rest).map_err(|error| TraceError::Encoding {
        place: place.into(),
        at: start,
        expected: "the length of a message",
        found: error.to_string(),
    })?;
    let at = all.len() - rest.len();
    let body = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let truncated = || TraceError::Truncated { place: place.into(), at, expected: length, found: rest.len() };
    let (body, after) = body.ok_or_else(truncated)?;
    *rest = after;
    Ok(Some((at, body)))
}

fn decode<M: Message + Default>(
    place: &str,
    at: usize,
    body: &[u8],
    expected: &'static str,
) -> Result<M, TraceError> {
    M::decode(body).map_err(|error| TraceError::Encoding {
        place: place.into(),
        at,
        expected,
        found: error.to_string(),
    })
}

/// A node's attributes, and where it is.
struct Attributes<'a> {
    place: &'a str,
    id: u64,
    all: &'a [Attribute],
}

impl Attributes<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.all.iter().find(|one| one.name == name)?.value.as_ref()
    }

    fn wrong(&self, expected: String, found: String, remedy: &'static str) -> TraceError {
        TraceError::Node { place: self.place.into(), id: self.id, expected, found, remedy }
    }

    /// A number from zero to `most`, if it is there.
    fn number(&self, name: &str, most: u64) -> Result<Option<u64>, TraceError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.whole().and_then(|value| u64::try_from(value).ok()).filter(|&value| value <= most);
        let wrong = || {
            self.wrong(
                format!("a `{name}` of 0 to {most}, without a fraction"),
                value.to_string(),
                "correct it where the trace was made",
            )
        };
        number.map(Some).ok_or_else(wrong)
    }

    fn needed(&self, name: &str, most: u64) -> Result<u64, TraceError> {
        let none = || self.wrong(format!("`{name}`"), "none".into(), "write it as an attribute of that node");
        self.number(name, most)?.ok_or_else(none)
    }

    /// A size that has to be there.
    fn size(&self, name: &str) -> Result<ByteCount, TraceError> {
        self.needed(name, i64::MAX as u64).map(ByteCount::new)
    }

    fn rank(&self, name: &str) -> Result<Rank, TraceError> {
        Ok(Rank(self.needed(name, u16::MAX.into())? as u16))
    }

    fn tag(&self) -> Result<u64, TraceError> {
        Ok(self.number("comm_tag", u64::MAX)?.unwrap_or(0))
    }

    fn collective(&self) -> Result<Work, TraceError> {
        let number = self.needed("comm_type", i64::MAX as u64)?;
        let root = Rank(self.number("root_rank", u16::MAX.into())?.unwrap_or(0) as u16);
        let operation = Operation::from_number(number.into(), root);
        let wrong = || {
            self.wrong(
                "a `comm_type` of 0 (all_reduce) to 9 (barrier)".into(),
                number.to_string(),
                "write it as the schema numbers them",
            )
        };
        let operation = operation.ok_or_else(wrong)?;
        let size = match operation {
            Operation::Collective(Collective::Barrier) => ByteCount::new(0),
            _ => self.size("comm_size")?,
        };
        let group = match self.get("pg_name") {
            Some(Value::Text(name)) => Some(name.clone()).filter(|name| !name.is_empty()),
            Some(other) => Some(other.to_string()),
            None => None,
        };
        Ok(Work::Collective { operation, size, group })
    }
}

fn node(place: &str, read: proto::Node) -> Result<Node, TraceError> {
    let attributes = Attributes { place, id: read.id, all: &read.attributes };
    let work = match read.kind {
        kind::METADATA => Work::Metadata,
        kind::LOAD => Work::Load(attributes.size("tensor_size")?),
        kind::STORE => Work::Store(attributes.size("tensor_size")?),
        kind::COMPUTE => Work::Compute(Cost {
            operations: attributes.number("num_ops", u64::MAX)?,
            traffic: attributes.number("tensor_size", i64::MAX as u64)?.map(ByteCount::new),
        }),
        kind::SEND => Work::Send {
            peer: attributes.rank("comm_dst")?,
            tag: attributes.tag()?,
            size: attributes.size("comm_size")?,
        },
        kind::RECEIVE => Work::Receive {
            peer: attributes.rank("comm_src")?,
            tag: attributes.tag()?,
            size: attributes.size("comm_size")?,
        },
        kind::COLLECTIVE => attributes.collective()?,
        other => {
            return Err(attributes.wrong(
                "a type of 1 (metadata) to 7 (collective)".into(),
                other.to_string(),
                "leave the node out, or write what it does as one of those",
            ));
        }
    };
    if read.duration > LONGEST_MICROS {
        return Err(attributes.wrong(
            format!("a `duration_micros` of at most {LONGEST_MICROS} (213 days)"),
            read.duration.to_string(),
            "correct it where the trace was made",
        ));
    }
    // Ours, where microseconds are too coarse.
    let duration = match attributes.number("duration_picos", u64::MAX)? {
        Some(picos) => Duration::from_picos(picos),
        None => Duration::from_micros(read.duration),
    };
    let is_on_host = attributes.get("is_cpu_op").and_then(Value::whole).is_some_and(|value| value != 0);
    let proto::Node { id, name, control, data, .. } = read;
    Ok(Node { id, name, control, data, duration, is_on_host, work })
}
