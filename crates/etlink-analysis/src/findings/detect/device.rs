//! Detects causes on the device itself.

use crate::device_peaks::PeakTable;
use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::covered_time::CoveredTime;
use crate::findings::detect::host_waits::{
    host_waits, is_copy, is_host_copy, is_staging, pageable_copy,
};
use crate::findings::detect::spans::remove_spans;
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::limits::DOMINANT_SHARE;
use crate::findings::text::sum_ns;
use crate::findings::view::RankView;
use crate::median_ns;
use crate::ops::WorkedRows;
use crate::rules::RowClass;
use crate::sm_coverage::kernel_blocks;
use etlink_link::{EdgeKind, launches_graph};
use etlink_model::{DeviceQueue, OpIdx, QueueIdx, RowIdx, RowKind, ThreadIdx};
use etlink_replay::GraphEdits;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Assumed speedup of a dominant kernel, as a factor on its duration.
pub(crate) const FASTER: f64 = 0.5;

/// Share of the multiprocessors below which a kernel's blocks leave much of the device idle.
const LOW_SHARE: f64 = 0.5;

/// Shortest kernel worth having more blocks, in ns.
const LONG_KERNEL_NS: i64 = 20_000;

/// Shortest chain worth fusing: two elementwise kernels in a row are common, and fusing them gains
/// little.
const LEAST_CHAIN: usize = 3;

/// Share of an elementwise kernel's time that its arithmetic takes; fusion saves the rest, which
/// reads and writes memory. `torch.compile` made one kernel of 60 of 37 us (H200, `tanh`, `sigmoid`,
/// products and sums of float32); it took 170 us.
const ARITHMETIC: f64 = 0.06;

/// Longest gap in a chain, in ns: an op is launched in 5 to 50 us, so after a longer gap the
/// program does something else.
const LONGEST_CHAIN_GAP_NS: i64 = 200_000;

/// Fewest mutual waits of two streams that count as a pattern.
const LEAST_TURNS: usize = 4;

/// Maximum number of stream pairs examined, those with the most waits.
const MOST_PAIRS: usize = 6;

/// Maximum overlap of streams that take turns, as a share of their time.
const MOST_OVERLAP: f64 = 0.1;

/// Ops that copy a tensor to another layout or type, the outermost first.
const COPY_OPS: [&str; 6] = [
    "aten::contiguous",
    "aten::to",
    "aten::_to_copy",
    "aten::clone",
    "aten::copy_",
    "aten::cat",
];

/// Rows of one cause.
#[derive(Default)]
struct RowGroup {
    edits: GraphEdits,
    /// Spans of threads to remove as well; they may overlap.
    spans: Vec<HostSpan>,
    times: Vec<i64>,
    /// Time of each name of the cause, in ns.
    by_name: BTreeMap<String, i64>,
    compared: Option<f64>,
    roof_share: Option<f64>,
    longest: Option<(i64, usize)>,
}

impl RowGroup {
    fn note(&mut self, view: &RankView<'_>, row: usize) {
        let took = view.row_ns(row);
        self.times.push(took);
        if self.longest.is_none_or(|(longest, _)| took > longest) {
            self.longest = Some((took, row));
        }
    }

    /// Adds a row under one of the cause's names.
    fn note_as(&mut self, view: &RankView<'_>, row: usize, name: &str) {
        self.note(view, row);
        let sum = self.by_name.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(view.row_ns(row));
    }

    /// Makes one candidate for all names; empty if the time is too short to matter.
    fn into_candidates(mut self, view: &RankView<'_>, kind: CauseKind) -> Vec<CauseCandidate> {
        let names = std::mem::take(&mut self.by_name);
        let longest = names.iter().max_by_key(|(_, ns)| **ns);
        if !view.matters(self.time_ns()) {
            return vec![];
        }
        let Some((subject, _)) = longest else {
            return vec![];
        };
        let mut candidate = self.into_candidate(view, kind, subject);
        candidate.evidence.other_subjects = names.len().saturating_sub(1) as u64;
        vec![candidate]
    }

    fn time_ns(&self) -> i64 {
        sum_ns(self.times.iter().copied())
    }

