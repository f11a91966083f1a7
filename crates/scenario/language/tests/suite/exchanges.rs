//! What a step exchanges.

use quincunx_collective::Collective;
use quincunx_language::{
    Decoder, Exchange, Group, Phase, Split, TrainingSetup, exchanges, training_exchanges,
};

fn model(name: &str) -> Decoder {
    Decoder::find(name).unwrap()
}

const PROMPT: Phase = Phase::Prefill { batch: 8, length: 1024 };

fn iteration(batch: u64) -> TrainingSetup {
    TrainingSetup { overlap: false, ..TrainingSetup::new(batch, 2048) }
}

/// Who, how, bytes and times.
fn told(all: &[Exchange]) -> Vec<(Group, Option<Collective>, u64, u64)> {
    all.iter().map(|each| (each.group, each.collective, each.bytes.bytes(), each.times)).collect()
}

#[test]
fn a_layer_adds_up_twice_a_vector_of_all_tokens() {
    // SCIN 2.1: 2 b s h of a prompt, 2 b h of a token.
    let split = Split { tp: 8, ..Split::default() };
    let of = |phase| told(&exchanges(&model("llama2-70b"), &split, phase));
    let sum = |bytes| vec![(Group::Tensor, Some(Collective::AllReduce), bytes, 160)];
    assert_eq!(of(PROMPT), sum(2 * 8 * 1024 * 8192));
    assert_eq!(of(Phase::Decode { batch: 8, length: 1024 }), sum(2 * 8 * 8192));
}

#[test]
fn one_accelerator_exchanges_nothing() {
    assert_eq!(exchanges(&model("llama2-7b"), &Split::default(), PROMPT), []);
    assert_eq!(training_exchanges(&model("llama2-7b"), &Split::default(), &iteration(8)), []);
}

#[test]
fn sequence_parallelism_scatters_and_gathers_what_others_add_up() {
    let split = Split { tp: 8, sequence_parallel: true, ..Split::default() };
    let bytes = 2 * 8 * 1024 * 4096;
    let expected = [Collective::ReduceScatter, Collective::AllGather]
        .map(|collective| (Group::Tensor, Some(collective), bytes, 64));
    assert_eq!(told(&exchanges(&model("llama2-7b"), &split, PROMPT)), expected);
}

#[test]
fn experts_apart_take_the_place_of_the_sum_behind_them() {
    let split = Split { tp: 8, ep: 8, ..Split::default() };
    // A rank has an eighth of the tokens, each goes to two experts, of which an eighth is its own.
    let sent = 8 * 1024 / 8 * 2 * 4096 * 2 / 8 * 7;
    let expected = [
        (Group::Tensor, Some(Collective::AllReduce), 2 * 8 * 1024 * 4096, 32),
        (Group::Expert, Some(Collective::Dispatch), sent, 32),
        (Group::Expert, Some(Collective::Combine), sent, 32),
    ];
    assert_eq!(told(&exchanges(&model("mixtral-8x7b"), &split, PROMPT)), expected);
    let together = Split { tp: 8, ..Split::default() };
    let expected = [(Group::Tensor, Some(Collective::AllReduce), 2 * 8 * 1024 * 4096, 64)];
    assert_eq!(told(&exchanges(&model("mixtral-8x7b"), &together, PROMPT)), expected);
}

#[test]
fn an_iteration_adds_up_forward_and_backward_in_each_microbatch_and_gradients_once() {
    let split = Split { tp: 8, dp: 16, ..Split::default() };
    let model = model("gpt3-13b");
    let gradients = 2 * model.share(&split)[0];
    let found = training_exchanges(&model, &split, &iteration(128));
    let sums = (Group::Tensor, Some(Collective::AllReduce), 2 * 2048 * 5120, 40 * 4 * 8);
    assert_eq!(told(&found), [sums, (Group::Data, Some(Collective::AllReduce), gradients, 1)]);
    let again = Split { recompute: true, ..split };
    assert_eq!(training_exchanges(&model, &again, &iteration(128))[0].times, 40 * 6 * 8);
}

#[test]
fn shared_gradients_are_scattered_and_shared_weights_gathered_for_each_pass() {
    let model = model("llama2-7b");
    let of = |zero| {
        let split = Split { dp: 4, zero, ..Split::default() };
        let found = training_exchanges(&model, &split, &iteration(4));
        found.iter().map(|each| (each.collective.unwrap(), each.times)).collect::<Vec<_>>()
    };
    assert_eq!(of(0), [(Collective::AllReduce, 1)]);
    let scattered = [(Collective::ReduceScatter, 1), (Collective::AllGather, 1)];
    assert_eq!((of(1), of(2)), (scattered.to_vec(), scattered.to_vec()));
    assert_eq!(of(3), [(Collective::ReduceScatter, 1), (Collective::AllGather, 2)]);
}

#[test]
fn a_stage_sends_to_the_next_one_and_back_with_each_microbatch() {
    let split = Split { pp: 4, interleave: 2, ..Split::default() };
    let found = training_exchanges(&model("llama2-7b"), &split, &iteration(16));
    assert_eq!(told(&found), [(Group::Pipeline, None, 2 * 2048 * 4096, 2 * 16 * 2)]);
    let forward = exchanges(&model("llama2-7b"), &split, PROMPT);
    assert_eq!(told(&forward), [(Group::Pipeline, None, 2 * 8 * 1024 * 4096, 3)]);
}

#[test]
fn replicas_with_the_same_experts_alone_exchange_their_gradients() {
    let model = model("mixtral-8x7b");
    let split = Split { tp: 1, dp: 16, ep: 8, ..Split::default() };
    let found = training_exchanges(&model, &split, &iteration(16));
    let data: Vec<_> = found
        .iter()
        .filter(|each| each.group == Group::Data)
        .map(|each| (each.what, each.ranks, each.bytes.bytes()))
        .collect();
    let common = 2 * (model.common_parameters() + model.outer_parameters());
    let experts = 2 * model.routed_parameters() / 8;
    assert_eq!(data, [("gradients", 16, common), ("gradients of experts", 2, experts)]);
}

#[test]
fn with_sequence_parallelism_a_stage_sends_its_share_of_the_tokens() {
    let split = Split { tp: 8, pp: 2, sequence_parallel: true, ..Split::default() };
    let found = exchanges(&model("llama2-7b"), &split, PROMPT);
    let [.., last] = told(&found)[..] else { panic!("{found:?}") };
    assert_eq!(last, (Group::Pipeline, None, 2 * 8 * 1024 * 4096 / 8, 1));
}
