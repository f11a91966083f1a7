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
        let links = self.links.len() as u64;
        let link = link_of(u64::from(group), links);
        let to = self.config.switches[link as usize];
        let header = FlitHeader::new(self.node(), to, true, u64::from(group), point, Transaction::Sync);
        self.push(link, header);
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
                let shared = self.config.program.tiles[block as usize].shared.expect("a tile with a group");
                self.series[shared.series as usize].ahead -= 1;
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
            (Phase::Leaving, BEFORE_ACCESS) => {
                state.phase = Phase::Held;
                self.held_back.push_back(block);
                self.send_held(now, out);
            }
            (Phase::Done, AFTER_ACCESS) if state.ahead => {
                state.ahead = false;
                self.ahead -= 1;
                self.send_held(now, out);
            }
            // Late, or for somebody who no longer waits.
            _ => {}
        }
    }

    /// Lets blocks send whose group is there, as far as this accelerator is not ahead of the others.
    pub(super) fn send_held(&mut self, now: Instant, out: &mut impl GpuSink<P>) {
        let throttles = self.config.program.coordination.throttle;
        while !throttles || self.ahead < self.config.blocks_ahead {
            let Some(block) = self.held_back.pop_front() else { return };
            if throttles {
                self.blocks.blocks[block as usize].ahead = true;
                self.ahead += 1;
            }
            self.send(now, block, out);
        }
    }
}
