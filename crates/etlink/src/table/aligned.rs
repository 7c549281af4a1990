//! Lines whose cells stand below each other.

use unicode_width::UnicodeWidthStr;

/// Where in its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellSide {
    /// As texts do.
    Left,
    /// As figures do.
    Right,
}

/// A column, as wide as its widest cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlignedColumn {
    side: CellSide,
    /// Places of a terminal.
    width: usize,
}

impl AlignedColumn {
    /// One that has no cells yet.
    pub(super) fn new(side: CellSide) -> AlignedColumn {
        // an empty column still has a place between its blanks
        AlignedColumn { side, width: 1 }
    }

    /// One of that width.
    pub(super) fn with_width(side: CellSide, width: usize) -> AlignedColumn {
        AlignedColumn {
            side,
            width: width.max(1),
        }
    }

    /// Makes room for a cell.
    pub(super) fn fit(&mut self, cell: &str) {
        self.width = self.width.max(cell_width(cell));
    }
}

/// Appends a line, each cell between two blanks. The last cell's own are left out: people would
/// copy them.
pub(super) fn push_line<'c>(
    out: &mut String,
    columns: &[AlignedColumn],
    cells: impl Iterator<Item = &'c str>,
) {
    let start = out.len();
    for (column, cell) in columns.iter().zip(cells) {
        let missing = column.width.saturating_sub(cell_width(cell));
        let (before, after) = match column.side {
            CellSide::Left => (0, missing),
            CellSide::Right => (missing, 0),
        };
        out.extend(std::iter::repeat_n(' ', 1 + before));
        out.push_str(cell);
        out.extend(std::iter::repeat_n(' ', after + 1));
    }
    let end = start + out[start..].trim_end().len();
    out.truncate(end);
}

/// Places that a text takes on a terminal.
pub(super) fn cell_width(cell: &str) -> usize {
    // most names are plain, and to look up each letter takes longer than all else here
    if cell.is_ascii() {
        cell.len()
    } else {
        cell.width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other_also_where_letters_are_wide() {
        let lines = [
            ["name", "rows", ""],
            ["矩阵", "7", ""],
            ["é", "1234567", "end"],
        ];
        let sides = [CellSide::Left, CellSide::Right, CellSide::Left];
        let mut columns = sides.map(AlignedColumn::new);
        for line in &lines {
            for (column, cell) in columns.iter_mut().zip(line) {
                column.fit(cell);
            }
        }
        let mut out = String::new();
        for line in lines {
            push_line(&mut out, &columns, line.into_iter());
            out.push('\n');
        }
        assert_eq!(
            out,
            " name     rows\n \u{77e9}\u{9635}        7\n é     1234567  end\n"
        );
    }
}
