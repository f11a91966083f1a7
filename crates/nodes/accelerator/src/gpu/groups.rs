//! How blocks wait for those of their group on other accelerators (CAIS III-B2): a sync to a switch, and its release.

use super::*;

impl<P: Payload> Gpu<P> {
    pub(super) fn group(&self, block: BlockNumber) -> Option<u32> {
        let (kernel, place) = self.blocks.place(block);
        self.config.program.kernels[kernel].blocks[place].group
    }

    pub(super) fn sync(
        &mut self,
        now: Instant,
        block: BlockNumber,
        group: u32,
        point: u32,
        out: &mut impl GpuSink<P>,
    ) {
        // A group's number as a line's: groups are spread over switches as lines are.
        let link = link_of(u64::from(group), 1, self.links.len() as u16);
        let to = self.config.switches[usize::from(link.0)];
        let header = FlitHeader::new(self.node(), to, true, u64::from(group), point, Transaction::Sync);
        self.push(u64::from(link.0), header);
        self.syncs.push_back((now + self.config.sync_timeout, block, point));
        self.arm_sync(now, out);
    }

    pub(super) fn arm_sync(&mut self, now: Instant, out: &mut impl GpuSink<P>) {
        while let Some(&(until, block, point)) = self.syncs.front() {
            let state = |block: BlockNumber| &self.blocks.blocks[block as usize];
            let is_waiting = match point {
                BEFORE_LAUNCH => state(block).phase == Phase::Registered,
                BEFORE_ACCESS => matches!(state(block).phase, Phase::Entering | Phase::Leaving),
                AFTER_ACCESS => state(block).ahead,
                IN_ORDER => state(block).phase == Phase::Held,
                // Here the number is a tile's.
                _ => self.is_ahead[block as usize],
            };
            if is_waiting {
                if !self.sync_armed {
                    self.sync_armed = true;
                    out.set_timer(GpuTimer::Sync, until.since(now));
                }
                return;
            }
            self.syncs.pop_front();
        }
    }

    /// A block's group has come to a point, or it has waited long enough.
    pub(super) fn go_on(&mut self, now: Instant, block: BlockNumber, point: u32, out: &mut impl GpuSink<P>) {
        if point == ASKED {
            if core::mem::take(&mut self.is_ahead[block as usize]) {
                let tile = self.config.program.tiles[block as usize];
                let shared = tile.shared.expect("a tile with a group");
                self.series[shared.series as usize].ahead -= tile.rows.total();
                self.ask_held(now, shared.series, out);
            }
            return;
        }
        let state = &mut self.blocks.blocks[block as usize];
        match (state.phase, point) {
            (Phase::Registered, BEFORE_LAUNCH) => {
                state.phase = Phase::Waiting;
                let program = self.config.program.clone();
                self.blocks.release(&program, block);
            }
            (Phase::Entering, BEFORE_ACCESS) => self.run(now, block, out),
            (Phase::Leaving, BEFORE_ACCESS) => match self.throttled_home(block) {
                Some((home, _)) => {
                    self.blocks.blocks[block as usize].phase = Phase::Held;
                    self.homes[home].held.insert(block);
                    self.syncs.push_back((now + self.config.sync_timeout, block, IN_ORDER));
                    self.send_held(now, home, out);
                    self.arm_sync(now, out);
                }
                None => self.send(now, block, out),
            },
            (Phase::Done, AFTER_ACCESS) if state.ahead => {
                state.ahead = false;
                if let Some((home, bytes)) = self.throttled_home(block) {
                    self.homes[home].ahead -= bytes;
                    self.send_held(now, home, out);
                }
            }
            // Those before it have not come in all that time.
            (Phase::Held, IN_ORDER) => {
                let (home, bytes) = self.throttled_home(block).expect("only such blocks are held");
                self.homes[home].order.retain(|&other| other != block);
                self.homes[home].held.remove(&block);
                self.send_ahead(now, block, home, bytes, out);
            }
            // Late, or for somebody who no longer waits.
            _ => {}
        }
    }

    /// Where a block's sums go to and how many bytes, if who is ahead waits for the others.
    fn throttled_home(&self, block: BlockNumber) -> Option<(usize, u64)> {
        let (kernel, place) = self.blocks.place(block);
        let kernel = &self.config.program.kernels[kernel];
        let block = &kernel.blocks[place];
        let bytes = block.outputs.iter().map(|output| output.rows.total()).sum();
        let home = kernel.home_of(block).filter(|_| self.config.program.coordination.throttle)?;
        (home < self.config.ranks).then_some((usize::from(home), bytes))
    }

    /// Lets blocks send to a home whose group is there, in order and as far as this accelerator is not ahead of the others.
    fn send_held(&mut self, now: Instant, home: usize, out: &mut impl GpuSink<P>) {
        while let Some(&block) = self.homes[home].order.front() {
            let (_, bytes) = self.throttled_home(block).expect("only such blocks are in the order");
            let ahead = self.homes[home].ahead + bytes;
            let is_own = home == usize::from(self.config.rank);
            let may = ahead <= self.config.sums_ahead || ahead == bytes || is_own;
            let state = &mut self.homes[home];
            if !may || !state.held.remove(&block) {
                return;
            }
            state.order.pop_front();
            self.send_ahead(now, block, home, bytes, out);
        }
    }

    /// Sends a block's sums, of which the others tell when they have sent theirs.
    fn send_ahead(
        &mut self,
        now: Instant,
        block: BlockNumber,
        home: usize,
        bytes: u64,
        out: &mut impl GpuSink<P>,
    ) {
        self.homes[home].ahead += bytes;
        self.blocks.blocks[block as usize].ahead = true;
        self.send(now, block, out);
    }
}
