//! Detects calls that block until the device reaches some point.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::detect::communication::{communication_name, communication_waited_for};
use crate::findings::detect::host_waits::{host_waits, is_pageable, is_staging, pageable_copy};
use crate::findings::detect::names::{is_allocator_call, is_synchronisation};
use crate::findings::detect::spans::remove_spans;
use crate::findings::detect::start_up::start_up;
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::launched_row::LaunchedRow;
use crate::findings::python_lines::PythonLines;
use crate::findings::text::sum_ns;
use crate::findings::view::{HostSync, RankView};
use crate::median_ns;
use etlink_model::{CallIdx, NodeIdx, OpIdx};
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// Ops that read a single number back.
const SCALAR_OPS: [&str; 4] = [
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::equal",
];

/// Ops whose result has a size that only the device knows.
const SHAPE_OPS: [&str; 7] = [
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_consecutive",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::repeat_interleave",
    "aten::nonzero_numpy",
];

/// Shortest wait considered, in ns: a shorter one cannot be distinguished from the call, whose
/// return takes as long.
const LEAST_WAIT_NS: i64 = 10_000;

/// Returns the cause of a thread's wait, from the surrounding ops and the call.
fn cause_of(view: &RankView<'_>, sync: &HostSync) -> Option<(CauseKind, String, Option<OpIdx>)> {
    let mut scalar = None;
    for op in view.op_and_parents(sync.op) {
        let name = view.op_name(op);
        // `nonzero` reads its size with its own copy and synchronization: the op is the reason.
        if SHAPE_OPS.contains(&name) {
            return Some((CauseKind::DynamicShape, name.to_owned(), Some(op)));
        }
        if SCALAR_OPS.contains(&name) {
            // `aten::equal` calls `aten::item`, which calls `_local_scalar_dense`: the program
            // called the outermost op.
            scalar = Some(op);
        }
        // Waits within the data loader belong to the loader.
        if view.is_input_op(op) {
            return None;
        }
    }
    if let Some(op) = scalar {
        return Some((CauseKind::ScalarRead, view.op_name(op).to_owned(), scalar));
    }
    // A slice that is not a call waits for another waiting thread, whose call is reported instead.
    let call = sync.call?;
    let name = view.call_name(call);
    // `cudaFree` waits for the device too, and counts as a call of the allocator.
    if is_allocator_call(name) {
        return None;
    }
    if pageable_copy(view, sync).is_some() {
        // The copy is queued behind a collective, so this is a wait for the other ranks.
        if communication_waited_for(view, sync).is_some() {
            return None;
        }
        let subject = copy_name(view, sync.op, call);
        return Some((CauseKind::PageableCopy, subject.to_owned(), None));
    }
    is_synchronisation(name).then(|| (CauseKind::ExplicitSync, name.to_owned(), None))
}

/// Names the source of a copy: the innermost op, else the call.
fn copy_name<'t>(view: &RankView<'t>, op: Option<OpIdx>, call: CallIdx) -> &'t str {
    let op = view
        .op_and_parents(op)
        .find(|op| !view.trace.device.ops.annotation[op.index()]);
    op.map_or_else(|| view.call_name(call), |op| view.op_name(op))
}

/// Makes one cause of all waits of a kind: the same remedy helps in all ops and calls.
fn syncs_of_kind(view: &RankView<'_>, kind: CauseKind) -> Vec<CauseCandidate> {
    let group = waits_of_kind(view, kind);
    group.into_candidate(view, kind).into_iter().collect()
}

fn waits_of_kind(view: &RankView<'_>, kind: CauseKind) -> SyncGroup {
    let mut group = SyncGroup::default();
    for sync in host_waits(view) {
        let Some((found, subject, op)) = cause_of(view, sync) else {
            continue;
        };
        if found == kind {
            group.add(view, sync, op, subject);
        }
    }
    group
}

/// Waits of one kind.
#[derive(Default)]
struct SyncGroup {
    edits: GraphEdits,
    /// Wait time per op or call, in ns.
    by_subject: BTreeMap<String, i64>,
    /// Ops to remove with their waits; one op can wait many times.
    spans: Vec<HostSpan>,
    waits: Vec<i64>,
    /// Duration of the awaited copies themselves, in ns.
    copied_ns: i64,
    /// Time spent waiting for communication, in ns.
    communicated_ns: i64,
    /// Longest wait for a communication, in ns, and that communication.
    communication: Option<(i64, NodeIdx)>,
    /// The longest wait.
    longest: Option<LongestWait>,
    lines: PythonLines,
}

