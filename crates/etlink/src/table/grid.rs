//! Tables with a head.

use super::aligned::{AlignedColumn, CellSide, cell_width, push_line};
use super::text::{cut_all, plain};
use super::width::{fold_lines, fold_words, output_width};
use std::fmt::Write;

/// A column of a table: its head, and the function that formats a record's cell.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Maximum width of a column if the output's width is unknown, in terminal cells.
const WIDEST: usize = 80;
/// Minimum width of truncated texts as long as figures can be left out instead.
// a kernel's name truncated before its functor is useless
const NARROWEST: usize = 16;
/// Minimum width of texts that are truncated to make room for another text.
const READABLE: usize = 30;
/// Minimum width of truncated texts.
const SHORTEST: usize = 4;

/// Columns that identify the source of a row. A narrow table names a common source only once.
const WHOSE: [&str; 3] = ["rank", "device", "stream"];

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

/// The part of a table that fits an output. If the table is too wide, it gives up in this order:
/// heads on one line, source columns with a single value ([`WHOSE`]), columns of zeros, expendable
/// columns until texts have most of the output, ends of texts, the last figures that are not
/// decisive.
#[derive(Debug)]
struct GridLayout {
    /// Shown columns.
    columns: Vec<usize>,
    /// Hidden source columns, because all their cells are equal.
    constant: Vec<usize>,
    /// Hidden columns that contain only zeros.
    zeros: Vec<usize>,
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

