//! Removes the overhead of recording from the times of a host.
//!
//! ```text
//! recorded    |view======||t==[transpose==[as_strided=====]====]====|      8 to 20 us per op
//! program     |v||t[tr[as]]|                                               0.5 to 4 us per op
//! ```
//! Profilers run at the start and at the end of each op. On an NVIDIA H200 with PyTorch 2.11, Kineto
//! takes 3 us per op, and the execution trace observer 14 us more, so that host-bound steps take 1.4
//! and 4 times as long. Device rows keep their durations, but start later than without recording.
//!
//! Each slice of a thread is shortened by the cost of what follows it, and the graph is run with
//! these durations. The events of the trace then move to the times of this run, so that all further
//! analysis sees a trace of the unrecorded program.

use crate::edits::GraphEdits;
use crate::graph::ReplayGraph;
use crate::linked::graph_from_trace;
use crate::run::{ReplayRun, ReplaySettings, run_graph};
use crate::step_lengths::{changed_steps, step_bounds};
use etlink_link::ranks::{RunSteps, StepSpan};
use etlink_link::{LinkedTrace, NodeKind, RecordingOverhead};
use etlink_model::{DeviceTrace, DurationNs, NodeIdx, TimeMap};

/// Share of an op's cost at its end, where profilers write it down. Recordings of one training step
/// with and without the observer differ by 14 us at the ends of ops, 8 us before their starts and
/// 2 to 9 us before runtime calls.
const SHARE_AT_END: f64 = 0.6;
const SHARE_BEFORE_CALL: f64 = 0.2;

/// Cost of a runtime call: CUPTI alone adds 1.4 to 2.4 us to each.
const CALL_COST: DurationNs = DurationNs(2_000);

/// Minimum time of a slice: what it takes to call an op without work.
const LEAST_SLICE: DurationNs = DurationNs(200);

/// Ops that only describe a tensor anew, and their time without recording.
const TRIVIAL_OPS: [&str; 5] = [
    "aten::view",
    "aten::as_strided",
    "aten::detach",
    "detach",
    "aten::alias",
];
const TRIVIAL_TIME: DurationNs = DurationNs(500);

/// Mean cost of ops relative to that of ops without work, which have fewer inputs. In recordings of
/// training and inference on an H200 it is 1.3 to 4; with this value, most steps take their true time.
const COST_TO_TRIVIAL: f64 = 1.75;

/// Least and greatest cost of ops relative to the estimate. With these, the steps of 22 of 23 programs
/// with other sizes were in the range of the answer: host times of one program also differ by 10 to
/// 30 % from one process to the next.
const OVERHEAD_DOUBT: [f64; 2] = [0.4, 3.0];

/// Minimum number of such ops for an estimate.
const LEAST_TRIVIAL: usize = 8;

/// Greatest cost per op that is searched for.
const MOST_COST: DurationNs = DurationNs(1_000_000);

/// Reason why no overhead can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOverhead {
    /// The trace has too few ops whose time without recording is known.
    #[error(
        "the trace has too few ops without work (`aten::view`) to estimate what recording costs"
    )]
    NoTrivialOps,
    /// The trace has no steps, whose length could be compared.
    #[error("the trace has no steps to compare with the length of a step without recording")]
    NoSteps,
    /// The edges of the graph are not in order.
    #[error("the graph cannot be run")]
    NoGraph,
}

