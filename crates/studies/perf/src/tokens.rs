//! Cases of tokens that go to experts and come back, through the library that programs use. Ranks are on servers by their numbers: what
//! crosses between these is counted by the addresses that frames are for.

use quincunx_collective::{DataType, Gate, GateKind, Numbers, Op, Payload, Rank as RankNumber, Reduction};
use quincunx_collective::{exact, wrong_elements};
use quincunx_comm::{Arrival, Dispatch, Endpoint, ExpertLayout, Experts, Group, Sink, Source, TokenBatch};
use quincunx_wire::Gid;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::WorkerError;
use crate::measured::{Measured, since, times_of};
use crate::plan::{Case, TokenCase};
use crate::processor::Processors;

/// The batch is the same in each repetition.
const SEED: u64 = 1;

/// Bytes that lie apart.
#[derive(Clone)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Memory {
    fn length(&self) -> usize {
        self.with(|bytes| bytes.len())
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.with(|bytes| bytes[offset..][..from.len()].copy_from_slice(from));
    }
}

impl Source for Memory {
    fn length(&self) -> usize {
        self.with(|bytes| bytes.len())
    }
    fn read(&mut self, offset: usize, into: &mut [u8]) {
        self.with(|bytes| into.copy_from_slice(&bytes[offset..][..into.len()]));
    }
}

/// A case at one rank.
struct Bench {
    experts: Experts,
    tokens: TokenCase,
    reduction: (DataType, Op),
    /// Experts of this rank's tokens.
    chosen: Vec<u16>,
    mine: Memory,
    /// What comes, one token after the other.
    came: Memory,
    sums: Memory,
    expected: [Numbers; 2],
}

impl TokenCase {
    /// Tokens of a rank whose values take so many bytes: one at least.
    pub(crate) fn count(&self, bytes: u64) -> usize {
        (bytes / self.token).max(1) as usize
    }

    /// Which experts each token of a rank goes to.
    fn chosen(&self, rank: u16, count: usize) -> Vec<Vec<u16>> {
        let gate = Gate { experts: self.experts, top_k: self.top_k, kind: GateKind::Balanced };
        let routings = gate.route(RankNumber(rank), count, SEED);
        routings.iter().map(|routing| routing.0.iter().map(|choice| choice.expert).collect()).collect()
    }
}

impl Bench {
    fn new(world: &Group, case: &Case, tokens: TokenCase) -> Result<Self, WorkerError> {
        let data_type: DataType = case.data_type.parse().map_err(|error| WorkerError::plan(&error))?;
        let op: Op = case.op.parse().map_err(|error| WorkerError::plan(&error))?;
        let reduction = Reduction { op: op.on_the_way(), data_type };
        let (count, length) = (tokens.count(case.bytes), tokens.token as usize);
        let layout = ExpertLayout::new(tokens.experts, tokens.top_k, count as u32, length);
        let experts = world.experts(ExpertLayout { design: Some(case.design.clone()), ..layout })?;
        let (me, own) = (world.rank(), experts.own());
        let each = tokens.experts / world.size();
        let vector = |rank: u16| exact(RankNumber(rank), count * length, reduction);
        let mut came = Vec::new();
        for rank in 0..world.size() {
            let whole = vector(rank);
            for (number, chosen) in tokens.chosen(rank, count).iter().enumerate() {
                if chosen.iter().any(|expert| own.contains(expert)) {
                    came.extend_from_slice(&whole.bytes()[number * length..(number + 1) * length]);
                }
            }
        }
        // Ranks return what they have got: each token comes back as often as it has gone out.
        let mine = vector(me);
        let mut sums = mine.clone();
        let chosen = tokens.chosen(me, count);
        for (number, chosen) in chosen.iter().enumerate() {
            let ranks: BTreeSet<u16> = chosen.iter().map(|expert| expert / each).collect();
            let token = Numbers::from(mine.bytes()[number * length..(number + 1) * length].to_vec());
            for _ in 1..ranks.len() {
                sums.reduce(number * length, token.view(0..length), reduction);
            }
        }
        Ok(Self {
            experts,
            tokens,
            reduction: (data_type, op),
            chosen: chosen.concat(),
            sums: Memory::new(vec![0; mine.length()]),
            mine: Memory::new(mine.into_bytes()),
            came: Memory::new(Vec::new()),
            expected: [Numbers::from(came), sums],
        })
    }

    fn dispatch(&self) -> Result<Dispatch, WorkerError> {
        self.came.with(Vec::clear);
        let came = self.came.clone();
        let receiver = move |token: Arrival<'_>| came.with(|bytes| bytes.extend_from_slice(token.token));
        let batch = TokenBatch {
            source: Box::new(self.mine.clone()),
            length: self.tokens.token as usize,
            experts: &self.chosen,
            weights: None,
            incoming: None,
        };
        let dispatch = self.experts.dispatch(None, batch, Box::new(receiver))?;
        dispatch.handle().wait()?;
        Ok(dispatch)
    }

