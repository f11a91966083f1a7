//! A group of ranks: what it does together, and what they send each other.

use crate::buffers::{BorrowedSink, BorrowedSource, Nothing, Sink, Source};
use crate::endpoint::{Endpoint, Numbers};
use crate::handle::{Promise, pair};
use crate::job::Job;
use crate::options::deadline;
use crate::peers::{Path, Receive, Send};
use crate::worker::Command;
use crate::{CommError, Handle, Numeric};
use quincunx_collective::{Collective, DataType, GroupId, Op, Rank, ReduceOp, Reduction};
use quincunx_control_grpc::{GroupName, Waits};
use quincunx_runtime::{CallSite, JoinedGroup};
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is asked of a group. Lengths, with `s` bytes a rank and `n` ranks:
///
/// | operation | source | sink |
/// |---|---|---|
/// | AllReduce | s | s |
/// | Reduce | s | s at the root, none elsewhere |
/// | Broadcast | s at the root, none elsewhere | s, or none at the root |
/// | Barrier | none | none |
/// | ReduceScatter | n s | s |
/// | AllGather | s | n s |
/// | AllToAll | n s | n s |
/// | Gather | s | n s at the root, none elsewhere |
/// | Scatter | n s at the root, none elsewhere | s |
/// | Send | s | none |
/// | Receive | none | s |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Every rank gets the reduction of all vectors.
    AllReduce(DataType, Op),
    /// The root gets it.
    Reduce(DataType, Op, u16),
    /// Every rank gets the root's vector. All must name one type; bytes are [`DataType::U8`].
    Broadcast(DataType, u16),
    /// No rank passes before every rank has come.
    Barrier,
    /// Rank r gets part r of the reduction.
    ReduceScatter(DataType, Op),
    /// Every rank gets all vectors in rank order. All must name one type; bytes are [`DataType::U8`].
    AllGather(DataType),
    /// Rank r gets part r of every vector, in rank order.
    AllToAll,
    /// The root gets all vectors in rank order.
    Gather(u16),
    /// Rank r gets part r of the root's vector.
    Scatter(u16),
    /// A message to a rank, with a tag.
    Send(u16, u32),
    /// The oldest message from a rank with that tag.
    Receive(u16, u32),
}

impl Operation {
    /// What switches and ranks on the way do with elements, and what was asked for.
    fn reduction(self) -> Option<(Reduction, Op)> {
        match self {
            Self::AllReduce(data_type, op)
            | Self::Reduce(data_type, op, _)
            | Self::ReduceScatter(data_type, op) => Some((Reduction { op: op.on_the_way(), data_type }, op)),
            _ => None,
        }
    }

    /// The type of what is moved as it is; how it would be summed up says nothing.
    fn moves(self) -> DataType {
        match self {
            Self::Broadcast(data_type, _) | Self::AllGather(data_type) => data_type,
            _ => DataType::U8,
        }
    }
}

/// What an operation reads and writes.
pub struct Buffers {
    /// Read.
    pub source: Box<dyn Source>,
    /// Written.
    pub sink: Box<dyn Sink>,
}

/// Tags of what a collective sends lie above those of the application's.
const OWN_TAGS: u64 = 1 << 32;

/// The way to ranks of another server that leads over the one with this rank's place there.
const RELAYED: usize = 1;

/// A group of ranks. Clones are the same. It is given back when the last one is dropped, or by [`close`](Group::close).
#[derive(Clone)]
pub struct Group(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    numbers: Option<[GroupId; 2]>,
    rank: u16,
    members: Vec<u16>,
    /// Those of this rank's server.
    near: Range<u16>,
    /// When it was joined.
    design: String,
    /// Collectives of messages so far: the same at all ranks, for all call the same.
    serial: AtomicU64,
    limit: Mutex<Duration>,
    /// Messages of a group of one to itself.
    own: Mutex<Vec<(u32, Vec<u8>)>>,
    is_closed: AtomicBool,
}

impl Inner {
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::AcqRel)
            && let Some(numbers) = self.numbers
        {
            self.endpoint.release(&numbers);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { rank, members, .. } = &*self.0;
        let design = self.design();
        f.debug_struct("Group")
            .field("rank", rank)
            .field("members", members)
            .field("design", &design)
            .finish()
    }
}