/// Returns the device trace without the overhead of recording. `plain_step`: the length of a step
/// without recording, if known; the cost per op is then chosen so that the mean step has this
/// length. Otherwise it is estimated from ops that do no work. O((nodes + edges) log cost).
///
/// # Errors
/// Fails if nothing tells the cost.
pub fn without_overhead(
    trace: &LinkedTrace,
    plain_step: Option<DurationNs>,
) -> Result<(DeviceTrace, RecordingOverhead), NoOverhead> {
    let graph = graph_from_trace(trace).map_err(|_| NoOverhead::NoGraph)?;
    let slices = Slices::new(trace, &graph);
    let estimate = recording_cost(&trace.device);
    let bounds = step_bounds(trace, &graph);
    let recorded = run_graph(&graph, trace, &ReplaySettings::default());
    let step_at = |cost: DurationNs| {
        let settings = ReplaySettings {
            edits: slices.edits(cost, CALL_COST.min(cost)),
            ..ReplaySettings::default()
        };
        let run = run_graph(&graph, trace, &settings);
        let step = mean_step(&changed_steps(&bounds, NodeIdx(0), &recorded, &run));
        (run, step)
    };
    let spans: Vec<StepSpan> = bounds.iter().map(|step| step.span.clone()).collect();
    let recorded_step = mean_step(&spans);
    let per_op = match plain_step {
        None => estimate.ok_or(NoOverhead::NoTrivialOps)?,
        Some(wanted) => {
            let takes = |cost| step_at(cost).1;
            if recorded_step.ok_or(NoOverhead::NoSteps)? <= wanted {
                DurationNs(0)
            } else {
                // Where devices need the time of a step, they hide the host: any cost above a limit
                // gives the same steps, and the estimate is the best guess.
                let shortest = takes(MOST_COST).unwrap_or_default();
                let hidden_below = DurationNs(shortest.0 + shortest.0 / 50);
                let fitted = least_cost(&takes, wanted.max(hidden_below));
                match estimate {
                    // No cost makes steps that short, so the time tells nothing about it.
                    Some(estimate) if wanted < shortest => estimate,
                    Some(estimate) if takes(fitted) <= Some(hidden_below) => fitted.max(estimate),
                    _ => fitted,
                }
            }
        }
    };
    let (run, step_ns) = step_at(per_op);
    let overhead = RecordingOverhead {
        per_op_ns: per_op,
        is_removed: true,
        recorded_ns: recorded.makespan(),
        recorded_step_ns: recorded_step,
        step_ns,
        known_step_ns: plain_step,
    };
    Ok((moved_trace(trace, &run), overhead))
}

/// Returns the least cost per op with which a step takes at most `wanted`, to 1/4096 of the cost.
fn least_cost(takes: &impl Fn(DurationNs) -> Option<DurationNs>, wanted: DurationNs) -> DurationNs {
    let (mut low, mut high) = (0, MOST_COST.0);
    while high - low > (high / 4096).max(1) {
        let middle = low + (high - low) / 2;
        if takes(DurationNs(middle)).is_some_and(|step| step <= wanted) {
            high = middle;
        } else {
            low = middle;
        }
    }
    DurationNs(high)
}

/// Returns the mean length of the steps that count; `None` without any.
pub fn mean_step(steps: &[StepSpan]) -> Option<DurationNs> {
    RunSteps::new(&[steps], &[]).mean_ns().map(DurationNs)
}

/// Slices of threads, by what ends them.
struct Slices {
    /// Slices that end with their op, their durations.
    at_end: Vec<(NodeIdx, DurationNs)>,
    /// Slices that end with the start of an op.
    before_start: Vec<(NodeIdx, DurationNs)>,
    /// Slices that end with the start of a runtime call.
    before_call: Vec<(NodeIdx, DurationNs)>,
    /// Runtime calls.
    calls: Vec<(NodeIdx, DurationNs)>,
}

impl Slices {
    fn new(trace: &LinkedTrace, graph: &ReplayGraph) -> Slices {
        let mut slices = Slices {
            at_end: vec![],
            before_start: vec![],
            before_call: vec![],
            calls: vec![],
        };
        // The slice of each thread that precedes the current node.
        let mut before: Vec<Option<NodeIdx>> = vec![None; trace.device.threads.len()];
        for index in trace.nodes.indices() {
            let node = trace.nodes.get(index);
            let Some(thread) = node.thread() else {
                continue;
            };
            let duration = graph.duration[index.index()];
            match node.kind {
                NodeKind::Runtime => slices.calls.push((index, duration)),
                NodeKind::HostOp | NodeKind::Collective if ends_op(trace, index) => {
                    slices.at_end.push((index, duration));
                }
                _ => {}
            }
            let Some(previous) = before[thread.index()].replace(index) else {
                continue;
            };
            let kind = trace.nodes.kind[previous.index()];
            if !matches!(kind, NodeKind::HostOp | NodeKind::HostGap) || ends_op(trace, previous) {
                continue;
            }
            let slice = (previous, graph.duration[previous.index()]);
            match node.kind {
                NodeKind::HostOp | NodeKind::Collective if node.first => {
                    slices.before_start.push(slice);
                }
                NodeKind::Runtime if node.first => slices.before_call.push(slice),
                _ => {}
            }
        }
        slices
    }

