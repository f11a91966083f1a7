//! What ranks have called. The ranks of a group call the same collectives in the same order; where they do not, this says which two of them
//! differ, and in what.

use crate::failure::{DISAGREEMENT, GroupFailure};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use quincunx_collective::{Collective, DataType, GroupId, Op, ReduceOp};
use quincunx_units::Duration;

/// Where in a program a collective was called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// As the program's language has it.
    pub file: Arc<str>,
    /// From one.
    pub line: u32,
}

/// `train.py:88`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A collective as a program has called it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// The how-manieth of the group at this rank, from one.
    pub number: u64,
    /// Which, with its root.
    pub collective: Collective,
    /// How elements combine (a sum, where they are moved as they are), and what they are.
    pub reduction: Option<(Op, DataType)>,
    /// Of a rank's vector, or of its part in ReduceScatter and AllGather; zero where ranks may have lengths of their own.
    pub bytes: u64,
    /// Where, if anybody knows. Ranks may differ in that.
    pub place: Option<Place>,
}

/// A message between two ranks, or one rank's part of what is made of such, that somebody waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AwaitedMessage {
    /// What was called: receive, all_to_all, gather or scatter.
    pub operation: String,
    /// The rank that it is to come from; none: any.
    pub from: Option<u16>,
    /// Of a message that is received by itself.
    pub tag: Option<u32>,
    /// For how long it is waited for.
    pub waits: Duration,
    /// Where it was called, if anybody knows.
    pub place: Option<Place>,
}

/// `receive from rank 2 with tag 7 at train.py:88`, `all_to_all, for the part of rank 2`.
impl fmt::Display for AwaitedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, from, tag, place, waits: _ } = self;
        match (tag, from) {
            (Some(tag), Some(from)) => write!(f, "{operation} from rank {from} with tag {tag}")?,
            (Some(tag), None) => write!(f, "{operation} from any rank with tag {tag}")?,
            (None, Some(from)) => write!(f, "{operation}, for the part of rank {from}")?,
            (None, None) => f.write_str(operation)?,
        }
        place.iter().try_for_each(|place| write!(f, " at {place}"))
    }
}

/// How far a rank has come in a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Standing {
    /// Of its calls, from the first on, those that have come to their end.
    pub complete: u64,
    /// How long ago it called the oldest that has not ended; if all have, how long ago the last one ended.
    pub idle: Duration,
    /// The message that it has waited for longest, if it waits for one.
    pub message: Option<AwaitedMessage>,
}

impl Call {
    /// A call from nobody knows where. What is of no account for its collective is left out: ranks may differ in that.
    pub fn new(number: u64, collective: Collective, (op, data_type): (Op, DataType), bytes: u64) -> Self {
        let reduction = match collective {
            Collective::Barrier | Collective::Dispatch => None,
            // Elements are moved as they are.
            Collective::Broadcast { .. } | Collective::AllGather => Some((ReduceOp::Sum.into(), data_type)),
            _ => Some((op, data_type)),
        };
        let has_length = !collective.is_routed() && collective != Collective::Barrier;
        Self { number, collective, reduction, bytes: if has_length { bytes } else { 0 }, place: None }
    }

    /// Whether it is what another rank has called.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let Self { number, collective, reduction, bytes, place: _ } = self;
        (*number, *collective, *reduction, *bytes)
            == (other.number, other.collective, other.reduction, other.bytes)
    }

    /// In what two calls of one number differ, in words; empty if in nothing.
    fn difference(&self, other: &Self) -> String {
        if self.collective.name() != other.collective.name() {
            return "collective".into();
        }
        let ops = [self, other].map(|call| call.reduction.map(|(op, _)| op));
        let types = [self, other].map(|call| call.reduction.map(|(_, data_type)| data_type));
        let parts = [
            (types[0] != types[1], "data type"),
            (ops[0] != ops[1], "operation"),
            (self.collective.root() != other.collective.root(), "root"),
            (self.bytes != other.bytes, "length"),
        ];
        let differ: Vec<&str> = parts.iter().filter(|(differs, _)| *differs).map(|(_, what)| *what).collect();
        differ.join(" and ")
    }
}

