//! What the host does while the device has nothing to do.

use crate::candidate::{CauseCandidate, CauseEvidence};
use crate::detect::host_waits::is_staging;
use crate::detect::names::{ANOTHER_THREAD, is_allocator_call, is_synchronisation};
use crate::detect::start_up::start_up;
use crate::drain_times::DrainTimes;
use crate::host_span::HostSpan;
use crate::kind::CauseKind;
use crate::launched_row::LaunchedRow;
use crate::launching::launching_threads;
use crate::limits::LONGEST_LAUNCH_NS;
use crate::python_lines::PythonLines;
use crate::text::sum_ns;
use crate::view::{LaunchInterval, RankView};
use etlink_analyze::median_ns;
use etlink_link::NodeKind;
use etlink_model::{CallIdx, NodeIdx, OpIdx, ThreadIdx};
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// Names of ranges under which checkpointed layers are computed again:
/// `torch/utils/checkpoint.py`.
const CHECKPOINT_NAME: &str = "CheckpointFunctionBackward";

/// A backward node that the engine runs, by the name of its range in
/// `torch/csrc/autograd/function.h`.
const ENGINE_NAME: &str = "autograd::engine::evaluate_function";

/// Ranges that fetch input, the outermost alone.
pub(crate) fn input_pipeline(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut by_name: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    // Without a device every thread does work of its own.
    let launches = view.launched.iter().any(|launched| !launched.is_empty());
    for op in (0..view.trace.device.ops.len()).map(OpIdx::new) {
        if !view.is_input_op(op) {
            continue;
        }
        let mut outer = view.op_and_parents(view.trace.op_parent[op.index()].get());
        if outer.any(|outer| view.is_input_op(outer)) {
            continue;
        }
        let span = view.op_span(op);
        if launches
            && view
                .launched
                .get(span.thread.index())
                .is_some_and(Vec::is_empty)
        {
            // A thread that launches nothing can load ahead of those that do.
            continue;
        }
        by_name.entry(view.op_name(op)).or_default().add(view, span);
    }
    groups_as_candidates(view, CauseKind::InputPipeline, by_name)
}

/// Stretches of threads that have one cause.
#[derive(Default)]
struct SpanGroup<'t> {
    edits: GraphEdits,
    times: Vec<i64>,
    longest: Option<HostSpan>,
    lines: PythonLines,
    /// How many ops of libraries it is in.
    ops: u64,
    /// How long launching takes at most on the threads that it is on, ns.
    launch_ns: i64,
    /// What its slices are called, with their time, ns.
    by_name: BTreeMap<&'t str, i64>,
    /// How much of it is before the first launch of its thread, ns.
    before_launches_ns: i64,
    /// How much of it is behind the last, ns.
    after_launches_ns: i64,
}

impl<'t> SpanGroup<'t> {
    /// Adds the stretches of another op. What it is mostly in is that op itself.
    fn add_op(&mut self, name: &'t str, other: SpanGroup<'t>) {
        let length = |span: Option<HostSpan>| span.map_or(0, |span| span.end - span.start);
        if length(other.longest) > length(self.longest) {
            self.longest = other.longest;
        }
        self.by_name
            .insert(name, sum_ns(other.times.iter().copied()));
        self.edits.extend(&other.edits);
        self.times.extend(other.times);
        self.lines.extend(other.lines);
        self.launch_ns = self.launch_ns.max(other.launch_ns);
        add_ns(&mut self.before_launches_ns, other.before_launches_ns);
        add_ns(&mut self.after_launches_ns, other.after_launches_ns);
        self.ops += 1;
    }

    /// Takes a stretch out.
    fn add(&mut self, view: &RankView<'_>, span: HostSpan) {
        view.remove_span(span, &mut self.edits);
        self.note(span);
    }

    fn note(&mut self, span: HostSpan) {
        let length = span.end.saturating_sub(span.start);
        self.times.push(length);
        self.lines.add_span(span);
        let longest = self
            .longest
            .map_or(0, |longest| longest.end.saturating_sub(longest.start));
        if length > longest {
            self.longest = Some(span);
        }
    }

