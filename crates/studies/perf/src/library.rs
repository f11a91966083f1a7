//! Cases that run through the library that programs use (`quincunx-comm`): messages between ranks, and collectives in place. Data is the
//! application's, so that its copies to the node's memory and back are in the times.

use quincunx_collective::{Collective, Numbers, Payload, Rank as RankNumber, Reduction};
use quincunx_collective::{pattern, wrong_elements};
use quincunx_comm::{
    Buffers, DataType, Endpoint, EndpointTraffic, Group, Nothing, Operation, Options, Sink, Source,
};
use quincunx_design::{AnyDesign, Catalog, FabricKind};
use quincunx_runtime::{Drops, ProcessOptions, encapsulation};
use quincunx_wire::Framing;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::WorkerError;
use crate::job::Job;
use crate::measured::{Measured, bytes_below, link_bytes, say, since, times_of};
use crate::plan::{Case, Plan};
use crate::processor::Processors;
use crate::task::{Exchange, Task};
use crate::tokens;

/// Memory of the application's, read and written while a call lasts.
#[derive(Clone)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
    from: usize,
    length: usize,
}

impl Shared {
    fn new(bytes: Vec<u8>) -> Self {
        let length = bytes.len();
        Self { bytes: Arc::new(Mutex::new(bytes)), from: 0, length }
    }

    /// A part of the same memory.
    fn part(&self, from: usize, length: usize) -> Self {
        Self { from: self.from + from, length, ..self.clone() }
    }

    fn copy(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)[self.from..][..self.length].to_vec()
    }

    fn fill(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)[self.from..][..bytes.len()]
            .copy_from_slice(bytes);
    }
}

impl Source for Shared {
    fn length(&self) -> usize {
        self.length
    }
    fn read(&mut self, offset: usize, into: &mut [u8]) {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&bytes[self.from + offset..][..into.len()]);
    }
}

impl Sink for Shared {
    fn length(&self) -> usize {
        self.length
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes[self.from + offset..][..from.len()].copy_from_slice(from);
    }
}

