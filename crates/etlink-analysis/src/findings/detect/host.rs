//! Detects host work during which the device has nothing to do.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::detect::host_waits::is_staging;
use crate::findings::detect::names::{ANOTHER_THREAD, is_allocator_call, is_synchronisation};
use crate::findings::detect::start_up::start_up;
use crate::findings::drain_times::DrainTimes;
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::launched_row::LaunchedRow;
use crate::findings::launching::launching_threads;
use crate::findings::limits::{LEAST_GAIN, LONGEST_LAUNCH_NS, READY_BATCH_NS, SLOW_FACTOR};
use crate::findings::python_lines::PythonLines;
use crate::findings::text::sum_ns;
use crate::findings::view::{LaunchInterval, RankView};
use crate::median_ns;
use etlink_link::NodeKind;
use etlink_model::{CallIdx, NodeIdx, OpIdx, ThreadIdx};
use etlink_replay::GraphEdits;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Finds ranges that fetch input; only outermost ranges count.
pub(crate) fn input_pipeline(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut by_name: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    // Without a device, every thread does work of its own.
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
    let late_names = by_name.iter().filter(|(name, group)| {
        let is_late = group.time_above_shortest_ns() as f64;
        name.contains(LOADER_WITH_WORKERS) && is_late >= LEAST_GAIN * view.window.length_ns as f64
    });
    let late_names: Vec<&str> = late_names.map(|(name, _)| *name).collect();
    let mut candidates = groups_as_candidates(view, CauseKind::InputPipeline, by_name);
    for candidate in &mut candidates {
        candidate.evidence.loader_sets_pace = late_names.contains(&&candidate.subject[..]);
    }
    candidates
}

/// Part of the name of `DataLoader`'s range if other processes load: its batches arrive at their pace,
/// whatever the host does in between.
const LOADER_WITH_WORKERS: &str = "_MultiProcessingDataLoaderIter";

/// Spans of threads with a common cause.
#[derive(Default)]
pub(super) struct SpanGroup<'t> {
    pub(super) edits: GraphEdits,
    times: Vec<i64>,
    longest: Option<HostSpan>,
    lines: PythonLines,
    /// Number of library ops.
    ops: u64,
    /// Maximum launch time of the threads involved, in ns.
    launch_ns: i64,
    /// Time per slice name, in ns.
    by_name: BTreeMap<&'t str, i64>,
    /// Time before the thread's first launch, in ns.
    before_launches_ns: i64,
    /// Time after the thread's last launch, in ns.
    after_launches_ns: i64,
}

impl<'t> SpanGroup<'t> {
    /// Adds the spans of another op, and counts all their time under that op's name.
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

    /// Removes a span.
    fn add(&mut self, view: &RankView<'_>, span: HostSpan) {
        view.remove_span(span, &mut self.edits);
        self.note(span);
    }

    pub(super) fn note(&mut self, span: HostSpan) {
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

    /// Returns the time beyond that of the shortest occurrence, which may itself have waited, in ns.
    fn time_above_shortest_ns(&self) -> i64 {
        let shortest = self.times.iter().min().copied().unwrap_or(0);
        let ready = shortest.min(READY_BATCH_NS);
        sum_ns(self.times.iter().map(|time| time.saturating_sub(ready)))
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
        // skips the many short groups, which do not become candidates
        if view.matters(evidence.time_ns) {
            std::mem::take(&mut self.lines).describe(view, &mut evidence);
        }
        evidence
    }

    /// Returns the op or call with at least half of the time.
    fn main_slice(&self) -> Option<String> {
        let whole = sum_ns(self.by_name.values().copied());
        let (name, ns) = self.by_name.iter().max_by_key(|(_, ns)| **ns)?;
        (ns.saturating_mul(2) >= whole).then(|| (*name).to_owned())
    }
}

pub(super) fn groups_as_candidates(
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
        // A gain cannot exceed the time by much: short causes need no replay.
        if view.matters(evidence.time_ns) {
            candidates.push(view.candidate(kind, name, group.edits, evidence));
        }
    }
    candidates
}

/// Returns the intervals between launches of each thread within the window, including those before
/// the first launch and after the last.
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
        let is_inside =
            |one: &&LaunchedRow| one.called >= view.host_span.0 && one.called <= view.host_span.1;
        let mut begin: (i64, Option<usize>) = (view.slice_start(thread, view.host_span.0), None);
        let mut inside = launched.iter().filter(is_inside).peekable();
        if inside.peek().is_none() {
            // The device also waits for a thread that only marks the steps, if no other thread
            // shows the program's work.
            if view.window.has_device && view.step_threads().contains(&thread) {
                let span = HostSpan {
                    thread,
                    start: view.host_span.0,
                    end: view.host_span.1,
                };
                intervals.push(LaunchInterval {
                    span,
                    row: None,
                    is_last: true,
                    worked_ns: worked_ns(view, span),
                    launch_ns: 0,
                    longest_launch_ns: LONGEST_LAUNCH_NS,
                });
            }
            continue;
        }
        let longest_launch_ns = longest_ns[thread.index()];
        let calls = inside.map(|one| (one.called, Some(one.row)));
        for (called, row) in calls.chain([(view.host_span.1, None)]) {
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
                    launch_ns: begin.1.map_or(0, |row| launch_ns(view, row)),
                    longest_launch_ns,
                });
            }
            begin = (called, row);
        }
    }
    intervals
}

