//! What a page says of the run beside an earlier one.

use etlink_analyze::diff::{ChangeKind, PartChange, RowChange, RunDiff};
use serde::Serialize;

/// Rows of a table at most: those that cost or save most.
const ROWS: usize = 300;

/// Two runs compared; the page shows the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRuns {
    /// The first run's trace or folder.
    pub before: String,
    /// What to know first, a sentence each.
    pub sentences: Vec<String>,
    /// What changed, by what it is rolled up to.
    pub tables: Vec<ComparedTable>,
}

/// What changed of one kind, what costs or saves most first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedTable {
    /// What it is called.
    pub title: String,
    /// Its rows.
    pub rows: Vec<ComparedRow>,
    /// Rows that changed by no more than steps vary, and are not here.
    pub within_spread: u64,
    /// Further rows that are not here.
    pub cut: u64,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Class and label, op, call or kernel.
    pub name: String,
    /// The name as people read it.
    pub short_name: String,
    /// Time in the first run, per step or rank.
    pub before_ns: i64,
    /// Time in the second run.
    pub after_ns: i64,
    /// What it costs.
    pub cost_ns: i64,
    /// How much longer it takes, of what it took; none of what the first run has not.
    pub change_share: Option<f64>,
}

impl ComparedRuns {
    /// What a page shows of a comparison.
    pub fn new(before: String, sentences: Vec<String>, diff: &RunDiff) -> ComparedRuns {
        let mut tables = vec![];
        for (title, parts) in [
            ("classes", &diff.classes),
            ("ops", &diff.ops),
            ("waiting", &diff.waiting),
        ] {
            let rows = parts.iter().filter(|part| part.cost_ns != 0);
            tables.push(ComparedTable::new(title, diff, rows.map(part_row)));
        }
        for (title, on_device) in [("kernels", true), ("host", false)] {
            let rows = diff.changes.iter();
            let rows = rows.filter(|row| row.on_device == on_device && !row.is_wait());
            let rows = rows.filter(|row| row.kind != ChangeKind::Same);
            tables.push(ComparedTable::new(title, diff, rows.map(change_row)));
        }
        tables.retain(|table| !table.rows.is_empty());
        ComparedRuns {
            before,
            sentences,
            tables,
        }
    }
}

impl ComparedTable {
    fn new(
        title: &str,
        diff: &RunDiff,
        changed: impl Iterator<Item = ComparedRow>,
    ) -> ComparedTable {
        let is_within = |row: &ComparedRow| diff.is_within_spread([row.before_ns, row.after_ns]);
        let (varied, mut rows): (Vec<_>, Vec<_>) = changed.partition(is_within);
        let cut = rows.len().saturating_sub(ROWS) as u64;
        rows.truncate(ROWS);
        ComparedTable {
            title: title.to_owned(),
            rows,
            within_spread: varied.len() as u64,
            cut,
        }
    }
}

fn part_row(part: &PartChange) -> ComparedRow {
    let name = match part.class {
        Some(class) => format!("{} {}", class.name(), part.name),
        None => part.name.clone(),
    };
    ComparedRow {
        short_name: name.clone(),
        name,
        before_ns: part.times_ns[0],
        after_ns: part.times_ns[1],
        cost_ns: part.cost_ns,
        change_share: change_share(part.times_ns),
    }
}

fn change_row(change: &RowChange) -> ComparedRow {
    ComparedRow {
        name: change.name.clone(),
        short_name: change.short_name().to_owned(),
        before_ns: change.times_ns[0],
        after_ns: change.times_ns[1],
        cost_ns: change.cost_ns,
        change_share: change_share(change.times_ns),
    }
}

fn change_share([before, after]: [i64; 2]) -> Option<f64> {
    (before > 0).then(|| (after as f64 - before as f64) / before as f64)
}
