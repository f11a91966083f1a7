//! What ranks have called, as messages.

use super::decoding::{Decoded, each, narrow, present, start_of, wrong};
use crate::proto;
use crate::{CallRecord, GroupName, Ran, RankArrivals, TimedCall};
use quincunx_collective::{Collective, Rank};
use quincunx_control::{AwaitedMessage, Call, Place, Standing};
use quincunx_units::Duration;
use std::str::FromStr;

/// The most that a rank tells at once.
const MOST: usize = 64;

/// The same with times.
const MOST_TIMED: usize = 512;

/// Bytes of a file's name.
const LONGEST_FILE: usize = 256;

pub(super) fn encode(calls: &[Call], is_stalled: bool, standing: &Standing) -> proto::Called {
    let Standing { complete, idle, message } = standing;
    proto::Called {
        calls: calls.iter().map(encode_call).collect(),
        is_stalled,
        complete: *complete,
        idle_us: idle.as_nanos().div_ceil(1000),
        message: message.as_ref().map(encode_message),
    }
}

pub(super) fn decode(called: proto::Called) -> Decoded<(Vec<Call>, bool, Standing)> {
    if called.calls.len() > MOST {
        return wrong("called.calls", "at most 64 calls", called.calls.len());
    }
    let standing = Standing {
        complete: called.complete,
        idle: Duration::from_micros(called.idle_us),
        message: called.message.map(decode_message).transpose()?,
    };
    Ok((each(called.calls, decode_call)?, called.is_stalled, standing))
}

pub(super) fn encode_call(call: &Call) -> proto::Call {
    let Call { number, collective, reduction, bytes, place } = call;
    let (op, data_type) = reduction.map(|(op, data_type)| (op.to_string(), data_type.to_string())).unzip();
    proto::Call {
        number: *number,
        collective: collective.name().into(),
        root: collective.root().map_or(0, |root| root.0.into()),
        op: op.unwrap_or_default(),
        data_type: data_type.unwrap_or_default(),
        bytes: *bytes,
        file: file_of(place.as_ref()),
        line: place.as_ref().map_or(0, |place| place.line),
    }
}

pub(super) fn encode_message(message: &AwaitedMessage) -> proto::Message {
    let AwaitedMessage { operation, from, tag, waits, place } = message;
    proto::Message {
        operation: operation.clone(),
        from: from.map(u32::from),
        tag: *tag,
        waits_us: waits.as_nanos().div_ceil(1000),
        file: file_of(place.as_ref()),
        line: place.as_ref().map_or(0, |place| place.line),
    }
}

pub(super) fn decode_message(message: proto::Message) -> Decoded<AwaitedMessage> {
    let proto::Message { operation, from, tag, waits_us, file, line } = message;
    if !["receive", "all_to_all", "gather", "scatter"].contains(&operation.as_str()) {
        return wrong("message.operation", "an operation by name", start_of(&operation));
    }
    let from = from.map(|from| narrow("message.from", "16 bits", from)).transpose()?;
    Ok(AwaitedMessage {
        operation,
        from,
        tag,
        waits: Duration::from_micros(waits_us),
        place: decode_place(&file, line)?,
    })
}

/// It is printed in lines of messages and tables.
fn decode_place(file: &str, line: u32) -> Decoded<Option<Place>> {
    if file.len() > LONGEST_FILE {
        return wrong("call.file", "at most 256 bytes", file.len());
    }
    if file.chars().any(char::is_control) {
        return wrong("call.file", "a file's name", start_of(file));
    }
    Ok((!file.is_empty()).then(|| Place { file: file.into(), line }))
}

fn file_of(place: Option<&Place>) -> String {
    place.map(|place| end_of(&place.file)).unwrap_or_default()
}

pub(super) fn decode_call(call: proto::Call) -> Decoded<Call> {
    fn named<T: FromStr>(field: &'static str, expected: &'static str, text: &str) -> Decoded<T> {
        text.parse().or_else(|_| wrong(field, expected, start_of(text)))
    }
    let root = Rank(narrow("call.root", "16 bits", call.root)?);
    let collective: Collective = named("call.collective", "a collective by name", &call.collective)?;
    let reduction = match (call.op.as_str(), call.data_type.as_str()) {
        ("", "") => None,
        (op, data_type) => Some((
            named("call.op", "an operation by name", op)?,
            named("call.data_type", "a type by name", data_type)?,
        )),
    };
    let place = decode_place(&call.file, call.line)?;
    let collective = collective.with_root(root);
    Ok(Call { number: call.number, collective, reduction, bytes: call.bytes, place })
}

/// What is told of a file's name: its end, if it is long; control characters are left out.
fn end_of(file: &str) -> String {
    let mut from = file.len().saturating_sub(LONGEST_FILE);
    while !file.is_char_boundary(from) {
        from += 1;
    }
    file[from..].chars().filter(|char| !char.is_control()).collect()
}

pub(crate) fn encode_timed(record: &CallRecord, now: u64, machine: u64) -> proto::Timed {
    let ran = |ran: Ran| {
        let Ran { collectives, bytes, time } = ran;
        Some(proto::Ran { collectives, bytes, time_ns: time.as_nanos() })
    };
    let CallRecord { calls, in_network, among_hosts } = record;
    let encode = |timed: &TimedCall| proto::TimedCall {
        call: Some(encode_call(&timed.call)),
        called: timed.called,
        begun: timed.begun,
        ended: timed.ended.unwrap_or(0),
    };
    proto::Timed {
        calls: calls.iter().map(encode).collect(),
        now,
        machine,
        in_network: ran(*in_network),
        among_hosts: ran(*among_hosts),
    }
}

