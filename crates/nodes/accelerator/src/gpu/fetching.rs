//! How an accelerator fetches tiles: once each, in the order in which blocks ask for them, and as far as it is not ahead of the others.

use super::*;

impl<P: Payload> Gpu<P> {
    /// Asks for the tiles of the next stages.
    pub(super) fn ask(&mut self, now: Instant, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let program = self.config.program.clone();
        let (kernel, place) = self.blocks.place(block);
        let stages = &program.kernels[kernel].blocks[place].stages;
        loop {
            let state = &mut self.blocks.blocks[block as usize];
            let stage = state.asked;
            if usize::from(stage) >= stages.len() || stage > state.stage + self.config.prefetch {
                return;
            }
            state.asked += 1;
            let mut missing = 0;
            for &tile in &stages[usize::from(stage)].tiles {
                if self.fetch(now, tile, &program.tiles[tile.0 as usize], block, stage, out) {
                    missing += 1;
                }
            }
            self.blocks.blocks[block as usize].missing[usize::from(stage)] = missing;
        }
    }

    /// Whether a tile is missing; it has been asked for then, or is held back.
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        id: TileId,
        tile: &Tile,
        block: BlockNumber,
        stage: u16,
        out: &mut impl GpuSink<P>,
    ) -> bool {
        match &mut self.tiles[id.0 as usize] {
            TileState::Present => {
                self.cache.touch(id);
                return false;
            }
            TileState::Pending { waiters, .. } => {
                waiters.push((block, stage));
                return true;
            }
            TileState::Absent | TileState::Evicted => {}
        }
        let is_own = tile.fetch == Fetch::Own;
        // The others were there when it was asked for first; nobody waits for who reads again.
        let again = self.tiles[id.0 as usize] == TileState::Evicted;
        self.tiles[id.0 as usize] = match is_own {
            true => TileState::Present,
            false => {
                let missing = self.requests_of(tile).map(|load| load.length).sum();
                TileState::Pending { missing, waiters: vec![(block, stage)] }
            }
        };
        match tile.shared.filter(|_| self.config.program.coordination.throttle && !again) {
            Some(shared) => {
                self.series[shared.series as usize].held.push_back(id);
                self.ask_held(now, shared.series, out);
            }
            None => self.load(id, tile),
        }
        !is_own
    }

    /// Asks for the next tiles of a series, as far as this accelerator is not ahead of the others.
    pub(super) fn ask_held(&mut self, now: Instant, number: u32, out: &mut impl GpuSink<P>) {
        while let Some(&id) = self.series[number as usize].held.front() {
            let series = &mut self.series[number as usize];
            let tile = self.config.program.tiles[id.0 as usize];
            let ahead = series.ahead + tile.rows.total();
            if series.ahead > 0 && ahead > self.config.loads_ahead {
                return;
            }
            series.ahead = ahead;
            series.held.pop_front();
            self.is_ahead[id.0 as usize] = true;
            self.load(id, &tile);
            let shared = tile.shared.expect("only tiles of a series are held");
            self.sync(now, id.0, shared.group, ASKED, out);
        }
    }

    pub(super) fn load(&mut self, id: TileId, tile: &Tile) {
        let asked = Transaction::Read { length: 0 };
        let (inc, transaction) = match tile.fetch {
            Fetch::Own => return,
            Fetch::Load => (false, asked),
            Fetch::MergedLoad => (true, asked),
            Fetch::ReducedLoad => (false, Transaction::MultimemLoadReduce { length: 0 }),
        };
        let to = (tile.fetch != Fetch::ReducedLoad).then_some(NodeId(tile.from));
        let requests = self.requests_of(tile);
        self.transfer(to, inc, id.0, transaction, tile.address, tile.local, &requests, None);
    }

    /// The requests that a tile is loaded by.
    fn requests_of(&self, tile: &Tile) -> Requests {
        Requests::new(tile.address, tile.rows, Granularity::Sectors, self.config.format.max_payload as u64)
    }

    /// Puts a transfer into the queues of all links that have requests of it; how many packets it is.
    #[allow(clippy::too_many_arguments, reason = "a transfer is all of these")]
    pub(super) fn transfer(
        &mut self,
        to: Option<NodeId>,
        inc: bool,
        tag: u32,
        transaction: Transaction,
        address: u64,
        local: usize,
        requests: &Requests,
        owner: Option<BlockNumber>,
    ) -> u32 {
        self.sequence += 1;
        let (line, links) = (self.config.format.max_payload as u64, self.links.len() as u16);
        for link in 0..links {
            let transfer = Transfer::new(address, local, requests.clone(), line, PortId(link), links);
            if transfer.is_some() {
                let to = to.unwrap_or(self.config.switches[usize::from(link)]);
                let header = FlitHeader::new(self.node(), to, inc, 0, tag, transaction);
                let job = Job { header, transfer, owner, sequence: self.sequence };
                self.links[usize::from(link)].sending.push(job);
            }
        }
        requests.clone().count() as u32
    }

    /// A piece of a tile has arrived.
    pub(super) fn fetched(
        &mut self,
        now: Instant,
        link: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
        out: &mut impl GpuSink<P>,
    ) -> Result<(), GpuDrop> {
        let length = P::view_length(P::reborrow(payload)) as u32;
        let tile = self.config.program.tiles.get(header.tag as usize).copied();
        let tile = tile.ok_or(GpuDrop::UnexpectedResponse)?;
        let last = tile.rows.starts(tile.address).last().unwrap_or(tile.address) + u64::from(tile.rows.bytes);
        let is_inside = header.address >= tile.address / SECTOR * SECTOR
            && header.address.saturating_add(u64::from(length)) <= last.next_multiple_of(SECTOR);
        let TileState::Pending { missing, .. } = &mut self.tiles[header.tag as usize] else {
            return Err(GpuDrop::UnexpectedResponse);
        };
        if !is_inside || length == 0 || *missing < length {
            return Err(GpuDrop::UnexpectedResponse);
        }
        let loads = &mut self.links[usize::from(link.0)].sending.loads;
        *loads = loads.checked_sub(1).ok_or(GpuDrop::UnexpectedResponse)?;
        *missing -= length;
        let is_whole = *missing == 0;
        self.memory.write((tile.local as u64 + header.address - tile.address) as usize, payload);
        if is_whole {
            for evicted in self.cache.keep(TileId(header.tag), tile.rows.total()) {
                self.tiles[evicted.0 as usize] = TileState::Evicted;
            }
            let state = core::mem::replace(&mut self.tiles[header.tag as usize], TileState::Present);
            let TileState::Pending { waiters, .. } = state else { unreachable!("it was pending") };
            for (block, stage) in waiters {
                self.blocks.blocks[block as usize].missing[usize::from(stage)] -= 1;
                self.try_compute(now, block, out);
            }
            self.settle(now, out);
        }
        Ok(())
    }
}