    fn into_candidate(
        mut self,
        view: &RankView<'_>,
        kind: CauseKind,
        subject: &str,
    ) -> CauseCandidate {
        let time_ns = self.time_ns();
        remove_spans(view, &mut self.spans, &mut self.edits);
        let row = self.longest.map(|(_, row)| row);
        let span = row.map(|row| view.rows.span(row));
        // The longest row represents the name: most kernels of a name come from one op.
        let op = row.and_then(|row| view.trace.row_op[row].get());
        let within = op.map(|op| view.op_name(op).to_owned());
        let evidence = CauseEvidence {
            count: self.times.len() as u64,
            time_ns,
            typical_ns: median_ns(&mut self.times),
            compared: self.compared,
            roof_share: self.roof_share,
            start_ns: span.map(|(start, _)| start),
            end_ns: span.map(|(_, end)| end),
            within: within.filter(|within| within != subject && !view.is_step_name(within)),
            ..CauseEvidence::default()
        };
        view.candidate(kind, subject, self.edits, evidence)
    }
}

fn is_kernel(view: &RankView<'_>, row: usize) -> bool {
    view.trace.device.rows.kind[row] == RowKind::Kernel
        && view.rows.class[row] == RowClass::Computation
}

/// Finds kernel names that take at least a fifth of all kernel time. They could be twice as fast, but
/// no faster than the peaks of the device allow.
pub(crate) fn dominant_kernels(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut by_name: BTreeMap<&str, (RowGroup, Vec<usize>)> = BTreeMap::new();
    let mut whole = 0i64;
    for row in view.rows_inside().filter(|row| is_kernel(view, *row)) {
        whole = whole.saturating_add(view.row_ns(row));
        let (group, rows) = by_name.entry(view.rows.name(row)).or_default();
        group.note(view, row);
        rows.push(row);
    }
    let share = |group: &RowGroup| group.time_ns() as f64 / whole.max(1) as f64;
    by_name.retain(|_, (group, _)| share(group) >= DOMINANT_SHARE);
    if by_name.is_empty() {
        return vec![];
    }
    let worked = WorkedRows::new(&view.rows, &PeakTable::default());
    let roof_ns = |row: &usize| worked.kernel_roof_ns(*row);
    let mut candidates = vec![];
    for (name, (mut group, rows)) in by_name {
        group.compared = Some(share(&group));
        let all_ns: Option<Vec<f64>> = rows.iter().map(roof_ns).collect();
        group.roof_share = all_ns.map(|all| {
            let at_peaks = all.iter().sum::<f64>() / group.time_ns().max(1) as f64;
            at_peaks.min(1.0)
        });
        let is_at_peaks = group.roof_share.is_some_and(|share| share > FASTER);
        let least = if is_at_peaks { 0.0 } else { FASTER };
        for row in rows {
            if let Some(node) = view.row_node[row].get() {
                let factor = roof_ns(&row).unwrap_or(0.0) / view.row_ns(row).max(1) as f64;
                group.edits.scaled.push((node, factor.clamp(least, 1.0)));
            }
        }
        candidates.push(group.into_candidate(view, CauseKind::DominantKernel, name));
    }
    candidates
}

/// Finds long kernels that leave multiprocessors without a block.
pub(crate) fn low_coverage(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut by_name: BTreeMap<&str, (RowGroup, f64)> = BTreeMap::new();
    for row in view.rows_inside().filter(|row| is_kernel(view, *row)) {
        let multiprocessors = view.trace.device.multiprocessors(view.rows.device(row));
        let blocks = kernel_blocks(&view.rows, row);
        let Some(places) = multiprocessors.filter(|places| *places > 0) else {
            continue;
        };
        let coverage = blocks as f64 / f64::from(places);
        let took = view.row_ns(row);
        if blocks == 0 || coverage >= LOW_SHARE || took < LONG_KERNEL_NS {
            continue;
        }
        let (group, by_time) = by_name.entry(view.rows.name(row)).or_default();
        group.note(view, row);
        *by_time += coverage * took as f64;
        if let Some(node) = view.row_node[row].get() {
            // With a block per multiprocessor, the kernel would take this share of its time. This
            // assumes that blocks are alike and can be split, so the kind is only probable.
            group.edits.scaled.push((node, coverage));
        }
    }
    let mut candidates = vec![];
    for (name, (mut group, by_time)) in by_name {
        let time_ns = group.time_ns();
        group.compared = Some(by_time / time_ns.max(1) as f64);
        if view.matters(time_ns) {
            candidates.push(group.into_candidate(view, CauseKind::LowCoverage, name));
        }
    }
    candidates
}