    fn combine(&self, dispatch: &Dispatch) -> Result<(), WorkerError> {
        let sides =
            (Box::new(self.came.clone()) as Box<dyn Source>, Box::new(self.sums.clone()) as Box<dyn Sink>);
        let length = self.tokens.token as usize;
        Ok(self.experts.combine(None, dispatch, self.reduction, length, sides)?.wait()?)
    }

    /// Elements that are wrong, and how many were compared.
    fn check(&self, combines: bool) -> [u64; 2] {
        let (found, expected) =
            if combines { (&self.sums, &self.expected[1]) } else { (&self.came, &self.expected[0]) };
        let found = Numbers::from(found.with(|bytes| bytes.clone()));
        let data_type = self.reduction.0;
        let compared = (expected.length() / data_type.size()) as u64;
        match found.length() == expected.length() {
            true => [wrong_elements(expected, &found, data_type) as u64, compared],
            false => [compared.max(1), compared],
        }
    }
}

/// The addresses of ranks of other servers.
fn far(endpoint: &Endpoint, world: &Group, server: u16) -> Result<BTreeSet<Gid>, WorkerError> {
    let mine = Gid::of(endpoint.address());
    let mut all = vec![0; 16 * usize::from(world.size())];
    world.all_gather(&mine.octets(), &mut all)?;
    let server_of = |rank: u16| rank / server;
    let ranks = all.as_chunks::<16>().0.iter().zip(0..);
    let far = ranks.filter(|(_, rank)| server_of(*rank) != server_of(world.rank()));
    Ok(far.map(|(octets, _)| Gid::from(*octets)).collect())
}

/// The most memory that this process has had, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Measures a dispatch or a combine; around what the node counts of a frame, `below` bytes are on the link.
pub(crate) fn measure(
    endpoint: &Endpoint,
    world: &Group,
    case: &Case,
    (tokens, combines): (TokenCase, bool),
    (below, switches): (u64, &[u32]),
) -> Result<Measured, WorkerError> {
    let drops = endpoint.traffic()?.drops;
    let far = far(endpoint, world, tokens.server)?;
    let bench = Bench::new(world, case, tokens)?;
    let crossed = || -> Result<[f64; 2], WorkerError> {
        let sent = endpoint.traffic()?.sent_to;
        let bytes = |is_far: bool| {
            let of = sent.iter().filter(|(peer, _)| far.contains(&Gid::of(peer.ip())) == is_far);
            of.map(|(_, sent)| (sent.bytes + sent.frames * below) as f64).sum::<f64>()
        };
        Ok([bytes(true), bytes(false)])
    };
    let processors = Processors::new(switches);
    let (mut times, mut spent, mut sent) = (Vec::new(), [0.0; 2], [0.0; 2]);
    let mut found = [0; 2];
    let warm_up = case.warm_up.max(1);
    for repetition in 0..warm_up + case.iterations {
        let before = if combines { Some(bench.dispatch()?) } else { None };
        // All start together.
        world.barrier()?;
        let (from, processor, begun) = (crossed()?, processors.now(), Instant::now());
        match &before {
            Some(dispatch) => bench.combine(dispatch)?,
            None => _ = bench.dispatch()?,
        }
        let time = begun.elapsed().as_secs_f64() * 1e6;
        let (once, to) = (processors.now().since(processor, 1.0), crossed()?);
        if repetition >= warm_up {
            times.push(time);
            spent = [spent[0] + once.own, spent[1] + once.switches.unwrap_or_default()];
            sent = [sent[0] + to[0] - from[0], sent[1] + to[1] - from[1]];
        }
        if repetition == 0 || repetition + 1 == warm_up + case.iterations {
            let wrong = bench.check(combines);
            found = [found[0] + wrong[0], found[1] + wrong[1]];
        }
    }
    world.barrier()?;
    let rounds = f64::from(case.iterations.max(1));
    let mean_us = times.iter().sum::<f64>() / rounds;
    let [median_us, p99_us] = times_of(&mut times);
    Ok(Measured {
        case: 0,
        mean_us,
        median_us,
        p99_us,
        wrong: found[0],
        compared: found[1],
        ranks: world.size(),
        sent_bytes: sent[usize::from(far.is_empty())] / rounds,
        received_bytes: 0.0,
        cross_server_bytes: Some(sent[0] / rounds),
        peak_memory_bytes: peak(),
        split: None,
        switch_buffer_bytes: None,
        design: bench.experts.design().to_owned(),
        fallback: None,
        ways: None,
        drops: since(&drops, endpoint.traffic()?.drops),
        rank_processor_us: spent[0] / rounds,
        switch_processor_us: processors.now().switches.map(|_| spent[1] / rounds),
        profile_s: [0.0; 6],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_as_many_tokens_as_fit_and_one_at_least() {
        let tokens = TokenCase { experts: 8, top_k: 2, token: 100, server: 2 };
        assert_eq!([0, 99, 100, 250].map(|bytes| tokens.count(bytes)), [1, 1, 1, 2]);
        let chosen = tokens.chosen(1, 3);
        assert!(chosen.len() == 3 && chosen.iter().all(|experts| experts.len() == 2));
        assert_ne!(chosen, tokens.chosen(0, 3), "each rank has its own");
    }
}