impl Group {
    pub(crate) fn new(endpoint: Endpoint, tree: &JoinedGroup, mesh: &JoinedGroup, members: Vec<u16>) -> Self {
        let limit = endpoint.options().limit.into();
        Self(Arc::new(Inner {
            endpoint,
            numbers: Some([tree.id, mesh.id]),
            rank: tree.rank.0,
            members,
            near: mesh.together(),
            design: tree.design.clone(),
            serial: AtomicU64::new(0),
            limit: Mutex::new(limit),
            own: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
        }))
    }

    pub(crate) fn alone(endpoint: Endpoint) -> Self {
        let limit = endpoint.options().limit.into();
        let members = vec![endpoint.options().rank];
        Self(Arc::new(Inner {
            endpoint,
            numbers: None,
            rank: 0,
            members,
            near: 0..1,
            design: "none".into(),
            serial: AtomicU64::new(0),
            limit: Mutex::new(limit),
            own: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
        }))
    }

    /// This rank in the group.
    pub fn rank(&self) -> u16 {
        self.0.rank
    }

    /// Ranks of the group.
    pub fn size(&self) -> u16 {
        self.0.members.len() as u16
    }

    /// Its ranks as those of the job, in the group's order.
    pub fn members(&self) -> &[u16] {
        &self.0.members
    }

    /// What it runs, by name: what was asked for, what it fell back to, or what it was made anew on when it had lost a switch.
    pub fn design(&self) -> String {
        let Inner { endpoint, numbers, design, .. } = &*self.0;
        numbers.and_then(|[tree, _]| endpoint.made_anew_on(tree)).unwrap_or_else(|| design.clone())
    }

    /// The endpoint that it belongs to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Gives the group back: nothing more is begun here, what is under way goes on to its end. It returns at once. When all ranks have given
    /// it back, the group is over, and what it held of switches, queue pairs and memory is free. Dropping the last clone does the same.
    pub fn close(&self) {
        self.0.close();
    }

    /// Gives the group up: what is under way ends with an error, here before this returns, at the other ranks when the manager has told them.
    /// No buffer of the group's operations is read or written any more. The group is given back, as by [`close`](Self::close).
    pub fn abort(&self) {
        let Inner { endpoint, numbers, is_closed, .. } = &*self.0;
        is_closed.store(true, Ordering::Release);
        if let Some(numbers) = numbers {
            endpoint.abort(*numbers);
        }
    }

