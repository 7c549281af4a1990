//! Detects forward work that checkpointing repeats in the backward pass.

use crate::findings::candidate::CauseCandidate;
use crate::findings::detect::host::{SpanGroup, groups_as_candidates};
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::view::RankView;
use etlink_model::{NameId, OpIdx};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the ranges in which checkpointed layers are recomputed: `torch/utils/checkpoint.py`.
const CHECKPOINT_NAME: &str = "CheckpointFunctionBackward";

/// Name prefix of the range of a backward node that the engine runs, from
/// `torch/csrc/autograd/function.h`.
const ENGINE_NAME: &str = "autograd::engine::evaluate_function";

/// Finds forward work of checkpointed layers within the backward pass.
pub(crate) fn recomputation(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut groups: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    let mut parts: Vec<Vec<HostSpan>> = checkpoint_parts(view)
        .into_iter()
        .map(|(checkpoint, backward)| forward_parts(view.op_span(checkpoint), &backward))
        .collect();
    parts.extend(hooked_parts(view).into_iter().map(|span| vec![span]));
    for spans in parts {
        let Some(first) = spans.first().copied() else {
            continue;
        };
        let mut device_ns = 0;
        let group = groups.entry("").or_default();
        for span in spans {
            // The device repeats the work too: remove both.
            view.remove_span(span, &mut group.edits);
            for launched in view.launched_in(span) {
                view.remove_row(launched.row, &mut group.edits);
                device_ns = view.row_ns(launched.row).saturating_add(device_ns);
            }
        }
        group.note(HostSpan {
            end: first.start.saturating_add(device_ns),
            ..first
        });
    }
    groups_as_candidates(view, CauseKind::Recomputation, groups)
}

/// Returns the spans in which a backward node repeats forward work to get its saved tensors back
/// (`checkpoint(use_reentrant=False)`, which names no range). O(ops · log ops).
///
/// Such ops are recorded for autograd, as those of the forward pass are, and follow each other in
/// the same order there. Second derivatives are recorded too, but in another order.
fn hooked_parts(view: &RankView<'_>) -> Vec<HostSpan> {
    let ops = &view.trace.device.ops;
    // For each op: the innermost range of the engine around it.
    let mut engine: Vec<OpIdx> = Vec::with_capacity(ops.len());
    let mut forward: Vec<NameId> = vec![];
    let mut repeated: BTreeMap<OpIdx, (HostSpan, Vec<NameId>)> = BTreeMap::new();
    let is_recorded = |op: usize| ops.seq_id[op] >= 0 && ops.fwd_thread[op] == 0;
    for (op, parent) in (0..).map(OpIdx).zip(&view.trace.op_parent) {
        let name = view.op_name(op);
        let around = engine.get(parent.index()).copied().unwrap_or(OpIdx::NONE);
        let own = if name.starts_with(ENGINE_NAME) {
            op
        } else {
            around
        };
        engine.push(own);
        let is_inner = parent
            .get()
            .is_some_and(|parent| is_recorded(parent.index()));
        if !is_recorded(op.index()) || is_inner || own == op {
            continue;
        }
        let Some(node) = own.get() else {
            forward.push(ops.name[op.index()]);
            continue;
        };
        if view.op_name(node).ends_with(CHECKPOINT_NAME) {
            continue;
        }
        let span = view.op_span(op);
        let (whole, names) = repeated.entry(node).or_insert((span, vec![]));
        whole.end = whole.end.max(span.end);
        names.push(ops.name[op.index()]);
    }
    let triples: BTreeSet<&[NameId]> = forward.windows(3).collect();
    let is_forward = |names: &[NameId]| {
        names.len() >= 3 && names.windows(3).all(|three| triples.contains(three))
    };
    let spans = repeated.into_values();
    spans
        .filter(|(_, names)| is_forward(names))
        .map(|(span, _)| span)
        .collect()
}

/// Returns the backward range of each checkpoint, with the engine's ranges inside it. O(ops).
///
/// A nested checkpoint counts separately if the engine of the outer one runs it: its recomputation
/// is not part of the outer one's. Otherwise it counts as part of the outer one.
fn checkpoint_parts(view: &RankView<'_>) -> BTreeMap<OpIdx, Vec<HostSpan>> {
    let mut parts: BTreeMap<OpIdx, Vec<HostSpan>> = BTreeMap::new();
    // For each op: the checkpoint whose forward work contains the op.
    let mut inside: Vec<OpIdx> = Vec::with_capacity(view.trace.op_parent.len());
    for (op, parent) in (0..).map(OpIdx).zip(&view.trace.op_parent) {
        // Ops are in order of their starts, so parents come before their children.
        let around = inside.get(parent.index()).copied().unwrap_or(OpIdx::NONE);
        let name = view.op_name(op);
        let own = if name == CHECKPOINT_NAME && around.get().is_none() {
            // The engine's own range has this name too, after its prefix.
            parts.insert(op, vec![]);
            op
        } else if name.starts_with(ENGINE_NAME) {
            // The reentrant checkpoint runs the engine within its own backward, which is necessary
            // work.
            if let Some(backward) = parts.get_mut(&around) {
                backward.push(view.op_span(op));
            }
            OpIdx::NONE
        } else {
            around
        };
        inside.push(own);
    }
    parts
}

/// Returns the parts of a checkpoint's backward before and between the engine's nodes inside it.
fn forward_parts(whole: HostSpan, backward: &[HostSpan]) -> Vec<HostSpan> {
    let mut parts = vec![];
    let mut begin = whole.start;
    for span in backward {
        parts.push(HostSpan {
            start: begin,
            end: span.start,
            ..whole
        });
        begin = begin.max(span.end);
    }
    parts.push(HostSpan {
        start: begin,
        ..whole
    });
    parts
}
