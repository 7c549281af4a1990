//! Tables with a head.

use super::aligned::{AlignedColumn, CellSide, cell_width, push_line};
use super::text::{cut_all, plain};
use super::width::{fold_lines, fold_words, output_width};
use std::fmt::Write;

/// A column of a table: its head, and the function that formats a record's cell.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Maximum width of a column if the output's width is unknown, in terminal cells.
const WIDEST: usize = 80;
/// Minimum width of truncated texts as long as columns can be left out instead.
// a kernel's name truncated before its functor is useless
const READABLE: usize = 30;
/// Minimum width of truncated texts as long as decisive columns can be left out instead.
const RECOGNISABLE: usize = 16;
/// Minimum width of truncated texts.
const SHORTEST: usize = 4;

/// Maximum number of records shown in a table.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Number of records; 0 for all.
    pub lines: usize,
    /// Name of the option that sets the limit.
    pub option: &'static str,
}

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit {
        lines: 0,
        option: "",
    };

    /// Limit of `--rows`.
    pub fn rows(lines: usize) -> Limit {
        Limit {
            lines,
            option: "--rows",
        }
    }
}

/// A table with a head. The first columns are texts, and on request also the last; the other
/// columns are figures, aligned right.
///
/// The table is never wider than the output: see [`GridLayout`].
pub struct Grid {
    head: Vec<String>,
    // A table of a million names has ten million cells: they share one string.
    /// Text of all cells, line by line. `ends` has the end of each cell.
    cells: String,
    ends: Vec<usize>,
    sides: Vec<CellSide>,
    /// Heads of columns that a narrow output leaves out, in this order.
    expendable: Vec<String>,
    /// Heads of columns that stay as long as others can be left out.
    decisive: Vec<&'static str>,
    limit: Limit,
    /// Numbers of shown and hidden records.
    records: [usize; 2],
}

/// The part of a table that fits an output. A table that is too wide first writes its heads on
/// several lines, then leaves out columns, the least important first, and truncates texts.
#[derive(Debug)]
struct GridLayout {
    /// Shown columns.
    columns: Vec<usize>,
    /// True if heads of several words may take several lines.
    stacked: bool,
    /// Maximum width of a text.
    most: usize,
}

/// Widths of a column, in terminal cells.
#[derive(Clone, Copy, Debug)]
struct ColumnWidth {
    /// Width of the widest cell.
    cells: usize,
    /// Width of the head on one line.
    head: usize,
    /// Width of the longest word of the head.
    word: usize,
    is_text: bool,
}

impl ColumnWidth {
    /// Returns the width of the column in a line, including a blank on either side.
    fn places(&self, stacked: bool, most: usize) -> usize {
        let head = if stacked { self.word } else { self.head };
        let whole = self.cells.max(head);
        let shown = if self.is_text { whole.min(most) } else { whole };
        shown + 2
    }
}

impl Grid {
    /// Makes an empty table whose first `texts` columns are texts.
    pub fn new(
        texts: usize,
        limit: Limit,
        head: impl IntoIterator<Item = impl Into<String>>,
    ) -> Grid {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let mut sides = vec![CellSide::Right; head.len()];
        sides.iter_mut().take(texts).for_each(set_text);
        Grid {
            head,
            cells: String::new(),
            ends: vec![],
            sides,
            expendable: vec![],
            decisive: vec![],
            limit,
            records: [0; 2],
        }
    }

    /// Makes a table with a line per record.
    pub fn from_records<T>(
        texts: usize,
        limit: Limit,
        columns: &[Column<T>],
        records: impl Iterator<Item = T>,
    ) -> Grid {
        let mut grid = Grid::new(texts, limit, columns.iter().map(|(head, _)| *head));
        for record in records {
            grid.add(columns.iter().map(|(_, cell)| cell(&record)));
        }
        grid
    }

    /// Makes the last `columns` columns texts too.
    pub fn last_texts(mut self, columns: usize) -> Grid {
        self.sides.iter_mut().rev().take(columns).for_each(set_text);
        self
    }

    /// Makes the columns with these heads texts too.
    pub fn text_columns(mut self, is_text: impl Fn(&str) -> bool) -> Grid {
        for (head, side) in self.head.iter().zip(&mut self.sides) {
            if is_text(head) {
                *side = CellSide::Left;
            }
        }
        self
    }

    /// Sets the columns that a narrow output leaves out, in this order.
    pub fn expendable(mut self, heads: impl IntoIterator<Item = impl Into<String>>) -> Grid {
        self.expendable = heads.into_iter().map(Into::into).collect();
        debug_assert!(
            self.expendable.iter().all(|head| self.head.contains(head)),
            "a column of {:?} is missing",
            self.expendable
        );
        self
    }

    /// Sets the columns that a narrow output leaves out last, such as the sort key.
    pub fn decisive(mut self, heads: impl IntoIterator<Item = &'static str>) -> Grid {
        self.decisive = heads.into_iter().collect();
        debug_assert!(
            self.decisive.iter().all(|head| self.has_head(head)),
            "a column of {:?} is missing",
            self.decisive
        );
        self
    }