/// Finds consecutive elementwise kernels on a stream.
pub(crate) fn fusible_chains(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut by_queue: BTreeMap<QueueIdx, Vec<usize>> = BTreeMap::new();
    for row in view.rows_inside() {
        let queue = view.trace.device.rows.queue[row];
        by_queue.entry(queue).or_default().push(row);
    }
    let stretches = LaunchStretches::new(view);
    let mut group = RowGroup::default();
    let mut chains = 0u32;
    let mut removed = vec![];
    for rows in by_queue.values() {
        // A copy or any other kernel in between ends a chain: fusion cannot cross it.
        let is_alike = |a: &usize, b: &usize| {
            is_elementwise(view, *a) && is_elementwise(view, *b) && stretches.are_one(view, *a, *b)
        };
        for chain in rows.chunk_by(is_alike) {
            if chain.len() >= LEAST_CHAIN {
                chains += 1;
                fuse_chain(view, chain, &mut group, &mut removed);
            }
        }
    }
    if !view.matters(group.time_ns()) {
        return vec![];
    }
    group.spans = launch_spans(view, &removed);
    group.compared = Some(f64::from(chains));
    vec![group.into_candidate(view, CauseKind::FusibleChain, "")]
}

fn is_elementwise(view: &RankView<'_>, row: usize) -> bool {
    is_kernel(view, row) && view.rows.label(row) == "elementwise"
}

/// Fuses a chain into its longest kernel: elementwise kernels are memory-bound, and fusion avoids
/// the reads and writes between them. The fused kernel still reads the first input, writes the last
/// output, and computes.
fn fuse_chain(
    view: &RankView<'_>,
    chain: &[usize],
    group: &mut RowGroup,
    removed: &mut Vec<usize>,
) {
    let Some(longest) = chain.iter().max_by_key(|row| view.row_ns(**row)) else {
        return;
    };
    let mut others_ns = 0i64;
    for row in chain {
        group.note(view, *row);
        if longest != row {
            others_ns = others_ns.saturating_add(view.row_ns(*row));
            view.remove_row(*row, &mut group.edits);
            removed.push(*row);
        }
    }
    if let Some(node) = view.row_node[*longest].get() {
        let longest_ns = view.row_ns(*longest).max(1) as f64;
        let factor = 1.0 + ARITHMETIC * others_ns as f64 / longest_ns;
        group.edits.scaled.push((node, factor));
    }
}

/// Boundaries that fusion cannot cross.
struct LaunchStretches {
    /// Starts and ends of steps, ascending.
    steps: Vec<i64>,
    /// For each thread: times at which it resumed after a wait for a device, ascending.
    waits: Vec<Vec<i64>>,
}

impl LaunchStretches {
    fn new(view: &RankView<'_>) -> LaunchStretches {
        let mut steps = vec![];
        for step in &view.analysis.steps {
            let end = step.start_ns.saturating_add(step.duration_ns);
            steps.extend([step.start_ns, end]);
        }
        steps.sort_unstable();
        let mut waits = vec![vec![]; view.of_thread.len()];
        for wait in host_waits(view) {
            let node = view.trace.nodes.get(wait.node);
            if let Some(thread) = node.thread() {
                waits[thread.index()].push(node.start.0);
            }
        }
        LaunchStretches { steps, waits }
    }

    /// Returns true if no boundary separates two consecutive rows of a stream.
    fn are_one(&self, view: &RankView<'_>, first: usize, second: usize) -> bool {
        let end = view.rows.span(first).1;
        let gap = view.rows.span(second).0.saturating_sub(end);
        gap <= LONGEST_CHAIN_GAP_NS && self.position(view, first) == self.position(view, second)
    }

