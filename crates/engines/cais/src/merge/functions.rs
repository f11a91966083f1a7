//! The two micro-functions: merging loads and merging reductions (CAIS III-A3, figure 6).

use super::{Leaving, Merge};
use crate::table::{Entry, Kind, Status, Waiting};
use crate::{MergeDrop, Mutation};
use quincunx_collective::Payload;
use quincunx_design::Buffer;
use quincunx_engine::PortId;
use quincunx_units::Instant;
use quincunx_wire::flit::{Channel, Class, FlitHeader, Transaction};

impl<P: Payload> Merge<P> {
    /// Micro-function 1 (III-A3): a load.
    pub(super) fn load(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        length: usize,
    ) -> Result<Buffer, MergeDrop> {
        let home = self.home(header, length)?;
        self.statistics.0[home].loads += 1;
        let table = &mut self.tables[home];
        let waiting = Waiting { requester: header.source, tag: header.tag };
        if self.config.mutation == Some(Mutation::IgnoresType)
            && let Some(sum) = table.find(header.address, Kind::Reduction)
        {
            let data = table.entry(sum).data.clone();
            self.answer(now, home, header.address, waiting, data);
            return Ok(Buffer::Free);
        }
        // Step 1: a match in the lookup table.
        let Some(number) = table.find(header.address, Kind::Load) else {
            // Step 2: a new entry, and the request goes on to the home.
            let mut held = Some((port, Channel::new(Class::Read, true)));
            if !self.evict_if_full(now, home, &mut held) {
                return Ok(self.bypass(now, home, header, P::zeroed(0)));
            }
            let table = &mut self.tables[home];
            let number = table.insert(header.address, Status::LoadWait, length, now, P::zeroed(0));
            let entry = table.entry_mut(number);
            (entry.count, entry.seen) = (1, 1 << port.0);
            entry.notify = u64::from(header.notify) << port.0;
            entry.waiting.push(waiting);
            let read = Transaction::Read { length: length as u16 };
            let read =
                FlitHeader::new(self.config.node, header.destination, false, header.address, number, read);
            self.send(now, Leaving::Core(PortId(home as u16), read, P::zeroed(0), None));
            self.tell_level(home);
            return Ok(if held.is_none() { Buffer::Held } else { Buffer::Free });
        };
        let most = 2 * usize::from(self.config.accelerators);
        let entry = table.entry_mut(number);
        if entry.length != length || entry.waiting.len() >= most {
            return Ok(self.bypass(now, home, header, P::zeroed(0)));
        }
        // Step 4: a hit.
        entry.count += 1;
        entry.seen |= 1 << port.0;
        entry.notify |= u64::from(header.notify) << port.0;
        entry.requested.0[1] = now;
        let data = match entry.status {
            Status::LoadWait if self.config.mutation == Some(Mutation::AnswersBeforeData) => {
                Some(P::zeroed(length))
            }
            Status::LoadWait => {
                entry.waiting.push(waiting);
                None
            }
            _ => Some(P::from_view(entry.data.view(0..length))),
        };
        let is_ready = entry.status == Status::LoadReady;
        table.touch(number, now);
        self.statistics.0[home].merged_loads += 1;
        if let Some(data) = data {
            self.answer(now, home, header.address, waiting, data);
        }
        if self.is_over(home, number) {
            self.tell_waiting(now, home, number);
            if is_ready {
                self.end(now, home, number);
            }
        }
        Ok(Buffer::Free)
    }

