//! How a sub-layer is cut into tiles and where its data lies: what all schedules have in common.
//!
//! Rows are cut into row blocks, of which each accelerator is home to as many, next to each other. Partial sums, sums and what is normalised
//! lie row block by row block, each at the same address everywhere.

use quincunx_accelerator::{CounterId, Machine, Region, Rows, SubLayer};
use quincunx_units::{ByteCount, Duration};

/// Rows of a tile are a multiple of this: what tensor cores take.
const STEP: u32 = 16;

/// A sub-layer on one accelerator.
#[derive(Clone, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) layer: &'a SubLayer,
    pub(crate) machine: &'a Machine,
    pub(crate) rank: u16,
    /// Rows of a row block.
    pub(crate) tile_rows: u32,
    /// Of these, the rows that are sent and kept in memory here: those of the planes that are simulated.
    pub(crate) sent_rows: u32,
    /// Row blocks, of all accelerators.
    pub(crate) row_blocks: u32,
}

/// A product of matrices, as far as its tiles go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) inner: u32,
}

impl<'a> Layout<'a> {
    /// # Errors
    /// If rows or columns cannot be cut.
    pub(crate) fn new(layer: &'a SubLayer, machine: &'a Machine, rank: u16) -> Result<Self, String> {
        let ranks = u32::from(machine.ranks);
        let dividers = [
            ("rows", layer.rows, ranks * STEP),
            ("a hidden size", layer.hidden, machine.tile_columns),
            ("a hidden size", layer.hidden, machine.tile_inner),
            ("columns of an accelerator", layer.columns, machine.tile_columns),
        ];
        for (what, found, by) in dividers {
            if found == 0 || !found.is_multiple_of(by) {
                return Err(format!(
                    "expected {what} in multiples of {by}, found {found}; take another number of accelerators, or other tiles"
                ));
            }
        }
        let share = layer.rows / ranks;
        let most = machine.tile_rows / STEP;
        let tile_rows = (1..=most).rev().map(|steps| steps * STEP).find(|&rows| share.is_multiple_of(rows));
        let tile_rows = tile_rows.unwrap_or(STEP);
        let planes = u32::from(machine.planes);
        if !tile_rows.is_multiple_of(planes)
            || !(layer.hidden * u32::from(machine.element)).is_multiple_of(planes)
        {
            return Err(format!(
                "expected rows and a hidden size in multiples of {planes} planes, found tiles of {tile_rows} rows; simulate more switches"
            ));
        }
        let sent_rows = tile_rows / planes;
        Ok(Self { layer, machine, rank, tile_rows, sent_rows, row_blocks: layer.rows / tile_rows })
    }

    /// The accelerator that is home to a row block.
    pub(crate) fn home(&self, row_block: u32) -> u16 {
        (row_block / self.homes_blocks()) as u16
    }

    /// Row blocks of each accelerator.
    pub(crate) fn homes_blocks(&self) -> u32 {
        self.row_blocks / u32::from(self.machine.ranks)
    }

    /// One's own row blocks.
    pub(crate) fn own(&self) -> std::ops::Range<u32> {
        let first = u32::from(self.rank) * self.homes_blocks();
        first..first + self.homes_blocks()
    }

    /// All row blocks, those of different accelerators in turn, so that traffic to and from each is spread over the whole of a product; the
    /// same order everywhere, so that the same row block's sums and loads meet in the switch.
    pub(crate) fn in_turn(&self) -> Vec<u32> {
        self.in_turn_from(0)
    }

    /// The same, but every accelerator begins with another one's, and ends with its own: what goes from accelerator to accelerator does
    /// not all go to one of them at once.
    pub(crate) fn staggered(&self) -> Vec<u32> {
        self.in_turn_from(u32::from(self.rank) + 1)
    }

    fn in_turn_from(&self, first: u32) -> Vec<u32> {
        let (each, ranks) = (self.homes_blocks(), u32::from(self.machine.ranks));
        let round = |place| (0..ranks).map(move |turn| (first + turn) % ranks * each + place);
        (0..each).flat_map(round).collect()
    }

    /// The tiles of these row blocks, of so many columns, row block by row block.
    pub(crate) fn by_row(row_blocks: &[u32], columns: u32) -> Vec<(u32, u32)> {
        row_blocks.iter().flat_map(|&row| (0..columns).map(move |column| (row, column))).collect()
    }

    /// The tiles of all row blocks, one of each accelerator's in turn: an accelerator sends its own nowhere, and would get ahead of the others
    /// if those came one after the other; and requests are spread over all homes. So many row blocks are taken at once as half of the L2 keeps:
    /// the other columns of the second product find them there.
    pub(crate) fn tile_by_tile(&self, columns: u32) -> Vec<(u32, u32)> {
        let row_blocks = self.in_turn();
        let kept = (self.machine.l2.bytes() / 2 / self.stripe()).clamp(1, u64::from(self.machine.ranks));
        let round = |round: &[u32]| -> Vec<(u32, u32)> {
            (0..columns).flat_map(|column| round.iter().map(move |&row| (row, column))).collect()
        };
        row_blocks.chunks(kept as usize).flat_map(round).collect()
    }