/// The longest of several waits.
struct LongestWait {
    ns: i64,
    /// Start of the wait, in ns.
    begun: i64,
    /// Node that the wait belongs to, or the next one.
    node: NodeIdx,
}

impl SyncGroup {
    fn add(&mut self, view: &RankView<'_>, sync: &HostSync, read: Option<OpIdx>, subject: String) {
        view.free_node(sync.node, &mut self.edits);
        let slice = view.trace.nodes.get(sync.node);
        let begun = slice.start.0.saturating_sub(sync.waited_ns);
        let scalar = read.filter(|op| SCALAR_OPS.contains(&view.op_name(*op)));
        if let Some(thread) = slice.thread() {
            let wait = HostSpan {
                thread,
                start: begun,
                end: slice.start.0,
            };
            // A read is known by its op, however short the wait: the op takes longer.
            let noted = match scalar {
                Some(op) if sync.waited_ns < LEAST_WAIT_NS => view.op_span(op),
                _ => wait,
            };
            self.note(subject, noted, sync.node);
        }
        if let Some(row) = pageable_copy(view, sync) {
            self.copied_ns = view.row_ns(row.index()).saturating_add(self.copied_ns);
        }
        if let Some(node) = communication_waited_for(view, sync) {
            self.communicated_ns = sync.waited_ns.saturating_add(self.communicated_ns);
            let waited = (sync.waited_ns, node);
            self.communication = self.communication.max(Some(waited));
        }
        // If nothing is read back, the op and its copy go with the wait.
        if let Some(op) = scalar {
            self.spans.push(view.op_span(op));
        // The rest of a synchronizing call is only the return from it.
        } else if read.is_none() {
            self.edits.removed.push(sync.node);
        }
    }

    /// Adds a call in which the thread copies for the device.
    fn add_staging(&mut self, view: &RankView<'_>, launched: &LaunchedRow, subject: String) {
        let nodes: Vec<NodeIdx> = view.call_nodes(launched.call).collect();
        let Some(first) = nodes.first().copied() else {
            return;
        };
        self.edits.removed.extend(nodes);
        self.note(subject, view.call_span(launched.call), first);
        self.copied_ns = view.row_ns(launched.row).saturating_add(self.copied_ns);
    }

    /// Adds a wait. A wait that ends at once is ignored, since it looks like any other call.
    fn note(&mut self, subject: String, wait: HostSpan, node: NodeIdx) {
        let ns = wait.end.saturating_sub(wait.start);
        if ns < LEAST_WAIT_NS {
            return;
        }
        let sum = self.by_subject.entry(subject).or_default();
        *sum = sum.saturating_add(ns);
        self.waits.push(ns);
        self.lines.add_call(ns, wait.thread, wait.start);
        if self.longest.as_ref().is_none_or(|longest| ns > longest.ns) {
            let begun = wait.start;
            self.longest = Some(LongestWait { ns, begun, node });
        }
    }

    fn into_candidate(mut self, view: &RankView<'_>, kind: CauseKind) -> Option<CauseCandidate> {
        let longest = self.longest?;
        let subjects = self.by_subject.iter();
        let subject = subjects.max_by_key(|(_, ns)| **ns)?.0.clone();
        remove_spans(view, &mut self.spans, &mut self.edits);
        for launched in self.spans.iter().flat_map(|span| view.launched_in(*span)) {
            view.remove_row(launched.row, &mut self.edits);
        }
        let slice = view.trace.nodes.get(longest.node);
        let within = outer_range(view, view.trace.op_of(&slice), &subject);
        let time_ns = sum_ns(self.waits.iter().copied());
        let is_for_others = self.communicated_ns.saturating_mul(2) > time_ns;
        let communication = if is_for_others {
            self.communication
        } else {
            None
        };
        let mut evidence = CauseEvidence {
            count: self.waits.len() as u64,
            time_ns,
            typical_ns: median_ns(&mut self.waits),
            compared: (kind == CauseKind::PageableCopy).then_some(self.copied_ns as f64),
            within,
            other_subjects: self.by_subject.len().saturating_sub(1) as u64,
            communication: communication.map(|(_, node)| communication_name(view, node)),
            ..CauseEvidence::default()
        };
        evidence.set_span(longest.begun, longest.begun.saturating_add(longest.ns));
        self.lines.describe(view, &mut evidence);
        Some(view.candidate(kind, subject, self.edits, evidence))
    }
}

