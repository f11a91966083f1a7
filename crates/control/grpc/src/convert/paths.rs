//! What is found out about paths, as messages.

use super::decoding::{Decoded, each, narrow, start_of, wrong};
use crate::paths::{NodeAnswer, NodePaths, PATH_SIZES, PathCounts};
use crate::proto;
use quincunx_control::{PathTarget, ProbePaths};
use quincunx_units::{ByteCount, Duration};

/// Nodes of a run at most.
pub(crate) const MOST_NODES: usize = 1024;

/// Bytes of a version at most: it is printed.
const LONGEST_VERSION: usize = 64;

pub(super) fn encode_probe(probe: &ProbePaths) -> proto::ProbePaths {
    let target = |target: &PathTarget| proto::PathTarget {
        number: target.number,
        address: target.address.to_string(),
        share: target.share.into(),
    };
    let ProbePaths { run, own, targets } = probe;
    proto::ProbePaths { run: *run, own: *own, targets: targets.iter().map(target).collect() }
}

pub(super) fn decode_probe(probe: proto::ProbePaths) -> Decoded<ProbePaths> {
    let target = |target: proto::PathTarget| {
        let address = target.address.parse();
        Ok(PathTarget {
            number: target.number,
            address: address
                .or_else(|_| wrong("target.address", "an IP address", start_of(&target.address)))?,
            share: narrow("target.share", "8 bits", target.share)?,
        })
    };
    if probe.targets.len() > MOST_NODES {
        return wrong("targets", "at most 1024 nodes", probe.targets.len());
    }
    Ok(ProbePaths { run: probe.run, own: probe.own, targets: each(probe.targets, target)? })
}

pub(crate) fn encode_paths(run: u64, paths: &NodePaths, now: u64, machine: u64) -> proto::NodePaths {
    let counts = |path: &PathCounts| proto::PathCounts {
        peer: path.peer,
        sizes: path.sizes.to_vec(),
        stream: path.stream,
        doubled: path.doubled,
        late: path.late,
        bytes: path.bytes,
        nanos: path.time.as_nanos(),
        sent: path.sent,
        answers: path.answers.to_vec(),
        round_trip_ns: path.round_trip.map_or(0, |time| time.as_nanos().max(1)),
        neighbour: path.neighbour.unwrap_or(0),
    };
    proto::NodePaths {
        run,
        version: paths.version.clone(),
        receive_buffer: paths.receive_buffer.map_or(0, ByteCount::bytes),
        mtu: paths.mtu.unwrap_or(0),
        mac: paths.mac.unwrap_or(0),
        cores: paths.cores,
        now,
        machine,
        pending: paths.pending,
        is_offloaded: paths.is_offloaded,
        paths: paths.paths.iter().map(counts).collect(),
    }
}

/// What it has found out, what its clock shows, and which machine it is on.
pub(crate) fn decode_paths(paths: proto::NodePaths) -> Decoded<(NodePaths, u64, u64)> {
    fn by_size(field: &'static str, counts: &[u32]) -> Decoded<[u32; PATH_SIZES.len()]> {
        counts.try_into().or_else(|_| wrong(field, "six counts", counts.len()))
    }
    fn time(nanos: u64) -> Decoded<Duration> {
        // Of a run it is seconds; what does not fit into picoseconds is none.
        match nanos.checked_mul(1000) {
            Some(_) => Ok(Duration::from_nanos(nanos)),
            None => wrong("paths.time", "a time of a run", nanos),
        }
    }
    let counts = |path: proto::PathCounts| {
        Ok(PathCounts {
            peer: path.peer,
            sizes: by_size("paths.sizes", &path.sizes)?,
            stream: path.stream,
            doubled: path.doubled,
            late: path.late,
            bytes: path.bytes,
            time: time(path.nanos)?,
            sent: path.sent,
            answers: by_size("paths.answers", &path.answers)?,
            round_trip: match path.round_trip_ns {
                0 => None,
                nanos => Some(time(nanos)?),
            },
            neighbour: (path.neighbour > 0).then_some(path.neighbour),
        })
    };
    if paths.paths.len() > MOST_NODES {
        return wrong("paths", "at most 1024 nodes", paths.paths.len());
    }
    if paths.version.len() > LONGEST_VERSION || paths.version.chars().any(char::is_control) {
        return wrong("paths.version", "a version", start_of(&paths.version));
    }
    let (now, machine) = (paths.now, paths.machine);
    let paths = NodePaths {
        version: paths.version,
        receive_buffer: (paths.receive_buffer > 0).then(|| ByteCount::new(paths.receive_buffer)),
        mtu: (paths.mtu > 0).then_some(paths.mtu),
        mac: (paths.mac > 0).then_some(paths.mac),
        cores: paths.cores,
        is_offloaded: paths.is_offloaded,
        pending: paths.pending,
        paths: each(paths.paths, counts)?,
    };
    Ok((paths, now, machine))
}