    /// Returns the edits that make an op cost `cost` less, and a call `of_call`.
    fn edits(&self, cost: DurationNs, of_call: DurationNs) -> GraphEdits {
        let part = |share: f64| DurationNs((cost.0 as f64 * share).round() as i64);
        let groups = [
            (&self.at_end, part(SHARE_AT_END)),
            (&self.before_start, part(1.0 - SHARE_AT_END)),
            (&self.before_call, part(SHARE_BEFORE_CALL)),
            (&self.calls, of_call),
        ];
        let mut edits = GraphEdits::default();
        for (nodes, cost) in groups {
            let longer = nodes.iter().filter(|(_, duration)| *duration > LEAST_SLICE);
            edits.scaled.extend(longer.map(|(node, duration)| {
                let left = DurationNs(duration.0 - cost.0).max(LEAST_SLICE);
                (*node, left.0 as f64 / duration.0 as f64)
            }));
        }
        edits
    }
}

/// Returns edits of a host's slices for the least and the greatest overhead that the recording may
/// have, relative to the times of the trace; empty for a host that recording did not slow down, or
/// whose step without recording is known. O(nodes).
pub fn overhead_doubt(trace: &LinkedTrace, graph: &ReplayGraph) -> Vec<GraphEdits> {
    let Some(overhead) = trace.report.overhead else {
        return vec![];
    };
    if overhead.is_removed && overhead.known_step_ns.is_some() {
        return vec![];
    }
    let (removed, of_call) = if overhead.is_removed {
        (1.0, DurationNs::ZERO)
    } else {
        (0.0, CALL_COST)
    };
    let slices = Slices::new(trace, graph);
    let costs = OVERHEAD_DOUBT.map(|factor| (factor - removed) * overhead.per_op_ns.0 as f64);
    let edits = costs.map(|cost| slices.edits(DurationNs(cost.round() as i64), of_call));
    edits.into()
}

/// Returns true if a slice ends when its op ends.
fn ends_op(trace: &LinkedTrace, node: NodeIdx) -> bool {
    let (end, node) = (trace.nodes.end(node), trace.nodes.get(node));
    let is_op = matches!(node.kind, NodeKind::HostOp | NodeKind::Collective) && !node.on_device;
    let (ops, at) = (&trace.device.ops, node.source as usize);
    is_op && at < ops.len() && ops.start[at] + ops.duration[at] == end
}

/// Estimates the cost of recording per op from ops that do no work; `None` if there are too few.
/// O(ops log ops).
pub fn recording_cost(device: &DeviceTrace) -> Option<DurationNs> {
    let (ops, names) = (&device.ops, &device.names);
    let mut times = vec![];
    // Start of the next op of each thread: ops are sorted by start.
    let mut next = vec![None; device.threads.len()];
    for op in (0..ops.len()).rev() {
        let (start, duration) = (ops.start[op], ops.duration[op]);
        let next = next[ops.thread[op].index()].replace(start);
        let is_whole = next.is_none_or(|next| next >= start + duration);
        if is_whole && TRIVIAL_OPS.contains(&names.get(ops.name[op])) {
            times.push(duration);
        }
    }
    if times.len() < LEAST_TRIVIAL {
        return None;
    }
    times.sort_unstable();
    let at_end = times[times.len() / 2].0 - TRIVIAL_TIME.0;
    let cost = (at_end as f64 / SHARE_AT_END * COST_TO_TRIVIAL).round() as i64;
    Some(DurationNs(cost.max(0)))
}

/// Returns the device trace with its events at the times of a run.
fn moved_trace(trace: &LinkedTrace, run: &ReplayRun) -> DeviceTrace {
    let nodes = &trace.nodes;
    let mut points = vec![vec![]; trace.device.threads.len()];
    let mut rows = trace.device.rows.start.clone();
    for index in nodes.indices() {
        let node = nodes.get(index);
        let new = run.start[index.index()];
        match node.thread() {
            Some(thread) => {
                let points = &mut points[thread.index()];
                points.push((node.start, new));
                points.push((nodes.end(index), run.end(index)));
            }
            None if !node.kind.is_delay() => rows[node.source as usize] = new,
            None => {}
        }
    }
    let maps: Vec<TimeMap> = points.into_iter().map(TimeMap::new).collect();
    let busiest = maps.iter().max_by_key(|map| map.len());
    let others = busiest.cloned().unwrap_or_default();
    // A thread without slices has nothing that the run moved.
    let maps = maps.into_iter();
    let maps: Vec<TimeMap> = maps
        .map(|map| if map.is_empty() { others.clone() } else { map })
        .collect();
    let mut device = trace.device.clone();
    device.retime(&maps, &others, &rows);
    device
}