    fn evidence(&mut self, view: &RankView<'_>) -> CauseEvidence {
        let longest = self.longest;
        let mut evidence = CauseEvidence {
            count: self.times.len() as u64,
            time_ns: sum_ns(self.times.iter().copied()),
            typical_ns: median_ns(&mut self.times),
            start_ns: longest.map(|span| span.start),
            end_ns: longest.map(|span| span.end),
            compared: (self.launch_ns > 0).then_some(self.launch_ns as f64),
            within: self.main_slice(),
            other_subjects: self.ops.saturating_sub(1),
            before_launches_ns: self.before_launches_ns,
            after_launches_ns: self.after_launches_ns,
            ..CauseEvidence::default()
        };
        // the many short ones become no candidates
        if view.matters(evidence.time_ns) {
            std::mem::take(&mut self.lines).describe(view, &mut evidence);
        }
        evidence
    }

    /// The op or call in which half of the time is.
    fn main_slice(&self) -> Option<String> {
        let whole = sum_ns(self.by_name.values().copied());
        let (name, ns) = self.by_name.iter().max_by_key(|(_, ns)| **ns)?;
        (ns.saturating_mul(2) >= whole).then(|| (*name).to_owned())
    }
}

fn groups_as_candidates(
    view: &RankView<'_>,
    kind: CauseKind,
    groups: BTreeMap<&str, SpanGroup<'_>>,
) -> Vec<CauseCandidate> {
    let mut candidates = vec![];
    for (name, mut group) in groups {
        let mut evidence = group.evidence(view);
        evidence
            .within
            .take_if(|within| within == name || view.is_step_name(within));
        // A gain cannot be much more than the time: what is short needs no replay.
        if view.matters(evidence.time_ns) {
            candidates.push(view.candidate(kind, name, group.edits, evidence));
        }
    }
    candidates
}

/// The stretches between the launches of each thread, inside of the window. What is before the
/// first launch and behind the last is one too.
pub(crate) fn launch_intervals<'v>(view: &'v RankView<'_>) -> &'v [LaunchInterval] {
    view.intervals.get_or_init(|| find_intervals(view))
}

fn find_intervals(view: &RankView<'_>) -> Vec<LaunchInterval> {
    let mut intervals = vec![];
    let mut longest_ns = vec![LONGEST_LAUNCH_NS; view.launched.len()];
    for thread in launching_threads(view.trace) {
        longest_ns[thread.thread.index()] = thread.longest_launch_ns;
    }
    for (thread, launched) in (0..).map(ThreadIdx).zip(&view.launched) {
        let is_inside = |one: &&LaunchedRow| one.called >= view.span.0 && one.called <= view.span.1;
        let mut begin: (i64, Option<usize>) = (view.span.0, None);
        let mut inside = launched.iter().filter(is_inside).peekable();
        if inside.peek().is_none() {
            // A thread that only marks the steps is what the device waits for, too, where nothing
            // else shows what the program does.
            if view.window.has_device && view.step_threads().contains(&thread) {
                let span = HostSpan {
                    thread,
                    start: view.span.0,
                    end: view.span.1,
                };
                intervals.push(LaunchInterval {
                    span,
                    row: None,
                    is_last: true,
                    worked_ns: worked_ns(view, span),
                    longest_launch_ns: LONGEST_LAUNCH_NS,
                });
            }
            continue;
        }
        let longest_launch_ns = longest_ns[thread.index()];
        let calls = inside.map(|one| (one.called, Some(one.row)));
        for (called, row) in calls.chain([(view.span.1, None)]) {
            if called > begin.0 {
                let span = HostSpan {
                    thread,
                    start: begin.0,
                    end: called,
                };
                intervals.push(LaunchInterval {
                    span,
                    row: begin.1,
                    is_last: row.is_none(),
                    worked_ns: worked_ns(view, span),
                    longest_launch_ns,
                });
            }
            begin = (called, row);
        }
    }
    intervals
}

