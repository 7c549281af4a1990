//! A rank's trace, prepared for the detectors.

use crate::findings::candidate::{CauseCandidate, CauseEvidence, RankWindow, WindowEnds};
use crate::findings::communication_time::CommunicationTime;
use crate::findings::detect::names::{BETWEEN_OPS, OpNameKinds, StepNames, is_allocator_call};
use crate::findings::drain_times::DrainTimes;
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::launched_row::LaunchedRow;
use crate::findings::launching::free_node;
use crate::findings::limits::SLOWEST_LAUNCH_NS;
use crate::findings::start_up::StartUp;
use crate::{
    ClassifiedRows, CountedWork, OutsideCause, RankAnalysis, UtilizationWindow, counted_steps,
    steps_window,
};
use etlink_link::limits::LAUNCH_LATENCY;
use etlink_link::ranks::GroupResolver;
use etlink_link::{LinkedTrace, NoLaunch, Node, NodeKind, ThreadWork, has_stacks};
use etlink_model::{CallIdx, NodeIdx, OpIdx, PROFILER_STEP, RowSanity, ThreadIdx};
use etlink_replay::GraphEdits;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Maximum number of enclosing ops considered.
// PyTorch's ops nest some tens deep; without a limit, a million nested ops would each have up to a
// million.
const MOST_PARENTS: usize = 100;

/// A slice that begins when a device reaches some point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSync {
    /// Node of the slice.
    pub(crate) node: NodeIdx,
    /// Call that the slice is the rest of.
    pub(crate) call: Option<CallIdx>,
    /// Innermost surrounding op.
    pub(crate) op: Option<OpIdx>,
    /// Time that the thread was blocked, in ns.
    pub(crate) waited_ns: i64,
}

/// An interval of a launching thread from one launch to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchInterval {
    pub(crate) span: HostSpan,
    /// Row whose launch begins the interval; `None` before the first launch.
    pub(crate) row: Option<usize>,
    /// True if no launch ends the interval.
    pub(crate) is_last: bool,
    /// Time that the thread worked in the interval, in ns, without waits.
    pub(crate) worked_ns: i64,
    /// Part of it in the call that begins the interval, in ns.
    pub(crate) launch_ns: i64,
    /// Longest time that counts as launching on this thread, in ns.
    pub(crate) longest_launch_ns: i64,
}

impl LaunchInterval {
    /// Returns true if the thread does more than launch in the interval: a slow launch delays the
    /// device as one, whatever the thread does after it.
    pub(crate) fn is_long(&self) -> bool {
        let prepares_ns = self.worked_ns.saturating_sub(self.launch_ns);
        prepares_ns > self.longest_launch_ns || self.launch_ns > SLOWEST_LAUNCH_NS
    }
}

/// A trace, with data that several detectors need.
pub(crate) struct RankView<'t> {
    pub(crate) trace: &'t LinkedTrace,
    pub(crate) rows: ClassifiedRows<'t>,
    pub(crate) analysis: &'t RankAnalysis,
    pub(crate) step_names: StepNames<'t>,
    /// Classes of the op names.
    pub(crate) op_name_kinds: OpNameKinds,
    pub(crate) window: RankWindow,
    /// Start and end of the window, in ns.
    pub(crate) span: (i64, i64),
    /// The part of hosts in the window: it begins earlier if the window begins when devices have ended
    /// earlier work, while the host is ahead.
    pub(crate) host_span: (i64, i64),
    /// Tells which device rows belong to the recording.
    counted: CountedWork<'t>,
    /// For each row: its node.
    pub(crate) row_node: Vec<NodeIdx>,
    /// For each thread: its nodes in order of time.
    pub(crate) of_thread: Vec<Vec<NodeIdx>>,
    /// For each thread: its launches in order of time.
    pub(crate) launched: Vec<Vec<LaunchedRow>>,
    /// Classification of the threads' time as work.
    pub(crate) thread_work: ThreadWork,
    /// Waits of threads for devices; computed on first use.
    pub(crate) syncs: OnceCell<Vec<HostSync>>,
    /// For each call: true if it stages a copy for a device; computed on first use.
    pub(crate) staging: OnceCell<Vec<bool>>,
    /// Intervals between launches of each thread; computed on first use.
    pub(crate) intervals: OnceCell<Vec<LaunchInterval>>,
    /// One-time work of the process; computed on first use.
    pub(crate) first_calls: OnceCell<StartUp<'t>>,
    /// Time in which the device communicates; computed on first use.
    pub(crate) communication: OnceCell<CommunicationTime>,
    /// Times at which streams have finished their work; computed on first use.
    pub(crate) drained: OnceCell<DrainTimes>,
    /// Ranks of the process groups; computed on first use.
    pub(crate) groups: OnceCell<GroupResolver<'t>>,
}