    /// Returns the thread that launched a row, and the number of step boundaries and waits before
    /// the launch.
    fn position(&self, view: &RankView<'_>, row: usize) -> (Option<ThreadIdx>, usize, usize) {
        let calls = &view.trace.device.calls;
        let Some(call) = view.trace.row_call[row].get() else {
            let start = view.rows.span(row).0;
            return (None, self.steps.partition_point(|time| *time <= start), 0);
        };
        let (thread, start) = (calls.thread[call.index()], calls.start[call.index()].0);
        let steps = self.steps.partition_point(|time| *time <= start);
        // The program has seen a result, and may have chosen the next launches by it.
        let waits = self.waits[thread.index()].partition_point(|time| *time <= start);
        (Some(thread), steps, waits)
    }
}

/// Returns the spans of host work that becomes unnecessary without these rows.
fn launch_spans(view: &RankView<'_>, removed: &[usize]) -> Vec<HostSpan> {
    let trace = view.trace;
    let mut is_removed = vec![false; view.rows.len()];
    for row in removed {
        is_removed[*row] = true;
    }
    // For each op: true if it launches nothing else.
    let mut alone: FxHashMap<OpIdx, bool> = FxHashMap::default();
    let mut rows_of_call = vec![0u32; trace.device.calls.len()];
    for call in trace.row_call.iter().filter_map(|call| call.get()) {
        rows_of_call[call.index()] += 1;
    }
    let mut spans = vec![];
    for row in removed {
        let Some(call) = trace.row_call[*row].get() else {
            continue;
        };
        // The launch of a graph stays, with fewer kernels in it.
        if rows_of_call[call.index()] > 1 || launches_graph(view.call_name(call)) {
            continue;
        }
        let whole = trace.row_op[*row].get().filter(|op| {
            // Skip annotations: users define their span, so the work in it does not belong to one
            // op.
            let is_op = !trace.device.ops.annotation[op.index()];
            let launches_none = || {
                let launched = view.launched_in(view.op_span(*op));
                launched.iter().all(|one| is_removed[one.row])
            };
            is_op && *alone.entry(*op).or_insert_with(launches_none)
        });
        spans.push(match whole {
            Some(op) => view.op_span(op),
            None => view.call_span(call),
        });
    }
    spans
}

/// Returns the outermost op around a row that copies a tensor.
fn copy_op(view: &RankView<'_>, row: usize) -> Option<OpIdx> {
    let around = view.op_and_parents(view.trace.row_op[row].get());
    around
        .filter(|op| COPY_OPS.contains(&view.op_name(*op)))
        .last()
}

/// Finds copies of tensors within the device.
pub(crate) fn tensor_copies(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut group = RowGroup::default();
    for row in view.rows_inside() {
        // The driver copies contiguous tensors; kernels copy others.
        let inside = view.rows.name(row).contains("DtoD");
        let copies = is_kernel(view, row) && view.rows.label(row) == "copy";
        if !inside && !copies {
            continue;
        }
        let Some(op) = copy_op(view, row) else {
            continue;
        };
        group.note_as(view, row, view.op_name(op));
        view.remove_row(row, &mut group.edits);
        group.spans.push(view.op_span(op));
    }
    group.into_candidates(view, CauseKind::TensorCopies)
}

/// Finds copies between host and device, in both directions, as one cause.
pub(crate) fn exposed_copies(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let is_meant = |row: &usize| is_host_copy(view, *row);
    let mut group = copies_as_group(view, view.rows_inside().filter(is_meant), 0.0);
    // With pageable memory, the thread waits only for the copy.
    for sync in host_waits(view) {
        if pageable_copy(view, sync).is_some() {
            view.free_node(sync.node, &mut group.edits);
        }
    }
    let mut candidates = group.into_candidates(view, CauseKind::ExposedCopies);
    candidates.extend(device_copies(view));
    candidates
}

/// Finds copies that stay on devices, as one cause: they could be faster, or fewer.
fn device_copies(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let is_meant = |row: &usize| is_copy(view, *row) && !is_host_copy(view, *row);
    let group = copies_as_group(view, view.rows_inside().filter(is_meant), 0.5);
    group.into_candidates(view, CauseKind::ExposedCopies)
}

