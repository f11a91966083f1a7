//! What Prometheus scrapes of a manager.

use crate::records::switch_of;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use quincunx_control::{Fallback, GroupState, Manager, Role};

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;

/// What has been counted since the manager's start, and connections that are there now.
#[derive(Debug, Default)]
pub(crate) struct ManagerMetrics {
    calls: Family<Labels, Counter>,
    fallbacks: Family<Labels, Counter>,
    failures: Counter,
    recreations: Counter,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
}

impl ManagerMetrics {
    /// A call has come to an end.
    pub(crate) fn note_call(&self, call: &str, result: &str) {
        let labels = vec![("call", call.to_owned()), ("result", result.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }

    /// A group does not use the network.
    pub(crate) fn note_fallback(&self, lack: &Fallback) {
        let reason = match lack {
            Fallback::SwitchMemory { .. } => "switch_memory",
            Fallback::SwitchEndpoints { .. } => "switch_queue_pairs",
            Fallback::FanIn { .. } => "switch_fan_in",
            Fallback::PortTaken { .. } => "switch_port",
            Fallback::GroupQuota { .. } => "group_quota",
            Fallback::MemoryQuota { .. } => "memory_quota",
            Fallback::Draining { .. } => "draining",
            Fallback::OtherVersion { .. } => "other_version",
            Fallback::NoTree { .. } => "no_tree",
        };
        let switch = switch_of(lack).unwrap_or_default().to_owned();
        let labels = vec![("reason", reason.to_owned()), ("switch", switch)];
        self.fallbacks.get_or_create(&labels).inc();
    }

    /// A group that was made has failed.
    pub(crate) fn note_failure(&self) {
        self.failures.inc();
    }

    /// A group has lost a switch or a link, and is made anew.
    pub(crate) fn note_recreation(&self) {
        self.recreations.inc();
    }

    /// All of it, and how the manager's nodes and groups stand now, in so many of which ranks wait for long, in the text format of OpenMetrics.
    pub(crate) fn render(&self, manager: &Manager, stalled: usize) -> String {
        let mut registry = Registry::with_prefix("quincunx");
        let calls = "Calls of the control plane, by their results as gRPC names them";
        registry.register("calls", calls, self.calls.clone());
        let fallbacks = "Groups that do not use the network, by what was lacking and where";
        registry.register("fallbacks", fallbacks, self.fallbacks.clone());
        registry.register("group_failures", "Groups that have failed", self.failures.clone());
        let recreated = "Groups that were made anew, having lost a switch or a link";
        registry.register("groups_remade", recreated, self.recreations.clone());
        registry.register("connections", "Connections to the manager", self.connections.clone());
        let refused = "Connections that were closed at once, for there were too many";
        registry.register("connections_refused", refused, self.connections_refused.clone());
        let waits = Gauge::<i64>::default();
        waits.set(gauge(stalled as u64));
        registry.register("groups_stalled", "Groups in which ranks wait for more than five seconds", waits);
        stand(manager, &mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes everything");
        text
    }
}

/// How nodes and groups stand.
fn stand(manager: &Manager, registry: &mut Registry) {
    let nodes = Family::<Labels, Gauge>::default();
    let groups = Family::<Labels, Gauge>::default();
    let [total, held, pairs, pairs_held] = [(); 4].map(|()| Family::<Labels, Gauge>::default());
    for role in [Role::Host, Role::Switch] {
        nodes.get_or_create(&vec![("role", role.to_string())]).set(0);
    }
    for node in manager.nodes() {
        nodes.get_or_create(&vec![("role", node.role.to_string())]).inc();
        if node.role == Role::Switch {
            let labels = vec![("switch", node.name.clone())];
            total.get_or_create(&labels).set(gauge(node.memory.bytes()));
            pairs.get_or_create(&labels).set(node.max_endpoints.into());
            // So that one that nobody holds anything of is there, too.
            held.get_or_create(&labels).set(0);
            pairs_held.get_or_create(&labels).set(0);
        }
    }
    for group in manager.groups() {
        let stands = match group.state {
            GroupState::Installing => "installing",
            GroupState::Ready => "ready",
            GroupState::Suspended(_) => "suspended",
            GroupState::Failed(_) => "failed",
        };
        groups.get_or_create(&vec![("state", stands.to_owned()), ("design", group.design)]).inc();
        // Once over all groups, not once a node: a large fabric has thousands of either.
        for holding in group.switches {
            let labels = vec![("switch", holding.node)];
            held.get_or_create(&labels).inc_by(gauge(holding.memory.bytes()));
            pairs_held.get_or_create(&labels).inc_by(holding.endpoints.into());
        }
    }
    registry.register("nodes", "Nodes that are attached", nodes);
    registry.register("groups", "Groups, and the last ones that failed", groups);
    let help = "Memory of switches for payload and degree buffers";
    registry.register_with_unit("switch_memory", help, Unit::Bytes, total);
    let help = "Memory of switches that groups hold";
    registry.register_with_unit("switch_memory_held", help, Unit::Bytes, held);
    registry.register("queue_pairs", "Queue pairs that switches can have", pairs);
    registry.register("queue_pairs_held", "Queue pairs of switches that groups hold", pairs_held);
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