pub(crate) fn encode_answer(answer: Option<&NodeAnswer>) -> proto::NodeAnswer {
    let Some(NodeAnswer { paths, machine, ahead, error }) = answer else {
        return proto::NodeAnswer::default();
    };
    proto::NodeAnswer { paths: Some(encode_paths(0, paths, 0, *machine)), ahead_ns: *ahead, error_ns: *error }
}

/// None if the node has not answered.
pub(crate) fn decode_answer(answer: proto::NodeAnswer) -> Decoded<Option<NodeAnswer>> {
    let proto::NodeAnswer { paths, ahead_ns: ahead, error_ns: error } = answer;
    let decoded = paths.map(decode_paths).transpose()?;
    Ok(decoded.map(|(paths, _, machine)| NodeAnswer { paths, machine, ahead, error }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_counts()(
            peer in any::<u32>(),
            sizes in any::<[u32; 6]>(),
            [stream, doubled, late, sent] in any::<[u32; 4]>(),
            bytes in any::<u64>(),
            time in 0u64..1 << 40,
            answers in any::<[u32; 6]>(),
            round_trip in proptest::option::of(1u64..1 << 40),
            neighbour in proptest::option::of(1u64..u64::MAX),
        ) -> PathCounts {
            let [time, round_trip] = [Some(time), round_trip].map(|time| time.map(Duration::from_nanos));
            let time = time.unwrap_or_default();
            PathCounts { peer, sizes, stream, doubled, late, bytes, time, sent, answers, round_trip, neighbour }
        }
    }

    proptest! {
        #[test]
        fn what_a_node_has_found_out_arrives_as_it_was_sent(
            paths in proptest::collection::vec(any_counts(), 0..3),
            version in "\\PC{0,16}",
            buffer in proptest::option::of(1u64..u64::MAX),
            mtu in proptest::option::of(1u32..u32::MAX),
            mac in proptest::option::of(1u64..u64::MAX),
            (cores, pending, is_offloaded, now, machine) in any::<(u32, u32, bool, u64, u64)>(),
        ) {
            let receive_buffer = buffer.map(ByteCount::new);
            let paths = NodePaths { version, receive_buffer, mtu, mac, cores, is_offloaded, pending, paths };
            let encoded = encode_paths(7, &paths, now, machine);
            prop_assert_eq!(decode_paths(encoded), Ok((paths, now, machine)));
        }
    }

    #[test]
    fn what_could_not_have_been_counted_or_printed_is_refused() {
        let good = || {
            encode_paths(7, &NodePaths { paths: vec![PathCounts::default()], ..NodePaths::default() }, 0, 0)
        };
        decode_paths(good()).unwrap();
        let spoilt: [fn(&mut proto::NodePaths); 4] = [
            |paths| paths.version = "0.1\n0.2".into(),
            |paths| paths.paths[0].sizes.truncate(5),
            |paths| paths.paths[0].nanos = u64::MAX,
            |paths| paths.paths = vec![paths.paths[0].clone(); MOST_NODES + 1],
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut paths = good();
            spoil(&mut paths);
            decode_paths(paths).expect_err(&format!("number {number}"));
        }
    }
}