fn worked_ns(view: &RankView<'_>, span: HostSpan) -> i64 {
    let nodes = view.nodes_in(span).iter();
    let lengths = nodes
        .filter(|node| is_own_work(view, **node))
        .map(|node| view.trace.nodes.duration[node.index()].0);
    sum_ns(lengths)
}

/// Whether a slice is work of the host that no other kind of cause is about.
pub(crate) fn is_own_work(view: &RankView<'_>, node: NodeIdx) -> bool {
    let slice = view.trace.nodes.get(node);
    match slice.kind {
        NodeKind::Boundary => false,
        NodeKind::HostGap => !view.is_idle(node),
        NodeKind::Runtime => {
            let call = CallIdx(slice.source);
            let name = view.call_name(call);
            // A thread that synchronises waits, also if nothing shows for what.
            !is_allocator_call(name) && !is_synchronisation(name) && !is_staging(view, call)
        }
        _ => true,
    }
}

/// Work of the host may be a wait if a device has work in this part of it: a tenth.
const LEAST_WAIT_PART: i64 = 10;

/// Work of the host that is no launching and of no kind of its own, by what it is.
pub(crate) fn host_work(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let slices = merge_ops(work_slices(view, false));
    let mut candidates = groups_as_candidates(view, CauseKind::HostWork, slices);
    for candidate in &mut candidates {
        // Of a device that has nothing left nobody waits.
        let ahead = candidate.edits.removed.iter();
        let ahead_ns = sum_ns(ahead.map(|node| drain_times(view).work_ahead_ns(view.trace, *node)));
        let time_ns = candidate.evidence.time_ns;
        candidate.evidence.may_wait =
            drain_times(view).hides_waits && ahead_ns >= time_ns / LEAST_WAIT_PART;
        candidate.evidence.has_stacks = view.window.has_stacks;
    }
    candidates
}

/// Ops of libraries (`aten::max`, `autograd::engine::…`) as one cause, named for the longest: nobody
/// changes them one by one. Ranges that a program has named stay apart.
fn merge_ops<'t>(groups: BTreeMap<&'t str, SpanGroup<'t>>) -> BTreeMap<&'t str, SpanGroup<'t>> {
    let is_op = |name: &str| name.contains("::");
    let (mut merged, mut others) = (SpanGroup::default(), BTreeMap::new());
    let mut longest = ("", 0);
    for (name, group) in groups {
        if !is_op(name) {
            others.insert(name, group);
            continue;
        }
        let time_ns = sum_ns(group.times.iter().copied());
        if time_ns > longest.1 {
            longest = (name, time_ns);
        }
        merged.add_op(name, group);
    }
    if !merged.times.is_empty() {
        others.insert(longest.0, merged);
    }
    others
}

fn drain_times<'v>(view: &'v RankView<'_>) -> &'v DrainTimes {
    view.drained
        .get_or_init(|| DrainTimes::new(view.trace, &view.launched))
}

/// The same that ends with a stream, as a wait for it would.
pub(crate) fn unrecorded_syncs(view: &RankView<'_>) -> Vec<CauseCandidate> {
    groups_as_candidates(view, CauseKind::UnrecordedSync, work_slices(view, true))
}

/// The slices of threads between launches that are far apart, by what they are part of: those that
/// end with a stream, as a wait for it would, or the others.
fn work_slices<'t>(view: &RankView<'t>, end_with_stream: bool) -> BTreeMap<&'t str, SpanGroup<'t>> {
    let drained = drain_times(view);
    let mut groups: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    let long = launch_intervals(view);
    let long = long.iter().filter(|interval| interval.is_long());
    for interval in long {
        for node in view.nodes_in(interval.span) {
            let slice = view.trace.nodes.get(*node);
            if drained.end_slice(view.trace, *node) != end_with_stream {
                continue;
            }
            // What has a kind of its own must not count twice.
            let Some(name) = work_name(view, *node) else {
                continue;
            };
            let group = groups.entry(name).or_default();
            group.launch_ns = group.launch_ns.max(interval.longest_launch_ns);
            group.edits.removed.push(*node);
            let slice_ns = group.by_name.entry(view.trace.name(&slice)).or_default();
            *slice_ns = slice_ns.saturating_add(slice.duration.0);
            match (interval.row, interval.is_last) {
                (None, false) => add_ns(&mut group.before_launches_ns, slice.duration.0),
                (Some(_), true) => add_ns(&mut group.after_launches_ns, slice.duration.0),
                _ => {}
            }
            group.note(HostSpan {
                thread: interval.span.thread,
                start: slice.start.0,
                end: view.node_span(*node).1,
            });
        }
    }
    groups
}

