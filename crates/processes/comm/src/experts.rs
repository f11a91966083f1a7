//! Experts on the ranks of a group: each token of a batch goes to the ranks of the experts that it has chosen, once to each, and what these make
//! of it comes back and is added up (MultiWrite 2.3.2).
//!
//! A dispatch fills **places**: so many for each rank, one rank after the other. Behind each token travels what its receiver has to know of it:
//!
//! ```text
//! 0        length   length + 4      + 2 top_k     + 4 top_k
//! | token  | mark 1 | experts (u16) | weights (f32) | zeros to a multiple of 8 |
//! ```

use crate::buffers::{Sink, Source};
use crate::endpoint::Endpoint;
use crate::handle::pair;
use crate::job::{Job, Marks, TokenBuffers};
use crate::options::deadline;
use crate::worker::{Command, Wanted};
use crate::{CommError, Group, Handle, Op};
use quincunx_collective::{Collective, DataType, GroupId, Rank, ReduceOp, Reduction, Routes};
use quincunx_design::Demand;
use quincunx_runtime::CallSite;
use quincunx_units::ByteCount;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Bytes of a mark.
const MARK: usize = 4;

/// Elements of any type lie in multiples of this.
const GRAIN: usize = DataType::LONGEST;

/// What experts there are, and how much of whom a rank dispatches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpertLayout {
    /// Experts; rank r of n hosts the r-th of n parts.
    pub experts: u16,
    /// Experts of a token.
    pub top_k: u16,
    /// The most tokens that a rank dispatches at once.
    pub tokens: u32,
    /// Bytes of the longest token.
    pub length: usize,
    /// What it runs, by name; none: the catalog's first that dispatches on as many servers as there are.
    pub design: Option<String>,
}

/// A rank's tokens.
pub struct TokenBatch<'a> {
    /// The tokens one after the other.
    pub source: Box<dyn Source>,
    /// Bytes of each: the same at all ranks.
    pub length: usize,
    /// For each token its experts, as many as the layout says.
    pub experts: &'a [u16],
    /// The weights of these, for who receives the token; none: zeros.
    pub weights: Option<&'a [f32]>,
    /// How many tokens come from each rank, this one too: where ranks do not announce it (`relay.announce=false`), and nowhere else, it must be
    /// said.
    pub incoming: Option<&'a [usize]>,
}

/// A token that has come here.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Whose it is.
    pub source: u16,
    /// Which of that rank's.
    pub number: u32,
    /// Its bytes.
    pub token: &'a [u8],
    experts: &'a [u8],
    weights: &'a [u8],
}

impl Arrival<'_> {
    /// All of its experts with their weights, those of other ranks too, in the order in which its rank has named them.
    pub fn choices(&self) -> impl Iterator<Item = (u16, f32)> {
        let experts = self.experts.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        experts.zip(self.weights.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)))
    }
}

