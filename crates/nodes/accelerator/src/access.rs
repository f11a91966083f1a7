//! Which requests a block's access to a piece of a matrix becomes: the 32 B sectors of each of its rows, coalesced to packets (CAIS IV-A: "aggregating
//! multiple 32B sector requests into packets of up to 128B").

/// Bytes of a sector: what memory is read in.
pub const SECTOR: u64 = 32;

/// A piece of a matrix that lies row by row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rows {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u32,
    /// Bytes from the beginning of one to that of the next; as many as it has, or more.
    pub pitch: u64,
}

impl Rows {
    /// Bytes next to each other.
    pub const fn one(bytes: u32) -> Self {
        Self { count: 1, bytes, pitch: bytes as u64 }
    }

    /// Bytes of all of them.
    pub const fn total(&self) -> u64 {
        self.count as u64 * self.bytes as u64
    }

    /// Where each of them begins that begins at `from`.
    pub(crate) fn starts(self, from: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(self.count)).map(move |row| from + row * self.pitch)
    }
}

/// What an access asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Granularity {
    /// Whole sectors: loads.
    Sectors,
    /// Bytes, those of a line together: what is written or added says which bytes of its sectors it is.
    Bytes,
}

/// A request: so many bytes from an address on, in one line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// The requests of an access, by address: each byte of it is in one of them, and no request is in two lines. A sector in which a row ends and the
/// next one begins is asked for once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Requests {
    /// The first byte of the row that follows.
    row: u64,
    rows: Rows,
    granularity: Granularity,
    line: u64,
    /// What is left of the row.
    at: u64,
    end: u64,
}

impl Requests {
    /// Of the rows from `address` on, in lines of `line` bytes.
    pub fn new(address: u64, rows: Rows, granularity: Granularity, line: u64) -> Self {
        let rows = if rows.pitch == u64::from(rows.bytes) {
            // Rows without anything between them are one.
            Rows { count: rows.count.min(1), bytes: rows.bytes * rows.count, pitch: rows.total() }
        } else {
            rows
        };
        Self { row: address, rows, granularity, line, at: 0, end: 0 }
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.at >= self.end {
            self.rows.count = self.rows.count.checked_sub(1)?;
            let (from, to) = (self.row, self.row + u64::from(self.rows.bytes));
            let (from, to) = match self.granularity {
                Granularity::Sectors => (from / SECTOR * SECTOR, to.next_multiple_of(SECTOR)),
                Granularity::Bytes => (from, to),
            };
            self.row += self.rows.pitch;
            (self.at, self.end) = (from.max(self.end), to.max(self.end));
        }
        let address = self.at;
        self.at = ((address / self.line + 1) * self.line).min(self.end);
        Some(Request { address, length: (self.at - address) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const LINE: u64 = 128;

    fn requests(address: u64, rows: Rows, granularity: Granularity) -> Vec<Request> {
        Requests::new(address, rows, granularity, LINE).collect()
    }

    proptest! {
        #[test]
        fn an_access_covers_its_bytes_once_by_requests_in_a_line_each(
            address in 0..1000u64,
            count in 0..8u32,
            bytes in 1..600u32,
            gap in 0..300u64,
            whole in any::<bool>(),
        ) {
            let rows = Rows { count, bytes, pitch: u64::from(bytes) + gap };
            let (granularity, unit) =
                if whole { (Granularity::Sectors, SECTOR) } else { (Granularity::Bytes, 1) };
            let wanted: BTreeSet<u64> = rows
                .starts(address)
                .flat_map(|start| start / unit..(start + u64::from(bytes)).div_ceil(unit))
                .collect();
            let mut covered = BTreeSet::new();
            for Request { address, length } in requests(address, rows, granularity) {
                let end = address + u64::from(length);
                prop_assert!(length > 0 && address / LINE == (end - 1) / LINE, "in one line");
                prop_assert!(address % unit == 0 && end % unit == 0, "in whole sectors");
                for each in address / unit..end / unit {
                    prop_assert!(covered.insert(each), "{each} is asked for once");
                }
            }
            prop_assert_eq!(covered, wanted);
        }
    }

    #[test]
    fn a_tile_of_whole_lines_is_a_request_a_line() {
        // 128 rows of 64 elements of two bytes, of a matrix of 4,096 columns.
        let rows = Rows { count: 128, bytes: 128, pitch: 8192 };
        assert_eq!(requests(0, rows, Granularity::Sectors).len(), 128);
        // The same off by a sector: each row has two lines.
        assert_eq!(requests(32, rows, Granularity::Sectors).len(), 256);
    }

    #[test]
    fn a_narrow_tile_asks_for_more_than_it_needs() {
        // Rows of five elements of two bytes at byte 28: two sectors each.
        let rows = Rows { count: 16, bytes: 10, pitch: 8192 };
        let loads = requests(28, rows, Granularity::Sectors);
        assert_eq!(loads.iter().map(|load| load.length).sum::<u32>(), 16 * 64);
        let sums = requests(28, rows, Granularity::Bytes);
        assert_eq!(sums.iter().map(|sum| sum.length).collect::<Vec<_>>(), [10; 16]);
    }

    #[test]
    fn rows_without_anything_between_them_are_one() {
        let rows = Rows { count: 4, bytes: 96, pitch: 96 };
        let lengths: Vec<u32> =
            requests(0, rows, Granularity::Bytes).iter().map(|each| each.length).collect();
        assert_eq!(lengths, [128, 128, 128]);
    }
}
