//! Looks for all kinds of causes in the trace of one rank.

use crate::findings::candidate::{ProgramKind, RankCauses, RankWork};
use crate::findings::detect::communication::host_communication_ns;
use crate::findings::detect::names;
use crate::findings::kinds::KINDS;
use crate::findings::unknown_time::UnknownTime;
use crate::findings::view::RankView;
use crate::{ClassifiedRows, KernelRules, RankAnalysis, RowClass};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::OpIdx;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of candidates replayed per kind, the longest first.
const MOST_OF_KIND: usize = 6;

/// Finds all causes in a rank's trace. `analysis` must be of the same trace. O(n log n).
pub fn rank_causes(
    trace: &LinkedTrace,
    rules: &KernelRules,
    analysis: &RankAnalysis,
) -> RankCauses {
    let view = RankView::new(trace, ClassifiedRows::new(trace, rules), analysis);
    RankCauses {
        work: work_by_name(&view),
        ..causes_alone(&view)
    }
}

fn causes_alone(view: &RankView<'_>) -> RankCauses {
    let mut candidates = vec![];
    let unknown = UnknownTime::of_trace(view.trace);
    for detect in KINDS.iter().filter_map(|rule| rule.detect) {
        let mut of_kind = detect(view);
        for candidate in &mut of_kind {
            unknown.take_out_of(candidate);
        }
        // A cause without nodes cannot gain anything.
        of_kind.retain(|candidate| !candidate.edits.is_empty());
        // A stable sort: ties keep their order.
        of_kind.sort_by_key(|candidate| std::cmp::Reverse(candidate.evidence.time_ns));
        of_kind.truncate(MOST_OF_KIND);
        candidates.append(&mut of_kind);
    }
    let report = &view.trace.report;
    let (rank, first_ns) = (report.rank, report.window.start_ns);
    let is_slowed = report.overhead.is_some_and(|overhead| !overhead.is_removed);
    for one in &mut candidates {
        one.evidence.host_slowed = is_slowed && one.kind.is_of_host_pace();
        if one.evidence.start_ns.is_some() {
            one.evidence.set_rank(rank, first_ns);
        }
    }
    let mut window = view.window;
    if !window.has_device {
        window.exposed_communication_ns = host_communication_ns(view);
    }
    RankCauses {
        rank,
        first_ns,
        program: ProgramKind::of_trace(view.trace),
        window,
        window_ends: view.window_ends(),
        candidates,
        work: BTreeMap::new(),
    }
}

/// For each op: returns true if it is part of a host collective. O(ops).
fn ops_in_collectives(view: &RankView<'_>) -> Vec<bool> {
    let mut inside: Vec<bool> = Vec::with_capacity(view.trace.op_parent.len());
    for (op, parent) in (0..).map(OpIdx).zip(&view.trace.op_parent) {
        // Ops are in order of their starts, so parents come before their children.
        let by_parent = inside.get(parent.index()).copied().unwrap_or(false);
        inside.push(by_parent || names::is_communication_op(view.op_name(op)));
    }
    inside
}

/// Returns the work by which ranks are compared: everything except communication, which waits for
/// other ranks.
fn work_by_name(view: &RankView<'_>) -> BTreeMap<(bool, String), RankWork> {
    let trace = view.trace;
    let mut work: FxHashMap<(bool, &str), RankWork> = FxHashMap::default();
    let collectives = ops_in_collectives(view);
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let communicates = node.kind == NodeKind::Collective
            || trace
                .row_of(&node)
                .is_some_and(|row| view.rows.class[row.index()] == RowClass::Communication);
        // Part of the host's time in a collective is waiting for other ranks.
        let op = trace.op_of(&node);
        let communicates = communicates || op.is_some_and(|op| collectives[op.index()]);
        let is_none = node.kind.is_delay() || view.is_idle(index);
        if is_none || communicates || node.duration.0 == 0 {
            continue;
        }
        let name = view.plain_name(trace.name(&node));
        let entry = work.entry((node.on_device, name)).or_default();
        entry.add_node(index, node.start.0, node.duration.0);
    }
    // Allocate a string per name, not per node.
    let work = work.into_iter();
    work.map(|((on_device, name), work)| ((on_device, name.to_owned()), work))
        .collect()
}