/// Returns true if a thread is idle in a slice: no op runs, and nobody waits for the slice.
pub(crate) fn is_idle(trace: &LinkedTrace, work: &ThreadWork, slice: &Node) -> bool {
    let outside = slice.kind == NodeKind::HostGap && trace.op_of(slice).is_none();
    let thread = if outside { slice.thread() } else { None };
    thread.is_some_and(|thread| !work.is_awaited(thread, slice.start))
}

/// Returns a name that is the same for such work in all steps.
pub(crate) fn plain_name<'n>(step_names: &StepNames<'_>, name: &'n str) -> &'n str {
    if step_names.contains(name) {
        BETWEEN_OPS
    } else {
        name
    }
}

impl<'t> RankView<'t> {
    pub(crate) fn new(
        trace: &'t LinkedTrace,
        rows: ClassifiedRows<'t>,
        analysis: &'t RankAnalysis,
    ) -> RankView<'t> {
        let nodes = &trace.nodes;
        let mut row_node = vec![NodeIdx::NONE; trace.device.rows.len()];
        let mut of_thread = vec![vec![]; trace.device.threads.len()];
        for index in nodes.indices() {
            let node = nodes.get(index);
            if let Some(thread) = node.thread() {
                of_thread[thread.index()].push(index);
            } else if let Some(row) = trace.row_of(&node) {
                row_node[row.index()] = index;
            }
        }
        let launched = launched_rows(trace);
        let (mut window, span) = window_of(trace, analysis);
        for step in counted_steps(&analysis.steps) {
            window.host_ns = window.host_ns.saturating_add(step.duration_ns);
            window.between_ops_ns = window.between_ops_ns.saturating_add(step.between_ops_ns);
        }
        window.has_stacks = has_stacks(&trace.device);
        window.has_work = !trace.device.has_no_work();
        let sanity = trace.device.row_sanity.as_ref();
        window.is_unknown = sanity.is_some_and(RowSanity::is_all_unknown);
        let step_names = StepNames::new(&analysis.steps);
        let first = counted_steps(&analysis.steps).next();
        let ahead = first.filter(|step| step.begin_ns == span.0 && step.start_ns < step.begin_ns);
        RankView {
            trace,
            rows,
            analysis,
            op_name_kinds: OpNameKinds::new(&trace.device, &step_names),
            step_names,
            window,
            span,
            host_span: (ahead.map_or(span.0, |step| step.start_ns), span.1),
            counted: CountedWork::new(trace),
            row_node,
            of_thread,
            launched,
            thread_work: ThreadWork::of_trace(trace),
            syncs: OnceCell::new(),
            staging: OnceCell::new(),
            intervals: OnceCell::new(),
            first_calls: OnceCell::new(),
            communication: OnceCell::new(),
            drained: OnceCell::new(),
            groups: OnceCell::new(),
        }
    }

    /// Returns the ranks of the trace's groups. O(n) on first use.
    pub(crate) fn group_resolver(&self) -> &GroupResolver<'t> {
        self.groups.get_or_init(|| GroupResolver::new(self.trace))
    }

    /// Returns the first and last nodes of the window. O(nodes).
    pub(crate) fn window_ends(&self) -> WindowEnds {
        let mut passive = self.trace.passive_threads();
        let ends = self.ends_without(&passive);
        let nodes = &self.trace.nodes;
        let first = ends.firsts.iter().map(|node| nodes.start[node.index()].0);
        let last = ends.lasts.iter().map(|node| nodes.end(*node).0);
        let length = first.min().zip(last.max());
        let length = length.map_or(0, |(first, last)| last.saturating_sub(first));
        if length.saturating_mul(2) >= self.window.length_ns {
            return ends;
        }
        // All working threads end early: the window lasts as long as the thread that marks it.
        for thread in self.step_threads() {
            passive[thread.index()] = false;
        }
        self.ends_without(&passive)
    }

    /// Like [`is_idle`], for one of the trace's nodes.
    pub(crate) fn is_idle(&self, node: NodeIdx) -> bool {
        is_idle(self.trace, &self.thread_work, &self.trace.nodes.get(node))
    }

    /// Returns the threads that have the ranges of steps.
    pub(crate) fn step_threads(&self) -> BTreeSet<ThreadIdx> {
        let ops = &self.trace.device.ops;
        let marks = (0..ops.len())
            .map(OpIdx::new)
            .filter(|op| ops.annotation[op.index()] && self.is_step(*op));
        marks.map(|op| ops.thread[op.index()]).collect()
    }

    fn ends_without(&self, passive: &[bool]) -> WindowEnds {
        let trace = self.trace;
        let nodes = &trace.nodes;
        let tracks = trace.device.threads.len() + trace.device.queues.len();
        let mut ends: Vec<Option<(NodeIdx, NodeIdx)>> = vec![None; tracks];
        // The last end of work from before the window, its queue and its node.
        let mut earlier: Option<(i64, usize, NodeIdx)> = None;
        for index in nodes.indices() {
            let node = nodes.get(index);
            let (start, end) = self.node_span(index);
            let looks_on = node.thread().is_some_and(|thread| passive[thread.index()]);
            // Work from before the recording begins with the window, but does not count as its
            // work.
            let is_outside = start < self.span.0 || end > self.span.1;
            let track = if node.on_device {
                trace.device.threads.len() + node.track.index()
            } else {
                node.track.index()
            };
            if node.on_device && start < self.span.0 && !node.kind.is_delay() {
                earlier = earlier.max(Some((end, track, index)));
            }
            if looks_on || is_outside || node.kind == NodeKind::Boundary {
                continue;
            }
            ends[track] = Some(match ends[track] {
                Some((first, last)) if nodes.end(last).0 > end => (first, last),
                Some((first, _)) => (first, index),
                None => (index, index),
            });
        }
        // What hosts and other queues do at the window's begin is work for later steps, and must not
        // move the begin.
        let begin = earlier.map(|(ended, track, row)| match ends[track] {
            // A row that follows at once shows that the host was ahead of the device.
            Some((first, _)) if self.node_span(first).0 - ended <= LAUNCH_LATENCY.0 => first,
            _ => row,
        });
        let (mut firsts, lasts): (Vec<NodeIdx>, Vec<NodeIdx>) = ends.into_iter().flatten().unzip();
        if self.host_span.0 < self.span.0
            && let Some(begin) = begin
        {
            firsts = vec![begin];
        }
        WindowEnds {
            firsts,
            lasts,
            host: self.steps_ahead(),
        }
    }

    /// Returns the first and the last node of the thread of the steps, if the host is ahead of its
    /// devices when the first of several steps begins. O(nodes of threads).
    fn steps_ahead(&self) -> Option<(NodeIdx, NodeIdx)> {
        if self.host_span.0 >= self.span.0 || self.window.steps < 2 {
            return None;
        }
        let last = counted_steps(&self.analysis.steps).last()?;
        let host = self.host_span.0..=last.start_ns.saturating_add(last.duration_ns);
        let threads = self.step_threads().into_iter();
        let nodes = threads.flat_map(|thread| self.of_thread[thread.index()].iter().copied());
        let is_inside = |node: &NodeIdx| {
            let (start, end) = self.node_span(*node);
            host.contains(&start) && host.contains(&end)
        };
        let of_steps: Vec<NodeIdx> = nodes.filter(is_inside).collect();
        let of_steps = of_steps.iter().copied();
        let first = of_steps.clone().min_by_key(|node| self.node_span(*node).0);
        first.zip(of_steps.max_by_key(|node| self.node_span(*node).1))
    }

    /// Returns the device rows that begin within the window, except those launched before the
    /// recording, which count neither for the window's length nor for its busy time.
    pub(crate) fn rows_inside(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|row| {
            let start = self.rows.span(*row).0;
            start >= self.span.0 && start <= self.span.1 && self.is_recorded(*row)
        })
    }

    /// Returns true if a row was launched in the recording.
    pub(crate) fn is_recorded(&self, row: usize) -> bool {
        self.counted.row_cause(row) != Some(OutsideCause::BeforeRecording)
    }

    /// Returns the start and end of a node, in ns.
    pub(crate) fn node_span(&self, node: NodeIdx) -> (i64, i64) {
        let nodes = &self.trace.nodes;
        (nodes.start[node.index()].0, nodes.end(node).0)
    }

    /// Returns the nodes of a thread that begin in a span. O(log nodes).
    pub(crate) fn nodes_in(&self, span: HostSpan) -> &[NodeIdx] {
        let Some(nodes) = self.of_thread.get(span.thread.index()) else {
            return &[];
        };
        let starts_before =
            |time: i64| move |node: &NodeIdx| self.trace.nodes.start[node.index()].0 < time;
        // Nodes of a thread are disjoint and in order of time: two searches find the range.
        let first = nodes.partition_point(starts_before(span.start));
        let last = nodes.partition_point(starts_before(span.end));
        &nodes[first..last.max(first)]
    }

    /// Returns the start of a thread's slice that runs at a time, or the time. O(log nodes).
    pub(crate) fn slice_start(&self, thread: ThreadIdx, time: i64) -> i64 {
        let nodes = &self.of_thread[thread.index()];
        let begun = nodes.partition_point(|node| self.trace.nodes.start[node.index()].0 < time);
        let last = begun.checked_sub(1).map(|last| self.node_span(nodes[last]));
        last.map_or(time, |(start, end)| if end > time { start } else { time })
    }

    /// Returns the launches of a thread in a span. O(log rows).
    pub(crate) fn launched_in(&self, span: HostSpan) -> &[LaunchedRow] {
        let Some(launched) = self.launched.get(span.thread.index()) else {
            return &[];
        };
        let first = launched.partition_point(|one| one.called < span.start);
        let last = launched.partition_point(|one| one.called < span.end);
        &launched[first..last.max(first)]
    }

    /// Returns the time span and thread of an op.
    pub(crate) fn op_span(&self, op: OpIdx) -> HostSpan {
        let ops = &self.trace.device.ops;
        let start = ops.start[op.index()];
        HostSpan {
            thread: ops.thread[op.index()],
            start: start.0,
            end: (start + ops.duration[op.index()]).0,
        }
    }

    /// Returns the time span and thread of a call.
    pub(crate) fn call_span(&self, call: CallIdx) -> HostSpan {
        let calls = &self.trace.device.calls;
        let start = calls.start[call.index()];
        HostSpan {
            thread: calls.thread[call.index()],
            start: start.0,
            end: (start + calls.duration[call.index()]).0,
        }
    }

    pub(crate) fn op_name(&self, op: OpIdx) -> &'t str {
        self.trace
            .device_name(self.trace.device.ops.name[op.index()])
    }

    pub(crate) fn call_name(&self, call: CallIdx) -> &'t str {
        let calls = &self.trace.device.calls;
        self.trace.device_name(calls.name[call.index()])
    }

    /// Returns true if a range of this name is a step.
    pub(crate) fn is_step_name(&self, name: &str) -> bool {
        self.step_names.contains(name)
    }

    /// Returns true if an op is the range of a step.
    pub(crate) fn is_step(&self, op: OpIdx) -> bool {
        let name = self.trace.device.ops.name[op.index()];
        self.op_name_kinds.is_step(name)
    }

    /// Returns true if an op fetches input.
    pub(crate) fn is_input_op(&self, op: OpIdx) -> bool {
        let name = self.trace.device.ops.name[op.index()];
        self.op_name_kinds.is_input(name)
    }

    /// Returns the number of a profiler step; `None` for other names.
    pub(crate) fn profiler_step_number(&self, name: &str) -> Option<u64> {
        name.strip_prefix(PROFILER_STEP)?.parse().ok()
    }

    /// Returns an op and its parents, from the inside, up to [`MOST_PARENTS`].
    pub(crate) fn op_and_parents(&self, op: Option<OpIdx>) -> impl Iterator<Item = OpIdx> {
        let parents = &self.trace.op_parent;
        std::iter::successors(op, move |op| parents[op.index()].get()).take(MOST_PARENTS)
    }

    /// Returns the duration of a row, in ns.
    pub(crate) fn row_ns(&self, row: usize) -> i64 {
        self.trace.device.rows.duration[row].0
    }

    /// Returns the nodes of a call.
    pub(crate) fn call_nodes(&self, call: CallIdx) -> impl Iterator<Item = NodeIdx> {
        let nodes = self.nodes_in(self.call_span(call)).iter().copied();
        nodes.filter(move |node| {
            let slice = self.trace.nodes.get(*node);
            slice.kind == NodeKind::Runtime && slice.source == call.0
        })
    }

    /// Removes the work of a thread in a span: its nodes take no time and wait only for the
    /// thread's earlier work. Work before the window stays, since it would move the window; so do
    /// calls of the allocator.
    pub(crate) fn remove_span(&self, span: HostSpan, edits: &mut GraphEdits) {
        for node in self.nodes_in(span) {
            if self.is_inside(*node) && !self.is_allocation(*node) {
                edits.removed.push(*node);
                self.free_node(*node, edits);
            }
        }
    }

    /// Returns true if a node is a call of the allocator, which is a cause of its own in any span.
    fn is_allocation(&self, node: NodeIdx) -> bool {
        let slice = self.trace.nodes.get(node);
        let is_call = slice.kind == NodeKind::Runtime;
        is_call && is_allocator_call(self.call_name(CallIdx(slice.source)))
    }

    /// Returns true if a node ends within the window, or later.
    fn is_inside(&self, node: NodeIdx) -> bool {
        let on_device = self.trace.nodes.get(node).on_device;
        let (begin, _) = if on_device { self.span } else { self.host_span };
        self.node_span(node).1 > begin
    }

    /// Drops the edits of work before the window, since they would move the window, and of calls of
    /// the allocator.
    pub(crate) fn keep_inside(&self, edits: &mut GraphEdits) {
        let is_inside = |node: &NodeIdx| self.is_inside(*node) && !self.is_allocation(*node);
        edits.removed.retain(is_inside);
        edits.at_once.retain(is_inside);
        edits.scaled.retain(|(node, _)| is_inside(node));
        edits.freed.retain(|(node, _)| is_inside(node));
    }

    /// Removes a node's waits for devices and other threads.
    pub(crate) fn free_node(&self, node: NodeIdx, edits: &mut GraphEdits) {
        free_node(self.trace, node, edits);
    }

    /// Removes a row.
    pub(crate) fn remove_row(&self, row: usize, edits: &mut GraphEdits) {
        if let Some(node) = self.row_node[row].get() {
            edits.removed.push(node);
        }
    }

    /// Returns true if a time is long enough to matter in the window.
    pub(crate) fn matters(&self, ns: i64) -> bool {
        ns as f64 >= LEAST_SHARE * self.window.length_ns as f64
    }

    pub(crate) fn candidate(
        &self,
        kind: CauseKind,
        subject: impl Into<String>,
        edits: GraphEdits,
        evidence: CauseEvidence,
    ) -> CauseCandidate {
        CauseCandidate {
            kind,
            subject: subject.into(),
            edits,
            other_edits: None,
            evidence,
        }
    }
}

