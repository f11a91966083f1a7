//! Tables with columns as wide as what is in them: text to the left, numbers to the right.

/// How a column is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table of lines, without the spaces at their ends; the first line is the header.
pub(crate) fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |index: usize| {
        let cells = rows.iter().map(|row| row[index].chars().count());
        cells.chain([columns[index].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.zip(&widths).zip(columns) {
            line += &match align {
                Align::Left => format!("{cell:<width$}  "),
                Align::Right => format!("{cell:>width$}  "),
            };
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut columns.iter().map(|(name, _)| *name));
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// What stands in a cell that has nothing to say.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let columns = [("name", Align::Left), ("size", Align::Right)];
        let rows = [vec!["a".to_owned(), "12".into()], vec!["longer".into(), "3".into()]];
        assert_eq!(table(&columns, &rows), "name    size\na         12\nlonger     3\n");
    }
}
