//! Tables for people: columns of equal width, two blanks apart.

use cni_linux::output::one_line;

/// A table with a line of headings.
#[derive(Debug)]
pub struct Table<const N: usize> {
    lines: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// One without rows.
    pub fn new(headings: [&str; N]) -> Self {
        Self { lines: vec![headings.map(str::to_owned)] }
    }

    /// Appends a row. An empty cell is shown as `-`, so that every row has the same number of words that are cells.
    pub fn row(&mut self, cells: [String; N]) {
        self.lines.push(cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { one_line(&cell) }));
    }

    /// The table as text; the last column is not padded.
    pub fn text(&self) -> String {
        let width =
            |column: usize| self.lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..N).map(width).collect();
        let line = |cells: &[String; N]| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        self.lines.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.row(["wide…r".to_owned(), String::new(), "x y".to_owned()]);
        assert_eq!(table.text(), "A       LONG  C\nwide…r  -     x y\n");
    }
}
