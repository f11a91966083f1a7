//! The table that `perf` and `sim` print: the columns of nccl-tests, and `netbw`.

use std::fmt;

/// Characters of the first column where no design has a longer name.
const WIDTH: usize = 8;

/// One line; the formatter's width is that of the first column. Time in microseconds, rates in 10^9 bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The design, or what it fell back to.
    pub design: &'a str,
    /// The collective.
    pub collective: &'a str,
    /// Bytes.
    pub size: u64,
    /// Elements.
    pub count: u64,
    /// Data type.
    pub data_type: &'a str,
    /// Operation; `none` where nothing is combined.
    pub redop: &'a str,
    /// Root, or -1.
    pub root: i32,
    /// Time.
    pub time: f64,
    /// Size over time.
    pub algbw: f64,
    /// What a host algorithm would move over its busiest link in that time.
    pub busbw: f64,
    /// What really crossed the busiest link.
    pub netbw: f64,
    /// Wrong elements; none if nobody looked.
    pub wrong: Option<u64>,
}

impl Columns<'_> {
    /// How wide the first column is for these designs, in characters.
    pub fn width<'a>(designs: impl IntoIterator<Item = &'a str>) -> usize {
        designs.into_iter().map(|name| name.chars().count()).fold(WIDTH, usize::max)
    }

    /// The two lines above the table, whose first column is so wide.
    pub fn header(width: usize) -> String {
        let line = |cells: [&str; 12]| {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = cells;
            format!(
                "{a:<width$} {b:<14} {c:>10} {d:>9} {e:>5} {f:>5} {g:>4} {h:>11} {i:>9} {j:>9} {k:>9} {l:>7}"
            )
        };
        let names = line([
            "design",
            "collective",
            "size",
            "count",
            "type",
            "redop",
            "root",
            "time",
            "algbw",
            "busbw",
            "netbw",
            "#wrong",
        ]);
        let units = line(["", "", "(B)", "(elem)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", ""]);
        format!("{names}\n{}", units.trim_end())
    }
}

impl fmt::Display for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { design, collective, size, count, data_type, redop, root, .. } = self;
        let Self { time, algbw, busbw, netbw, wrong, .. } = self;
        let width = f.width().unwrap_or(WIDTH);
        write!(
            f,
            "{design:<width$} {collective:<14} {size:>10} {count:>9} {data_type:>5} {redop:>5} {root:>4} "
        )?;
        write!(f, "{time:>11.1} {algbw:>9.4} {busbw:>9.4} {netbw:>9.4} ")?;
        match wrong {
            Some(wrong) => write!(f, "{wrong:>7}"),
            None => write!(f, "{:>7}", "-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_ends_under_its_name() {
        let row = Columns {
            design: "epic-3",
            collective: "reduce_scatter",
            size: 16 << 20,
            count: 4 << 20,
            data_type: "f32",
            redop: "sum",
            root: -1,
            time: 1234.56,
            algbw: 1.25,
            busbw: 2.5,
            netbw: 1.3,
            wrong: Some(0),
        };
        let header = Columns::header(Columns::width(["ring", "epic-3"]));
        let names = header.lines().next().unwrap();
        assert_eq!(row.to_string().len(), names.len());
        let long = Columns { design: "somebody's-own-design", ..row };
        let width = Columns::width([row.design, long.design]);
        let header = Columns::header(width);
        let names = header.lines().next().unwrap();
        assert_eq!([row, long].map(|row| format!("{row:width$}").len()), [names.len(); 2]);
        assert!(Columns { wrong: None, ..row }.to_string().ends_with(" -"));
    }
}