/// `all_reduce of 4096 bytes, sum of i32`, `broadcast of 4096 bytes with root 1, f32`, `barrier`; ` at train.py:88` if anybody knows where.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.collective.name())?;
        if self.collective != Collective::Barrier && !self.collective.is_routed() {
            write!(f, " of {} bytes", self.bytes)?;
        }
        if let Some(root) = self.collective.root() {
            write!(f, " with root {root}")?;
        }
        match self.reduction {
            Some((op, data_type)) if self.collective.reduces() => write!(f, ", {op} of {data_type}")?,
            Some((_, data_type)) => write!(f, ", {data_type}")?,
            None => {}
        }
        self.place.iter().try_for_each(|place| write!(f, " at {place}"))
    }
}

/// The first collective that ranks have called differently, as the failure of their group; `calls` are the latest of each rank that has told
/// them. Of two camps the smaller one is at fault.
pub(crate) fn disagreement(
    group: GroupId,
    members: &[String],
    calls: &BTreeMap<u16, Vec<Call>>,
) -> Option<GroupFailure> {
    let mut by_number: BTreeMap<u64, Vec<(u16, &Call)>> = BTreeMap::new();
    for (&rank, call) in calls.iter().flat_map(|(rank, calls)| calls.iter().map(move |call| (rank, call))) {
        by_number.entry(call.number).or_default().push((rank, call));
    }
    by_number.values().find_map(|called| {
        // In the order of ranks, each camp with how many are in it.
        let mut camps: Vec<(u16, &Call, usize)> = Vec::new();
        for &(rank, call) in called {
            match camps.iter_mut().find(|(_, known, _)| known.agrees(call)) {
                Some((.., count)) => *count += 1,
                None => camps.push((rank, call, 1)),
            }
        }
        let place = camps.iter().rev().min_by_key(|(.., count)| *count)?.0;
        let odd = camps.remove(camps.iter().position(|(rank, ..)| *rank == place)?);
        let (rank, call, _) = odd;
        let &(other, right, _) = camps.iter().rev().max_by_key(|(.., count)| *count)?;
        let name = |rank: u16| members.get(usize::from(rank)).map_or("?", String::as_str);
        let reason = format!(
            "{DISAGREEMENT} {group} to call the same collective (number {}), found another {}: rank {rank} (\"{}\") calls {call}, rank {other} \
             (\"{}\") {right}; correct the program of one of them",
            call.number,
            call.difference(right),
            name(rank),
            name(other),
        );
        Some(GroupFailure { node: name(rank).into(), reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::Rank;

    const SUM: (Op, DataType) = (Op::Reduce(ReduceOp::Sum), DataType::F32);

    fn call(collective: Collective) -> Call {
        Call::new(7, collective, SUM, 4096)
    }

    fn found(calls: &[Call]) -> Option<GroupFailure> {
        let members: Vec<String> = (0..calls.len()).map(|rank| format!("node-{rank}")).collect();
        let calls = (0..).zip(calls).map(|(rank, call)| (rank, Vec::from([call.clone()]))).collect();
        disagreement(GroupId(3), &members, &calls)
    }

    #[test]
    fn each_difference_is_named_with_the_two_ranks_and_their_calls() {
        let all_reduce = call(Collective::AllReduce);
        let of = |op, data_type| Call::new(7, Collective::AllReduce, (op, data_type), 4096);
        let [first, second] = [0, 1].map(Rank);
        for (usual, other, what) in [
            (all_reduce.clone(), of(SUM.0, DataType::I32), "data type"),
            (all_reduce.clone(), of(ReduceOp::Max.into(), SUM.1), "operation"),
            (all_reduce.clone(), of(ReduceOp::Max.into(), DataType::I32), "data type and operation"),
            (all_reduce.clone(), Call { bytes: 8192, ..all_reduce.clone() }, "length"),
            (all_reduce, call(Collective::Broadcast { root: first }), "collective"),
            (
                call(Collective::Broadcast { root: first }),
                call(Collective::Broadcast { root: second }),
                "root",
            ),
            (
                call(Collective::AllGather),
                Call::new(7, Collective::AllGather, (SUM.0, DataType::U8), 4096),
                "data type",
            ),
            (call(Collective::Reduce { root: first }), call(Collective::Reduce { root: second }), "root"),
        ] {
            let failure = found(&[usual.clone(), other.clone(), usual.clone(), usual.clone()]).unwrap();
            assert_eq!(
                failure.reason,
                format!(
                    "expected all ranks of group 3 to call the same collective (number 7), found another {what}: rank 1 (\"node-1\") calls \
                     {other}, rank 0 (\"node-0\") {usual}; correct the program of one of them"
                )
            );
            assert!(failure.node == "node-1" && failure.is_disagreement());
        }
    }

    #[test]
    fn calls_read_as_people_write_them() {
        let root = Rank(2);
        for (collective, text) in [
            (Collective::AllReduce, "all_reduce of 4096 bytes, sum of f32"),
            (Collective::Reduce { root }, "reduce of 4096 bytes with root 2, sum of f32"),
            (Collective::Broadcast { root }, "broadcast of 4096 bytes with root 2, f32"),
            (Collective::AllGather, "all_gather of 4096 bytes, f32"),
            (Collective::Barrier, "barrier"),
            (Collective::Dispatch, "dispatch"),
        ] {
            assert_eq!(alloc::string::ToString::to_string(&call(collective)), text);
        }
    }

    #[test]
    fn messages_read_as_people_write_them() {
        let place = Some(Place { file: "train.py".into(), line: 88 });
        let message = |operation: &str, from, tag| AwaitedMessage {
            operation: operation.into(),
            from,
            tag,
            waits: Duration::ZERO,
            place: place.clone(),
        };
        for (message, text) in [
            (message("receive", Some(2), Some(7)), "receive from rank 2 with tag 7 at train.py:88"),
            (message("receive", None, Some(0)), "receive from any rank with tag 0 at train.py:88"),
            (message("gather", Some(1), None), "gather, for the part of rank 1 at train.py:88"),
        ] {
            assert_eq!(alloc::string::ToString::to_string(&message), text);
        }
    }

    #[test]
    fn the_smaller_camp_is_at_fault_and_of_two_alike_the_later() {
        let (a, b) = (call(Collective::AllReduce), call(Collective::Barrier));
        let at_fault = |calls: &[&Call]| {
            found(&calls.iter().map(|&call| call.clone()).collect::<Vec<_>>()).unwrap().node
        };
        assert_eq!(at_fault(&[&b, &a, &a]), "node-0");
        assert_eq!(at_fault(&[&b, &b, &a, &b]), "node-2");
        assert_eq!(at_fault(&[&a, &b]), "node-1");
        assert_eq!(at_fault(&[&a, &b, &b, &a]), "node-1");
    }

    #[test]
    fn lines_of_the_program_are_named_and_are_no_difference() {
        let at = |collective, line| {
            let place = Some(Place { file: "train.py".into(), line });
            Call { place, ..call(collective) }
        };
        assert_eq!(found(&[at(Collective::AllReduce, 12), at(Collective::AllReduce, 88)]), None);
        let calls = [12, 13, 14].map(|line| at(Collective::AllReduce, line)).into_iter();
        let reason = found(&calls.chain([at(Collective::Barrier, 88)]).collect::<Vec<_>>()).unwrap().reason;
        assert!(reason.contains("rank 3 (\"node-3\") calls barrier at train.py:88, rank 0 "), "{reason}");
        assert!(reason.contains("all_reduce of 4096 bytes, sum of f32 at train.py:12; correct"), "{reason}");
    }

    #[test]
    fn ranks_that_are_not_as_far_agree_and_the_first_difference_counts() {
        let at = |number, collective| Call::new(number, collective, SUM, 64);
        let members = ["a", "b"].map(String::from);
        let ahead = Vec::from([at(1, Collective::AllReduce), at(2, Collective::Barrier)]);
        let behind = Vec::from([at(1, Collective::AllReduce)]);
        let logs = |first: &Vec<Call>, second: &Vec<Call>| [(0, first.clone()), (1, second.clone())].into();
        assert_eq!(disagreement(GroupId(1), &members, &logs(&ahead, &behind)), None);
        let wrong = Vec::from([at(1, Collective::AllGather), at(2, Collective::AllGather)]);
        let reason = disagreement(GroupId(1), &members, &logs(&ahead, &wrong)).unwrap().reason;
        assert!(reason.contains("(number 1)"), "{reason}");
    }

    #[test]
    fn what_is_of_no_account_is_no_difference() {
        let root = Rank(0);
        for collective in [Collective::Broadcast { root }, Collective::AllGather, Collective::Barrier] {
            let other = Call::new(7, collective, (Op::Average, DataType::F32), 4096);
            assert_eq!(found(&[call(collective), other]), None);
        }
        let barrier = Call::new(7, Collective::Barrier, (SUM.0, DataType::U8), 0);
        assert_eq!(found(&[call(Collective::Barrier), barrier]), None);
        // Each rank has tokens of its own.
        assert_eq!(found(&[call(Collective::Dispatch), Call::new(7, Collective::Dispatch, SUM, 64)]), None);
    }
}
