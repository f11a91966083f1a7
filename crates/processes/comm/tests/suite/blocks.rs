//! Tiles of block formats through a switch, in buffers of bytes.

use crate::fabric::LoopbackFabric;
use quincunx_collective::{BlockFormat, Numbers, Op, Payload, Rank, ReduceOp, Reduction, noise, reference};
use quincunx_comm::{Buffers, Operation, Sink};
use std::sync::{Arc, Mutex};

/// Bytes that a test sees, too.
#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Sink for Shared {
    fn length(&self) -> usize {
        self.0.lock().unwrap().len()
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.0.lock().unwrap()[offset..][..from.len()].copy_from_slice(from);
    }
}

/// Longer than a chunk of a job. Of two ranks a sum has one order.
#[test]
fn a_switch_adds_up_tiles_to_the_bit_and_ranks_divide_them() {
    let fabric = LoopbackFabric::with_room_for(1);
    fabric.run(2, |group| {
        for (format, op) in BlockFormat::ALL
            .into_iter()
            .flat_map(|format| [Op::Reduce(ReduceOp::Sum), Op::Average].map(|op| (format, op)))
        {
            let data_type = format.data_type();
            let length = (1 << 20) + 5 * 1024;
            let inputs: Vec<Numbers> = (0..2).map(|rank| noise(rank, length, data_type)).collect();
            let reduction = Reduction { op: ReduceOp::Sum, data_type };
            let mut expected =
                reference(quincunx_collective::Collective::AllReduce, reduction, &inputs).remove(0);
            if op == Op::Average {
                expected.divide(2, data_type);
            }
            let sink = Shared(Arc::new(Mutex::new(vec![0; length])));
            let source = inputs[Rank(group.rank()).index()].bytes().to_vec();
            let buffers = Buffers { source: Box::new(source), sink: Box::new(sink.clone()) };
            group.start(Operation::AllReduce(data_type, op), buffers).unwrap().wait().unwrap();
            assert!(*sink.0.lock().unwrap() == expected.view(0..length), "{op} of {data_type}");
        }
    });
}

#[test]
fn what_is_not_defined_for_tiles_or_cuts_one_is_refused_in_a_line() {
    let fabric = LoopbackFabric::with_room_for(1);
    fabric.run(2, |group| {
        let refused = |op, length: usize| {
            let sink = Shared(Arc::new(Mutex::new(vec![0; length])));
            let buffers = Buffers { source: Box::new(vec![0; length]), sink: Box::new(sink) };
            let operation = Operation::AllReduce(BlockFormat::Nvfp4.data_type(), Op::Reduce(op));
            group.start(operation, buffers).expect_err("it is refused").to_string()
        };
        let maximum = refused(ReduceOp::Max, 64);
        assert!(maximum.starts_with("expected sum or avg of block formats, found max of nvfp4"), "{maximum}");
        let half = refused(ReduceOp::Sum, 96);
        assert!(half.starts_with("expected whole elements of 64 bytes, found 96 bytes"), "{half}");
    });
}
