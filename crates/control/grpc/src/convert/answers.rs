//! What ranks of a group have answered, as messages.

use super::calls::{decode, decode_timed, encode, encode_timed};
use super::decoding::{Decoded, each, present, wrong};
use super::{decode_status, encode_status};
use crate::proto;
use crate::{GroupCalls, RankCalls, RankStanding, Waits};

pub(crate) fn encode_waits(waits: &Waits) -> proto::AskWaitsResponse {
    let rank = |rank: &RankStanding| proto::RankStanding {
        is_attached: rank.is_attached,
        is_reached: rank.is_reached,
        called: rank.answer.as_ref().map(|(calls, standing)| encode(calls, false, *standing)),
    };
    proto::AskWaitsResponse {
        group: Some(encode_status(&waits.group)),
        ranks: waits.ranks.iter().map(rank).collect(),
    }
}

pub(crate) fn decode_waits(waits: proto::AskWaitsResponse) -> Decoded<Waits> {
    let rank = |rank: proto::RankStanding| {
        let answer = rank.called.map(decode).transpose()?;
        let answer = answer.map(|(calls, _, standing)| (calls, standing));
        Ok(RankStanding { is_attached: rank.is_attached, is_reached: rank.is_reached, answer })
    };
    let group = decode_status(present("waits.group", waits.group)?)?;
    if waits.ranks.len() != group.summary.members.len() {
        return wrong("waits.ranks", "one for each member", waits.ranks.len());
    }
    Ok(Waits { ranks: each(waits.ranks, rank)?, group })
}

pub(crate) fn encode_group_calls(calls: &GroupCalls) -> proto::AskCallsResponse {
    let rank = |rank: &RankCalls| proto::RankCalls {
        is_attached: rank.is_attached,
        timed: rank.calls.as_ref().map(|calls| encode_timed(calls, 0)),
        ahead_ns: rank.ahead,
        error_ns: rank.error,
    };
    let ranks = calls.ranks.iter().map(rank).collect();
    proto::AskCallsResponse { group: Some(encode_status(&calls.group)), ranks }
}

pub(crate) fn decode_group_calls(calls: proto::AskCallsResponse) -> Decoded<GroupCalls> {
    let rank = |rank: proto::RankCalls| {
        let calls = rank.timed.map(decode_timed).transpose()?.map(|(calls, _)| calls);
        Ok(RankCalls { is_attached: rank.is_attached, calls, ahead: rank.ahead_ns, error: rank.error_ns })
    };
    let group = decode_status(present("calls.group", calls.group)?)?;
    if calls.ranks.len() != group.summary.members.len() {
        return wrong("calls.ranks", "one for each member", calls.ranks.len());
    }
    Ok(GroupCalls { ranks: each(calls.ranks, rank)?, group })
}
