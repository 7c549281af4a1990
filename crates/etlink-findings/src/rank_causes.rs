//! Looks for all kinds of causes in the trace of one rank.

use crate::candidate::{RankCauses, RankWork};
use crate::detect::names;
use crate::kinds::KINDS;
use crate::view::RankView;
use etlink_analyze::{ClassifiedRows, KernelRules, RankAnalysis, RowClass};
use etlink_link::{LinkedTrace, NodeKind};
use std::collections::BTreeMap;

/// Of a kind no more candidates are replayed than this: those that last longest.
const MOST_OF_KIND: usize = 6;

/// Looks for all causes in a rank's trace. `analysis` is of the same trace. O(n log n).
pub fn rank_causes(
    trace: &LinkedTrace,
    rules: &KernelRules,
    analysis: &RankAnalysis,
) -> RankCauses {
    let view = RankView::new(trace, ClassifiedRows::new(trace, rules), analysis);
    let mut candidates = vec![];
    for detect in KINDS.iter().filter_map(|rule| rule.detect) {
        let mut of_kind = detect(&view);
        of_kind.retain(|candidate| !candidate.edits.is_empty());
        // The sort is stable: of equal ones the first stays first.
        of_kind.sort_by_key(|candidate| std::cmp::Reverse(candidate.evidence.time_ns));
        of_kind.truncate(MOST_OF_KIND);
        candidates.append(&mut of_kind);
    }
    RankCauses {
        rank: trace.report.rank,
        window: view.window,
        window_ends: view.window_ends(),
        candidates,
        work: work_by_name(&view),
    }
}

/// What ranks are compared by: all but communication, which waits for other ranks.
fn work_by_name(view: &RankView<'_>) -> BTreeMap<(bool, String), RankWork> {
    let trace = view.trace;
    let mut work: BTreeMap<(bool, String), RankWork> = BTreeMap::new();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let communicates = node.kind == NodeKind::Collective
            || trace
                .row_of(&node)
                .is_some_and(|row| view.rows.class[row.index()] == RowClass::Communication);
        if node.kind.is_delay() || communicates || node.duration.0 == 0 {
            continue;
        }
        let name = names::plain_name(trace.name(&node)).to_owned();
        let entry = work.entry((node.on_device, name)).or_default();
        entry.nodes.push(index);
        entry.time_ns = entry.time_ns.saturating_add(node.duration.0);
    }
    work
}