fn add_ns(sum: &mut i64, ns: i64) {
    *sum = sum.saturating_add(ns);
}

/// What a slice of the host is part of: the nearest annotation that is no step, else the outermost
/// op, else the call, else nothing but a step. None of what has a kind of its own.
fn work_name<'t>(view: &RankView<'t>, node: NodeIdx) -> Option<&'t str> {
    let slice = view.trace.nodes.get(node);
    if !is_own_work(view, node) || slice.duration.0 == 0 {
        return None;
    }
    let annotations = &view.trace.device.ops.annotation;
    let mut outermost = None;
    for op in view.op_and_parents(view.trace.op_of(&slice)) {
        let name = view.op_name(op);
        if view.is_input_op(op) || start_up(view).has_op(op) {
            return None;
        }
        if annotations[op.index()] && !view.is_step(op) {
            return Some(name);
        }
        if !view.is_step(op) {
            outermost = Some(name);
        }
    }
    // A call shows what it is as well as an op.
    if slice.kind == NodeKind::Runtime && outermost.is_none() {
        return Some(view.call_name(CallIdx(slice.source)));
    }
    // What a thread of somebody else's work does between its ops is not the program's loop.
    let is_program = slice
        .thread()
        .is_some_and(|thread| view.thread_work.is_program(thread));
    Some(outermost.unwrap_or(if is_program { "" } else { ANOTHER_THREAD }))
}

/// Forward work of checkpointed layers inside of the backward pass.
pub(crate) fn recomputation(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut groups: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    for (checkpoint, backward) in checkpoint_parts(view) {
        let whole = view.op_span(checkpoint);
        let mut device_ns = 0;
        let group = groups.entry("").or_default();
        for span in forward_parts(whole, &backward) {
            // The device does the work again as well: both go.
            view.remove_span(span, &mut group.edits);
            for launched in view.launched_in(span) {
                view.remove_row(launched.row, &mut group.edits);
                device_ns = view.row_ns(launched.row).saturating_add(device_ns);
            }
        }
        group.note(HostSpan {
            end: whole.start.saturating_add(device_ns),
            ..whole
        });
    }
    groups_as_candidates(view, CauseKind::Recomputation, groups)
}

/// The backward of each checkpoint, with what the engine runs inside of it. O(ops).
///
/// A checkpoint that lies in another counts alone where the engine of the other runs it: what it
/// computes again is no part of what the other does. Else it is a part, and counts with the other.
fn checkpoint_parts(view: &RankView<'_>) -> BTreeMap<OpIdx, Vec<HostSpan>> {
    let mut parts: BTreeMap<OpIdx, Vec<HostSpan>> = BTreeMap::new();
    // Per op, the checkpoint whose forward work it and what is in it belong to.
    let mut inside: Vec<OpIdx> = Vec::with_capacity(view.trace.op_parent.len());
    for (op, parent) in (0..).map(OpIdx).zip(&view.trace.op_parent) {
        // Ops are in order of their starts, so that parents come before their children.
        let around = inside.get(parent.index()).copied().unwrap_or(OpIdx::NONE);
        let name = view.op_name(op);
        let own = if name == CHECKPOINT_NAME && around.get().is_none() {
            // The engine's own range bears the name too, behind its prefix.
            parts.insert(op, vec![]);
            op
        } else if name.starts_with(ENGINE_NAME) {
            // The reentrant checkpoint runs the engine inside of its own backward: that is needed.
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

/// The parts of a checkpoint's backward before and between the nodes of the engine that it runs
/// inside.
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