/// Smallest time of a candidate, as a share of the window: its gain cannot be larger, except for
/// waits on several ranks.
const LEAST_SHARE: f64 = 0.005;

fn launched_rows(trace: &LinkedTrace) -> Vec<Vec<LaunchedRow>> {
    let calls = &trace.device.calls;
    let mut launched = vec![vec![]; trace.device.threads.len()];
    for (row, call) in trace.row_call.iter().enumerate() {
        let Some(call) = call.get() else { continue };
        // A row that starts before its call shows a clock error, and nothing about launching.
        if trace.row_no_launch[row] != NoLaunch::Launched {
            continue;
        }
        launched[calls.thread[call.index()].index()].push(LaunchedRow {
            called: calls.start[call.index()].0,
            call,
            row,
        });
    }
    launched.iter_mut().for_each(|rows| rows.sort_unstable());
    launched
}

/// Returns the window that shares refer to, and its time span.
fn window_of(trace: &LinkedTrace, analysis: &RankAnalysis) -> (RankWindow, (i64, i64)) {
    // The busiest of several devices: another may have next to nothing to do.
    let devices = analysis.utilization.iter().rev();
    let Some(whole) = devices.max_by_key(|device| device.busy_ns) else {
        return host_window(trace, analysis);
    };
    let window = RankWindow {
        kind: whole.window,
        steps: match whole.window {
            UtilizationWindow::Steps => whole.steps,
            UtilizationWindow::Process => 0,
        },
        length_ns: whole.whole_ns(),
        unknown_ns: whole.unknown_ns,
        has_device: true,
        lacks_waits: !trace.records_waits(),
        busy_ns: whole.busy_ns,
        compute_or_copy_ns: whole.compute_or_copy_ns(),
        computation_ns: whole.computation_ns,
        before_ns: whole.before_recording_ns,
        exposed_communication_ns: whole.exposed_communication_ns,
        ..RankWindow::default()
    };
    // All devices of a process share its window.
    (window, whole.span())
}

/// Returns the window of a trace without device work: its steps, or all of it.
fn host_window(trace: &LinkedTrace, analysis: &RankAnalysis) -> (RankWindow, (i64, i64)) {
    let recorded = &trace.report.window;
    let (kind, span) = match steps_window(&analysis.steps) {
        Some(span) => (UtilizationWindow::Steps, span),
        None => {
            let span = (recorded.start_ns, recorded.end_ns);
            (UtilizationWindow::Process, span)
        }
    };
    let window = RankWindow {
        has_device: false,
        lacks_waits: false,
        kind,
        steps: counted_steps(&analysis.steps).count() as u64,
        length_ns: span.1.saturating_sub(span.0),
        ..RankWindow::default()
    };
    (window, span)
}
