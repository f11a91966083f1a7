//! What must be the same in two runs.

use std::collections::{BTreeMap, BTreeSet};

use quincunx_collective::Collective;
use quincunx_conformance::{Flow, Run, Trial};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_wire::Operation;
use quincunx_wire::atp::AtpTags;

/// Designs whose switches pass on what is complete, in whatever order that comes about: if something is lost, or several roots send at
/// once, not even requests keep their order.
const REORDERING: [&str; 3] = ["epic-2", "switchml", "atp"];

/// A parameter that gives some of a tree's switches Mode-II, which is epic-2's.
const MODES: &str = "group.modes";

/// Designs of which a rank sends several things to one peer, each when it can: what it passes on, or its results, between its own data.
/// What it sends in all is the same.
const INTERLEAVING: [&str; 6] =
    ["tree", "double-tree", "halving-doubling", "direct", "multiwrite", "unicast-multipath"];

/// A design whose switch adds up what meets in it and sends on what does not: which that is hangs on when packets come, as soon as they share
/// aggregators or one is late.
const MERGING: &str = "atp";

/// A message without its number, which goes on with each that is sent again.
type Message = (u32, Vec<u8>);

pub(crate) fn fabric(name: &str) -> Scenario {
    quincunx_conformance::scenario(name, CATALOG).unwrap()
}

/// A parameter of designs whose hosts wait for their peer's buffers: how much is free again goes with data, or in a message without any.
const CREDITS: &str = "hosts.window";

/// Whether it is a matter of timing how much is told with which message: a ring's token against the data tells of as many free buffers as
/// there are when it comes by.
pub(crate) fn tells_credits(trial: &Trial) -> bool {
    trial.sets(CREDITS) || trial.design.name() == "ring" && trial.collective.root().is_some()
}

/// Holds a run against the first driver's in the way that always holds.
pub(crate) fn same(trial: &Trial, first: &Run, run: &Run) -> Result<(), String> {
    if run.outputs != first.outputs {
        return Err("gives another result".to_owned());
    }
    let design = trial.design.name();
    if tells_credits(trial) || INTERLEAVING.contains(&design) {
        let has_credits = trial.design.defaults().has(CREDITS);
        let payloads = |run: &Run| {
            let mut payloads = run.payloads();
            payloads.values_mut().for_each(|sent| sent.retain(|data| !has_credits || !data.is_empty()));
            payloads.retain(|_, sent| !sent.is_empty());
            payloads
        };
        return if payloads(run) == payloads(first) {
            Ok(())
        } else {
            Err("sends other messages".to_owned())
        };
    }
    if design == MERGING && (trial.has_faults() || trial.sets("aggregation.aggregators")) {
        return if merged(trial, run) == merged(trial, first) {
            Ok(())
        } else {
            Err("sends other messages".to_owned())
        };
    }
    let has_one_order = !trial.has_faults() && trial.collective != Collective::AllGather;
    let keeps_order = has_one_order || !REORDERING.contains(&design) && !trial.sets(MODES);
    let view = if keeps_order { Run::first_transmissions } else { Run::requests };
    let (expected, found) = (view(first), view(run));
    if !expected.keys().eq(found.keys()) {
        return Err("sends elsewhere".to_owned());
    }
    for (flow, frames) in &expected {
        if *frames != found[flow] {
            let at = frames.iter().zip(&found[flow]).position(|(expected, found)| expected != found);
            return Err(format!("differs on {flow:?} from frame {at:?} on"));
        }
    }
    Ok(())
}

/// What is sent once, in no order, but for what the switch sends the server, which is at rank 0: what ranks give, and each result to each.
fn merged(trial: &Trial, run: &Run) -> BTreeMap<Flow, BTreeSet<Message>> {
    let cluster = trial.cluster().unwrap();
    let hosts = cluster.wiring().hosts();
    let server = &cluster.wiring().nodes()[hosts[0]].name;
    let tags = AtpTags::new(hosts.len() as u16).unwrap();
    let mut flows: BTreeMap<Flow, BTreeSet<Message>> = BTreeMap::new();
    for (flow, frames) in run.everything().iter().filter(|((_, to), _)| to != server) {
        for frame in frames {
            let Operation::DatagramSendOnlyImmediate(_, immediate) = frame.header.operation else { continue };
            if !tags.read(immediate).is_resent {
                flows.entry(flow.clone()).or_default().insert((immediate, frame.payload.clone()));
            }
        }
    }
    flows
}
