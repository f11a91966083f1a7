//! What a browser shows of a manager: one page without anything from elsewhere, and the state that it asks for every second. It shows all
//! groups to whoever can reach it, and changes nothing.

use crate::pages::{Page, PageServer};
use crate::state::{Shared, State};
use quincunx_control::{GroupState, LinkRow, Role};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The page; it has its style and its program in it.
const PAGE: &str = include_str!("dashboard/page.html");

/// Serves the page at `/` and the state at `/state.json`.
pub(crate) fn serve(address: SocketAddr, shared: Arc<Shared>) -> io::Result<PageServer> {
    let page = move |path: &str| match path {
        "/" => Some(Page { kind: "text/html; charset=utf-8", text: PAGE.to_owned() }),
        "/state.json" => {
            let mut state = shared.lock();
            state.watch_arrivals();
            let text = state_of(&state).to_string();
            Some(Page { kind: "application/json", text })
        }
        _ => None,
    };
    PageServer::start(address, "/ or /state.json", page)
}

/// Nodes with what groups hold of them, links with the trees on them, links as their ends tell of them, groups with who comes last to them, refused requests and events. Sizes in bytes, rates in bits a
/// second, times in milliseconds since 1970.
fn state_of(state: &State) -> Value {
    let nodes: Vec<Value> = state.manager.nodes().map(|node| node_of(state, node)).collect();
    let map = state.manager.map();
    let link = |link| {
        let groups: Vec<u32> = map.trees(link).iter().map(|group| group.0).collect();
        let rate = map.rate(link).map(|rate| rate.bits_per_second());
        json!({ "ends": map.ends(link), "rate": rate, "groups": groups })
    };
    let groups: Vec<Value> = state.manager.groups().map(|group| group_of(state, group)).collect();
    let refused = |refused: &crate::records::Refused| {
        let record = &refused.record;
        json!({ "name": record.name, "tenant": record.tenant, "asked": record.asked, "reason": refused.reason })
    };
    json!({
        "schema": 1,
        "nodes": nodes,
        "links": map.links().map(link).collect::<Vec<_>>(),
        "cables": state.manager.links().iter().map(cable_of).collect::<Vec<_>>(),
        "groups": groups,
        "refused": state.records.refused().map(refused).collect::<Vec<_>>(),
        "events": state.events.all().collect::<Vec<_>>(),
    })
}

fn cable_of(row: &LinkRow) -> Value {
    let ends = row.ends.iter().map(|end| json!({ "name": end.name, "port": end.port, "nodes": end.nodes }));
    json!({ "ends": ends.collect::<Vec<_>>(), "state": row.state.name(), "reason": row.reason })
}

fn node_of(state: &State, node: &quincunx_control::NodeDescription) -> Value {
    let held = state.manager.holdings(&node.name);
    let region = |(group, holding): &(quincunx_collective::GroupId, quincunx_control::Holding)| {
        json!({
            "group": group.0,
            "offset": holding.offset.bytes(),
            "length": holding.memory.bytes(),
            "queue_pairs": holding.endpoints,
        })
    };
    json!({
        "name": node.name,
        "is_switch": node.role == Role::Switch,
        "address": node.address_list(),
        "memory": node.memory.bytes(),
        "queue_pairs": node.max_endpoints,
        "is_draining": state.manager.is_draining(&node.name),
        "designs": node.designs,
        "holdings": held.iter().map(region).collect::<Vec<_>>(),
    })
}

fn group_of(state: &State, group: quincunx_control::GroupSummary) -> Value {
    let status = state.status(group);
    let summary = &status.summary;
    let stands = match &summary.state {
        GroupState::Installing => "installing",
        GroupState::Ready => "ready",
        GroupState::Suspended(_) => "suspended",
        GroupState::Failed(_) => "failed",
    };
    let switches: Vec<&String> = summary.switches.iter().map(|holding| &holding.node).collect();
    json!({
        "group": summary.group.0,
        "name": status.name,
        "tenant": status.tenant,
        "state": stands,
        "asked": status.asked,
        "runs": summary.design,
        "is_fallback": summary.fallback.is_some(),
        "reason": status.reason(),
        "members": summary.members,
        "switches": switches,
        "comes_last": comes_last(state, summary),
    })
}

/// Of a group's ranks the one that most often came last, as its switches have told when they were asked last; nothing where none has seen it.
fn comes_last(state: &State, group: &quincunx_control::GroupSummary) -> Value {
    let Some(slowest) = state.arrivals_of(group.group).max_by_key(|rank| (rank.last, rank.total)) else {
        return Value::Null;
    };
    let mean = slowest.total.as_micros_f64() / slowest.collectives.max(1) as f64;
    json!({
        "rank": slowest.rank,
        "node": group.members.get(usize::from(slowest.rank)),
        "last": slowest.last,
        "collectives": slowest.collectives,
        "late_us": mean,
    })
}
