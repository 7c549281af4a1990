//! Where threads wait for a device.

use crate::view::{HostSync, RankView};
use etlink_link::{EdgeKind, NodeKind};
use etlink_model::{CallIdx, RowIdx};
use rustc_hash::FxHashSet;

/// The slices of threads that wait for a device inside of the window.
pub(crate) fn host_waits<'v>(view: &'v RankView<'_>) -> &'v [HostSync] {
    view.syncs.get_or_init(|| host_syncs(view))
}

/// By thread and time.
fn host_syncs(view: &RankView<'_>) -> Vec<HostSync> {
    let trace = view.trace;
    let nodes = &trace.nodes;
    let mut syncs = vec![];
    for of_thread in &view.of_thread {
        for pair in of_thread.windows(2) {
            let [before, node] = *pair else { continue };
            let mut deps = trace.edges.deps(node).iter();
            let start = nodes.start[node.index()].0;
            let is_inside = start >= view.span.0 && start <= view.span.1;
            if !is_inside || !deps.any(|edge| edge.kind == EdgeKind::HostWait) {
                continue;
            }
            let slice = nodes.get(node);
            syncs.push(HostSync {
                node,
                call: (slice.kind == NodeKind::Runtime).then_some(CallIdx(slice.source)),
                op: trace.op_of(&slice),
                waited_ns: start.saturating_sub(nodes.end(before).0).max(0),
            });
        }
    }
    syncs
}

/// The copy of memory that is not pinned, if a thread waited for one last.
pub(crate) fn pageable_copy(view: &RankView<'_>, sync: &HostSync) -> Option<RowIdx> {
    let trace = view.trace;
    let deps = trace.edges.deps(sync.node).iter();
    let waits = deps.filter(|edge| edge.kind == EdgeKind::HostWait);
    let mut rows = waits.filter_map(|edge| trace.row_of(&trace.nodes.get(edge.from)));
    // CUPTI names the kinds of memory in the row alone; the call is the same for both.
    rows.find(|row| view.rows.name(row.index()).contains("Pageable"))
}

/// Whether a call copies memory that is not pinned for a device, and is in that for about as long as
/// the copy takes: the driver moves it through memory of its own, and the thread does it.
// https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
pub(crate) fn is_staging(view: &RankView<'_>, call: CallIdx) -> bool {
    let staging = view.staging.get_or_init(|| staging_calls(view));
    staging.get(call.index()).copied().unwrap_or(false)
}

/// Per call. What a thread waits for in a call of its own is no part of it. O(rows + calls).
fn staging_calls(view: &RankView<'_>) -> Vec<bool> {
    let mut staging = vec![false; view.trace.device.calls.len()];
    let waits = host_waits(view).iter();
    let awaited: FxHashSet<RowIdx> = waits.filter_map(|sync| pageable_copy(view, sync)).collect();
    for launched in view.launched.iter().flatten() {
        let is_pageable = view.rows.name(launched.row).contains("Pageable");
        if !is_pageable || awaited.contains(&RowIdx::new(launched.row)) {
            continue;
        }
        let (row_ns, span) = (view.row_ns(launched.row), view.call_span(launched.call));
        let call_ns = span.end.saturating_sub(span.start);
        // A launch of a short copy takes longer than the copy.
        let is_alike = |one: i64, other: i64| one.saturating_mul(2) >= other;
        staging[launched.call.index()] = is_alike(row_ns, call_ns) && is_alike(call_ns, row_ns);
    }
    staging
}