    fn has_head(&self, head: &str) -> bool {
        self.head.iter().any(|own| own == head)
    }

    /// Adds a record if the limit allows it. Returns true if the record is shown.
    pub fn add(&mut self, row: impl IntoIterator<Item = String>) -> bool {
        let shown = self.has_room();
        self.records[usize::from(!shown)] += 1;
        if shown {
            self.continue_with(row);
        }
        shown
    }

    /// Returns true if the next record will be shown.
    pub fn has_room(&self) -> bool {
        self.limit.lines == 0 || self.records[0] < self.limit.lines
    }

    /// Counts records that are not shown.
    pub fn add_hidden(&mut self, records: usize) {
        self.records[1] += records;
    }

    /// Adds a line to the last record.
    pub fn continue_with(&mut self, row: impl IntoIterator<Item = String>) {
        let mut row = row.into_iter();
        for _ in 0..self.head.len() {
            self.cells += &plain(&row.next().unwrap_or_default());
            self.ends.push(self.cells.len());
        }
    }

    /// Returns true if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Writes the lines in this layout, each after a blank.
    fn write_lines(&self, layout: &GridLayout, out: &mut impl Write) -> std::fmt::Result {
        let mut shortened = vec![];
        let mut aligned = vec![];
        let mut heads = vec![];
        for column in layout.columns.iter().copied() {
            let width = self.column_width(column);
            let places = width.places(layout.stacked, layout.most) - 2;
            // most columns fit, and need no shortened cells
            shortened.push((width.cells > places).then(|| {
                let cells: Vec<&str> = self.cells(column).collect();
                cut_all(&cells, places)
            }));
            aligned.push(AlignedColumn::with_width(self.sides[column], places));
            let head = self.head[column].as_str();
            heads.push(if layout.stacked {
                fold_words(head, places)
            } else {
                cut_all(&[head], places)
            });
        }
        let head_lines = heads.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for line in 0..head_lines {
            text.clear();
            text.push(' ');
            // align heads at the bottom, next to their cells
            let cells = heads.iter().map(|head| {
                let at = (line + head.len()).checked_sub(head_lines);
                at.map_or("", |at| head[at].as_str())
            });
            push_line(&mut text, &aligned, cells);
            writeln!(out, "{text}")?;
        }
        for line in 0..self.line_count() {
            text.clear();
            text.push(' ');
            let cells = layout.columns.iter().zip(&shortened);
            let cells = cells.map(|(column, short)| match short {
                Some(cells) => cells[line].as_str(),
                None => self.cell(line, *column),
            });
            push_line(&mut text, &aligned, cells);
            writeln!(out, "{text}")?;
        }
        Ok(())
    }

    /// Returns the layout for an output of this width. An unknown width fits all columns, each up
    /// to a limit.
    fn fit_layout(&self, width: Option<usize>) -> GridLayout {
        let mut layout = GridLayout {
            columns: (0..self.head.len()).collect(),
            stacked: false,
            most: WIDEST,
        };
        let Some(width) = width else { return layout };
        // each line begins with a blank, and its last blank is not written
        let widths: Vec<ColumnWidth> = layout
            .columns
            .iter()
            .map(|column| self.column_width(*column))
            .collect();
        let fits = |layout: &GridLayout, most: usize| -> bool {
            let columns = layout.columns.iter();
            let places: usize = columns
                .map(|column| widths[*column].places(layout.stacked, most))
                .sum();
            places <= width
        };
        layout.most = usize::MAX;
        if fits(&layout, usize::MAX) {
            return layout;
        }
        layout.stacked = true;
        let decisive = self.columns_of_heads(&self.decisive);
        for column in self.least_important() {
            let shortest = if decisive.contains(&column) {
                RECOGNISABLE
            } else {
                READABLE
            };
            if fits(&layout, shortest) || layout.columns.len() < 3 {
                break;
            }
            layout.columns.retain(|own| *own != column);
        }
        // one limit for all texts: short ones stay whole, and long names share the remaining width
        let shown = layout.columns.iter().map(|column| widths[*column]);
        let widest = shown.map(|column| column.cells.max(column.head)).max();
        layout.most = (SHORTEST..=widest.unwrap_or(0))
            .rev()
            .find(|most| fits(&layout, *most))
            .unwrap_or(SHORTEST);
        layout
    }

    /// Returns the columns that a narrow output leaves out, the least important first: the
    /// expendable ones, and the last figures that are not decisive, then the decisive ones.
    fn least_important(&self) -> Vec<usize> {
        let mut columns = self.columns_of_heads(&self.expendable);
        let decisive = self.columns_of_heads(&self.decisive);
        let figures = (0..self.head.len()).rev();
        let figures = figures.filter(|column| self.sides[*column] == CellSide::Right);
        let others =
            figures.filter(|column| !columns.contains(column) && !decisive.contains(column));
        let others: Vec<usize> = others.collect();
        columns.extend(others);
        columns.extend(decisive);
        columns
    }

