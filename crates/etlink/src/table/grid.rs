//! Tables with a head.

use super::text::{cut_all, plain};
use comfy_table::{CellAlignment, Table, presets::NOTHING};

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
    rows: Vec<Vec<String>>,
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
            rows: vec![],
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
        let shown = self.limit.lines == 0 || self.records[0] < self.limit.lines;
        self.records[usize::from(!shown)] += 1;
        if shown {
            self.continue_with(row);
        }
        shown
    }

    /// A further line of the record before.
    pub fn continue_with(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(
            row.into_iter()
                .map(|cell| plain(&cell).into_owned())
                .collect(),
        );
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, for so wide a terminal.
    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                self.cells(column)
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let most = column_limit(&widths, width);
        let columns = (0..self.head.len())
            .map(|column| cut_all(&self.cells(column).collect::<Vec<_>>(), most))
            .collect::<Vec<_>>();
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.add_rows((0..=self.rows.len()).map(|row| {
            columns
                .iter()
                .map(move |cells| cells.get(row).cloned().unwrap_or_default())
        }));
        // figures stand to the right, so that their digits can be compared
        let figures = self.head.len().saturating_sub(self.texts + self.last_texts);
        table
            .column_iter_mut()
            .skip(self.texts)
            .take(figures)
            .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table
            .trim_fmt()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// The head of a column and what is below it.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        std::iter::once(&self.head)
            .chain(&self.rows)
            .map(move |row| row.get(column).map_or("", String::as_str))
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
        self.lines(width)
            .iter()
            .try_for_each(|line| writeln!(f, " {line}"))?;
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
            let lines = grid(Limit::NONE).lines(Some(width));
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
