//! Comparison with an earlier run, as shown in the page.

use etlink_analysis::diff::{ChangeKind, PartChange, RowChange, RunDiff, TreeChange};
use serde::Serialize;

/// Largest number of rows per table; those with the largest cost or gain stay.
const ROWS: usize = 300;

/// Depth beyond which nodes are not indented further: their names would leave the column.
const DEEPEST_INDENT: u32 = 24;

/// Comparison of two runs; the page shows the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRuns {
    /// Trace or folder of the first run.
    pub before: String,
    /// Introductory remarks, one sentence each.
    pub sentences: Vec<String>,
    /// Changes, one table per kind of aggregation.
    pub tables: Vec<ComparedTable>,
}

/// Changes of one kind, largest cost or gain first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedTable {
    /// Title of the table.
    pub title: String,
    /// Rows of the table.
    pub rows: Vec<ComparedRow>,
    /// Number of omitted rows whose change is within the variation of steps.
    pub within_spread: u64,
    /// Number of further omitted rows.
    pub cut: u64,
}

/// One row of a comparison table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Class and label, op, call or kernel.
    pub name: String,
    /// Name in readable form.
    pub short_name: String,
    /// Time in the first run, per step or rank.
    pub before_ns: i64,
    /// Time in the second run.
    pub after_ns: i64,
    /// Additional cost of the second run.
    pub cost_ns: i64,
    /// Change relative to the first run; `None` if only the second run has the row.
    pub change_share: Option<f64>,
}

/// Returns the times of a node in both runs.
type NodeTimes = fn(&TreeChange) -> [i64; 2];

/// Titles and times of the call-tree tables.
const TREES: [(&str, NodeTimes); 2] = [
    ("Call tree, device time", |node| node.device_ns),
    ("Call tree, host time", |node| node.host_ns),
];

impl ComparedRuns {
    /// Builds the page's form of a comparison.
    pub fn new(
        before: String,
        sentences: Vec<String>,
        diff: &RunDiff,
        tree: &[TreeChange],
    ) -> ComparedRuns {
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
        for (title, time) in TREES {
            tables.push(ComparedTable::from_tree(title, diff, tree, time));
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

impl ComparedTable {
    /// Returns the nodes whose change exceeds the variation of steps, with their ancestors, in tree
    /// order, indented by depth.
    fn from_tree(
        title: &str,
        diff: &RunDiff,
        tree: &[TreeChange],
        time: NodeTimes,
    ) -> ComparedTable {
        let mut costs: Vec<(u64, usize)> = vec![];
        let mut within_spread = 0;
        for (at, node) in tree.iter().enumerate() {
            let [before, after] = time(node);
            match before.abs_diff(after) {
                0 => {}
                _ if diff.is_within_spread([before, after]) => within_spread += 1,
                cost => costs.push((cost, at)),
            }
        }
        costs.sort_unstable_by_key(|(cost, at)| (std::cmp::Reverse(*cost), *at));
        let mut is_shown = vec![false; tree.len()];
        let cut = costs.len().saturating_sub(ROWS) as u64;
        for (_, at) in costs.into_iter().take(ROWS) {
            let mut next = Some(at);
            // ancestors of a shown node are already shown
            while let Some(at) = next.filter(|at| !is_shown[*at]) {
                is_shown[at] = true;
                next = tree[at].parent.map(|parent| parent as usize);
            }
        }
        let shown = tree.iter().zip(is_shown).filter(|(_, is_shown)| *is_shown);
        ComparedTable {
            title: title.to_owned(),
            rows: shown.map(|(node, _)| node_row(node, time(node))).collect(),
            within_spread,
            cut,
        }
    }
}

/// Non-breaking spaces: browsers drop leading blanks and break lines at them.
const INDENT: &str = "\u{a0}\u{a0}\u{a0}";

fn node_row(node: &TreeChange, times_ns: [i64; 2]) -> ComparedRow {
    let indent = INDENT.repeat(node.depth.min(DEEPEST_INDENT) as usize);
    ComparedRow {
        name: node.name.clone(),
        short_name: format!("{indent}{}", node.name),
        before_ns: times_ns[0],
        after_ns: times_ns[1],
        cost_ns: times_ns[1].saturating_sub(times_ns[0]),
        change_share: change_share(times_ns),
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

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_analysis::diff::diff_runs;

    #[test]
    fn a_changed_node_is_shown_below_all_that_is_around_it() {
        let node = |parent, depth, name: &str, device_ns| TreeChange {
            parent,
            depth,
            name: name.to_owned(),
            device_ns,
            ..TreeChange::default()
        };
        let tree = [
            node(None, 0, "all threads", [90, 90]),
            // one child's gain is the other's cost
            node(Some(0), 1, "step", [90, 90]),
            node(Some(1), 2, "aten::mm", [60, 20]),
            node(Some(1), 2, "aten::add", [30, 70]),
            node(Some(0), 1, "eval", [5, 5]),
        ];
        let compared = ComparedRuns::new("a".to_owned(), vec![], &diff_runs(&[], &[]), &tree);
        // nothing took time on the host
        let [table] = &compared.tables[..] else {
            panic!("one table: {compared:?}")
        };
        let rows: Vec<_> = table
            .rows
            .iter()
            .map(|row| (&*row.name, row.cost_ns))
            .collect();
        assert_eq!(
            rows,
            [
                ("all threads", 0),
                ("step", 0),
                ("aten::mm", -40),
                ("aten::add", 40)
            ]
        );
        assert_eq!(
            table.rows[2].short_name,
            format!("{INDENT}{INDENT}aten::mm")
        );
    }
}
