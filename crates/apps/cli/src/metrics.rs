//! What Prometheus scrapes of a switch.

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use quincunx_collective::GroupId;
use quincunx_control::NodeDescription;
use quincunx_control_grpc::{LATENESS_BOUNDS, RankArrivals};
use quincunx_runtime::{SwitchCounts, port_drop_name};

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// A label with its value.
type Label = [(&'static str, String); 1];

/// A port, and what of it.
type PortLabels = [(&'static str, String); 2];

/// A switch's counts in the text format of OpenMetrics, over all its cores, and where there are several by core.
pub(crate) fn of_switch(switch: &NodeDescription, counts: &SwitchCounts, cores: &[SwitchCounts]) -> String {
    let label = [("switch".into(), switch.name.clone().into())];
    let mut registry = Registry::with_prefix_and_labels("quincunx", label.into_iter());
    let family = |key: &'static str, values: &mut dyn Iterator<Item = (String, u64)>| {
        let family = Family::<Label, Counter>::default();
        for (value, count) in values {
            family.get_or_create(&[(key, value)]).inc_by(count);
        }
        family
    };
    let ways = |received: u64, sent: u64| [("in".to_owned(), received), ("out".to_owned(), sent)].into_iter();
    let frames = family("direction", &mut ways(counts.received.frames, counts.sent.frames));
    registry.register("frames", "Frames of the data plane", frames);
    let bytes = family("direction", &mut ways(counts.received.bytes, counts.sent.bytes));
    registry.register_with_unit("frame", "Bytes of frames of the data plane", Unit::Bytes, bytes);
    let dropped =
        family("reason", &mut counts.dropped.iter().map(|(reason, frames)| (reason.clone(), *frames)));
    registry.register("frames_dropped", "Frames that went no further, by reason", dropped);
    let ends = [("installed", counts.installed), ("removed", counts.removed), ("refused", counts.refused)];
    let groups = family("event", &mut ends.into_iter().map(|(event, count)| (event.to_owned(), count)));
    registry.register("group_events", "Groups installed, removed and refused", groups);
    let locks = [
        ("granted", counts.locks_granted),
        ("refused", counts.locks_refused),
        ("in_vain", counts.locks_in_vain),
    ];
    let locks = family("verdict", &mut locks.into_iter().map(|(verdict, count)| (verdict.to_owned(), count)));
    registry.register(
        "locks",
        "Invocations that got memory that groups share, those that another group was in the way of, and those where it made nothing of it",
        locks,
    );
    let held = Counter::<f64, AtomicU64>::default();
    held.inc_by(counts.locks_held.as_secs_f64());
    let help = "How long groups had memory that groups share, all of them together";
    registry.register_with_unit("locks_held", help, Unit::Seconds, held);
    if !counts.arrivals.is_empty() {
        registry.register(
            "lateness_seconds",
            "How late contributions come after the first of their collective, by group and rank",
            LatenessHistograms(counts.arrivals.clone()),
        );
    }
    if cores.len() > 1 {
        register_cores(&mut registry, switch, cores);
    }
    if !counts.ports.is_empty() {
        register_ports(&mut registry, counts);
    }
    let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: u64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, gauge),
            None => registry.register(name, help, gauge),
        }
    };
    gauge("groups_installed", "Groups that are installed", None, counts.groups);
    let memory = switch.memory.bytes();
    gauge("switch_memory", "Memory for payload and degree buffers", Some(Unit::Bytes), memory);
    gauge("switch_memory_held", "Memory that groups hold", Some(Unit::Bytes), counts.memory_held);
    gauge("queue_pairs", "Queue pairs that the switch can have", None, switch.max_endpoints.into());
    gauge("queue_pairs_held", "Queue pairs that groups hold", None, counts.endpoints_held);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes everything");
    text
}

