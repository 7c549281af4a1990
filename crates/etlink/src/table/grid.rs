//! Tables with a head.

use super::aligned::{AlignedColumn, CellSide, push_line};
use super::text::{cut_all, plain};
use std::fmt::Write;

/// A column of a table: its head, and what it says of a record.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// How wide a column may be where the width of the terminal is not known, letters.
const WIDEST: usize = 80;
/// No column is cut below this.
// a kernel's name cut shorter than its functor tells nothing
const NARROWEST: usize = 24;

/// How many lines of a table are shown.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// So many; 0: all.
    pub lines: usize,
    /// The option that changes it.
    pub option: &'static str,
}

impl Limit {
    /// All lines.
    pub const NONE: Limit = Limit {
        lines: 0,
        option: "",
    };
}

/// A table with a head. The first columns are texts, and on request the last; the others are
/// figures, which stand to the right.
pub struct Grid {
    head: Vec<String>,
    // A table of all of a million names has ten million cells: they lie in one text.
    /// The cells of all lines, as many to a line as the head has, and where in it each ends.
    cells: String,
    ends: Vec<usize>,
    texts: usize,
    last_texts: usize,
    limit: Limit,
    /// Records that were added, and those that are not shown.
    records: [usize; 2],
}

impl Grid {
    /// An empty one, whose first `texts` columns are texts.
    pub fn new(
        texts: usize,
        limit: Limit,
        head: impl IntoIterator<Item = impl Into<String>>,
    ) -> Grid {
        Grid {
            head: head.into_iter().map(Into::into).collect(),
            cells: String::new(),
            ends: vec![],
            texts,
            last_texts: 0,
            limit,
            records: [0; 2],
        }
    }

    /// A line for each record.
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

    /// So many of the last columns are texts too.
    pub fn last_texts(self, columns: usize) -> Grid {
        Grid {
            last_texts: columns,
            ..self
        }
    }

    /// One more line, if it is to be shown. Gives whether it is.
    pub fn add(&mut self, row: impl IntoIterator<Item = String>) -> bool {
        let shown = self.has_room();
        self.records[usize::from(!shown)] += 1;
        if shown {
            self.continue_with(row);
        }
        shown
    }

    /// Whether the next record is to be shown.
    pub fn has_room(&self) -> bool {
        self.limit.lines == 0 || self.records[0] < self.limit.lines
    }

    /// Counts records that are not shown.
    pub fn add_hidden(&mut self, records: usize) {
        self.records[1] += records;
    }

    /// A further line of the record before.
    pub fn continue_with(&mut self, row: impl IntoIterator<Item = String>) {
        let mut row = row.into_iter();
        for _ in 0..self.head.len() {
            self.cells += &plain(&row.next().unwrap_or_default());
            self.ends.push(self.cells.len());
        }
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Writes the lines, for so wide a terminal, each after a blank.
    fn write_lines(&self, width: Option<usize>, out: &mut impl Write) -> std::fmt::Result {
        let columns = 0..self.head.len();
        let letters: Vec<usize> = columns
            .clone()
            .map(|column| {
                let cells = self.cells(column).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        let most = column_limit(&letters, width);
        let mut shortened = vec![];
        let mut aligned = vec![];
        for column in columns.clone() {
            // most columns fit, and their cells are shown as they are
            shortened.push((letters[column] > most).then(|| {
                let cells: Vec<&str> = self.cells(column).collect();
                cut_all(&cells, most)
            }));
            aligned.push(AlignedColumn::new(self.side(column)));
        }
        let cell = |line: usize, column: usize| match &shortened[column] {
            Some(cells) => cells[line].as_str(),
            None => self.cell(line, column),
        };
        for line in 0..=self.line_count() {
            for (column, aligned) in aligned.iter_mut().enumerate() {
                aligned.fit(cell(line, column));
            }
        }
        let mut text = String::new();
        for line in 0..=self.line_count() {
            text.clear();
            text.push(' ');
            let cells = columns.clone().map(|column| cell(line, column));
            push_line(&mut text, &aligned, cells);
            writeln!(out, "{text}")?;
        }
        Ok(())
    }

    /// Figures stand to the right, so that their digits can be compared.
    fn side(&self, column: usize) -> CellSide {
        let figures = self.texts..self.head.len().saturating_sub(self.last_texts);
        if figures.contains(&column) {
            CellSide::Right
        } else {
            CellSide::Left
        }
    }

    /// Lines below the head.
    fn line_count(&self) -> usize {
        self.ends.len() / self.head.len().max(1)
    }

    /// A cell of a line; line 0 is the head.
    fn cell(&self, line: usize, column: usize) -> &str {
        let Some(above) = line.checked_sub(1) else {
            return &self.head[column];
        };
        let at = above * self.head.len() + column;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[start..self.ends[at]]
    }

    /// The head of a column and what is below it.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..=self.line_count()).map(move |line| self.cell(line, column))
    }
}

/// How many letters of a column are shown, so that all fit: each has a blank on either side.
fn column_limit(widths: &[usize], width: Option<usize>) -> usize {
    let Some(width) = width else { return WIDEST };
    let widest = widths.iter().copied().max().unwrap_or(0);
    let fits = |most: &usize| {
        widths
            .iter()
            .map(|width| width.min(most) + 2)
            .sum::<usize>()
            <= width
    };
    // one bound for all columns: short columns stay whole, and long names share what is left
    (NARROWEST..=widest).rev().find(fits).unwrap_or(NARROWEST)
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // of standard output alone: into a pipe the same text goes whatever the terminal is
        let width = terminal_size::terminal_size_of(std::io::stdout())
            .map(|(width, _)| usize::from(width.0));
        self.write_lines(width, f)?;
        let [shown, hidden] = self.records;
        if hidden > 0 {
            writeln!(
                f,
                "  {shown} of {} rows; {} 0 shows all",
                shown + hidden,
                self.limit.option
            )?;
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
        for width in [20, 40, 60, 200] {
            let mut text = String::new();
            let written = grid(Limit::NONE).write_lines(Some(width), &mut text);
            written.expect("a string takes all");
            let lines: Vec<&str> = text.lines().map(|line| &line[1..]).collect();
            assert!(
                lines
                    .iter()
                    .all(|line| line.chars().count() < width.max(NARROWEST + 8)),
                "{lines:#?}"
            );
            assert!(
                lines[1] != lines[2] && lines[1].ends_with("0") && lines[1].starts_with(" void at"),
                "{lines:#?}"
            );
        }
    }
}
