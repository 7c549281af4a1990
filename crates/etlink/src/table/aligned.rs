//! Lines with aligned cells.

use unicode_width::UnicodeWidthStr;

/// Alignment of the cells in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellSide {
    /// Left-aligned, for texts.
    Left,
    /// Right-aligned, for figures.
    Right,
}

/// A column, as wide as its widest cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlignedColumn {
    side: CellSide,
    /// Width in terminal cells.
    width: usize,
}

impl AlignedColumn {
    /// Makes a column without cells.
    pub(super) fn new(side: CellSide) -> AlignedColumn {
        // an empty column still has a place between its blanks
        AlignedColumn { side, width: 1 }
    }

    /// Makes a column of this width.
    pub(super) fn with_width(side: CellSide, width: usize) -> AlignedColumn {
        AlignedColumn {
            side,
            width: width.max(1),
        }
    }

    /// Widens the column to fit a cell.
    pub(super) fn fit(&mut self, cell: &str) {
        self.width = self.width.max(cell_width(cell));
    }
}

/// Appends a line, with a blank on either side of each cell. Trailing blanks are omitted, because
/// people would copy them.
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

/// Returns the width of a text in terminal cells.
pub(super) fn cell_width(cell: &str) -> usize {
    // most names are ASCII, and looking up each character would dominate the run time here
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