/// Takes what comes, by rank and then by number.
pub type Receiver = Box<dyn FnMut(Arrival<'_>) + Send>;

/// Experts on the ranks of a group. Clones are the same. Memory for tokens is given back when the last one is dropped, or by
/// [`close`](Self::close).
#[derive(Clone)]
pub struct Experts(Arc<Inner>);

struct Inner {
    group: Group,
    /// None: of a group of one rank.
    number: Option<GroupId>,
    layout: ExpertLayout,
    design: String,
    /// Dispatches so far.
    serial: AtomicU64,
    is_closed: std::sync::atomic::AtomicBool,
}

/// A dispatch, and which tokens it has brought.
#[derive(Clone, Debug)]
pub struct Dispatch {
    handle: Handle,
    serial: u64,
    /// Of this rank.
    tokens: usize,
    /// By place, once they are here.
    arrived: Arc<Mutex<Vec<usize>>>,
}

impl Dispatch {
    /// What there is to wait for.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// How many this rank has sent out.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// How many tokens have come: none before the end.
    pub fn count(&self) -> usize {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl ExpertLayout {
    /// The same with whatever design dispatches.
    pub const fn new(experts: u16, top_k: u16, tokens: u32, length: usize) -> Self {
        Self { experts, top_k, tokens, length, design: None }
    }

    /// Bytes behind a token.
    const fn trailer(&self) -> usize {
        MARK + 6 * self.top_k as usize
    }

    /// Bytes from the beginning of a token of `length` bytes to that of the next.
    fn stride(&self, length: usize) -> usize {
        (length + self.trailer()).next_multiple_of(GRAIN)
    }

    /// The longest vector that can be combined: of whoever returns gradients of the weights behind those of a token.
    fn longest_result(&self) -> usize {
        self.stride(self.length)
    }

    fn check(&self, ranks: u16) -> Result<(), CommError> {
        let Self { experts, top_k, tokens, length, .. } = *self;
        let wrong =
            |expected: String, found: String| Err(CommError::misuse(expected, found, "change the layout"));
        if experts == 0 || !experts.is_multiple_of(ranks) {
            return wrong(format!("experts in equal parts on {ranks} ranks"), experts.to_string());
        }
        if !(1..=experts).contains(&top_k) {
            return wrong(format!("1 to {experts} experts of a token"), top_k.to_string());
        }
        if tokens == 0 || length == 0 || length > 1 << 24 {
            return wrong(
                "a token of 1 byte to 16 MiB at least".into(),
                format!("{tokens} of {length} bytes"),
            );
        }
        Ok(())
    }
}

impl Group {
    /// Sets the ranks up for experts: takes memory at each for the tokens of all. Every rank calls it, with the same layout. Where ranks are on
    /// several servers, a token goes to another one once, to the rank there with its own rank's place, which passes it on (MultiWrite 3.2).
    ///
    /// # Errors
    /// If the layout makes no sense or is another than that of other ranks, a rank does not come, or the manager refuses.
    #[track_caller]
    pub fn experts(&self, layout: ExpertLayout) -> Result<Experts, CommError> {
        self.check_open()?;
        let checked = layout.check(self.size());
        if self.size() == 1 {
            return checked.map(|()| Experts::new(self, None, "none".into(), layout));
        }
        // All hear of it, also of a layout that makes no sense, so that nobody waits for what is refused.
        let makes = self.rank() == 0 && checked.is_ok();
        let made = makes.then(|| self.endpoint().make_experts(self.members(), &layout)).transpose();
        let ExpertLayout { experts, top_k, tokens, length, .. } = layout;
        let number = made.as_ref().map_or(0, |number| number.unwrap_or_default());
        let mine = [i64::from(number), experts.into(), top_k.into(), tokens.into(), length as i64];
        let told = self.tell_all(&mine);
        let is_made = made.as_ref().is_ok_and(Option::is_some);
        let all = checked.and(made.map(drop)).and(told).inspect_err(|_| {
            if is_made {
                self.endpoint().release(&[GroupId(number)]);
            }
        })?;
        let number = GroupId(all[0] as u32);
        let give_back = || {
            if number.0 != 0 {
                self.endpoint().release(&[number]);
            }
        };
        let another = all.as_chunks::<5>().0.iter().position(|other| other[1..] != mine[1..]);
        if let Some(rank) = another {
            give_back();
            let said = |layout: &[i64]| {
                format!(
                    "{} experts, top {}, {} tokens of {} bytes",
                    layout[0], layout[1], layout[2], layout[3]
                )
            };
            let found = format!("{} at rank {rank}", said(&all[5 * rank + 1..5 * rank + 5]));
            return Err(CommError::misuse(
                format!("one layout at all ranks, here {}", said(&mine[1..])),
                found,
                "correct one of them",
            ));
        }
        if number.0 == 0 {
            return Err(CommError::Group(
                "expected experts on the group's ranks, but the manager refused them; rank 0 has said why"
                    .into(),
            ));
        }
        let joined = self.endpoint().await_group(Wanted::Numbered(number));
        let joined = joined.inspect_err(|_| give_back())?;
        Ok(Experts::new(self, Some(number), joined.design, layout))
    }
}

impl Endpoint {
    /// Asks the manager for a group that dispatches tokens.
    fn make_experts(&self, members: &[u16], layout: &ExpertLayout) -> Result<u32, CommError> {
        let length = ByteCount::new(layout.longest_result() as u64);
        let demand = Demand::Tokens { most: layout.tokens, length };
        self.make_for_tokens(members, layout.design.as_deref(), demand)
    }
}

impl Experts {
    fn new(group: &Group, number: Option<GroupId>, design: String, layout: ExpertLayout) -> Self {
        let (serial, is_closed) = (AtomicU64::new(0), false.into());
        Self(Arc::new(Inner { group: group.clone(), number, layout, design, serial, is_closed }))
    }

    /// The ranks.
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// How they were set up.
    pub fn layout(&self) -> &ExpertLayout {
        &self.0.layout
    }

    /// What they run, by name.
    pub fn design(&self) -> &str {
        &self.0.design
    }

    /// The experts of this rank.
    pub fn own(&self) -> std::ops::Range<u16> {
        let each = self.each();
        self.0.group.rank() * each..(self.0.group.rank() + 1) * each
    }

    fn each(&self) -> u16 {
        self.0.layout.experts / self.0.group.size()
    }

    /// Gives the memory back: nothing more is begun here, what is under way goes on to its end.
    pub fn close(&self) {
        self.0.close();
    }

    fn check_open(&self) -> Result<(), CommError> {
        match self.0.is_closed.load(Ordering::Acquire) {
            false => self.0.group.check_open(),
            true => Err(CommError::misuse("experts that are there", "some that were closed", "make others")),
        }
    }

    /// Begins to bring each token of a batch to the ranks of its experts, once to each. `receiver` gets those that come here, by their rank and
    /// number, before the handle ends. All ranks call it; one without tokens, too.
    ///
    /// # Errors
    /// If the batch makes no sense; nothing has begun then. What goes wrong later is the handle's: a rank that expects more than
    /// come ends it at all, one that expects fewer at itself, and at all that are not done.
    pub fn dispatch(
        &self,
        site: Option<CallSite>,
        batch: TokenBatch<'_>,
        receiver: Receiver,
    ) -> Result<Dispatch, CommError> {
        self.check_open()?;
        let routes = self.routes(&batch)?;
        let TokenBatch { source, length, experts, weights, .. } = batch;
        let layout = &self.0.layout;
        let stride = layout.stride(length);
        let (top_k, ranks) = (usize::from(layout.top_k), usize::from(self.0.group.size()));
        let tokens = routes.tokens();
        let mut trailers = Vec::with_capacity(tokens * layout.trailer());
        for token in 0..tokens {
            let choices = token * top_k..(token + 1) * top_k;
            trailers.extend_from_slice(&1_u32.to_le_bytes());
            trailers.extend(experts[choices.clone()].iter().flat_map(|expert| expert.to_le_bytes()));
            let weights = weights.map_or(&[][..], |weights| &weights[choices]);
            let padded = weights.iter().copied().chain(std::iter::repeat(0.0)).take(top_k);
            trailers.extend(padded.flat_map(f32::to_le_bytes));
        }
        let trailer = layout.trailer();
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let most = if self.0.number.is_some() { layout.tokens as usize } else { tokens };
        let buffers = TokenBuffers {
            routes: Some(routes),
            input: tokens * stride,
            output: ranks * most * stride,
            marks: Some(Marks { stride, at: length, length: MARK }),
        };
        let mut outgoing = Outgoing { source, length, stride, trailers, trailer };
        let (places, top_k) = (Arc::clone(&arrived), layout.top_k);
        let mut incoming = Incoming { length, stride, most, top_k, receiver, arrived: places };
        let serial = self.0.serial.fetch_add(1, Ordering::AcqRel) + 1;
        let handle = match self.0.number {
            Some(number) => {
                let moved = Reduction { op: ReduceOp::Sum, data_type: DataType::U8 };
                let sides = (Box::new(outgoing) as Box<dyn Source>, Box::new(incoming) as Box<dyn Sink>);
                self.start(number, Collective::Dispatch, (moved, false), site, (length, buffers), sides)
            }
            None => {
                let mut all = vec![0; buffers.input];
                outgoing.read(0, &mut all);
                incoming.write(0, &all);
                done()
            }
        };
        Ok(Dispatch { handle, serial, tokens, arrived })
    }

    /// Begins to add up what ranks have made of the tokens of the last dispatch: `source` has a vector for each token that has come here, in the
    /// order of their coming, `sink` gets the sums for this rank's own tokens, in rank order each. All ranks call it.
    ///
    /// # Errors
    /// If `dispatch` is not the last one or has not ended well, or lengths do not fit. What goes wrong later is the handle's.
    pub fn combine(
        &self,
        site: Option<CallSite>,
        dispatch: &Dispatch,
        (data_type, op): (DataType, Op),
        length: usize,
        (source, sink): (Box<dyn Source>, Box<dyn Sink>),
    ) -> Result<Handle, CommError> {
        self.check_open()?;
        if dispatch.serial != self.0.serial.load(Ordering::Acquire) {
            return Err(CommError::misuse(
                "the last dispatch of these experts",
                "one before it",
                "combine before the next dispatch",
            ));
        }
        match dispatch.handle.outcome() {
            Some(outcome) => outcome?,
            None => {
                return Err(CommError::misuse(
                    "a dispatch that has ended",
                    "one under way",
                    "wait for it first",
                ));
            }
        }
        let reduction = Reduction { op: op.on_the_way(), data_type };
        if !reduction.is_defined() || op == Op::Average {
            let expected = format!("{}, without avg", data_type.defined_operations());
            return Err(CommError::misuse(
                expected,
                format!("{op} of {data_type}"),
                "take another operation",
            ));
        }
        let most = self.0.layout.longest_result();
        if length == 0 || length > most || !length.is_multiple_of(data_type.size()) {
            let expected = format!("results of whole elements, up to {most} bytes");
            return Err(CommError::misuse(expected, format!("{length}"), "correct the length"));
        }
        let places = dispatch.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (given, room) = (places.len() * length, dispatch.tokens * length);
        if (source.length(), sink.length()) != (given, room) {
            return Err(CommError::misuse(
                format!("{given} bytes in for {} tokens that have come and {room} out", places.len()),
                format!("{} and {}", source.length(), sink.length()),
                "bring a vector for each token that has come",
            ));
        }
        let stride = length.next_multiple_of(GRAIN);
        let mut returning = Returning { source, length, stride, places };
        let mut sums = Sums { sink, length, stride };
        let Some(number) = self.0.number else {
            let mut all = vec![0; dispatch.tokens * stride];
            returning.read(0, &mut all);
            sums.write(0, &all);
            return Ok(done());
        };
        let ranks = usize::from(self.0.group.size());
        let buffers = TokenBuffers {
            routes: None,
            input: ranks * self.0.layout.tokens as usize * stride,
            output: dispatch.tokens * stride,
            marks: None,
        };
        let sides = (Box::new(returning) as Box<dyn Source>, Box::new(sums) as Box<dyn Sink>);
        Ok(self.start(number, Collective::Combine, (reduction, false), site, (length, buffers), sides))
    }

    /// Whom the tokens are for.
    fn routes(&self, batch: &TokenBatch<'_>) -> Result<Routes, CommError> {
        let ExpertLayout { experts, top_k, tokens, length: longest, .. } = self.0.layout;
        let ranks = self.0.group.size();
        let TokenBatch { source, length, experts: chosen, weights, incoming } = batch;
        let count = chosen.len() / usize::from(top_k);
        let wrong =
            |expected: String, found: String| Err(CommError::misuse(expected, found, "correct the batch"));
        if *length == 0 || *length > longest {
            return wrong(format!("tokens of 1 to {longest} bytes"), format!("{length}"));
        }
        if count > tokens as usize || !chosen.len().is_multiple_of(top_k.into()) {
            let expected = format!("{top_k} experts for each of up to {tokens} tokens");
            return wrong(expected, format!("{} experts", chosen.len()));
        }
        if source.length() != count * length {
            return wrong(format!("{count} tokens of {length} bytes"), format!("{} bytes", source.length()));
        }
        if let Some(found) = chosen.iter().find(|expert| **expert >= experts) {
            return wrong(format!("experts below {experts}"), found.to_string());
        }
        if let Some(found) = weights.filter(|weights| weights.len() != chosen.len()) {
            return wrong(
                format!("a weight for each of {} experts", chosen.len()),
                format!("{}", found.len()),
            );
        }
        if let Some(found) = incoming.filter(|incoming| incoming.len() != usize::from(ranks)) {
            return wrong(
                format!("a number of tokens from each of {ranks} ranks"),
                format!("{}", found.len()),
            );
        }
        let each = self.each();
        let of = |experts: &[u16]| -> Vec<Rank> {
            let mut ranks: Vec<Rank> = experts.iter().map(|expert| Rank(expert / each)).collect();
            ranks.sort_unstable();
            ranks.dedup();
            ranks
        };
        let routes: Routes = chosen.chunks_exact(top_k.into()).map(of).collect();
        let Some(incoming) = incoming else { return Ok(routes) };
        if let Some(found) = incoming.iter().find(|count| **count > tokens as usize) {
            return wrong(format!("up to {tokens} tokens from a rank"), found.to_string());
        }
        let me = self.0.group.rank();
        let for_me = |count: &usize| std::iter::repeat_n([Rank(me)], *count).collect();
        let mut all: Vec<Routes> = incoming.iter().map(for_me).collect();
        all[usize::from(me)] = routes;
        Ok(Routes::with_incoming(all).swap_remove(me.into()))
    }

    fn start(
        &self,
        group: GroupId,
        collective: Collective,
        (reduction, averages): (Reduction, bool),
        site: Option<CallSite>,
        (length, buffers): (usize, TokenBuffers),
        (source, sink): (Box<dyn Source>, Box<dyn Sink>),
    ) -> Handle {
        let (promise, handle) = pair();
        let job = Job {
            called: collective,
            site,
            at: Instant::now(),
            collective,
            reduction,
            averages,
            source,
            sink,
            promise,
            deadline: deadline(self.0.group.limit()),
            length,
            next: 0,
            begun: false,
            under_way: 0,
            tokens: Some(buffers),
        };
        self.0.group.endpoint().command(Command::Run { group, job });
        handle
    }
}

impl Inner {
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::AcqRel)
            && let Some(number) = self.number
        {
            self.group.endpoint().release(&[number]);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Experts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { group, layout, design, .. } = &*self.0;
        f.debug_struct("Experts")
            .field("group", group)
            .field("layout", layout)
            .field("design", design)
            .finish()
    }
}

/// Something that has ended already.
fn done() -> Handle {
    let (promise, handle) = pair();
    promise.end(Ok(()));
    handle
}

/// Tokens with what travels behind them.
struct Outgoing {
    source: Box<dyn Source>,
    length: usize,
    stride: usize,
    trailers: Vec<u8>,
    trailer: usize,
}

impl Source for Outgoing {
    fn length(&self) -> usize {
        self.source.length() / self.length * self.stride
    }
    fn read(&mut self, _: usize, into: &mut [u8]) {
        let Self { source, length, stride, trailers, trailer } = self;
        let trailers = trailers.chunks_exact(*trailer);
        for (number, (place, behind)) in into.chunks_exact_mut(*stride).zip(trailers).enumerate() {
            let (token, rest) = place.split_at_mut(*length);
            source.read(number * *length, token);
            let (known, padding) = rest.split_at_mut(*trailer);
            known.copy_from_slice(behind);
            padding.fill(0);
        }
    }
}

/// Takes places apart.
struct Incoming {
    length: usize,
    stride: usize,
    /// Places of a rank.
    most: usize,
    top_k: u16,
    receiver: Receiver,
    arrived: Arc<Mutex<Vec<usize>>>,
}

impl Sink for Incoming {
    fn length(&self) -> usize {
        0
    }
    fn write(&mut self, _: usize, from: &[u8]) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, bytes) in from.chunks_exact(self.stride).enumerate() {
            let (token, behind) = bytes.split_at(self.length);
            let (mark, behind) = behind.split_at(MARK);
            if mark == [0; MARK] {
                continue;
            }
            let (experts, weights) = behind.split_at(2 * usize::from(self.top_k));
            let weights = &weights[..4 * usize::from(self.top_k)];
            let (source, number) = ((place / self.most) as u16, (place % self.most) as u32);
            (self.receiver)(Arrival { source, number, token, experts, weights });
            arrived.push(place);
        }
    }
}

/// What was made of tokens, in the places of these.
struct Returning {
    source: Box<dyn Source>,
    length: usize,
    stride: usize,
    places: Vec<usize>,
}

impl Source for Returning {
    fn length(&self) -> usize {
        self.source.length()
    }
    fn read(&mut self, _: usize, into: &mut [u8]) {
        for (index, place) in self.places.iter().enumerate() {
            let (result, padding) = into[place * self.stride..][..self.stride].split_at_mut(self.length);
            self.source.read(index * self.length, result);
            padding.fill(0);
        }
    }
}

/// Sums without what lies between them.
struct Sums {
    sink: Box<dyn Sink>,
    length: usize,
    stride: usize,
}

impl Sink for Sums {
    fn length(&self) -> usize {
        self.sink.length()
    }
    fn write(&mut self, _: usize, from: &[u8]) {
        for (token, sum) in from.chunks_exact(self.stride).enumerate() {
            self.sink.write(token * self.length, &sum[..self.length]);
        }
    }
}
