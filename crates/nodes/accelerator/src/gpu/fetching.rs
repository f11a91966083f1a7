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
        let may_wait = self.config.program.coordination.throttle && tile.fetch == Fetch::MergedLoad && !again;
        match tile.series.filter(|_| may_wait) {
            Some(series) => {
                self.series[series as usize].held.push_back(id);
                self.ask_held(now, series, out);
            }
            None => {
                self.load(id, tile, false);
            }
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
            series.held.pop_front();
            if let Some(last) = self.load(id, &tile, true) {
                self.series[number as usize].ahead = ahead;
                self.wait_for_others(now, last, LOADED, id.0, out);
            }
        }
    }

    /// Asks for a tile; where its last request begins. It wants to hear when the others have come there if `notify`.
    pub(super) fn load(&mut self, id: TileId, tile: &Tile, notify: bool) -> Option<u64> {
        let asked = Transaction::Read { length: 0 };
        let (inc, transaction) = match tile.fetch {
            Fetch::Own => return None,
            Fetch::Load => (false, asked),
            Fetch::MergedLoad => (true, asked),
            Fetch::ReducedLoad => (false, Transaction::MultimemLoadReduce { length: 0 }),
        };
        let to = (tile.fetch != Fetch::ReducedLoad).then_some(NodeId(tile.from));
        let header = FlitHeader { notify, ..self.header(to, inc, id.0, transaction) };
        self.transfer(to, header, tile.address, tile.local, &self.requests_of(tile), None).1
    }

    /// The header of a transfer's packets, but for where they go to if that is a switch.
    pub(super) fn header(
        &self,
        to: Option<NodeId>,
        inc: bool,
        tag: u32,
        transaction: Transaction,
    ) -> FlitHeader {
        FlitHeader::new(self.node(), to.unwrap_or(self.node()), inc, 0, tag, transaction)
    }

    /// The requests that a tile is loaded by.
    fn requests_of(&self, tile: &Tile) -> Requests {
        Requests::new(tile.address, tile.rows, Granularity::Sectors, self.config.format.max_payload as u64)
    }

    /// Puts a transfer into the queues of all links that have requests of it; how many packets it is, and where the last begins, which alone
    /// asks to hear of the others.
    pub(super) fn transfer(
        &mut self,
        to: Option<NodeId>,
        header: FlitHeader,
        address: u64,
        local: usize,
        requests: &Requests,
        owner: Option<BlockNumber>,
    ) -> (u32, Option<u64>) {
        self.sequence += 1;
        let (line, links) = (self.config.format.max_payload as u64, self.links.len() as u16);
        let (mut packets, mut last) = (0, None);
        for request in requests.clone() {
            (packets, last) = (packets + 1, Some(request.address));
        }
        let at_last = last.map(|last| link_of(last, line as usize, links));
        for link in 0..links {
            let transfer = Transfer::new(address, local, requests.clone(), line, PortId(link), links);
            if transfer.is_some() {
                let destination = to.unwrap_or(self.config.switches[usize::from(link)]);
                let notify = header.notify && at_last == Some(PortId(link));
                let header = FlitHeader { destination, notify, ..header };
                let job = Job { header, transfer, owner, sequence: self.sequence };
                self.links[usize::from(link)].sending.push(job);
            }
        }
        (packets, last)
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
