//! Requests that come and go: who waits for whom, and for how long.

use proptest::prelude::*;
use quincunx_language::{IterationTime, Phase, Request, Requests, Served, ServingSetup, serve};
use quincunx_units::Duration;
use std::convert::Infallible;

/// Milliseconds that an iteration of prompts takes, and one of answers.
const PROMPT: u64 = 10;
const ANSWER: u64 = 1;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn request(at: u64, prompt: u64, answer: u64) -> Request {
    Request { arrival: milliseconds(at), prompt, answer }
}

fn setup(batch: u64, tokens: u64) -> ServingSetup {
    ServingSetup { requests: "made".into(), load: 1.0, batch, tokens }
}

/// What comes of requests whose iterations take as long whatever is in them, and which iterations there were.
fn served(requests: &[Request], setup: &ServingSetup, room: u64) -> (Served, Vec<Phase>) {
    let mut phases = Vec::new();
    let found = serve(requests, setup, room, |phase| {
        phases.push(phase);
        let time = milliseconds(if matches!(phase, Phase::Prefill { .. }) { PROMPT } else { ANSWER });
        Ok::<_, Infallible>(IterationTime { time, communication: time / 4 })
    });
    (found.unwrap(), phases)
}

#[test]
fn a_request_alone_waits_for_its_prompt_and_then_for_a_token_each_time() {
    let (found, phases) = served(&[request(0, 100, 3)], &setup(8, 1000), 1000);
    assert_eq!(found.first, [milliseconds(PROMPT)]);
    assert_eq!(found.next, [milliseconds(ANSWER)]);
    assert_eq!((found.all, found.tokens), (milliseconds(PROMPT + 2 * ANSWER), 3));
    assert_eq!(found.share(), 0.25);
    // Lengths are whole blocks of 16: 100, 101 and 102 tokens.
    let decode = Phase::Decode { batch: 1, length: 112 };
    assert_eq!(phases, [Phase::Prefill { batch: 1, length: 112 }, decode, decode]);
}

#[test]
fn an_answer_of_one_token_has_no_time_from_one_to_the_next() {
    let (found, phases) = served(&[request(0, 16, 1)], &setup(8, 1000), 1000);
    assert_eq!((found.next.len(), found.tokens, phases.len()), (0, 1, 1));
}

#[test]
fn a_prompt_that_comes_goes_before_answers_that_have_begun() {
    let (found, phases) = served(&[request(0, 16, 4), request(11, 32, 2)], &setup(8, 1000), 1000);
    let decode = |batch, length| Phase::Decode { batch, length };
    // After the first token of the first answer the second prompt is there; both go on together until the second is whole.
    let expected =
        [Phase::Prefill { batch: 1, length: 16 }, decode(1, 32), Phase::Prefill { batch: 1, length: 32 }];
    assert_eq!(phases[..3], expected);
    assert_eq!(phases[3..], [decode(2, 32), decode(1, 32)]);
    assert_eq!(found.first, [milliseconds(PROMPT), milliseconds(PROMPT)]);
    // The first one's mean: 1 + 10 + 1 + 1 over three tokens.
    assert_eq!(found.next, [milliseconds(ANSWER), milliseconds(13) / 3]);
}

#[test]
fn whoever_finds_no_place_among_the_answers_waits_until_one_is_whole() {
    let (found, phases) = served(&[request(0, 16, 3), request(0, 16, 3)], &setup(1, 1000), 1000);
    assert!(
        phases.iter().all(|phase| phase.tokens() == 1 || *phase == Phase::Prefill { batch: 1, length: 16 })
    );
    assert_eq!(found.first, [milliseconds(10), milliseconds(22)]);
    assert_eq!(found.together, 1);
}

#[test]
fn whoever_finds_no_memory_for_his_whole_answer_waits() {
    // Each needs 16 + 16 tokens: two blocks. There are three.
    let both = [request(0, 16, 16), request(0, 16, 16)];
    assert_eq!(served(&both, &setup(8, 1000), 48).0.together, 1);
    assert_eq!(served(&both, &setup(8, 1000), 64).0.together, 2);
}

#[test]
fn prompts_go_together_up_to_so_many_tokens_and_a_longer_one_alone() {
    let all = [request(0, 48, 1), request(0, 48, 1), request(0, 48, 1), request(0, 200, 1)];
    let (_, phases) = served(&all, &setup(8, 96), 10_000);
    let prefill = |batch, length| Phase::Prefill { batch, length };
    assert_eq!(phases, [prefill(2, 48), prefill(1, 48), prefill(1, 208)]);
}

#[test]
fn requests_come_as_many_times_as_fast_as_the_load_says() {
    let both = [request(0, 16, 1), request(1000, 16, 1)];
    let (found, _) = served(&both, &ServingSetup { load: 4.0, ..setup(8, 1000) }, 1000);
    assert_eq!(found.all, milliseconds(250 + PROMPT));
    assert_eq!(found.drained, milliseconds(PROMPT));
    assert_eq!(found.busy, milliseconds(2 * PROMPT));
}

