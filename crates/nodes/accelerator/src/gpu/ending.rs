//! How blocks and kernels end: what they send, and whom they tell.

use super::*;

impl<P: Payload> Gpu<P> {
    /// All stages are computed: the block sends, with its group if the switch may merge that.
    pub(super) fn leave(&mut self, now: Instant, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let (kernel, _) = self.blocks.place(block);
        let program = &self.config.program;
        let waits = program.coordination.pre_access && program.kernels[kernel].merges == Merges::Reductions;
        match self.group(block).filter(|_| waits) {
            Some(group) => {
                self.blocks.blocks[block as usize].phase = Phase::Leaving;
                self.sync(now, block, group, BEFORE_ACCESS, out);
            }
            None => self.send(now, block, None, out),
        }
    }

    /// Sends what a block has computed. Bytes of sums that are `ahead` at a home are so until the others have added theirs.
    pub(super) fn send(
        &mut self,
        now: Instant,
        block: BlockNumber,
        ahead: Option<(usize, u64)>,
        out: &mut impl GpuSink<P>,
    ) {
        let (kernel, place) = self.blocks.place(block);
        let program = self.config.program.clone();
        self.blocks.blocks[block as usize].phase = Phase::Sending;
        let outputs = &program.kernels[kernel].blocks[place].outputs;
        let merges = |output: &Output| output.send == Send::MergedReduce && output.to != self.config.rank;
        let last = outputs.iter().rposition(merges).filter(|_| ahead.is_some());
        let mut unsent = 0;
        for (number, output) in outputs.iter().enumerate() {
            let notify = last == Some(number);
            let (packets, address) = self.output(output, block, notify);
            unsent += packets;
            if let Some((address, (home, bytes))) = address.filter(|_| notify).zip(ahead) {
                self.homes[home].ahead += bytes;
                self.wait_for_others(now, address, ADDED, block, out);
            }
        }
        self.blocks.blocks[block as usize].unsent = unsent;
        if unsent == 0 {
            self.end_block(block, out);
        }
    }

    /// Sends a piece, or adds or writes it at once if it stays here; how many packets it is, and where the last begins.
    fn output(&mut self, output: &Output, block: BlockNumber, notify: bool) -> (u32, Option<u64>) {
        let Output { send, to, address, local, rows } = *output;
        let is_own = to == self.config.rank;
        let (to, inc, tag, transaction) = match send {
            Send::Reduce | Send::MergedReduce | Send::Store if is_own => {
                let bytes = rows.bytes as usize;
                for start in rows.starts(address) {
                    let from = (local as u64 + start - address) as usize;
                    let own = P::from_view(self.memory.view(from..from + bytes));
                    match send {
                        Send::Store => self.memory.write(start as usize, own.view(0..bytes)),
                        _ => self.memory.reduce(start as usize, own.view(0..bytes), self.config.reduction),
                    }
                    self.count(start, bytes as u64);
                }
                return (0, None);
            }
            // A reduction says how many contributions it is.
            Send::Reduce => (Some(NodeId(to)), false, 1, Transaction::Reduce),
            Send::MergedReduce => (Some(NodeId(to)), true, 1, Transaction::Reduce),
            Send::Store => (Some(NodeId(to)), false, 0, Transaction::Write),
            Send::PushReduce => (None, false, 0, Transaction::MultimemReduce),
            Send::MulticastStore => (None, false, 0, Transaction::MultimemStore),
        };
        let line = self.config.format.max_payload as u64;
        let requests = Requests::new(address, rows, Granularity::Bytes, line);
        let header = FlitHeader { notify, ..self.header(to, inc, tag, transaction) };
        self.transfer(to, header, address, local, &requests, Some(block))
    }

    pub(super) fn end_block(&mut self, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let (kernel, place) = self.blocks.place(block);
        let program = self.config.program.clone();
        let state = &mut self.blocks.blocks[block as usize];
        assert_eq!(state.phase, Phase::Sending, "a block ends once");
        state.phase = Phase::Done;
        state.missing = Vec::new();
        if let Some(sm) = state.sm.take() {
            let whole = matches!(program.kernels[kernel].place, KernelPlace::WholeSm(_));
            self.sms.give(sm, whole);
        }
        self.signal(&program.kernels[kernel].blocks[place].signals);
        self.blocks.give_back(&program, kernel);
        if self.blocks.kernels[kernel].done as usize == program.kernels[kernel].blocks.len() {
            self.end_kernel(kernel, out);
        }
    }

    pub(super) fn end_kernel(&mut self, kernel: usize, out: &mut impl GpuSink<P>) {
        let program = self.config.program.clone();
        self.sms.reserve(self.blocks.whole_sms(&program));
        self.signal(&program.kernels[kernel].signals);
        out.emit(GpuEvent::Ended { kernel: kernel as u16 });
    }

    pub(super) fn signal(&mut self, signals: &[crate::Signal]) {
        for signal in signals {
            let (own, links) = (self.config.rank, self.links.len() as u64);
            let link = u64::from(signal.counter.0) % links;
            match signal.to {
                To::Own => self.blocks.add(signal.counter, 1, &mut self.launching),
                To::All => {
                    self.blocks.add(signal.counter, 1, &mut self.launching);
                    for rank in (0..self.config.ranks).filter(|&rank| rank != own) {
                        self.tell(link, NodeId(rank), false, signal.counter);
                    }
                }
                To::Switches => {
                    for link in 0..links {
                        self.tell(link, self.config.switches[link as usize], true, signal.counter);
                    }
                }
            }
        }
    }

    /// Adds one to a word of another node.
    fn tell(&mut self, link: u64, to: NodeId, inc: bool, word: CounterId) {
        let (address, transaction) = (word_address(word.0), Transaction::Add { operand: 1 });
        self.push(link, FlitHeader::new(self.node(), to, inc, address, 0, transaction));
    }
}