    /// Step 3 of micro-function 1: the data of a load.
    pub(super) fn fill(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, MergeDrop> {
        let (home, number) = (usize::from(port.0), header.tag);
        let length = P::view_length(P::reborrow(payload));
        let table = &mut self.tables[home];
        // An entry that waits for data is never given up, so that no answer can come too late.
        let expected = |entry: &Entry<P>| {
            entry.status == Status::LoadWait && entry.address == header.address && entry.length == length
        };
        let is_ours = header.destination == self.config.node && !header.inc;
        if !is_ours || !table.known(number).is_some_and(expected) {
            return Err(MergeDrop::UnexpectedResponse);
        }
        let waiting = core::mem::take(&mut table.entry_mut(number).waiting);
        table.fill(number, P::from_view(payload), now);
        for &each in &waiting {
            let is_first = self.config.mutation == Some(Mutation::AnswersFirstAgain);
            let each = if is_first { waiting[0] } else { each };
            let data = P::from_view(self.tables[home].entry(number).data.view(0..length));
            self.answer(now, home, header.address, each, data);
        }
        // Its room is used again.
        let mut waiting = waiting;
        waiting.clear();
        self.tables[home].entry_mut(number).waiting = waiting;
        // Step 5: all have been served.
        if self.is_over(home, number) {
            self.end(now, home, number);
        }
        Ok(Buffer::Free)
    }

    /// Micro-function 2 (III-A3): a reduction.
    pub(super) fn reduce(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, MergeDrop> {
        let length = P::view_length(P::reborrow(payload));
        let home = self.home(header, length)?;
        if !length.is_multiple_of(self.config.reduction.data_type.size()) {
            return Err(MergeDrop::BadLength);
        }
        let contributions = header.tag;
        if !(1..=u32::from(self.config.participants)).contains(&contributions) {
            return Err(MergeDrop::Contributions);
        }
        self.statistics.0[home].reductions += 1;
        let mut held = Some((port, Channel::new(Class::Write, true)));
        let table = &mut self.tables[home];
        if self.config.mutation == Some(Mutation::IgnoresType)
            && let Some(load) = table.find(header.address, Kind::Load)
        {
            // What is added to cached data never goes home.
            table.entry_mut(load).count += 1;
            return Ok(Buffer::Free);
        }
        let number = match table.find(header.address, Kind::Reduction) {
            Some(number) if table.entry(number).length == length => {
                let entry = table.entry_mut(number);
                entry.data.reduce(0, payload, self.config.reduction);
                entry.requested.0[1] = now;
                table.touch(number, now);
                self.statistics.0[home].merged_reductions += 1;
                number
            }
            Some(_) => return Ok(self.bypass(now, home, header, P::from_view(payload))),
            // Nothing to wait for: what comes is whole.
            None if contributions >= self.least() => {
                self.tell_sender(now, header);
                self.send_sum(now, home, header.address, contributions, P::from_view(payload), held);
                return Ok(Buffer::Held);
            }
            None => {
                if !self.evict_if_full(now, home, &mut held) {
                    return Ok(self.bypass(now, home, header, P::from_view(payload)));
                }
                let sum = P::from_view(payload);
                let number = self.tables[home].insert(header.address, Status::Reduction, length, now, sum);
                self.tell_level(home);
                number
            }
        };
        let least = self.least();
        let entry = self.tables[home].entry_mut(number);
        entry.count += contributions;
        entry.seen |= 1 << port.0;
        entry.notify |= u64::from(header.notify) << port.0;
        if entry.count >= least {
            let (address, count) = (entry.address, entry.count);
            self.tell_waiting(now, home, number);
            let entry = self.tables[home].entry_mut(number);
            let sum = if self.config.mutation == Some(Mutation::KeepsSum) {
                (entry.count, entry.seen) = (0, 0);
                entry.data.clone()
            } else {
                self.end(now, home, number)
            };
            self.send_sum(now, home, address, count, sum, held.take());
        }
        Ok(if held.is_none() { Buffer::Held } else { Buffer::Free })
    }

    /// Contributions at which a sum is whole.
    pub(super) fn least(&self) -> u32 {
        let participants = u32::from(self.config.participants);
        match self.config.mutation {
            Some(Mutation::ReleasesEarly) => participants.saturating_sub(1).max(1),
            _ => participants,
        }
    }

    /// Whether a load entry has served all who may ask. Different accelerators are counted, for two thread blocks of one may load the
    /// same.
    pub(super) fn is_over(&self, home: usize, number: u32) -> bool {
        let entry = self.tables[home].entry(number);
        let served = match self.config.mutation {
            Some(Mutation::CountsRequests) => entry.count,
            _ => entry.seen.count_ones(),
        };
        served >= u32::from(self.config.participants)
    }
}
