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
        self.wait(now, u64::from(block), point, out);
    }

    /// Waits for what a release says, or for long enough.
    fn wait(&mut self, now: Instant, who: u64, point: u32, out: &mut impl GpuSink<P>) {
        self.syncs.push_back((now + self.config.sync_timeout, who, point));
        self.arm_sync(now, out);
    }

    /// A tile or a block's sums count among those that are ahead of the others, until these have come to its last address.
    pub(super) fn wait_for_others(
        &mut self,
        now: Instant,
        address: u64,
        point: u32,
        number: u32,
        out: &mut impl GpuSink<P>,
    ) {
        self.ahead.insert((address, point, number));
        self.wait(now, address, point, out);
    }

    /// The others have come to an address, or have not in all that time.
    pub(super) fn caught_up(&mut self, now: Instant, address: u64, point: u32, out: &mut impl GpuSink<P>) {
        // Two of them may have the same last address.
        let settled: Vec<_> = self.waiting_at(address, point).collect();
        for waiting in settled {
            self.ahead.remove(&waiting);
            let (_, _, number) = waiting;
            if point == LOADED {
                let tile = self.config.program.tiles[number as usize];
                let series = tile.series.expect("only tiles of a series are waited for");
                self.series[series as usize].ahead -= tile.rows.total();
                self.ask_held(now, series, out);
            } else {
                let (home, bytes) = self.throttled_home(number).expect("only such blocks are waited for");
                self.homes[home].ahead -= bytes;
                self.send_held(now, home, out);
            }
        }
    }

    fn waiting_at(&self, address: u64, point: u32) -> impl Iterator<Item = (u64, u32, u32)> {
        self.ahead.range((address, point, 0)..=(address, point, u32::MAX)).copied()
    }

    pub(super) fn arm_sync(&mut self, now: Instant, out: &mut impl GpuSink<P>) {
        while let Some(&(until, who, point)) = self.syncs.front() {
            let phase = || self.blocks.blocks[who as usize].phase;
            let is_waiting = match point {
                BEFORE_LAUNCH => phase() == Phase::Registered,
                BEFORE_ACCESS => matches!(phase(), Phase::Entering | Phase::Leaving),
                IN_ORDER => phase() == Phase::Held,
                _ => self.waiting_at(who, point).next().is_some(),
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
                    self.send_held(now, home, out);
                    self.wait(now, u64::from(block), IN_ORDER, out);
                }
                None => self.send(now, block, None, out),
            },
            // Those before it have not come in all that time.
            (Phase::Held, IN_ORDER) => {
                let home = self.throttled_home(block).expect("only such blocks are held");
                self.homes[home.0].order.retain(|&other| other != block);
                self.homes[home.0].held.remove(&block);
                self.send(now, block, Some(home), out);
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
            self.send(now, block, Some((home, bytes)), out);
        }
    }

    /// Panics if what is ahead of the others is not what is waited for.
    pub(super) fn assert_ahead(&self) {
        let mut homes = vec![0; self.homes.len()];
        let mut series = vec![0; self.series.len()];
        for &(_, point, number) in &self.ahead {
            if point == LOADED {
                let Tile { series: of, rows, .. } = self.config.program.tiles[number as usize];
                series[of.expect("only tiles of a series are waited for") as usize] += rows.total();
            } else {
                let (home, bytes) = self.throttled_home(number).expect("only such blocks are waited for");
                homes[home] += bytes;
            }
        }
        assert!(self.homes.iter().map(|home| home.ahead).eq(homes), "sums that are ahead are waited for");
        assert!(self.series.iter().map(|each| each.ahead).eq(series), "tiles that are ahead are waited for");
    }
}
