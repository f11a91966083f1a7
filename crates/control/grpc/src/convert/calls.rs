//! What ranks have called, as messages.

use super::decoding::{Decoded, each, narrow, start_of, wrong};
use crate::proto;
use quincunx_collective::{Collective, Rank};
use quincunx_control::{Call, Standing};
use quincunx_units::Duration;
use std::str::FromStr;

/// The most that a rank tells at once.
const MOST: usize = 64;

pub(super) fn encode(calls: &[Call], is_stalled: bool, standing: Standing) -> proto::Called {
    let encode = |call: &Call| {
        let Call { number, collective, reduction, bytes } = *call;
        let (op, data_type) =
            reduction.map(|(op, data_type)| (op.to_string(), data_type.to_string())).unzip();
        proto::Call {
            number,
            collective: collective.name().into(),
            root: collective.root().map_or(0, |root| root.0.into()),
            op: op.unwrap_or_default(),
            data_type: data_type.unwrap_or_default(),
            bytes,
        }
    };
    let Standing { complete, idle } = standing;
    proto::Called {
        calls: calls.iter().map(encode).collect(),
        is_stalled,
        complete,
        idle_us: idle.as_nanos().div_ceil(1000),
    }
}

pub(super) fn decode(called: proto::Called) -> Decoded<(Vec<Call>, bool, Standing)> {
    if called.calls.len() > MOST {
        return wrong("called.calls", "at most 64 calls", called.calls.len());
    }
    fn named<T: FromStr>(field: &'static str, expected: &'static str, text: &str) -> Decoded<T> {
        text.parse().or_else(|_| wrong(field, expected, start_of(text)))
    }
    let decode = |call: proto::Call| {
        let root = Rank(narrow("call.root", "16 bits", call.root)?);
        let collective: Collective = named("call.collective", "a collective by name", &call.collective)?;
        let reduction = match (call.op.as_str(), call.data_type.as_str()) {
            ("", "") => None,
            (op, data_type) => Some((
                named("call.op", "an operation by name", op)?,
                named("call.data_type", "a type by name", data_type)?,
            )),
        };
        Ok(Call { number: call.number, collective: collective.with_root(root), reduction, bytes: call.bytes })
    };
    let standing = Standing { complete: called.complete, idle: Duration::from_micros(called.idle_us) };
    Ok((each(called.calls, decode)?, called.is_stalled, standing))
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
                let calls = vec![Call::new(number, collective, *reduction, number << 40)];
                let standing = Standing { complete: number - 1, idle: Duration::from_micros(number) };
                assert_eq!(decode(encode(&calls, true, standing)), Ok((calls, true, standing)));
            }
        }
        let nothing = Standing::default();
        assert_eq!(decode(encode(&[], false, nothing)), Ok((vec![], false, nothing)));
    }

    #[test]
    fn what_is_no_call_is_refused_by_its_field() {
        let sum = (Op::Reduce(ReduceOp::Sum), DataType::F32);
        let good = encode(&[Call::new(1, Collective::AllReduce, sum, 64)], false, Standing::default());
        for (field, change) in [
            ("call.collective", (|call| call.collective = "shout".into()) as fn(&mut proto::Call)),
            ("call.op", |call| call.op = "mean".into()),
            ("call.data_type", |call| call.data_type = String::new()),
            ("call.root", |call| call.root = 1 << 16),
        ] {
            let mut called = good.clone();
            change(&mut called.calls[0]);
            assert_eq!(decode(called).unwrap_err().field, field);
        }
        let many = proto::Called { calls: vec![good.calls[0].clone(); MOST + 1], ..good };
        assert_eq!(decode(many).unwrap_err().field, "called.calls");
    }
}
