//! Assigns nodes to steps.
//!
//! Work of a thread belongs to the step in which it begins, work of a device to the step of its
//! launch call, whenever it runs. A delay belongs to the row after it.

use crate::graph::ReplayGraph;
use etlink_link::ranks::{RankSteps, StepSpan};
use etlink_link::{LinkedTrace, Node};
use etlink_model::{DeviceTrace, DurationNs, NodeIdx, ResourceIdx, StepIdx, ThreadIdx, TimeNs};

/// One step.
pub(crate) struct StepNodes {
    pub(crate) step: StepIdx,
    pub(crate) name: String,
    /// Origin of the step's times.
    pub(crate) origin: TimeNs,
    /// Time from the origin to the end of the last of `last_nodes`.
    pub(crate) length: DurationNs,
    /// Nodes of the step, ascending.
    pub(crate) nodes: Vec<NodeIdx>,
    /// Nodes whose last end is the step's end: device work, and all nodes of the stepping thread.
    pub(crate) last_nodes: Vec<NodeIdx>,
}

impl StepNodes {
    pub(super) fn since_origin(&self, time: TimeNs) -> TimeNs {
        TimeNs(time.since(self.origin))
    }

    /// Returns the index of a node in `nodes`.
    pub(super) fn place_of(&self, node: NodeIdx) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }
}

/// All steps of a trace.
pub(crate) struct SplitSteps {
    /// Steps that have nodes, in order.
    pub(crate) steps: Vec<StepNodes>,
    /// Thread whose ranges are the steps.
    pub(crate) main: ResourceIdx,
    by_node: Vec<StepIdx>,
    /// True for each runtime call that has a device row.
    launching: Vec<bool>,
}

impl SplitSteps {
    /// Splits a trace into steps; `None` if there are none.
    pub(crate) fn new(trace: &LinkedTrace, graph: &ReplayGraph) -> Option<SplitSteps> {
        let device = &trace.device;
        let spans = RankSteps::all_of(device);
        let main = ResourceIdx(stepping_thread(device, spans.first()?)?.0);
        let times = StepWindows::new(device, &spans);
        let nodes = trace.nodes.indices();
        let by_node: Vec<StepIdx> = nodes
            .map(|node| times.step_at(launch_time(trace, &trace.nodes.get(node))))
            .collect();
        let mut split = SplitSteps {
            steps: vec![],
            main,
            by_node,
            launching: launching_calls(trace),
        };
        let mut members: Vec<Vec<NodeIdx>> = vec![vec![]; spans.len()];
        for node in graph.indices() {
            if let Some(step) = split.step_at(node).get() {
                members[step.index()].push(node);
            }
        }
        for (at, (nodes, span)) in members.into_iter().zip(spans).enumerate() {
            let ends_step = |node: &NodeIdx| {
                let is_main = graph.resource[node.index()] == main;
                is_main || graph.is_device_op(*node)
            };
            let last_nodes: Vec<NodeIdx> = nodes.iter().copied().filter(ends_step).collect();
            let origin = device.header.trace_time(span.start_ns);
            let end = last_nodes.iter().map(|node| graph.end(*node)).max();
            let Some(end) = end else { continue };
            split.steps.push(StepNodes {
                step: StepIdx::new(at),
                name: span.name,
                origin,
                length: end - origin,
                nodes,
                last_nodes,
            });
        }
        Some(split)
    }

    pub(super) fn step_at(&self, node: NodeIdx) -> StepIdx {
        self.by_node[node.index()]
    }

    /// Returns true if a runtime call, by its row, launched a device row.
    pub(super) fn is_launch(&self, call: u32) -> bool {
        self.launching[call as usize]
    }
}

fn launching_calls(trace: &LinkedTrace) -> Vec<bool> {
    let mut launching = vec![false; trace.device.calls.name.len()];
    for call in trace.row_call.iter().filter_map(|call| call.get()) {
        launching[call.index()] = true;
    }
    launching
}

/// Begin and end of each step, by the trace's clock.
struct StepWindows(Vec<(TimeNs, TimeNs)>);

impl StepWindows {
    fn new(device: &DeviceTrace, spans: &[StepSpan]) -> StepWindows {
        let time = |unix| device.header.trace_time(unix);
        let spans = spans.iter();
        StepWindows(
            spans
                .map(|span| (time(span.start_ns), time(span.end_ns)))
                .collect(),
        )
    }

    fn step_at(&self, time: TimeNs) -> StepIdx {
        let begun = self.0.partition_point(|(start, _)| *start <= time);
        let last = begun.checked_sub(1);
        // Time after a step and before the next belongs to no step.
        let inside = last.filter(|last| time < self.0[*last].1);
        inside.map_or(StepIdx::NONE, StepIdx::new)
    }
}

/// Returns the launch time of a node, or its start if nothing launched it.
fn launch_time(trace: &LinkedTrace, node: &Node) -> TimeNs {
    if !node.on_device {
        return node.start;
    }
    let row = node.source as usize;
    match trace.row_call[row].get() {
        Some(call) => trace.device.calls.start[call.index()],
        None => trace.device.rows.start[row],
    }
}

/// Returns the thread of the range that is, or ends, a step.
fn stepping_thread(device: &DeviceTrace, span: &StepSpan) -> Option<ThreadIdx> {
    let ops = &device.ops;
    let (start, end) = (
        device.header.trace_time(span.start_ns),
        device.header.trace_time(span.end_ns),
    );
    let end_of = |op: usize| ops.start[op] + ops.duration[op];
    let mut annotations = (0..ops.name.len()).filter(|op| ops.annotation[*op]);
    let is_step = |op: &usize| end_of(*op) == end;
    let exact = annotations
        .clone()
        .find(|op| is_step(op) && ops.start[*op] == start);
    // An optimizer's range ends a step that began before it.
    let op = exact.or_else(|| annotations.find(is_step))?;
    Some(ops.thread[op])
}