    /// Returns the columns with these heads, in this order.
    fn columns_of_heads(&self, heads: &[impl AsRef<str>]) -> Vec<usize> {
        let mut columns = vec![];
        for head in heads {
            columns.extend(self.head.iter().position(|own| own == head.as_ref()));
        }
        columns
    }

    /// Formats the table below its title.
    pub fn titled(&self, title: &str) -> String {
        format!("{title}\n{self}")
    }

    /// Writes the lines, and notes about hidden rows and columns.
    fn write_table(&self, layout: &GridLayout, out: &mut impl Write) -> std::fmt::Result {
        self.write_lines(layout, out)?;
        let [shown, hidden] = self.records;
        if hidden > 0 {
            writeln!(
                out,
                "  {shown} of {} rows; {} 0 shows all",
                shown + hidden,
                self.limit.option
            )?;
        }
        let all = self.head.iter().enumerate();
        let hidden = all.filter(|(column, _)| !layout.columns.contains(column));
        let hidden: Vec<&str> = hidden.map(|(_, head)| head.as_str()).collect();
        if !hidden.is_empty() {
            let line = format!("  columns left out to fit: {}\n", hidden.join(", "));
            out.write_str(&fold_lines(&line))?;
        }
        Ok(())
    }

    fn column_width(&self, column: usize) -> ColumnWidth {
        let head = &self.head[column];
        ColumnWidth {
            cells: self.cells(column).map(cell_width).max().unwrap_or(0),
            head: cell_width(head),
            word: head.split_whitespace().map(cell_width).max().unwrap_or(0),
            is_text: self.sides[column] == CellSide::Left,
        }
    }

    /// Returns the number of lines below the head.
    fn line_count(&self) -> usize {
        self.ends.len() / self.head.len().max(1)
    }

    /// Returns a cell of a line.
    fn cell(&self, line: usize, column: usize) -> &str {
        let at = line * self.head.len() + column;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[start..self.ends[at]]
    }

    /// Returns the cells of a column.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.line_count()).map(move |line| self.cell(line, column))
    }
}

fn set_text(side: &mut CellSide) {
    *side = CellSide::Left;
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layout = self.fit_layout(output_width());
        self.write_table(&layout, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(limit: Limit) -> Grid {
        let name = |at: usize| {
            format!(
                "void at::native::vectorized_elementwise_kernel<{}{at}>",
                "x".repeat(40)
            )
        };
        Grid::from_records(
            1,
            limit,
            &[
                ("name", |row: &(String, usize)| row.0.clone()),
                ("rows", |row| row.1.to_string()),
            ],
            (0..3).map(|at| (name(at), at)),
        )
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let text = grid(Limit {
            lines: 2,
            option: "--rows",
        })
        .to_string();
        assert_eq!(
            (text.lines().count(), text.lines().last()),
            (4, Some("  2 of 3 rows; --rows 0 shows all"))
        );
        assert_eq!(grid(Limit::NONE).to_string().lines().count(), 4);
    }

    #[test]
    fn names_fit_the_terminal_and_stay_different() {
        for width in [24, 40, 60, 200] {
            let text = lines_of(&grid(Limit::NONE), width);
            let lines: Vec<&str> = text.lines().collect();
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{lines:#?}"
            );
            assert!(
                lines[1] != lines[2] && lines[1].ends_with("0") && lines[1].starts_with("  void"),
                "{lines:#?}"
            );
        }
    }

    fn lines_of(grid: &Grid, width: usize) -> String {
        let mut text = String::new();
        let layout = grid.fit_layout(Some(width));
        let written = grid.write_lines(&layout, &mut text);
        written.expect("a string takes all");
        text
    }

    #[test]
    fn a_narrow_output_has_fewer_columns_and_then_shorter_names() {
        let head = ["rows", "time of all", "mean", "share of all", "name"];
        let mut grid = Grid::new(0, Limit::NONE, head)
            .last_texts(1)
            .expendable(["mean", "share of all"])
            .decisive(["time of all"]);
        grid.add(["12", "1.234 ms", "999.123 us", "12.3 %", &"n".repeat(40)].map(String::from));
        let columns = |width| {
            let layout = grid.fit_layout(Some(width));
            (layout.columns.len(), layout.stacked, layout.most)
        };
        // blanks next to each: 6 + 13 + 12 + 14 + 42
        assert_eq!(columns(87), (5, false, usize::MAX));
        assert_eq!(columns(80), (5, true, 40));
        assert_eq!(columns(60), (4, true, 34));
        // the sort key stays
        assert_eq!(columns(40), (2, true, 28));
        assert_eq!(
            lines_of(&grid, 40),
            "   time of\n       all  name\n  1.234 ms  nnnnnnnnnnnnnnnnnnnnnnnnnnn…\n"
        );
        for width in 20..100 {
            let text = lines_of(&grid, width);
            let widest = text.lines().map(cell_width).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
    }
}
