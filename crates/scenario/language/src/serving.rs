//! Requests that come and go: prompts as soon as there is room, answers a token each at a time, as engines with continuous batching have it
//! (Yu et al., Orca, OSDI 2022; Kwon et al., vLLM, SOSP 2023).
//!
//! An iteration is one of prompts or one of answers. Prompts that wait go first, whole and in their order, as many as fit; nobody is put off again once
//! he has begun, for the memory of his whole answer is kept for him. Tokens are kept in blocks.

use crate::{Phase, Request};
use quincunx_units::Duration;
use serde::Deserialize;
use std::collections::VecDeque;

/// Which requests, and how many of them at once.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSetup {
    /// A name, or the path of a trace.
    pub requests: String,
    /// How many times as fast they come as they were recorded.
    #[serde(default = "as_recorded")]
    pub load: f64,
    /// Answers at once, at most.
    #[serde(default = "many")]
    pub batch: u64,
    /// Tokens of prompts at once, at most; a longer prompt is alone.
    #[serde(default = "tokens")]
    pub tokens: u64,
}

const fn as_recorded() -> f64 {
    1.0
}

const fn many() -> u64 {
    256
}

const fn tokens() -> u64 {
    8192
}

/// Tokens of a block of keys and values, which lengths are rounded up to.
const BLOCK: u64 = 16;

/// What has become of requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Served {
    /// From each one's arrival to its first token, in order of size.
    pub first: Vec<Duration>,
    /// From one token to the next, the mean of each answer of two tokens or more, in order of size.
    pub next: Vec<Duration>,
    /// From the first arrival to the last token.
    pub all: Duration,
    /// From the last arrival to the last token: what was waiting when nobody came any more.
    pub drained: Duration,
    /// When something was computed or exchanged.
    pub busy: Duration,
    /// Of that, what was exchanged.
    pub communication: Duration,
    /// Tokens of answers.
    pub tokens: u64,
    /// The most answers at once.
    pub together: u64,
}

/// What an iteration takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IterationTime {
    /// All of it.
    pub time: Duration,
    /// What is exchanged.
    pub communication: Duration,
}

/// One that is being answered.
struct Answer {
    begun: Duration,
    /// Tokens that are kept.
    context: u64,
    /// Tokens that there will be.
    whole: u64,
    /// Of the answer, all of it.
    tokens: u64,
}

/// Tokens in whole blocks.
const fn blocks(tokens: u64) -> u64 {
    tokens.div_ceil(BLOCK) * BLOCK
}

/// Tokens of the longest request, in whole blocks.
pub(crate) fn longest(requests: &[Request]) -> u64 {
    requests.iter().map(|request| blocks(request.prompt + request.answer)).max().unwrap_or(0)
}

/// Answers `requests` with memory for `room` tokens, which the longest of them does not exceed. `step` says how long an iteration takes.
///
/// # Errors
/// Those of `step`.
///
/// # Panics
/// If a request is longer than `room`.
pub fn serve<E>(
    requests: &[Request],
    setup: &ServingSetup,
    room: u64,
    mut step: impl FnMut(Phase) -> Result<IterationTime, E>,
) -> Result<Served, E> {
    assert!(longest(requests) <= room, "expected room for the longest request, found {room} tokens");
    let arrival = |request: &Request| {
        Duration::from_picos((request.arrival.as_picos() as f64 / setup.load).round() as u64)
    };
    let mut coming = requests.iter().map(|request| (arrival(request), request)).peekable();
    let last = requests.last().map_or(Duration::ZERO, arrival);
    let mut waiting: VecDeque<(Duration, &Request)> = VecDeque::new();
    let mut answers: Vec<Answer> = Vec::new();
    let (mut now, mut kept, mut served) = (Duration::ZERO, 0, Served::default());
    loop {
        while let Some(one) = coming.next_if(|(at, _)| *at <= now) {
            waiting.push_back(one);
        }
        let begun = admit(&mut waiting, setup, answers.len() as u64, &mut kept, room);
        let phase = if !begun.is_empty() {
            let tokens: u64 = begun.iter().map(|(_, request)| request.prompt).sum();
            let batch = begun.len() as u64;
            Phase::Prefill { batch, length: blocks(tokens.div_ceil(batch)) }
        } else if !answers.is_empty() {
            let contexts: u64 = answers.iter().map(|answer| answer.context).sum();
            let batch = answers.len() as u64;
            Phase::Decode { batch, length: blocks(contexts.div_ceil(batch)) }
        } else if let Some((at, _)) = coming.peek() {
            now = *at;
            continue;
        } else {
            break;
        };
        let IterationTime { time, communication } = step(phase)?;
        now += time;
        served.busy += time;
        served.communication += communication;
        if begun.is_empty() {
            served.tokens += answers.len() as u64;
            answers.iter_mut().for_each(|answer| answer.context += 1);
        }
        for (at, request) in begun {
            served.first.push(now - at);
            served.tokens += 1;
            answers.push(Answer {
                begun: now,
                // The first token is kept when the second one is made.
                context: request.prompt + 1,
                whole: request.prompt + request.answer,
                tokens: request.answer,
            });
        }
        served.together = served.together.max(answers.len() as u64);
        answers.retain(|answer| {
            let is_whole = answer.context == answer.whole;
            if is_whole {
                kept -= blocks(answer.whole);
                if answer.tokens > 1 {
                    served.next.push((now - answer.begun) / (answer.tokens - 1));
                }
            }
            !is_whole
        });
        assert_eq!(
            kept,
            answers.iter().map(|answer| blocks(answer.whole)).sum::<u64>(),
            "memory is kept for answers alone"
        );
        assert!(kept <= room && answers.len() as u64 <= setup.batch, "more at once than there is room for");
    }
    assert_eq!(served.first.len(), requests.len(), "somebody still waits");
    served.all = now;
    served.drained = now - last;
    served.first.sort_unstable();
    served.next.sort_unstable();
    Ok(served)
}

/// Those who may begin, with memory for all that they will be.
fn admit<'a>(
    waiting: &mut VecDeque<(Duration, &'a Request)>,
    setup: &ServingSetup,
    answers: u64,
    kept: &mut u64,
    room: u64,
) -> Vec<(Duration, &'a Request)> {
    let (mut begun, mut tokens) = (Vec::new(), 0);
    while let Some(&(at, request)) = waiting.front() {
        let whole = blocks(request.prompt + request.answer);
        let is_alone = begun.is_empty();
        if answers + begun.len() as u64 >= setup.batch
            || *kept + whole > room
            || !(is_alone || tokens + request.prompt <= setup.tokens)
        {
            break;
        }
        *kept += whole;
        tokens += request.prompt;
        begun.push((at, request));
        waiting.pop_front();
    }
    begun
}

impl Served {
    /// The one of `times`, which are in order, that `percent` of them do not exceed: the nearest rank.
    pub fn percentile(times: &[Duration], percent: u64) -> Duration {
        let rank = (times.len() as u64 * percent).div_ceil(100).max(1);
        times.get(rank as usize - 1).copied().unwrap_or_default()
    }

    /// The share of the time with something to do in which accelerators waited for the network.
    pub fn share(&self) -> f64 {
        self.communication.as_secs_f64() / self.busy.as_secs_f64()
    }
}