/// Scales copies to `factor` of their durations, and computes their share of the window.
fn copies_as_group(
    view: &RankView<'_>,
    rows: impl Iterator<Item = usize>,
    factor: f64,
) -> RowGroup {
    let mut group = RowGroup::default();
    let mut spans = vec![];
    for row in rows {
        group.note_as(view, row, view.rows.name(row));
        spans.push(view.rows.span(row));
        if let Some(node) = view.row_node[row].get() {
            // The launch stays: on another stream, the copy is launched all the same.
            group.edits.scaled.push((node, factor));
        }
        // A thread that copies within its call is free without the copy.
        let call = view.trace.row_call[row].get();
        if let Some(call) = call.filter(|call| is_staging(view, *call)) {
            for node in view.call_nodes(call) {
                group.edits.scaled.push((node, factor));
            }
        }
    }
    // Copies of several streams can overlap, and the last can extend beyond the window.
    let copied_ns = CoveredTime::new(spans).between(view.span.0, view.span.1);
    group.compared = Some(copied_ns as f64 / view.window.length_ns.max(1) as f64);
    group
}

/// Waits of two computing streams for each other.
#[derive(Default)]
struct StreamPair {
    group: RowGroup,
    /// Number of waits of the stream with the lower index, and of the other.
    waits: [usize; 2],
}

/// Finds computing streams that wait for each other and hardly ever overlap.
pub(crate) fn stream_turns(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let mut pairs: BTreeMap<(QueueIdx, QueueIdx), StreamPair> = BTreeMap::new();
    let (trace, nodes) = (view.trace, &view.trace.nodes);
    for edge in trace.edges.iter() {
        let (from, to) = (nodes.get(edge.from), nodes.get(edge.to));
        let (Some(first), Some(second)) = (from.queue(), to.queue()) else {
            continue;
        };
        let Some(source) = trace.row_of(&from) else {
            continue;
        };
        // An unexplained wait has the index of the row that it delays.
        let target = RowIdx(to.source);
        let computes = is_kernel(view, source.index()) && is_kernel(view, target.index());
        if edge.kind != EdgeKind::EventWait || first == second || !computes {
            continue;
        }
        let pair = pairs
            .entry((first.min(second), first.max(second)))
            .or_default();
        pair.waits[usize::from(second > first)] += 1;
        pair.group.note(view, target.index());
        pair.group.edits.freed.push((edge.to, EdgeKind::EventWait));
    }
    let turns = |pair: &StreamPair| pair.waits[0].min(pair.waits[1]);
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.retain(|(_, pair)| turns(pair) >= LEAST_TURNS);
    // With thousands of streams, checking every pair would scan all rows each time.
    pairs.sort_by_key(|(_, pair)| std::cmp::Reverse(turns(pair)));
    pairs.truncate(MOST_PAIRS);
    let mut candidates = vec![];
    for ((first, second), pair) in pairs {
        if !run_at_once(view, first, second) {
            let subject = format!("{} and {}", stream(view, first), stream(view, second));
            candidates.push(
                pair.group
                    .into_candidate(view, CauseKind::StreamTurns, &subject),
            );
        }
    }
    candidates
}

fn stream(view: &RankView<'_>, queue: QueueIdx) -> i64 {
    let DeviceQueue { stream, .. } = view.trace.device.queues[queue.index()];
    stream
}

/// Returns true if two streams overlap for more than a small part of the less busy one's time.
fn run_at_once(view: &RankView<'_>, first: QueueIdx, second: QueueIdx) -> bool {
    let queues = &view.trace.device.rows.queue;
    let rows_of = |queue: QueueIdx| view.rows_inside().filter(move |row| queues[*row] == queue);
    let busy = |queue: QueueIdx| {
        rows_of(queue)
            .map(|row| view.row_ns(row))
            .fold(0, i64::saturating_add)
    };
    // Both are in order of time: merge them in one pass.
    let mut others = rows_of(second).map(|row| view.rows.span(row)).peekable();
    let mut both = 0i64;
    for row in rows_of(first) {
        let (start, end) = view.rows.span(row);
        while others
            .next_if(|(_, other_end)| *other_end <= start)
            .is_some()
        {}
        // An interval that extends into the next row too is counted once; such rows are rare when
        // streams take turns.
        if let Some((other_start, other_end)) = others.peek() {
            let common = end.min(*other_end).saturating_sub(start.max(*other_start));
            both = both.saturating_add(common.max(0));
        }
    }
    both as f64 > MOST_OVERLAP * busy(first).min(busy(second)) as f64
}
