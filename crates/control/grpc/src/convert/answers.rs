//! What ranks of a group have answered, as messages.

use super::calls::{
    decode, decode_arrivals, decode_call, decode_message, decode_timed, encode, encode_arrivals, encode_call,
    encode_message, encode_timed,
};
use super::decoding::{Decoded, each, present, wrong};
use super::{decode_status, encode_status};
use crate::proto;
use crate::{
    Connection, Elsewhere, GroupArrivals, GroupCalls, RankArrivals, RankCalls, RankStanding, Waited, Waits,
};
use quincunx_collective::GroupId;
use quincunx_units::Duration;

pub(crate) fn encode_waits(waits: &Waits) -> proto::AskWaitsResponse {
    let elsewhere = |elsewhere: &Elsewhere| proto::Elsewhere {
        group: elsewhere.group.0,
        name: elsewhere.name.clone(),
        what: Some(match &elsewhere.what {
            Waited::Call(call) => proto::elsewhere::What::Call(encode_call(call)),
            Waited::Message(message) => proto::elsewhere::What::Message(encode_message(message)),
        }),
        waits_us: elsewhere.waits.as_nanos().div_ceil(1000),
        whom: elsewhere.whom.clone(),
    };
    let switch = |(node, connection): &(String, Connection)| proto::SilentSwitch {
        node: node.clone(),
        is_attached: connection.is_attached,
        is_reached: connection.is_reached,
    };
    let rank = |rank: &RankStanding| proto::RankStanding {
        is_attached: rank.connection.is_attached,
        is_reached: rank.connection.is_reached,
        called: rank.answer.as_ref().map(|(calls, standing)| encode(calls, false, standing)),
        elsewhere: rank.elsewhere.as_ref().map(elsewhere),
    };
    proto::AskWaitsResponse {
        group: Some(encode_status(&waits.group)),
        ranks: waits.ranks.iter().map(rank).collect(),
        silent_switches: waits.silent_switches.iter().map(switch).collect(),
    }
}

pub(crate) fn decode_waits(waits: proto::AskWaitsResponse) -> Decoded<Waits> {
    let elsewhere = |elsewhere: proto::Elsewhere| {
        Ok(Elsewhere {
            group: GroupId(elsewhere.group),
            name: elsewhere.name,
            what: match present("elsewhere.what", elsewhere.what)? {
                proto::elsewhere::What::Call(call) => Waited::Call(decode_call(call)?),
                proto::elsewhere::What::Message(message) => Waited::Message(decode_message(message)?),
            },
            waits: Duration::from_micros(elsewhere.waits_us),
            whom: elsewhere.whom,
        })
    };
    let rank = |rank: proto::RankStanding| {
        let answer = rank.called.map(decode).transpose()?;
        let answer = answer.map(|(calls, _, standing)| (calls, standing));
        let elsewhere = rank.elsewhere.map(elsewhere).transpose()?;
        let connection = Connection { is_attached: rank.is_attached, is_reached: rank.is_reached };
        Ok(RankStanding { connection, answer, elsewhere })
    };
    let group = decode_status(present("waits.group", waits.group)?)?;
    if waits.ranks.len() != group.summary.members.len() {
        return wrong("waits.ranks", "one for each member", waits.ranks.len());
    }
    let switch = |switch: proto::SilentSwitch| {
        let proto::SilentSwitch { node, is_attached, is_reached } = switch;
        Ok((node, Connection { is_attached, is_reached }))
    };
    Ok(Waits {
        ranks: each(waits.ranks, rank)?,
        silent_switches: each(waits.silent_switches, switch)?,
        group,
    })
}

pub(crate) fn encode_group_calls(calls: &GroupCalls) -> proto::AskCallsResponse {
    let rank = |rank: &RankCalls| proto::RankCalls {
        is_attached: rank.is_attached,
        timed: rank.record.as_ref().map(|record| encode_timed(record, 0, rank.machine)),
        ahead_ns: rank.ahead,
        error_ns: rank.error,
    };
    let ranks = calls.ranks.iter().map(rank).collect();
    proto::AskCallsResponse { group: Some(encode_status(&calls.group)), ranks }
}

pub(crate) fn decode_group_calls(calls: proto::AskCallsResponse) -> Decoded<GroupCalls> {
    let rank = |rank: proto::RankCalls| {
        let timed = rank.timed.map(decode_timed).transpose()?;
        let (record, machine) = timed.map(|(record, _, machine)| (record, machine)).unzip();
        Ok(RankCalls {
            is_attached: rank.is_attached,
            record,
            machine: machine.unwrap_or(0),
            ahead: rank.ahead_ns,
            error: rank.error_ns,
        })
    };
    let group = decode_status(present("calls.group", calls.group)?)?;
    if calls.ranks.len() != group.summary.members.len() {
        return wrong("calls.ranks", "one for each member", calls.ranks.len());
    }
    Ok(GroupCalls { ranks: each(calls.ranks, rank)?, group })
}

pub(crate) fn encode_group_arrivals(arrivals: &GroupArrivals) -> proto::AskArrivalsResponse {
    let switch = |(node, arrivals): &(String, Option<Vec<RankArrivals>>)| proto::SwitchArrivals {
        node: node.clone(),
        arrivals: arrivals.as_deref().map(encode_arrivals),
    };
    let switches = arrivals.switches.iter().map(switch).collect();
    proto::AskArrivalsResponse { group: Some(encode_status(&arrivals.group)), switches }
}

pub(crate) fn decode_group_arrivals(arrivals: proto::AskArrivalsResponse) -> Decoded<GroupArrivals> {
    let switch =
        |switch: proto::SwitchArrivals| Ok((switch.node, switch.arrivals.map(decode_arrivals).transpose()?));
    let group = decode_status(present("arrivals.group", arrivals.group)?)?;
    let of_group = |rank: &RankArrivals| usize::from(rank.rank) < group.summary.members.len();
    let switches = each(arrivals.switches, switch)?;
    match switches.iter().flat_map(|(_, ranks)| ranks.iter().flatten()).all(of_group) {
        true => Ok(GroupArrivals { switches, group }),
        false => wrong("arrivals.ranks", "ranks of the group", "others"),
    }
}