    /// Sets the columns that a narrow output keeps, such as the sort key. The column with the
    /// largest share is always kept.
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
            constant: vec![],
            zeros: vec![],
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
        let places = |layout: &GridLayout, most: usize| -> usize {
            let columns = layout.columns.iter();
            columns
                .map(|column| widths[*column].places(layout.stacked, most))
                .sum()
        };
        layout.most = usize::MAX;
        if places(&layout, usize::MAX) <= width {
            return layout;
        }
        layout.stacked = true;
        let kept = self.kept_columns();
        // one line can replace these columns, so they go before any text is truncated
        for column in self.columns_of_heads(&WHOSE) {
            if places(&layout, usize::MAX) > width && self.is_constant(column) {
                layout.columns.retain(|own| *own != column);
                layout.constant.push(column);
            }
        }
        for column in (0..self.head.len()).filter(|column| !kept.contains(column)) {
            if places(&layout, usize::MAX) > width && self.is_all_zero(column) {
                layout.columns.retain(|own| *own != column);
                layout.zeros.push(column);
            }
        }
        for column in self.columns_of_heads(&self.expendable) {
            let texts = layout.columns.iter().map(|column| widths[*column]);
            let texts: Vec<ColumnWidth> = texts.filter(|column| column.is_text).collect();
            let sum = |most: usize| -> usize {
                let each = texts.iter().map(|text| text.places(true, most));
                each.sum()
            };
            let figures = places(&layout, usize::MAX) - sum(usize::MAX);
            // more than this is rarely worth losing figures
            let wanted = sum(width / 2).min(width * 2 / 3);
            // another text is not worth names that are no longer readable
            let is_worth_it = !widths[column].is_text
                || places(&layout, READABLE) <= width
                || places(&layout, usize::MAX) <= width;
            if figures + wanted <= width && is_worth_it {
                break;
            }
            if !kept.contains(&column) {
                layout.columns.retain(|own| *own != column);
            }
        }
        loop {
            let widest = widths.iter().map(|column| column.cells.max(column.head));
            let widest = widest.max().unwrap_or(0).max(SHORTEST);
            // one limit for all texts: short ones stay whole, and long names share the remaining
            // width
            let most = (SHORTEST..=widest)
                .rev()
                .find(|most| places(&layout, *most) <= width);
            let is_figure = |column: &usize| !widths[*column].is_text;
            let figures = layout.columns.iter().copied().filter(is_figure);
            let figures: Vec<usize> = figures.collect();
            let last = figures.iter().rev().find(|column| !kept.contains(column));
            // at least one figure always stays
            let last = if figures.len() > 1 {
                last.or(figures.last())
            } else {
                None
            };
            let last = last.copied();
            match (most, last) {
                (Some(most), _) if most >= NARROWEST.min(widest) => layout.most = most,
                (_, Some(last)) => {
                    layout.columns.retain(|column| *column != last);
                    continue;
                }
                (most, None) => layout.most = most.unwrap_or(SHORTEST),
            }
            return layout;
        }
    }

    /// Returns the columns with these heads, in this order.
    fn columns_of_heads(&self, heads: &[impl AsRef<str>]) -> Vec<usize> {
        let mut columns = vec![];
        for head in heads {
            columns.extend(self.head.iter().position(|own| own == head.as_ref()));
        }
        columns
    }

    /// Returns the columns that a narrow output keeps: the decisive ones and the largest share,
    /// without which a table of causes would hide the cause.
    fn kept_columns(&self) -> Vec<usize> {
        let mut kept = self.columns_of_heads(&self.decisive);
        let mut largest: Option<(f64, usize)> = None;
        for column in 0..self.head.len() {
            let share = self.mean_share(column);
            if let Some(share) = share.filter(|share| largest.is_none_or(|(most, _)| *share > most))
            {
                largest = Some((share, column));
            }
        }
        kept.extend(largest.map(|(_, column)| column));
        kept
    }

    /// Returns the mean of a column's percentages; `None` if it has other cells.
    fn mean_share(&self, column: usize) -> Option<f64> {
        let mut sum = 0.0;
        let mut lines = 0.0;
        for cell in self.cells(column) {
            // the value of this line is unknown
            if cell != "-" {
                sum += cell.strip_suffix(" %")?.parse::<f64>().ok()?;
                lines += 1.0;
            }
        }
        (lines > 0.0).then(|| sum / lines)
    }

    /// Returns true if the column is a text whose cells are all equal.
    fn is_constant(&self, column: usize) -> bool {
        let mut cells = self.cells(column);
        let first = cells.next();
        // the table of steps has a figure `device`: a time, not a name
        self.sides[column] == CellSide::Left
            && first.is_some()
            && cells.all(|cell| Some(cell) == first)
    }

    /// Returns true if the column contains only zeros: `0 ns`, `0.0 %`, `-`.
    fn is_all_zero(&self, column: usize) -> bool {
        let is_zero = |cell: &str| {
            let figure = cell.split(' ').next().unwrap_or(cell);
            cell == "-" || figure.parse::<f64>().is_ok_and(|figure| figure == 0.0)
        };
        self.sides[column] == CellSide::Right
            && self.line_count() > 0
            && self.cells(column).all(is_zero)
    }

    /// Returns the common source of the rows of a narrow table: `rank 0, device 1`.
    fn common_text(&self, layout: &GridLayout) -> String {
        let mut texts = vec![];
        for column in &layout.constant {
            texts.push(format!("{} {}", self.head[*column], self.cell(0, *column)));
        }
        texts.join(", ")
    }

    /// Formats the table below its title. The title of a narrow table also names the common source
    /// of its rows.
    pub fn titled(&self, title: &str) -> String {
        let layout = self.fit_layout(output_width());
        let mut out = title.to_owned();
        if !layout.constant.is_empty() {
            out += "; ";
            out += &self.common_text(&layout);
        }
        out.push('\n');
        // writing to a string cannot fail
        let _ = self.write_table(&layout, &mut out);
        out
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
        let is_missing = |column: &usize| {
            ![&layout.columns, &layout.constant, &layout.zeros]
                .iter()
                .any(|columns| columns.contains(column))
        };
        let hidden: Vec<usize> = (0..self.head.len()).filter(is_missing).collect();
        for (columns, why) in [(&hidden, "to fit"), (&layout.zeros, "as empty or zero")] {
            if !columns.is_empty() {
                let heads = columns.iter().map(|column| self.head[*column].as_str());
                let heads: Vec<&str> = heads.collect();
                let line = format!("  columns left out {why}: {}\n", heads.join(", "));
                out.write_str(&fold_lines(&line))?;
            }
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
        self.write_table(&layout, f)?;
        if !layout.constant.is_empty() {
            let line = format!("  in all rows: {}\n", self.common_text(&layout));
            f.write_str(&fold_lines(&line))?;
        }
        Ok(())
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
        assert_eq!(columns(70), (4, true, 40));
        assert_eq!(columns(60), (4, true, 34));
        // the sort key and the share stay
        assert_eq!(columns(40), (3, true, 20));
        assert_eq!(
            lines_of(&grid, 40),
            "   time of   share\n       all  of all  name\n  1.234 ms  12.3 %  nnnnnnnnnnnnnnnnnnn…\n"
        );
        for width in 20..100 {
            let text = lines_of(&grid, width);
            let widest = text.lines().map(cell_width).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
    }

    /// Makes a table whose first column identifies the source, and whose largest cause is `launch`.
    fn idle_causes() -> Grid {
        let head = [
            "rank",
            "device",
            "idle",
            "host late",
            "launch",
            "unexplained",
            "longest",
        ];
        let mut grid = Grid::new(2, Limit::NONE, head)
            .expendable(["launch", "host late"])
            .decisive(["idle"]);
        for idle in ["1.000 ms", "2.000 ms"] {
            let cells = [
                "a-long-name.json.gz",
                "0",
                idle,
                "23.0 %",
                "77.0 %",
                "0.0 %",
                "5.000 us",
            ];
            grid.add(cells.map(String::from));
        }
        grid
    }

    fn heads(grid: &Grid, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|at| grid.head[*at].clone()).collect()
    }

    #[test]
    fn what_all_rows_share_goes_before_what_decides() {
        let grid = idle_causes();
        let at = |width| grid.fit_layout(Some(width));
        assert!(at(90).constant.is_empty());
        let layout = at(65);
        assert_eq!(heads(&grid, &layout.constant), ["rank"]);
        assert!(layout.zeros.is_empty());
        // the rank, the device, then the zeros
        let layout = at(40);
        assert_eq!(heads(&grid, &layout.constant), ["rank", "device"]);
        assert_eq!(heads(&grid, &layout.zeros), ["unexplained"]);
        assert_eq!(
            grid.common_text(&layout),
            "rank a-long-name.json.gz, device 0"
        );
        // the largest share and the sort key stay to the end
        for width in 20..40 {
            let shown = heads(&grid, &at(width).columns);
            assert!(shown.contains(&"launch".to_owned()), "{width}: {shown:?}");
            assert!(shown.contains(&"idle".to_owned()), "{width}: {shown:?}");
        }
    }

    #[test]
    fn ranks_that_differ_stay() {
        let mut grid = Grid::new(1, Limit::NONE, ["rank", "device", "time"]);
        grid.add(["a.json", "0", "1 ns"].map(String::from));
        grid.add(["b.json", "0", "2 ns"].map(String::from));
        let layout = grid.fit_layout(Some(20));
        assert_eq!(heads(&grid, &layout.columns), ["rank", "time"]);
    }
}