/// Returns the nearest user annotation around an op that is not a step.
fn outer_range(view: &RankView<'_>, op: Option<OpIdx>, subject: &str) -> Option<String> {
    let annotations = &view.trace.device.ops.annotation;
    let mut around = view.op_and_parents(op);
    let found = around.find(|op| {
        let name = view.op_name(*op);
        annotations[op.index()] && !view.is_step(*op) && name != subject
    })?;
    Some(view.op_name(found).to_owned())
}

/// Finds reads of scalars, such as `.item()`.
pub(crate) fn scalar_reads(view: &RankView<'_>) -> Vec<CauseCandidate> {
    syncs_of_kind(view, CauseKind::ScalarRead)
}

/// Finds results of dynamic size, such as from `nonzero`.
pub(crate) fn dynamic_shapes(view: &RankView<'_>) -> Vec<CauseCandidate> {
    syncs_of_kind(view, CauseKind::DynamicShape)
}

/// Finds copies of pageable memory.
pub(crate) fn pageable_copies(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut group = waits_of_kind(view, CauseKind::PageableCopy);
    for launched in view.launched.iter().flatten() {
        let is_inside = (view.host_span.0..view.host_span.1).contains(&launched.called);
        let op = view.trace.call_op[launched.call.index()].get();
        // Input has a kind of its own.
        let mut around = view.op_and_parents(op);
        let is_input = around.any(|op| view.is_input_op(op));
        let is_staged = is_pageable(view, launched.row) && is_staging(view, launched.call);
        if is_inside && !is_input && is_staged {
            let subject = copy_name(view, op, launched.call).to_owned();
            group.add_staging(view, launched, subject);
        }
    }
    let candidate = group.into_candidate(view, CauseKind::PageableCopy);
    candidate.into_iter().collect()
}

/// Finds explicit synchronization, such as `torch.cuda.synchronize()`.
pub(crate) fn explicit_syncs(view: &RankView<'_>) -> Vec<CauseCandidate> {
    syncs_of_kind(view, CauseKind::ExplicitSync)
}

/// Finds `cudaMalloc` and `cudaFree` during steps.
pub(crate) fn allocator_calls(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let calls = &view.trace.device.calls;
    let mut edits = GraphEdits::default();
    let mut inside = vec![];
    let mut lines = PythonLines::default();
    for call in (0..calls.len()).map(CallIdx::new) {
        let start = calls.start[call.index()].0;
        // Allocations before the first step and after the last belong to start and end.
        let is_inside = (view.host_span.0..view.host_span.1).contains(&start);
        // Allocations in the first call of an op belong to that call, even if no second step shows
        // this.
        let op = view.trace.call_op[call.index()].get();
        let is_first = op.is_some_and(|op| start_up(view).has_op(op));
        let is_repeated = !is_first && !start_up(view).has_allocation(start);
        if !is_inside || !is_repeated || !is_allocator_call(view.call_name(call)) {
            continue;
        }
        for node in view.call_nodes(call) {
            edits.removed.push(node);
            view.free_node(node, &mut edits);
        }
        let took = calls.duration[call.index()].0;
        lines.add_call(took, calls.thread[call.index()], start);
        inside.push((took, call));
    }
    let mut times: Vec<i64> = inside.iter().map(|(took, _)| *took).collect();
    // The first of equally long ones.
    let longest = inside.into_iter().rev().max_by_key(|(took, _)| *took);
    let Some((_, call)) = longest else {
        return vec![];
    };
    let op = view.trace.call_op[call.index()].get();
    let mut evidence = CauseEvidence {
        count: times.len() as u64,
        time_ns: sum_ns(times.iter().copied()),
        typical_ns: median_ns(&mut times),
        within: op.map(|op| view.op_name(op).to_owned()),
        ..CauseEvidence::default()
    };
    let span = view.call_span(call);
    evidence.set_span(span.start, span.end);
    lines.describe(view, &mut evidence);
    let subject = view.call_name(call);
    vec![view.candidate(CauseKind::AllocatorCalls, subject, edits, evidence)]
}
