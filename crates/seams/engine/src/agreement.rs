//! What ranks must agree on before any of them is told of a result: the collective, its type, operation, root and length, and the terms of the
//! application's call that a request is a part of. Designs send it with what they send anyway, as a digest where it does not fit as it is.

use crate::verbs::CollectiveRequest;
use quincunx_collective::Collective;

impl CollectiveRequest {
    /// All that ranks must agree on but for the length: `root, collective, type, operation, terms`, from the highest bit down.
    fn kind(&self) -> u32 {
        let collective = match self.collective {
            Collective::AllReduce => 0,
            Collective::Reduce { .. } => 1,
            Collective::Broadcast { .. } => 2,
            Collective::Barrier => 3,
            Collective::ReduceScatter => 4,
            Collective::AllGather => 5,
            Collective::Dispatch => 6,
            Collective::Combine => 7,
        };
        let root = self.collective.root().map_or(0, |root| u32::from(root.0));
        let data_type = match self.collective {
            Collective::Barrier => 0,
            _ => self.reduction.data_type as u32,
        };
        // How elements would combine says nothing where none do.
        let op = if self.collective.reduces() { self.reduction.op as u32 } else { 0 };
        root << 16 | collective << 13 | data_type << 9 | op << 6 | self.terms.bits()
    }

    /// What ranks must agree on in `bits` bits, for a collective of `length` bytes ([`check`](Self::check)): the remainder of a polynomial
    /// division, as a CRC is. Two requests of the same digest differ in more than `bits` bits in a row of the root, the collective, the type,
    /// the operation, the terms and the length. So with 26 bits or more whatever they differ in but length is seen, and lengths below 64 MiB
    /// that differ alone; anything else but for one case in 2^`bits`.
    ///
    /// # Panics
    /// If there are fewer than 8 bits or more than 32.
    pub fn digest(&self, length: usize, bits: u32) -> u32 {
        assert!((8..=32).contains(&bits), "a digest of {bits} bits");
        let divisor: u128 = 1 << bits | 0x04c1_1db7 & ((1 << bits) - 1);
        // The length comes first, for it is short.
        let mut remainder = (length as u128) << u32::BITS | u128::from(self.kind());
        while let Some(above) = (u128::BITS - remainder.leading_zeros()).checked_sub(bits + 1) {
            remainder ^= divisor << above;
        }
        remainder as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Terms;
    use crate::verbs::{RegionId, Slice};
    use alloc::vec::Vec;
    use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};

    const BITS: u32 = 26;

    fn request(collective: Collective, op: ReduceOp, data_type: DataType) -> CollectiveRequest {
        let buffer = Slice { region: RegionId(0), offset: 0, length: 0 };
        let reduction = Reduction { op, data_type };
        CollectiveRequest { collective, reduction, input: buffer, output: buffer, terms: Terms::WHOLE }
    }

    #[test]
    fn collective_type_operation_and_root_never_share_a_digest() {
        let rooted =
            |root| [Collective::Reduce { root: Rank(root) }, Collective::Broadcast { root: Rank(root) }];
        let collectives =
            Collective::PRIMITIVES.into_iter().chain((1..5).chain([1023, 65535]).flat_map(rooted));
        let mut digests = Vec::new();
        let mut cases = 0;
        for collective in collectives {
            let ops: &[ReduceOp] = if collective.reduces() { &ReduceOp::ALL } else { &[ReduceOp::Sum] };
            let types: &[DataType] =
                if collective == Collective::Barrier { &[DataType::F32] } else { &DataType::ALL };
            for op in ops {
                for data_type in types {
                    digests.push(request(collective, *op, *data_type).digest(4096, BITS));
                    cases += 1;
                }
            }
        }
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), cases);
    }

    #[test]
    fn a_root_is_not_taken_for_a_length() {
        let digest = |root, length| {
            request(Collective::Broadcast { root: Rank(root) }, ReduceOp::Sum, DataType::F32)
                .digest(length, BITS)
        };
        let mut digests: Vec<u32> =
            (0..16).flat_map(|root| (0..256).map(move |length| digest(root, length))).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 16 * 256);
    }

    #[test]
    fn lengths_and_terms_change_the_digest() {
        let plain = request(Collective::AllReduce, ReduceOp::Sum, DataType::F32);
        let mut digests: Vec<u32> = (0..10_000).map(|length| plain.digest(length, BITS)).collect();
        digests.push(plain.digest(1 << 25, BITS));
        for padding in 0..8 {
            for flags in 0..8 {
                let [averages, continues, in_next_channel] = [1, 2, 4].map(|bit| flags & bit != 0);
                let terms = Terms { averages, padding, continues, in_next_channel };
                let request = CollectiveRequest { terms, ..plain };
                digests.extend((terms != Terms::WHOLE).then(|| request.digest(8, BITS)));
            }
        }
        let cases = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), cases);
    }

    #[test]
    fn an_operation_says_nothing_where_nothing_is_combined() {
        let gather = |op| request(Collective::AllGather, op, DataType::F32).digest(64, BITS);
        assert_eq!(gather(ReduceOp::Sum), gather(ReduceOp::Max));
        let barrier = |data_type| request(Collective::Barrier, ReduceOp::Sum, data_type).digest(0, BITS);
        assert_eq!(barrier(DataType::F32), barrier(DataType::I8));
    }

    #[test]
    fn the_shortest_digest_still_tells_roots_apart() {
        let of = |root| {
            request(Collective::Broadcast { root: Rank(root) }, ReduceOp::Sum, DataType::F32).digest(64, 15)
        };
        assert_ne!(of(0), of(1));
        assert_ne!(of(1), of(2));
    }
}