pub(crate) fn encode_arrivals(arrivals: &[RankArrivals]) -> proto::Arrivals {
    let rank = |rank: &RankArrivals| proto::RankArrivals {
        rank: rank.rank.into(),
        collectives: rank.collectives,
        last: rank.last,
        total_us: rank.total.as_nanos() / 1000,
        longest_us: rank.longest.as_nanos() / 1000,
        buckets: rank.buckets.to_vec(),
    };
    proto::Arrivals { ranks: arrivals.iter().map(rank).collect() }
}

pub(crate) fn decode_arrivals(arrivals: proto::Arrivals) -> Decoded<Vec<RankArrivals>> {
    fn time(field: &'static str, micros: u64) -> Decoded<Duration> {
        match micros.checked_mul(1_000_000) {
            Some(_) => Ok(Duration::from_micros(micros)),
            None => wrong(field, "a time of a group", micros),
        }
    }
    each(arrivals.ranks, |rank: proto::RankArrivals| {
        let count = rank.buckets.len();
        Ok(RankArrivals {
            rank: narrow("arrivals.rank", "16 bits", rank.rank)?,
            collectives: rank.collectives,
            last: rank.last,
            total: time("arrivals.total", rank.total_us)?,
            longest: time("arrivals.longest", rank.longest_us)?,
            buckets: rank
                .buckets
                .try_into()
                .or_else(|_| wrong("arrivals.buckets", "twelve counts", count))?,
        })
    })
}

pub(crate) fn decode_timed(timed: proto::Timed) -> Decoded<(CallRecord, u64, u64)> {
    if timed.calls.len() > MOST_TIMED {
        return wrong("timed.calls", "at most 512 calls", timed.calls.len());
    }
    let decode = |timed: proto::TimedCall| {
        let proto::TimedCall { call, called, begun, ended } = timed;
        let call = decode_call(present("timed.call", call)?)?;
        Ok(TimedCall { call, called, begun, ended: (ended != 0).then_some(ended) })
    };
    // Nodes of versions before do not tell it.
    let ran = |ran: Option<proto::Ran>| {
        let proto::Ran { collectives, bytes, time_ns } = ran.unwrap_or_default();
        Ran { collectives, bytes, time: Duration::from_nanos(time_ns) }
    };
    let record = CallRecord {
        calls: each(timed.calls, decode)?,
        in_network: ran(timed.in_network),
        among_hosts: ran(timed.among_hosts),
    };
    Ok((record, timed.now, timed.machine))
}

pub(crate) fn encode_name(group: &GroupName) -> proto::ask_group_request::Group {
    use proto::ask_group_request::Group;
    match group {
        GroupName::Number(number) => Group::Number(number.0),
        GroupName::Name(name) => Group::Name(name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::{DataType, Op, ReduceOp};

    #[test]
    fn every_call_arrives_as_it_was_told() {
        let root = Rank(9);
        let rooted = [Collective::Broadcast { root }, Collective::Reduce { root }];
        let routed = [Collective::Dispatch, Collective::Combine];
        let ops = ReduceOp::ALL.map(Op::Reduce).into_iter().chain([Op::Average]);
        let reductions: Vec<_> = ops.flat_map(|op| DataType::ALL.map(|data_type| (op, data_type))).collect();
        for collective in Collective::PRIMITIVES.into_iter().chain(rooted).chain(routed) {
            for (number, reduction) in (1..).zip(&reductions) {
                let place = (number % 2 == 0).then(|| Place { file: "train.py".into(), line: number as u32 });
                let calls = vec![Call { place, ..Call::new(number, collective, *reduction, number << 40) }];
                let message = (number % 3 == 0).then(|| AwaitedMessage {
                    operation: "receive".into(),
                    from: (number % 2 == 0).then_some(number as u16),
                    tag: Some(7),
                    waits: Duration::from_micros(number),
                    place: None,
                });
                let standing =
                    Standing { complete: number - 1, idle: Duration::from_micros(number), message };
                assert_eq!(decode(encode(&calls, true, &standing)), Ok((calls, true, standing)));
            }
        }
        let nothing = Standing::default();
        assert_eq!(decode(encode(&[], false, &nothing)), Ok((vec![], false, nothing)));
    }

    #[test]
    fn what_is_no_call_is_refused_by_its_field() {
        let sum = (Op::Reduce(ReduceOp::Sum), DataType::F32);
        let good = encode(&[Call::new(1, Collective::AllReduce, sum, 64)], false, &Standing::default());
        for (field, change) in [
            ("call.collective", (|call| call.collective = "shout".into()) as fn(&mut proto::Call)),
            ("call.op", |call| call.op = "mean".into()),
            ("call.data_type", |call| call.data_type = String::new()),
            ("call.root", |call| call.root = 1 << 16),
            ("call.file", |call| call.file = "a\nb".into()),
            ("call.file", |call| call.file = "a".repeat(LONGEST_FILE + 1)),
        ] {
            let mut called = good.clone();
            change(&mut called.calls[0]);
            assert_eq!(decode(called).unwrap_err().field, field);
        }
        let place = Some(Place {
            file: format!("\u{1b}[2J{}é/train.py", "x".repeat(2 * LONGEST_FILE)).into(),
            line: 8,
        });
        let long = Call { place, ..Call::new(1, Collective::AllReduce, sum, 64) };
        let told = decode_call(encode_call(&long)).unwrap().place.unwrap();
        assert!(told.file.ends_with("xé/train.py") && told.line == 8, "{told}");
        let many = proto::Called { calls: vec![good.calls[0].clone(); MOST + 1], ..good };
        assert_eq!(decode(many).unwrap_err().field, "called.calls");
    }
}