    /// Bytes of a row block, hidden size wide.
    pub(crate) fn stripe(&self) -> u64 {
        u64::from(self.sent_rows) * u64::from(self.layer.hidden) * u64::from(self.machine.element)
    }

    /// Bytes of all row blocks.
    pub(crate) fn vector(&self) -> u64 {
        self.stripe() * u64::from(self.row_blocks)
    }

    /// Elements of all row blocks.
    pub(crate) fn values(&self) -> usize {
        self.layer.rows as usize / usize::from(self.machine.planes) * self.layer.hidden as usize
    }

    /// Bytes of a tile of what is added up.
    pub(crate) fn tile(&self) -> u64 {
        self.stripe() / u64::from(self.sum_tiles())
    }

    /// So many columns of a row block, as they lie in memory.
    pub(crate) fn slice(&self, columns: u32) -> Rows {
        let element = u64::from(self.machine.element);
        let pitch = u64::from(self.layer.hidden) * element;
        Rows { count: self.sent_rows, bytes: columns * element as u32, pitch }
    }

    /// Tiles of a row block of what is added up.
    pub(crate) fn sum_tiles(&self) -> u32 {
        self.layer.hidden / self.machine.tile_columns
    }

    /// Tiles of a row block of the second product.
    pub(crate) fn columns(&self) -> u32 {
        self.layer.columns / self.machine.tile_columns
    }

    /// Parts of its inner dimension that a block of the second product loads one after the other.
    pub(crate) fn stages(&self) -> u32 {
        self.layer.hidden / self.machine.tile_inner
    }

    /// Where partial sums lie.
    pub(crate) fn partial(&self, row_block: u32) -> u64 {
        self.stripe() * u64::from(row_block)
    }

    /// Where sums lie.
    pub(crate) fn sum(&self, row_block: u32) -> u64 {
        self.vector() + self.partial(row_block)
    }

    /// Where what is normalised lies.
    pub(crate) fn norm(&self, row_block: u32) -> u64 {
        2 * self.vector() + self.partial(row_block)
    }

    /// Bytes of memory, for as many vectors.
    pub(crate) fn memory(&self) -> usize {
        3 * self.vector() as usize
    }

    /// The counters of what arrives among sums, one a row block from `counter` on.
    pub(crate) fn sums(&self, counter: u16) -> Region {
        self.region(self.sum(0), counter)
    }

    /// The same of what is normalised.
    pub(crate) fn norms(&self, counter: u16) -> Region {
        self.region(self.norm(0), counter)
    }

    fn region(&self, address: u64, counter: u16) -> Region {
        Region { address, length: self.vector(), part: self.stripe(), counter: CounterId(counter) }
    }

    /// The first product: partial sums.
    pub(crate) const fn first(&self) -> Product {
        Product { rows: self.layer.rows, columns: self.layer.hidden, inner: self.layer.inner }
    }

    /// The second product.
    pub(crate) const fn second(&self) -> Product {
        Product { rows: self.layer.rows, columns: self.layer.columns, inner: self.layer.hidden }
    }

    /// How long an SM computes a tile of a product: the longer of arithmetic and of the tile's share of the traffic to memory, in which each
    /// matrix is read or written once (Williams et al., Roofline, 2009).
    pub(crate) fn tile_time(&self, product: Product) -> Duration {
        let Product { rows, columns, inner } = product;
        let [rows, columns, inner] = [rows, columns, inner].map(u64::from);
        let Machine { tensor, memory, sms, element, tile_columns, .. } = self.machine;
        let tile = u64::from(self.tile_rows) * u64::from(*tile_columns);
        let sms = u64::from(*sms);
        let arithmetic = tensor.time_for(2 * tile * inner * sms);
        let elements = rows * inner + inner * columns + rows * columns;
        let tiles = (rows * columns).div_ceil(tile).max(1);
        let traffic = memory.time_for(ByteCount::new(elements * u64::from(*element) * sms / tiles));
        arithmetic.max(traffic)
    }

    /// How long an SM takes to normalise a block's rows: its share of what all of them take.
    pub(crate) fn norm_time(&self, rows: u32) -> Duration {
        let bytes = u64::from(rows) * u64::from(self.layer.hidden) * u64::from(self.machine.element);
        self.machine.norm_time(ByteCount::new(bytes * u64::from(self.machine.sms)), self.layer.backward)
    }

    /// Rows of a block of the normalisation, and such blocks of a row block.
    pub(crate) fn norm_blocks(&self) -> (u32, u32) {
        let rows = (1..=self.machine.norm_rows.min(self.tile_rows)).rev();
        let rows = rows.into_iter().find(|&rows| self.tile_rows.is_multiple_of(rows)).unwrap_or(1);
        (rows, self.tile_rows / rows)
    }
}