/// What each core of a switch has done, by its address.
fn register_cores(registry: &mut Registry, switch: &NodeDescription, cores: &[SwitchCounts]) {
    let [frames, bytes] = [(); 2].map(|()| Family::<PortLabels, Counter>::default());
    let [dropped, groups] = [(); 2].map(|()| Family::<Label, Gauge>::default());
    for (address, counts) in switch.addresses().zip(cores) {
        let address = address.to_string();
        for (direction, traffic) in [("in", counts.received), ("out", counts.sent)] {
            let labels = [("core", address.clone()), ("direction", direction.to_owned())];
            frames.get_or_create(&labels).inc_by(traffic.frames);
            bytes.get_or_create(&labels).inc_by(traffic.bytes);
        }
        let set = |family: &Family<Label, Gauge>, value: u64| {
            family.get_or_create(&[("core", address.clone())]).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&dropped, counts.dropped.values().sum());
        set(&groups, counts.groups);
    }
    registry.register("core_frames", "Frames of the data plane by core", frames);
    registry.register_with_unit("core_frame", "Bytes of frames by core", Unit::Bytes, bytes);
    registry.register("core_frames_dropped", "Frames that went no further, by core", dropped);
    registry.register("core_groups", "Groups, or channels of one, that a core has", groups);
}

/// What passed the ports of a switch that has some.
fn register_ports(registry: &mut Registry, counts: &SwitchCounts) {
    let [frames, bytes, dropped] = [(); 3].map(|()| Family::<PortLabels, Counter>::default());
    let sockets = Family::<PortLabels, Gauge>::default();
    for (name, port) in &counts.ports {
        let count = |family: &Family<PortLabels, Counter>, key, value: String, count| {
            family.get_or_create(&[("port", name.clone()), (key, value)]).inc_by(count);
        };
        for (direction, traffic) in [("in", port.received), ("out", port.sent)] {
            count(&frames, "direction", direction.to_owned(), traffic.frames);
            count(&bytes, "direction", direction.to_owned(), traffic.bytes);
        }
        sockets.get_or_create(&[("port", name.clone()), ("sockets", port.sockets.clone())]).set(1);
        for (reason, frames) in &port.dropped {
            count(&dropped, "reason", port_drop_name(*reason), *frames);
        }
    }
    registry.register("port_sockets", "What a port's frames come and go by", sockets);
    registry.register("port_frames", "Frames that passed a port", frames);
    registry.register_with_unit("port_frame", "Bytes of frames that passed a port", Unit::Bytes, bytes);
    registry.register("port_frames_dropped", "Frames that went no further than a port, by reason", dropped);
    let addresses = Gauge::<i64>::default();
    addresses.set(i64::try_from(counts.addresses).unwrap_or(i64::MAX));
    registry.register("port_addresses", "Ethernet addresses that are known behind the ports", addresses);
}

/// A histogram for each rank of each group.
#[derive(Debug)]
struct LatenessHistograms(BTreeMap<GroupId, Vec<RankArrivals>>);

impl EncodeMetric for LatenessHistograms {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (group, ranks) in &self.0 {
            for rank in ranks {
                let labels = [("group", group.to_string()), ("rank", rank.rank.to_string())];
                let bounds = LATENESS_BOUNDS.iter().map(|bound| bound.as_micros_f64() / 1e6);
                let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(rank.buckets).collect();
                let total = rank.total.as_micros_f64() / 1e6;
                encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    total,
                    rank.collectives,
                    &buckets,
                    None,
                )?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_units::Duration;

    #[test]
    fn lateness_is_a_histogram_for_each_rank_whose_buckets_add_up() {
        let mut buckets = [0; LATENESS_BOUNDS.len() + 1];
        [buckets[0], buckets[5], buckets[11]] = [7, 2, 1];
        let late = RankArrivals {
            rank: 3,
            collectives: 10,
            last: 3,
            total: Duration::from_millis(2500),
            longest: Duration::from_secs(2),
            buckets,
        };
        let mut registry = Registry::default();
        let histograms = LatenessHistograms([(GroupId(1), vec![late])].into());
        registry.register("lateness_seconds", "How late", histograms);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "lateness_seconds_sum{group=\"1\",rank=\"3\"} 2.5",
            "lateness_seconds_count{group=\"1\",rank=\"3\"} 10",
            "lateness_seconds_bucket{le=\"0.00001\",group=\"1\",rank=\"3\"} 7",
            "lateness_seconds_bucket{le=\"0.003\",group=\"1\",rank=\"3\"} 9",
            "lateness_seconds_bucket{le=\"+Inf\",group=\"1\",rank=\"3\"} 10",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
