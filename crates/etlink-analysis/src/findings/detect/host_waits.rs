//! Waits of threads for a device.

use crate::findings::detect::names::stays_on_devices;
use crate::findings::view::{HostSync, RankView};
use etlink_link::{EdgeKind, NodeKind};
use etlink_model::{CallIdx, RowIdx, RowKind};
use rustc_hash::FxHashSet;

/// Returns the slices of threads within the window that wait for a device.
pub(crate) fn host_waits<'v>(view: &'v RankView<'_>) -> &'v [HostSync] {
    view.syncs.get_or_init(|| host_syncs(view))
}

/// Finds the waits by thread and time.
fn host_syncs(view: &RankView<'_>) -> Vec<HostSync> {
    let trace = view.trace;
    let nodes = &trace.nodes;
    let mut syncs = vec![];
    for of_thread in &view.of_thread {
        for pair in of_thread.windows(2) {
            let [before, node] = *pair else { continue };
            let deps = trace.edges.deps(node).iter();
            let mut awaited = deps.filter(|edge| edge.kind == EdgeKind::HostWait);
            let start = nodes.start[node.index()].0;
            let is_inside = start >= view.host_span.0 && start <= view.host_span.1;
            // Work launched before the recording is not part of the window; neither are waits for
            // it.
            let is_counted = |row: RowIdx| view.is_recorded(row.index());
            let counts =
                awaited.any(|edge| trace.row_of(&nodes.get(edge.from)).is_none_or(is_counted));
            if !is_inside || !counts {
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

/// Returns the copy of pageable memory that a thread waited for, if any.
pub(crate) fn pageable_copy(view: &RankView<'_>, sync: &HostSync) -> Option<RowIdx> {
    let trace = view.trace;
    let deps = trace.edges.deps(sync.node).iter();
    let waits = deps.filter(|edge| edge.kind == EdgeKind::HostWait);
    let mut rows = waits.filter_map(|edge| trace.row_of(&trace.nodes.get(edge.from)));
    rows.find(|row| is_pageable(view, row.index()))
}

/// Returns true if a row copies pageable memory.
pub(crate) fn is_pageable(view: &RankView<'_>, row: usize) -> bool {
    // CUPTI names the kind of memory only in the row; the call is the same for all kinds.
    view.rows.name(row).contains("Pageable")
}

/// Returns true if a row copies between host and device: any copy that is not marked as device to
/// device.
pub(crate) fn is_host_copy(view: &RankView<'_>, row: usize) -> bool {
    is_copy(view, row) && !stays_on_devices(view.rows.name(row))
}

/// Returns true if a row copies memory.
pub(crate) fn is_copy(view: &RankView<'_>, row: usize) -> bool {
    view.trace.device.rows.kind[row] == RowKind::Memcpy
}

/// Shortest copy considered, in ns: shorter ones last about as long as their launches by chance.
const LEAST_STAGED_NS: i64 = 100_000;

/// Returns true if a call copies memory for a device and lasts about as long as the copy: for
/// pageable memory, the driver stages the data through its own memory, on the calling thread.
// https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
pub(crate) fn is_staging(view: &RankView<'_>, call: CallIdx) -> bool {
    let staging = view.staging.get_or_init(|| staging_calls(view));
    staging.get(call.index()).copied().unwrap_or(false)
}

/// For each call: returns true if it stages a copy. Calls known to wait are already split at the
/// wait. O(rows + calls).
fn staging_calls(view: &RankView<'_>) -> Vec<bool> {
    let mut staging = vec![false; view.trace.device.calls.len()];
    let waiting: FxHashSet<CallIdx> = host_waits(view)
        .iter()
        .filter_map(|sync| sync.call)
        .collect();
    for launched in view.launched.iter().flatten() {
        let (row_ns, span) = (view.row_ns(launched.row), view.call_span(launched.call));
        // Not all recordings name the kinds of memory. For pinned memory and copies on devices, a
        // call that ends together with its copy waits for the copy.
        let is_pinned = view.rows.name(launched.row).contains("Pinned");
        let may_stage = is_host_copy(view, launched.row) && !is_pinned;
        let until_end_ns = view.rows.span(launched.row).1.saturating_sub(span.end);
        let ends_with_it = is_copy(view, launched.row) && until_end_ns <= row_ns / 10;
        let is_long = row_ns >= LEAST_STAGED_NS && (may_stage || ends_with_it);
        let is_staged = is_pageable(view, launched.row) || is_long;
        if !is_staged || waiting.contains(&launched.call) {
            continue;
        }
        let call_ns = span.end.saturating_sub(span.start);
        // For a short copy, the launch takes longer than the copy.
        let is_alike = |one: i64, other: i64| one.saturating_mul(2) >= other;
        staging[launched.call.index()] = is_alike(row_ns, call_ns) && is_alike(call_ns, row_ns);
    }
    staging
}
