//! Writes a trace as a `.et` file.

use crate::proto::{self, Attribute, Metadata, Value, kind};
use crate::{Node, Operation, Trace, Work};
use prost::Message;
use quincunx_collective::Rank;
use quincunx_units::{ByteCount, Duration};

/// The version of the schema that is written.
const VERSION: &str = "0.0.4";

impl Trace {
    /// A trace of these nodes, of the schema's version that [`Trace::write`] writes.
    pub fn new(nodes: Vec<Node>) -> Self {
        Self { version: VERSION.into(), nodes }
    }

    /// The bytes of a `.et` file, the same for the same trace.
    ///
    /// Durations are in whole microseconds, rounded to the nearest; where one is not whole, `duration_picos` beside it says it exactly.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Metadata { version: self.version.clone() }.encode_length_delimited_to_vec();
        for node in &self.nodes {
            bytes.extend(message(node).encode_length_delimited_to_vec());
        }
        bytes
    }
}

fn message(node: &Node) -> proto::Node {
    let mut attributes = vec![attribute("is_cpu_op", Value::Bool(node.is_on_host))];
    let mut number = |name: &str, value: u64| attributes.push(attribute(name, whole(value)));
    let kind = match &node.work {
        Work::Metadata => kind::METADATA,
        Work::Compute(cost) => {
            cost.operations.into_iter().for_each(|count| number("num_ops", count));
            cost.traffic.into_iter().for_each(|size| number("tensor_size", size.bytes()));
            kind::COMPUTE
        }
        Work::Load(size) => {
            number("tensor_size", size.bytes());
            kind::LOAD
        }
        Work::Store(size) => {
            number("tensor_size", size.bytes());
            kind::STORE
        }
        Work::Send { peer, tag, size } => {
            exchange(&mut number, ("comm_dst", *peer), *tag, *size);
            kind::SEND
        }
        Work::Receive { peer, tag, size } => {
            exchange(&mut number, ("comm_src", *peer), *tag, *size);
            kind::RECEIVE
        }
        Work::Collective { operation, size, group } => {
            // The schema has none for routed collectives; a reader refuses the number.
            attributes.push(attribute("comm_type", Value::Int64(operation.number().unwrap_or(-1))));
            attributes.push(attribute("comm_size", whole(size.bytes())));
            if let Operation::Collective(collective) = operation
                && let Some(Rank(root @ 1..)) = collective.root()
            {
                attributes.push(attribute("root_rank", whole(root.into())));
            }
            if let Some(group) = group {
                attributes.push(attribute("pg_name", Value::Text(group.clone())));
            }
            kind::COLLECTIVE
        }
    };
    let micros = node.duration.as_picos().saturating_add(500_000) / 1_000_000;
    if Duration::from_micros(micros) != node.duration {
        attributes.push(attribute("duration_picos", Value::Uint64(node.duration.as_picos())));
    }
    let Node { id, name, control, data, .. } = node.clone();
    proto::Node { id, name, kind, control, data, start: 0, duration: micros, attributes }
}

fn exchange(number: &mut impl FnMut(&str, u64), (name, peer): (&str, Rank), tag: u64, size: ByteCount) {
    number(name, peer.0.into());
    number("comm_tag", tag);
    number("comm_size", size.bytes());
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.into(), value: Some(value) }
}

/// As other tools write numbers, which look for this type alone; what it does not hold is unsigned.
fn whole(value: u64) -> Value {
    i64::try_from(value).map_or(Value::Uint64(value), Value::Int64)
}