/// Runs a plan as one of its ranks, whose cases are all of one design.
pub(crate) fn work(
    catalog: Catalog,
    plan: &Plan,
    options: &ProcessOptions,
    members: &[String],
    out: &mut impl Write,
) -> Result<(), WorkerError> {
    let Some(first) = plan.cases.first() else { return Ok(()) };
    let me = members.iter().position(|member| *member == options.description.name);
    let Some(me) = me else { return Err(WorkerError::Plan("a rank that is no member".into())) };
    let job = members[0].strip_suffix('0').unwrap_or(&members[0]);
    let mut settings = Vec::new();
    let said = plan.setup.settings(&first.design).map_err(|error| WorkerError::plan(&error))?;
    for (key, value) in said.flat() {
        settings.push((key, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    let comm = Options {
        address: Some(options.description.address),
        design: design_of_collectives(catalog, first)?,
        settings,
        server: first.tokens.map(|tokens| tokens.server),
        switches: plan.setup.switches,
        join_limit: plan.setup.join,
        limit: plan.setup.limit,
        ..Options::new(options.manager.clone(), job, me as u16, members.len() as u16)
    };
    let endpoint = Endpoint::attach_as(catalog, comm, options)?;
    let world = endpoint.world()?;
    let below = bytes_below(options.description.address, encapsulation(&options.transport));
    for (index, case) in plan.cases.iter().enumerate() {
        let around = (below, &plan.setup.switch_processes[..]);
        let measured = match (case.tokens, case.collective.parse()) {
            (Some(batch), Ok(Task::Collective(collective))) if collective.is_routed() => {
                tokens::measure(&endpoint, &world, case, (batch, collective == Collective::Combine), around)?
            }
            _ => measure(&endpoint, &world, case, around)?,
        };
        say(&Measured { case: index, ..measured }, out)?;
    }
    endpoint.close()?;
    Ok(())
}

/// What the library's collectives run: for messages, which have a design of their own, any that has a barrier to start them together.
fn design_of_collectives(catalog: Catalog, case: &Case) -> Result<String, WorkerError> {
    let design = match case.collective.parse().map_err(|error| WorkerError::plan(&error))? {
        // What goes to experts has a group of its own, as messages have.
        Task::Exchange(_) | Task::Collective(Collective::Dispatch | Collective::Combine) => {
            let serves = |design: &&dyn AnyDesign| {
                design.about().framing == Framing::RoceV2
                    && design.collectives(FabricKind::Tree).contains(&Collective::Barrier)
            };
            catalog.on(FabricKind::Tree).find(serves).ok_or_else(|| WorkerError::Plan("no barrier".into()))?
        }
        Task::Collective(_) => {
            catalog.find(&case.design, FabricKind::Tree).map_err(|error| WorkerError::plan(&error))?
        }
    };
    Ok(design.name().to_owned())
}

/// A case's memory, and what must be in it in the end.
struct Bench {
    /// One round: all of its operations begin before any is waited for.
    operations: Vec<(Operation, Option<Shared>, Option<Shared>)>,
    /// Where the result is, and what it must be; nothing at ranks that get none.
    result: Option<(Shared, Numbers)>,
    /// What rounds overwrite, and how it was: collectives in place read what the one before has left.
    before: Option<(Shared, Vec<u8>)>,
}

fn bench(case: &Case, me: u16, ranks: u16) -> Result<Bench, WorkerError> {
    let task: Task = case.collective.parse().map_err(|error| WorkerError::plan(&error))?;
    match task.with_root(RankNumber(case.root)) {
        Task::Collective(collective) => in_place(case, collective, me, ranks),
        Task::Exchange(exchange) => exchanged(case, exchange, me, ranks),
    }
}

/// A collective whose input and output are one memory, as NCCL places them: a part lies where it is in the whole.
fn in_place(case: &Case, collective: Collective, me: u16, ranks: u16) -> Result<Bench, WorkerError> {
    let job = Job::new(case, 0..ranks)?;
    let (op, Reduction { data_type, .. }) = (job.op, job.reduction);
    let [input, output] = [job.input, job.output];
    let memory = Shared::new(vec![0; input.max(output)]);
    let (at, root) = (usize::from(me), collective.root().is_some_and(|root| root.0 == me));
    let whole = || memory.clone();
    let (operation, source, sink) = match collective {
        Collective::AllReduce => (Operation::AllReduce(data_type, op), Some(whole()), Some(whole())),
        Collective::Reduce { root: to } => {
            (Operation::Reduce(data_type, op, to.0), Some(whole()), root.then(whole))
        }
        Collective::Broadcast { root: from } => {
            (Operation::Broadcast(data_type, from.0), root.then(whole), (!root).then(whole))
        }
        Collective::Barrier => (Operation::Barrier, None, None),
        Collective::ReduceScatter => {
            (Operation::ReduceScatter(data_type, op), Some(whole()), Some(memory.part(at * output, output)))
        }
        _ => (Operation::AllGather(data_type), Some(memory.part(at * input, input)), Some(whole())),
    };
    let source_bytes = job.vector(RankNumber(me)).into_bytes();
    if let Some(source) = &source {
        source.fill(&source_bytes);
    }
    let expected = job.expected(RankNumber(me));
    let place = sink.clone().or_else(|| source.clone());
    let result = place.zip(expected);
    let before = source.clone().filter(|_| collective.reduces()).map(|source| (source, source_bytes));
    Ok(Bench { operations: vec![(operation, source, sink)], result, before })
}

fn exchanged(case: &Case, exchange: Exchange, me: u16, ranks: u16) -> Result<Bench, WorkerError> {
    let data_type: DataType = case.data_type.parse().map_err(|error| WorkerError::plan(&error))?;
    let (element, count) = (data_type.size(), usize::from(ranks));
    let message = case.bytes as usize / element * element;
    let part = message / count / element * element;
    let vector = |rank: u16, length: usize| pattern(RankNumber(rank), length, data_type);
    let memory = |rank: u16, length: usize| Shared::new(vector(rank, length).into_bytes());
    let empty = |length: usize| Shared::new(vec![0; length]);
    let all = part * count;
    let parts = |of: &dyn Fn(u16) -> Numbers| {
        let mut bytes = Vec::with_capacity(all);
        (0..ranks).for_each(|rank| bytes.extend_from_slice(of(rank).bytes()));
        Numbers::from(bytes)
    };
    let my_part = |rank: u16| {
        Numbers::from(vector(rank, all).view(usize::from(me) * part..(usize::from(me) + 1) * part).to_vec())
    };
    let (operations, sink, expected) = match exchange {
        Exchange::AllToAll => {
            let sink = empty(all);
            let operation = (Operation::AllToAll, Some(memory(me, all)), Some(sink.clone()));
            (vec![operation], Some(sink), Some(parts(&my_part)))
        }
        Exchange::SendReceive => {
            let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
            let sink = empty(message);
            let send = (Operation::Send(next, 0), Some(memory(me, message)), None);
            let receive = (Operation::Receive(previous, 0), None, Some(sink.clone()));
            (vec![receive, send], Some(sink), Some(vector(previous, message)))
        }
        Exchange::Gather { root } => {
            let sink = (root.0 == me).then(|| empty(all));
            let expected = sink.is_some().then(|| parts(&|rank| vector(rank, part)));
            (vec![(Operation::Gather(root.0), Some(memory(me, part)), sink.clone())], sink, expected)
        }
        Exchange::Scatter { root } => {
            let sink = empty(part);
            let source = (root.0 == me).then(|| memory(me, all));
            (
                vec![(Operation::Scatter(root.0), source, Some(sink.clone()))],
                Some(sink),
                Some(my_part(root.0)),
            )
        }
    };
    Ok(Bench { operations, result: sink.zip(expected), before: None })
}

impl Bench {
    fn once(&self, world: &Group) -> Result<(), WorkerError> {
        let begin = |(operation, source, sink): &(Operation, Option<Shared>, Option<Shared>)| {
            let source: Box<dyn Source> = match source.clone() {
                Some(memory) => Box::new(memory),
                None => Box::new(Nothing),
            };
            let sink: Box<dyn Sink> = match sink.clone() {
                Some(memory) => Box::new(memory),
                None => Box::new(Nothing),
            };
            world.start(*operation, Buffers { source, sink })
        };
        let handles = self.operations.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        handles.iter().try_for_each(quincunx_comm::Handle::wait)?;
        Ok(())
    }

    /// As it was before the first round.
    fn reset(&self) {
        if let Some((memory, bytes)) = &self.before {
            memory.fill(bytes);
        }
    }

    /// Elements that are wrong, and how many were compared.
    fn check(&self, data_type: DataType) -> [u64; 2] {
        let Some((memory, expected)) = &self.result else { return [0; 2] };
        let wrong = wrong_elements(expected, &Numbers::from(memory.copy()), data_type);
        [wrong as u64, (expected.length() / data_type.size()) as u64]
    }
}

fn measure(
    endpoint: &Endpoint,
    world: &Group,
    case: &Case,
    (below, switches): (u64, &[u32]),
) -> Result<Measured, WorkerError> {
    let data_type: DataType = case.data_type.parse().map_err(|error| WorkerError::plan(&error))?;
    let bench = bench(case, world.rank(), world.size())?;
    let drops = endpoint.traffic()?.drops;
    bench.once(world)?;
    let mut found = bench.check(data_type);
    for _ in 1..case.warm_up.max(1) {
        bench.reset();
        bench.once(world)?;
    }
    // All start together.
    world.barrier()?;
    let EndpointTraffic { statistics: before, .. } = endpoint.traffic()?;
    let mut times = Vec::with_capacity(case.iterations as usize);
    let processors = Processors::new(switches);
    let mut spent = [0.0; 2];
    for _ in 0..case.iterations {
        // What is put back is not timed: an application has other numbers each time.
        bench.reset();
        let before = processors.now();
        let begun = Instant::now();
        bench.once(world)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        let once = processors.now().since(before, 1.0);
        spent = [spent[0] + once.own, spent[1] + once.switches.unwrap_or_default()];
    }
    let EndpointTraffic { statistics: after, .. } = endpoint.traffic()?;
    world.barrier()?;
    for (sum, more) in found.iter_mut().zip(bench.check(data_type)) {
        *sum += more;
    }
    let rounds = f64::from(case.iterations.max(1));
    let mean_us = times.iter().sum::<f64>() / rounds;
    let [median_us, p99_us] = times_of(&mut times);
    let task: Task = case.collective.parse().map_err(|error| WorkerError::plan(&error))?;
    let messages = matches!(task, Task::Exchange(_));
    Ok(Measured {
        case: 0,
        mean_us,
        median_us,
        p99_us,
        wrong: found[0],
        compared: found[1],
        ranks: world.size(),
        sent_bytes: link_bytes(&before.sent, &after.sent, below) / rounds,
        received_bytes: link_bytes(&before.received, &after.received, below) / rounds,
        cross_server_bytes: None,
        peak_memory_bytes: None,
        split: None,
        switch_buffer_bytes: None,
        design: if messages { case.design.clone() } else { world.design().to_owned() },
        fallback: endpoint.fallback().filter(|_| !messages),
        ways: None,
        drops: since(&drops, Drops::clone(&endpoint.traffic()?.drops)),
        rank_processor_us: spent[0] / rounds,
        switch_processor_us: processors.now().switches.map(|_| spent[1] / rounds),
        profile_s: [0.0; 6],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(collective: &str) -> Case {
        Case {
            design: "writes".into(),
            collective: collective.into(),
            in_place: false,
            root: 1,
            bytes: 36,
            data_type: "f32".into(),
            op: "sum".into(),
            iterations: 1,
            warm_up: 1,
            tokens: None,
        }
    }

    /// What a network does with the messages of all ranks, as the table of operations says.
    fn exchange(benches: &[Bench]) {
        let ranks = benches.len();
        for (me, bench) in benches.iter().enumerate() {
            for (operation, _, sink) in &bench.operations {
                let Some(sink) = sink else { continue };
                let part = |of: &Shared, place: usize| {
                    let length = of.length / ranks;
                    of.copy()[place * length..][..length].to_vec()
                };
                let source = |rank: usize| {
                    let sources = benches[rank].operations.iter().find_map(|(_, source, _)| source.as_ref());
                    sources.expect("it sends")
                };
                match *operation {
                    Operation::AllToAll => {
                        sink.fill(&(0..ranks).flat_map(|rank| part(source(rank), me)).collect::<Vec<_>>());
                    }
                    Operation::Gather(_) => {
                        sink.fill(&(0..ranks).flat_map(|rank| source(rank).copy()).collect::<Vec<_>>());
                    }
                    Operation::Scatter(root) => sink.fill(&part(source(root.into()), me)),
                    Operation::Receive(from, _) => sink.fill(&source(from.into()).copy()),
                    other => panic!("{other:?} is no message"),
                }
            }
        }
    }

    #[test]
    fn what_is_expected_is_what_messages_bring_and_one_wrong_byte_is_seen() {
        for (collective, compared) in
            [("all_to_all", [9; 3]), ("send_receive", [9; 3]), ("gather", [0, 9, 0]), ("scatter", [3; 3])]
        {
            let benches: Vec<Bench> =
                (0..3).map(|me| bench(&case(collective), me, 3).expect("a case")).collect();
            let before: u64 = benches.iter().map(|bench| bench.check(DataType::F32)[0]).sum();
            assert!(before > 0, "{collective}: nothing has come yet");
            exchange(&benches);
            let found: Vec<[u64; 2]> = benches.iter().map(|bench| bench.check(DataType::F32)).collect();
            assert_eq!(found, compared.map(|compared| [0, compared]), "{collective}");
            let (memory, _) = benches[1].result.as_ref().expect("rank 1 gets something in all of them");
            let mut bytes = memory.copy();
            bytes[5] ^= 1;
            memory.fill(&bytes);
            assert_eq!(benches[1].check(DataType::F32)[0], 1, "{collective}");
        }
    }
}