    /// Whether it was given back.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Acquire)
    }

    /// Whom its ranks wait for in their collectives, as they tell the manager: what `quincunx group waits` prints. It may be asked from any
    /// thread, while another one waits for a collective.
    ///
    /// # Errors
    /// If this rank is alone in the group, or the manager does not answer.
    pub fn waits(&self) -> Result<Waits, CommError> {
        let Some([tree, _]) = self.0.numbers else {
            return Err(CommError::misuse(
                "a group of several ranks",
                "one of this rank alone",
                "ask nobody",
            ));
        };
        self.0.endpoint.check_process()?;
        Ok(self.0.endpoint.client().ask_waits(&GroupName::Number(tree))?)
    }

    pub(crate) fn check_open(&self) -> Result<(), CommError> {
        match self.is_closed() {
            false => Ok(()),
            true => Err(CommError::misuse(
                "a group that is open",
                "one that was closed",
                "make another, or close it later",
            )),
        }
    }

    /// How long what is begun from now on may take.
    pub fn set_limit(&self, limit: Duration) {
        *self.0.limit.lock().unwrap_or_else(PoisonError::into_inner) = limit;
    }

    /// Begins an operation. All ranks begin the same collectives in the same order.
    ///
    /// # Errors
    /// If it makes no sense; nothing has begun then. What goes wrong later is the handle's.
    #[track_caller]
    pub fn start(&self, operation: Operation, buffers: Buffers) -> Result<Handle, CommError> {
        self.start_at(Some(CallSite::Rust(Location::caller())), operation, buffers)
    }

    /// The same for a program in another language, of which it is known where it calls.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_at(
        &self,
        site: Option<CallSite>,
        operation: Operation,
        buffers: Buffers,
    ) -> Result<Handle, CommError> {
        self.check_open()?;
        self.check(operation, buffers.source.length(), buffers.sink.length())?;
        let Some([tree, mesh]) = self.0.numbers else { return self.start_alone(operation, buffers) };
        let Buffers { source, sink } = buffers;
        let (given, room) = (source.length(), sink.length());
        match operation {
            Operation::Send(to, tag) => Ok(self.send(mesh, source, Path::direct(to), tag.into())),
            Operation::Receive(from, tag) => {
                Ok(self.receive(mesh, sink, (Some(from), tag.into()), ("receive", site)).0)
            }
            Operation::AllToAll | Operation::Gather(_) | Operation::Scatter(_) => {
                Ok(self.exchange(mesh, (operation, site), source, sink))
            }
            _ => {
                let (collective, length) = match operation {
                    Operation::AllReduce(..) => (Collective::AllReduce, given),
                    Operation::Reduce(_, _, root) => (Collective::Reduce { root: Rank(root) }, given),
                    Operation::ReduceScatter(..) => (Collective::ReduceScatter, room),
                    Operation::Broadcast(_, root) => {
                        (Collective::Broadcast { root: Rank(root) }, given.max(room))
                    }
                    Operation::AllGather(_) => (Collective::AllGather, given),
                    _ => (Collective::Barrier, 0),
                };
                let reduction = operation.reduction();
                let moved = Reduction { op: ReduceOp::Sum, data_type: operation.moves() };
                let (promise, handle) = pair();
                let (at, deadline) = (Instant::now(), self.deadline());
                let job = Job {
                    called: collective,
                    site,
                    at,
                    // Of nothing, too, ranks see that all have called it.
                    collective: if length == 0 { Collective::Barrier } else { collective },
                    reduction: reduction.map_or(moved, |(reduction, _)| reduction),
                    averages: reduction.is_some_and(|(_, op)| op == Op::Average),
                    source,
                    sink,
                    promise,
                    deadline,
                    length,
                    next: 0,
                    begun: false,
                    under_way: 0,
                    tokens: None,
                };
                self.0.endpoint.command(Command::Run { group: tree, job });
                Ok(handle)
            }
        }
    }

    /// Begins to wait for the oldest message with a tag, from whoever sends one. The second value says who, once the first has ended.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn receive_from_any(
        &self,
        site: Option<CallSite>,
        tag: u32,
        sink: Box<dyn Sink>,
    ) -> Result<(Handle, Arc<AtomicU16>), CommError> {
        self.check_open()?;
        let Some([_, mesh]) = self.0.numbers else {
            let buffers = Buffers { source: Box::new(Nothing), sink };
            return Ok((self.start(Operation::Receive(0, tag), buffers)?, Arc::new(AtomicU16::new(0))));
        };
        Ok(self.receive(mesh, sink, (None, tag.into()), ("receive", site)))
    }

    /// Begins one message to several ranks (MultiWrite 4.3.2), each of which receives it as any other. Where ranks of another server are
    /// among them it goes there once, to the rank with this one's place there, which passes it on; no group is made for it.
    ///
    /// # Errors
    /// If it is for nobody, for a rank twice, or for one that is not in the group.
    pub fn multi_write(&self, to: &[u16], tag: u32, source: Box<dyn Source>) -> Result<Handle, CommError> {
        self.check_open()?;
        let mut sorted = to.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if to.is_empty() || sorted.len() != to.len() || sorted.last().is_some_and(|last| *last >= self.size())
        {
            let expected = format!("ranks below {}, each once, and one at least", self.size());
            return Err(CommError::misuse(expected, format!("{to:?}"), "correct the destinations"));
        }
        let Some([_, mesh]) = self.0.numbers else {
            return self.start(Operation::Send(0, tag), Buffers { source, sink: Box::new(Nothing) });
        };
        let length = source.length();
        let source = Arc::new(Mutex::new(source));
        let me = self.rank();
        let (own, others): (Vec<u16>, Vec<u16>) = sorted.into_iter().partition(|rank| *rank == me);
        let (near, far) = others.into_iter().partition(|rank| self.0.near.contains(rank));
        let paths = [(own, 0), (near, 0), (far, RELAYED)].map(|(to, way)| Path { to, way });
        let paths = paths.into_iter().filter(|path| !path.to.is_empty());
        let parts: Vec<Handle> = paths
            .map(|path| {
                let source = PartOfSource { whole: Arc::clone(&source), from: 0, length };
                self.send(mesh, Box::new(source), path, tag.into())
            })
            .collect();
        drop(source);
        Ok(whole_of(&parts))
    }

    /// Groups of those ranks that name the same color, each in the order of this group. Every rank of this group calls it.
    ///
    /// # Errors
    /// If a rank does not come, or the manager refuses a group.
    #[track_caller]
    pub fn split(&self, color: i32) -> Result<Self, CommError> {
        // When all have told their colors, the manager knows of all that was given back before.
        self.0.endpoint.settle();
        let colors = self.tell_all(&[color])?;
        let places = (0..self.size()).filter(|place| colors[usize::from(*place)] == color);
        let members: Vec<u16> = places.map(|place| self.0.members[usize::from(place)]).collect();
        let leads = members[0] == self.0.members[usize::from(self.rank())];
        let made = if leads { self.0.endpoint.make_group(&members) } else { Ok([0; 2]) };
        // All hear of it, so that nobody waits for a group that is refused.
        let mine: [i32; 3] = match &made {
            Ok([tree, mesh]) => [0, *tree as i32, *mesh as i32],
            Err(_) => [1, 0, 0],
        };
        let all = self.tell_all(&mine)?;
        made?;
        let first = self.0.members.iter().position(|member| *member == members[0]).expect("a member");
        let [failed, tree, mesh] = [0, 1, 2].map(|field| all[3 * first + field]);
        if failed != 0 {
            return Err(CommError::Group(format!(
                "expected a group of ranks {members:?}, but the manager refused it; rank {} has said why",
                members[0]
            )));
        }
        let numbers: Numbers = [tree as u32, mesh as u32];
        self.0.endpoint.join_group(&members, numbers)
    }

    /// All ranks' words, in rank order. A design that only reduces gathers nothing: messages do then.
    #[track_caller]
    pub(crate) fn tell_all<T: Numeric>(&self, mine: &[T]) -> Result<Vec<T>, CommError> {
        let mut all = mine.repeat(usize::from(self.size()));
        if self.0.endpoint.gathers() {
            self.all_gather(mine, &mut all)?;
        } else {
            let to_each = all.clone();
            let (given, room) = (to_each.len(), all.len());
            self.run(Operation::AllToAll, to_each.as_ptr(), given, all.as_mut_ptr(), room)?;
        }
        Ok(all)
    }

    /// Every vector becomes the reduction of all.
    ///
    /// # Errors
    /// If lengths do not fit, the group fails, or time is up.
    #[track_caller]
    pub fn all_reduce<T: Numeric>(&self, values: &mut [T], op: impl Into<Op>) -> Result<(), CommError> {
        let operation = Operation::AllReduce(T::DATA_TYPE, op.into());
        self.run(operation, values.as_ptr(), values.len(), values.as_mut_ptr(), values.len())
    }

    /// Every rank gets all vectors in rank order.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_gather<T: Numeric>(&self, mine: &[T], all: &mut [T]) -> Result<(), CommError> {
        self.run(Operation::AllGather(T::DATA_TYPE), mine.as_ptr(), mine.len(), all.as_mut_ptr(), all.len())
    }

    /// This rank gets its part of the reduction.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_scatter<T: Numeric>(
        &self,
        all: &[T],
        mine: &mut [T],
        op: impl Into<Op>,
    ) -> Result<(), CommError> {
        let operation = Operation::ReduceScatter(T::DATA_TYPE, op.into());
        self.run(operation, all.as_ptr(), all.len(), mine.as_mut_ptr(), mine.len())
    }

    /// Every vector becomes the root's.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn broadcast<T: Numeric>(&self, values: &mut [T], root: u16) -> Result<(), CommError> {
        let (given, room) = if root == self.rank() { (values.len(), 0) } else { (0, values.len()) };
        self.run(Operation::Broadcast(T::DATA_TYPE, root), values.as_ptr(), given, values.as_mut_ptr(), room)
    }

    /// No rank passes before every rank has come.
    ///
    /// # Errors
    /// If the group fails, or time is up.
    #[track_caller]
    pub fn barrier(&self) -> Result<(), CommError> {
        let buffers = Buffers { source: Box::new(Nothing), sink: Box::new(Nothing) };
        self.start(Operation::Barrier, buffers)?.wait()
    }

    #[expect(unsafe_code, reason = "the node's thread uses the caller's memory while the caller waits here")]
    #[track_caller]
    fn run<T: Numeric>(
        &self,
        operation: Operation,
        read: *const T,
        given: usize,
        write: *mut T,
        room: usize,
    ) -> Result<(), CommError> {
        let size = size_of::<T>();
        // SAFETY: the caller has slices of these lengths for as long as this call takes, and it takes until the handle has ended: by then
        // both are dropped, whatever became of the operation.
        let (source, sink) = unsafe {
            (BorrowedSource::new(read.cast(), given * size), BorrowedSink::new(write.cast(), room * size))
        };
        self.start(operation, Buffers { source: Box::new(source), sink: Box::new(sink) })?.wait()
    }

    /// How long what is begun now may take.
    pub(crate) fn limit(&self) -> Duration {
        *self.0.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadline(&self) -> Instant {
        deadline(self.limit())
    }

    fn send(&self, mesh: GroupId, source: Box<dyn Source>, path: Path, tag: u64) -> Handle {
        let (promise, handle) = pair();
        let send = Send::new(source, promise, path, tag, self.deadline());
        self.0.endpoint.command(Command::Send { group: mesh, send });
        handle
    }

    fn receive(
        &self,
        mesh: GroupId,
        sink: Box<dyn Sink>,
        (from, tag): (Option<u16>, u64),
        (operation, site): (&'static str, Option<CallSite>),
    ) -> (Handle, Arc<AtomicU16>) {
        let (promise, handle) = pair();
        let sender = Arc::new(AtomicU16::new(0));
        let (called, deadline, sender_too) = (Instant::now(), self.deadline(), Arc::clone(&sender));
        let receive =
            Receive { sink, promise, from, tag, deadline, operation, site, called, sender: sender_too };
        self.0.endpoint.command(Command::Receive { group: mesh, receive });
        (handle, sender)
    }

    /// A collective of messages: whom parts of the source go to, and whom those of the sink come from.
    fn exchange(
        &self,
        mesh: GroupId,
        (operation, site): (Operation, Option<CallSite>),
        source: Box<dyn Source>,
        sink: Box<dyn Sink>,
    ) -> Handle {
        let tag = OWN_TAGS + self.0.serial.fetch_add(1, Ordering::Relaxed);
        let (me, ranks) = (self.rank(), self.size());
        let all: Vec<u16> = (0..ranks).collect();
        let name = match operation {
            Operation::Gather(_) => "gather",
            Operation::Scatter(_) => "scatter",
            _ => "all_to_all",
        };
        let (to, from): (Vec<u16>, Vec<u16>) = match operation {
            Operation::Gather(root) => (vec![root], if root == me { all } else { Vec::new() }),
            Operation::Scatter(root) => (if root == me { all } else { Vec::new() }, vec![root]),
            _ => (all.clone(), all),
        };
        let part = |length: usize, among: &[u16]| length / among.len().max(1);
        let (given, room) = (part(source.length(), &to), part(sink.length(), &from));
        let (source, sink) = (Arc::new(Mutex::new(source)), Arc::new(Mutex::new(sink)));
        let mut parts = Vec::new();
        for (place, peer) in from.iter().enumerate() {
            let sink = PartOfSink { whole: Arc::clone(&sink), from: place * room, length: room };
            parts.push(self.receive(mesh, Box::new(sink), (Some(*peer), tag), (name, site.clone())).0);
        }
        for (place, peer) in to.iter().enumerate() {
            let source = PartOfSource { whole: Arc::clone(&source), from: place * given, length: given };
            parts.push(self.send(mesh, Box::new(source), Path::direct(*peer), tag));
        }
        drop((source, sink));
        whole_of(&parts)
    }

    fn start_alone(&self, operation: Operation, mut buffers: Buffers) -> Result<Handle, CommError> {
        let mut data = vec![0; buffers.source.length()];
        buffers.source.read(0, &mut data);
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        match operation {
            Operation::Send(_, tag) => own.push((tag, data)),
            Operation::Receive(_, tag) => {
                let Some(index) = own.iter().position(|(of, _)| *of == tag) else {
                    return Err(CommError::misuse(
                        format!("a message of this rank to itself with tag {tag}"),
                        "none",
                        "send it first",
                    ));
                };
                let (_, data) = own.remove(index);
                if data.len() != buffers.sink.length() {
                    return Err(CommError::misuse(
                        format!("a message of {} bytes", buffers.sink.length()),
                        format!("one of {}", data.len()),
                        "give both ends the same length",
                    ));
                }
                buffers.sink.write(0, &data);
            }
            _ if buffers.sink.length() > 0 => buffers.sink.write(0, &data),
            _ => {}
        }
        drop(buffers);
        let (promise, handle) = pair();
        promise.end(Ok(()));
        Ok(handle)
    }

    fn check(&self, operation: Operation, given: usize, room: usize) -> Result<(), CommError> {
        let (me, ranks) = (self.rank(), usize::from(self.size()));
        let root = match operation {
            Operation::Reduce(_, _, root)
            | Operation::Broadcast(_, root)
            | Operation::Gather(root)
            | Operation::Scatter(root)
            | Operation::Send(root, _)
            | Operation::Receive(root, _) => Some(root),
            _ => None,
        };
        if let Some(root) = root.filter(|root| usize::from(*root) >= ranks) {
            let expected = format!("a rank below {ranks}");
            return Err(CommError::misuse(expected, root.to_string(), "name a rank of the group"));
        }
        if let Some((reduction, _)) = operation.reduction() {
            let Reduction { op, data_type } = reduction;
            if !reduction.is_defined() {
                return Err(CommError::misuse(
                    data_type.defined_operations(),
                    format!("{op} of {data_type}"),
                    "take another operation, or another type",
                ));
            }
            if !given.is_multiple_of(data_type.size()) {
                let expected = format!("whole elements of {} bytes", data_type.size());
                return Err(CommError::misuse(expected, format!("{given} bytes"), "correct the length"));
            }
        }
        let is_root = root == Some(me);
        let fits = match operation {
            Operation::AllReduce(..) => room == given,
            Operation::Reduce(..) => room == if is_root { given } else { 0 },
            Operation::Broadcast(..) => {
                if is_root {
                    room == 0 || room == given
                } else {
                    given == 0
                }
            }
            Operation::Barrier => room == 0 && given == 0,
            Operation::ReduceScatter(..) => given == room * ranks,
            Operation::AllGather(_) => room == given * ranks,
            Operation::AllToAll => room == given && room.is_multiple_of(ranks),
            Operation::Gather(_) => room == if is_root { given * ranks } else { 0 },
            Operation::Scatter(_) => given == if is_root { room * ranks } else { 0 },
            Operation::Send(..) => room == 0,
            Operation::Receive(..) => given == 0,
        };
        if fits {
            return Ok(());
        }
        Err(CommError::misuse(
            format!("lengths that fit {operation:?} of {ranks} ranks"),
            format!("{given} bytes in and {room} out"),
            "see the table of lengths",
        ))
    }
}

/// What ends when all its parts have.
fn whole_of(parts: &[Handle]) -> Handle {
    let (promise, handle) = pair();
    let whole = Arc::new(Whole { left: Mutex::new((parts.len(), Some(promise), Ok(()))) });
    for part in parts {
        let whole = Arc::clone(&whole);
        part.then(move |outcome| whole.end_part(outcome));
    }
    handle
}

/// What is over when all its parts are.
struct Whole {
    left: Mutex<(usize, Option<Promise>, Result<(), CommError>)>,
}

impl Whole {
    fn end_part(&self, outcome: &Result<(), CommError>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.0 -= 1;
        if left.2.is_ok() {
            left.2 = outcome.clone();
        }
        if left.0 == 0
            && let Some(promise) = left.1.take()
        {
            let outcome = left.2.clone();
            drop(left);
            promise.end(outcome);
        }
    }
}

struct PartOfSource {
    whole: Arc<Mutex<Box<dyn Source>>>,
    from: usize,
    length: usize,
}

impl Source for PartOfSource {
    fn length(&self) -> usize {
        self.length
    }
    fn read(&mut self, offset: usize, into: &mut [u8]) {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).read(self.from + offset, into);
    }
}

struct PartOfSink {
    whole: Arc<Mutex<Box<dyn Sink>>>,
    from: usize,
    length: usize,
}

impl Sink for PartOfSink {
    fn length(&self) -> usize {
        self.length
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).write(self.from + offset, from);
    }
}