fn worked_ns(view: &RankView<'_>, span: HostSpan) -> i64 {
    own_work_ns(view, view.nodes_in(span).iter().copied())
}

/// Returns the time that the thread worked in the call that launches a row, in ns.
fn launch_ns(view: &RankView<'_>, row: usize) -> i64 {
    let call = view.trace.row_call[row].get();
    call.map_or(0, |call| own_work_ns(view, view.call_nodes(call)))
}

fn own_work_ns(view: &RankView<'_>, nodes: impl Iterator<Item = NodeIdx>) -> i64 {
    let own = nodes.filter(|node| is_own_work(view, *node));
    sum_ns(own.map(|node| view.trace.nodes.duration[node.index()].0))
}

/// Returns true if a slice is host work that no other kind of cause covers.
pub(crate) fn is_own_work(view: &RankView<'_>, node: NodeIdx) -> bool {
    let slice = view.trace.nodes.get(node);
    match slice.kind {
        NodeKind::Boundary => false,
        NodeKind::HostGap => !view.is_idle(node),
        NodeKind::Runtime => {
            let call = CallIdx(slice.source);
            let name = view.call_name(call);
            // A synchronizing thread waits, even if the trace does not show for what.
            !is_allocator_call(name) && !is_synchronisation(name) && !is_staging(view, call)
        }
        _ => true,
    }
}

/// Divisor of the share of host work that must overlap with device work for the host work to be a
/// possible wait: a tenth.
const LEAST_WAIT_PART: i64 = 10;

/// Finds host work that is neither launching nor covered by another kind, grouped by name.
pub(crate) fn host_work(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let slices = merge_ops(work_slices(view, false));
    let mut candidates = groups_as_candidates(view, CauseKind::HostWork, slices);
    for candidate in &mut candidates {
        // Nobody waits for a device without pending work.
        let ahead = candidate.edits.removed.iter();
        let ahead_ns = sum_ns(ahead.map(|node| drain_times(view).work_ahead_ns(view.trace, *node)));
        let time_ns = candidate.evidence.time_ns;
        candidate.evidence.may_wait =
            drain_times(view).hides_waits && ahead_ns >= time_ns / LEAST_WAIT_PART;
        candidate.evidence.has_stacks = view.window.has_stacks;
    }
    candidates
}

/// Begin of the names of `torch.compile`'s graphs, which end with a hash.
const COMPILED_GRAPH: &str = "## Call CompiledFxGraph";

/// Merges library ops (`aten::max`, `autograd::engine::…`) into one group named after the longest,
/// since nobody optimizes them individually. Ranges named by the program stay separate.
fn merge_ops<'t>(groups: BTreeMap<&'t str, SpanGroup<'t>>) -> BTreeMap<&'t str, SpanGroup<'t>> {
    let is_op = |name: &str| name.contains("::") || name.starts_with(COMPILED_GRAPH);
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

/// Finds host work that ends together with a stream, as a wait for the stream would.
pub(crate) fn unrecorded_syncs(view: &RankView<'_>) -> Vec<CauseCandidate> {
    groups_as_candidates(view, CauseKind::UnrecordedSync, work_slices(view, true))
}

/// Groups the slices between distant launches by the work they belong to: either slices that end
/// together with a stream, as a wait would, or all others.
fn work_slices<'t>(view: &RankView<'t>, end_with_stream: bool) -> BTreeMap<&'t str, SpanGroup<'t>> {
    let drained = drain_times(view);
    let mut groups: BTreeMap<&str, SpanGroup<'_>> = BTreeMap::new();
    let long = launch_intervals(view);
    let long = long.iter().filter(|interval| interval.is_long());
    for interval in long {
        let launching = launching_slices(view, interval);
        for node in view.nodes_in(interval.span) {
            let slice = view.trace.nodes.get(*node);
            if launching.contains(node) || drained.end_slice(view.trace, *node) != end_with_stream {
                continue;
            }
            // Slices with a kind of their own must not count twice.
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

/// Returns the shortest slices of an interval that together take no longer than a launch: they
/// prepare the launch that ends the interval, and remain without the work.
fn launching_slices(view: &RankView<'_>, interval: &LaunchInterval) -> FxHashSet<NodeIdx> {
    let nodes = view.nodes_in(interval.span).iter().copied();
    let mut nodes: Vec<NodeIdx> = nodes.filter(|node| is_own_work(view, *node)).collect();
    let length_ns = |node: &NodeIdx| view.trace.nodes.duration[node.index()].0;
    nodes.sort_by_key(length_ns);
    let mut left_ns = interval.longest_launch_ns / SLOW_FACTOR;
    let short = nodes.into_iter().take_while(|node| {
        left_ns -= length_ns(node);
        left_ns >= 0
    });
    short.collect()
}

fn add_ns(sum: &mut i64, ns: i64) {
    *sum = sum.saturating_add(ns);
}

/// Returns the name of the work that a host slice belongs to: the nearest annotation that is not a
/// step, else the outermost op, else the call, else an empty name for a mere step. `None` for
/// slices that other kinds cover.
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
    // A call identifies the work as well as an op.
    if slice.kind == NodeKind::Runtime && outermost.is_none() {
        return Some(view.call_name(CallIdx(slice.source)));
    }
    // Time between the ops of an unrelated thread is not the program's loop.
    let is_program = slice
        .thread()
        .is_some_and(|thread| view.thread_work.is_program(thread));
    Some(outermost.unwrap_or(if is_program { "" } else { ANOTHER_THREAD }))
}
