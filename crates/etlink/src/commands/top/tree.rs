//! The call tree, as text.

use crate::args::{FoldedTime, TopArgs};
use crate::op_tables::OpTable;
use crate::table::{Column, Grid, Limit, count, time};
use etlink_analysis::top::{CallKind, CallNode, CallTree};
use std::fmt::Write;

/// Maximum depth below a thread shown by indentation. A step of PyTorch with all Python frames is
/// about 50 deep; a table's text column of 80 characters has room for no more levels than this and
/// a name.
const DEEPEST_INDENT: u32 = 24;

/// Appends the tree of one rank.
pub(super) fn push_tree(out: &mut String, table: &OpTable, tree: &CallTree, args: &TopArgs) {
    let rank = table
        .rank
        .map_or(String::new(), |rank| format!(", rank {rank}"));
    let _ = writeln!(out, "{}{rank}", table.file);
    let totals = tree.totals();
    let shown: Vec<&CallNode> = visible_nodes(tree, args.depth, args.min_share / 100.0).collect();
    let mut columns: Vec<Column<(&CallNode, i64)>> = vec![
        ("host", |(node, _)| time(node.host_ns)),
        ("self", |(node, _)| time(node.self_host_ns)),
        ("device", |(node, _)| time(node.device_ns)),
        ("self", |(node, _)| time(node.self_device_ns)),
        ("share", |(node, whole)| {
            format!("{:.1} %", 100.0 * node.device_ns as f64 / *whole as f64)
        }),
        ("times", |(node, _)| match node.kind {
            CallKind::Thread | CallKind::Device => String::new(),
            _ => node.count.to_string(),
        }),
        ("what", |(node, _)| indented_name(node)),
    ];
    if totals.1 <= 0 {
        columns.drain(2..5);
    }
    let nodes = shown.iter().map(|node| (*node, totals.1));
    // a limit on lines would hide all but the first branch
    let grid = Grid::from_records(0, Limit::NONE, &columns, nodes)
        .last_texts(1)
        .expendable(["times"]);
    let _ = write!(out, "{grid}");
    let hidden = tree.nodes.len() - shown.len();
    if hidden > 0 {
        let _ = writeln!(
            out,
            "{} hidden: deeper, or below {} % of host time and of device time (--depth, \
            --min-share)",
            count(hidden as u64, "node"),
            args.min_share
        );
    }
}

/// Appends the tree of one rank as folded stacks, a line per node with a time of its own: names from
/// the root to the node, separated by semicolons, and that time in ns.
pub(super) fn push_folded(out: &mut String, table: &OpTable, tree: &CallTree, time: FoldedTime) {
    let rank: Option<String> = table.rank.map(|rank| format!("rank {rank}"));
    let mut stack: Vec<String> = vec![];
    for node in &tree.nodes {
        // a node follows its parent and the parent's earlier children
        stack.truncate(node.depth as usize);
        stack.push(folded_name(&node.name));
        let ns = match time {
            FoldedTime::Device => node.self_device_ns,
            FoldedTime::Host => node.self_host_ns,
        };
        if ns > 0 {
            let names: Vec<&str> = rank.iter().chain(&stack).map(String::as_str).collect();
            let _ = writeln!(out, "{} {ns}", names.join(";"));
        }
    }
}

/// Replaces what separates names and lines of folded stacks.
fn folded_name(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        ';' => ',',
        letter if letter.is_control() => ' ',
        letter => letter,
    });
    letters.collect()
}

/// Indents a node's name by its depth; very deep names show their level instead. Unlimited
/// indentation would grow with the square of the depth, and push names out of the column.
fn indented_name(node: &CallNode) -> String {
    let indent = "  ".repeat(node.depth.min(DEEPEST_INDENT) as usize);
    if node.depth > DEEPEST_INDENT {
        return format!("{indent}(level {}) {}", node.depth, node.name);
    }
    format!("{indent}{}", node.name)
}

/// Returns the nodes up to a depth whose share of host or device time is large enough. A child
/// never has more than its parent, so the result is a tree.
fn visible_nodes(tree: &CallTree, depth: u32, min_share: f64) -> impl Iterator<Item = &CallNode> {
    let (host, device) = tree.totals();
    let is_enough =
        move |part: i64, whole: i64| part > 0 && part as f64 >= min_share * whole as f64;
    tree.nodes.iter().filter(move |node| {
        (depth == 0 || node.depth <= depth)
            && (is_enough(node.host_ns, host) || is_enough(node.device_ns, device))
    })
}