#[test]
fn a_percentile_is_the_least_that_so_many_do_not_exceed() {
    let times: Vec<Duration> = (1..=200).map(milliseconds).collect();
    assert_eq!(
        [1, 50, 99, 100].map(|percent| Served::percentile(&times, percent)),
        [2, 100, 198, 200].map(milliseconds)
    );
    assert_eq!(Served::percentile(&[], 50), Duration::ZERO);
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one =
        (0..100_u64, 1..300_u64, 1..20_u64).prop_map(|(at, prompt, answer)| request(at, prompt, answer));
    prop::collection::vec(one, 1..30).prop_map(|mut all| {
        all.sort_by_key(|request| request.arrival);
        all
    })
}

proptest! {
    /// One after the other is Lindley's queue: each begins when it is there and the one before it is done.
    #[test]
    fn one_at_a_time_is_a_queue_of_one_server(all in requests()) {
        let (found, _) = served(&all, &setup(1, 1), 1000);
        let mut end = Duration::ZERO;
        let mut first: Vec<Duration> = all.iter().map(|request| {
            let begin = end.max(request.arrival);
            end = begin + milliseconds(PROMPT + ANSWER * (request.answer - 1));
            begin + milliseconds(PROMPT) - request.arrival
        }).collect();
        first.sort_unstable();
        prop_assert_eq!(found.first, first);
        prop_assert_eq!(found.all, end);
    }

    /// Everybody gets his tokens, however little room there is, and nobody is faster than alone.
    #[test]
    fn everybody_is_answered(all in requests(), batch in 1..8_u64, tokens in 1..1000_u64, more in 0..2000_u64) {
        let room = 16 * 20 + more;
        let (found, phases) = served(&all, &setup(batch, tokens), room);
        prop_assert_eq!(found.first.len(), all.len());
        prop_assert_eq!(found.tokens, all.iter().map(|request| request.answer).sum::<u64>());
        prop_assert!(found.first.iter().all(|time| *time >= milliseconds(PROMPT)));
        prop_assert!(found.next.iter().all(|time| *time >= milliseconds(ANSWER)));
        prop_assert!(found.together <= batch && found.busy <= found.all);
        let prompts = phases.iter().filter_map(|phase| match phase {
            Phase::Prefill { batch, .. } => Some(*batch),
            Phase::Decode { .. } => None,
        });
        prop_assert_eq!(prompts.sum::<u64>(), all.len() as u64);
    }
}

#[test]
fn traces_of_azure_burstgpt_and_ours_are_told_apart_by_their_columns() {
    let expected = [request(0, 374, 44), request(4500, 396, 109)];
    for text in [
        "arrival_s,prompt,answer\n3.25,374,44\n7.75,396,109\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:51.1805900,396,109\n",
        "\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-29 23:59:58.500000+00:00,374,44\r\n2024-03-01T00:00:03Z,396,109\r\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n9.5,GPT-4,396,109,505,API log\n5,ChatGPT,374,44,418,Conversation log\n",
        "\"Timestamp\",\"Session ID\",\"Elapsed time\",\"Model\",\"Request tokens\",\"Response tokens\"\n5,a,1.5,ChatGPT,374,44\n9.5,b,2,GPT-4,396,109\n",
    ] {
        let found = Requests::parse("trace", text).unwrap();
        assert_eq!(found.all, expected, "{text}");
        assert_eq!(found.empty, 0);
    }
}

#[test]
fn requests_that_failed_are_counted_and_passed_over() {
    let text = "Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,300,0\n6,GPT-4,0,5\n7,GPT-4,1,1\n";
    let found = Requests::parse("trace", text).unwrap();
    assert_eq!((found.all.len(), found.empty), (1, 2));
    assert_eq!(found.span(), Duration::ZERO);
}

#[test]
fn what_is_no_trace_is_refused_in_a_line_that_names_its_place() {
    for (text, expected) in [
        ("", "expected columns arrival_s,prompt,answer"),
        ("a,b,c\n1,2,3\n", "found \"a,b,c\""),
        ("arrival_s,prompt,answer\n", "expected requests with prompts and answers, found none"),
        ("arrival_s,prompt,answer\n1,2\n", "in line 2"),
        ("arrival_s,prompt,answer\n1,2,3\n\nNaN,2,3\n", "in line 4"),
        ("arrival_s,prompt,answer\n-1,2,3\n", "in line 2"),
        ("arrival_s,prompt,answer\n1e300,2,3\n", "in line 2"),
        ("arrival_s,prompt,answer\n1,99999999999,3\n", "16777216 at most"),
        ("arrival_s,prompt,answer\n2023-13-01 00:00:00,2,3\n", "in line 2"),
        ("arrival_s,prompt,answer\n2023-12-01 24:00:00,2,3\n", "in line 2"),
        (
            "arrival_s,prompt,answer\n2023-12-01 00:00:00,2,3\n2024-12-01 00:00:00,2,3\n",
            "expected requests of 213 days at most",
        ),
    ] {
        let error = Requests::parse("trace", text).unwrap_err().to_string();
        assert!(
            error.starts_with("trace: ") && error.contains(expected) && !error.contains('\n'),
            "{text}: {error}"
        );
    }
    assert!(
        Requests::find("nobody")
            .unwrap_err()
            .to_string()
            .contains("expected requests (conversations) or a file")
    );
    assert_eq!(Requests::find("conversations").unwrap().all.len(), 400);
}
