//! Collectives as instructions (SCIN 3.4: the masks of sources and destinations).

use crate::{Accelerators, Addresses, Instruction};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{BlockQuantization, Collective, Rank};
use quincunx_engine::shared_memory::Span;

/// The instructions of a collective among the first `ranks` accelerators, on a vector that lies at `span` of each of
/// them. Of each part of the vector they do the `share.0`-th of `share.1` shares, cut at multiples of `granule`
/// bytes: one for each switch of the fabric. The first waits for everybody, the last notifies everybody; an
/// instruction may have nothing to do but that.
///
/// # Panics If there are no ranks or more than 64, the share is not there, or a vector for parts does not split over
/// the ranks.
pub fn instructions(
    collective: Collective,
    ranks: u16,
    span: Span,
    share: (usize, usize),
    granule: usize,
) -> Vec<Instruction> {
    let all = Accelerators::first(ranks);
    let others = |root: Rank| match ranks {
        1 => all,
        _ => Accelerators::first(ranks).without(Accelerators::only(root.0)),
    };
    let one = |sources: Accelerators, destinations: Accelerators, part: Span| {
        let share = part.part(share.0, share.1, granule);
        Instruction {
            id: 0,
            length: share.length as u32,
            addresses: Addresses::Region(share.offset as u64),
            sources,
            destinations,
            quantize: false,
            wait: false,
            notify: false,
        }
    };
    let nothing = Span { offset: span.offset, length: 0 };
    let parts = || {
        let part = span.length / usize::from(ranks);
        assert_eq!(part * usize::from(ranks), span.length, "a vector that splits over the ranks");
        (0..ranks)
            .map(move |rank| (Rank(rank), Span { offset: span.offset + part * rank as usize, length: part }))
    };
    let mut instructions = match collective {
        Collective::AllReduce => vec![one(all, all, span)],
        Collective::Reduce { root } => vec![one(all, Accelerators::only(root.0), span)],
        Collective::Broadcast { root } => vec![one(Accelerators::only(root.0), others(root), span)],
        Collective::Barrier => vec![one(all, all, nothing)],
        Collective::ReduceScatter => {
            parts().map(|(rank, part)| one(all, Accelerators::only(rank.0), part)).collect()
        }
        Collective::AllGather => {
            parts().map(|(rank, part)| one(Accelerators::only(rank.0), others(rank), part)).collect()
        }
        Collective::Dispatch | Collective::Combine => panic!("no instruction is routed as {collective} is"),
    };
    for (index, instruction) in instructions.iter_mut().enumerate() {
        instruction.id = index as u16;
    }
    instructions.first_mut().expect("a collective is at least one instruction").wait = true;
    instructions.last_mut().expect("a collective is at least one instruction").notify = true;
    instructions
}

/// The instructions of a quantised AllReduce (SCIN 3.4, INQ): the codes lie at `codes`, their scale factors at
/// `scales`. The share is cut at multiples of `granule` bytes of codes, which are whole blocks.
///
/// # Panics
/// If there are no ranks or more than 64, the share is not there, or the granule is not whole blocks.
pub fn quantized_all_reduce(
    ranks: u16,
    quantization: BlockQuantization,
    (codes, scales): (Span, Span),
    share: (usize, usize),
    granule: usize,
) -> Vec<Instruction> {
    let block = quantization.code_bytes(quantization.block());
    assert!(granule.is_multiple_of(block), "shares of whole blocks of {block} bytes, not of {granule}");
    let mut instructions = instructions(Collective::AllReduce, ranks, codes, share, granule);
    let data = &mut instructions[0];
    let share = codes.part(share.0, share.1, granule);
    if data.length > 0 {
        data.quantize = true;
        let scale_bytes = |codes| quantization.scale_bytes(quantization.values(codes));
        let before = scale_bytes(share.offset - codes.offset);
        let scales = Instruction {
            length: scale_bytes(share.length) as u32,
            addresses: Addresses::Region((scales.offset + before) as u64),
            quantize: false,
            wait: false,
            notify: false,
            ..data.clone()
        };
        instructions.push(scales);
    }
    instructions
}
