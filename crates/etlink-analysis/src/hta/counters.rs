//! Computes `get_cupti_counter_data_with_operators`: CUPTI's counters of each kernel, with the ops
//! that launched the kernel.
//!
//! CUPTI's range profiler runs one kernel at a time, and Kineto writes a range
//! (`cuda_profiler_range`) per kernel, without a correlation id. HTA therefore pairs the ranges in
//! order of time with the calls `cudaLaunchKernel…`, and returns nothing if their numbers differ.

use super::rows::HtaTrace;
use etlink_model::{CallIdx, OpIdx};
use serde::Serialize;

/// A counter of a kernel. HTA has one line per kernel and one column per counter; here each counter
/// is a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuptiCounter {
    /// HTA's `rank`.
    pub rank: i64,
    /// Position of the kernel in time, from 0.
    pub kernel: u64,
    /// Start of the kernel, in µs from the first event.
    pub ts: f64,
    /// Duration of the kernel, in µs.
    pub dur: f64,
    /// Name of the kernel.
    pub name: String,
    /// Ops around the launch, outermost first, joined by ` > `.
    pub op_stack: String,
    /// Outermost op around the launch.
    pub top_level_op: String,
    /// Innermost op around the launch.
    pub bottom_level_op: String,
    /// Name of the counter.
    pub counter: String,
    /// Value of the counter.
    pub value: f64,
}

pub(super) fn cupti_counters(loaded: &HtaTrace) -> Vec<CuptiCounter> {
    let device = &loaded.trace.device;
    let ranges = &device.counter_ranges;
    let launches: Vec<usize> = (0..device.calls.len())
        .filter(|call| {
            let name = device.names.get(device.calls.name[*call]);
            name.starts_with("cudaLaunchKernel") && loaded.is_kept(device.calls.start[*call])
        })
        .collect();
    let kept: Vec<usize> = (0..ranges.len())
        .filter(|range| loaded.is_kept(ranges.start[*range]))
        .collect();
    if kept.len() != launches.len() {
        return vec![];
    }
    let first = loaded.starts().min().unwrap_or(0);
    let mut counters = vec![];
    for (kernel, (range, launch)) in (0..).zip(kept.into_iter().zip(launches)) {
        let range = ranges.row(range);
        let (start, end) = loaded.times(range.start, range.duration);
        let stack = op_stack(loaded, CallIdx::new(launch));
        let of_kernel = CuptiCounter {
            rank: loaded.rank,
            kernel,
            ts: loaded.us(start.saturating_sub(first)),
            dur: loaded.us(end.saturating_sub(start)),
            name: device.names.get(range.name).to_owned(),
            top_level_op: stack.first().copied().unwrap_or_default().to_owned(),
            bottom_level_op: stack.last().copied().unwrap_or_default().to_owned(),
            op_stack: stack.join(" > "),
            ..CuptiCounter::default()
        };
        let values = device.names.get(range.values);
        counters.extend(counter_values(values).map(|(counter, value)| CuptiCounter {
            counter: counter.to_owned(),
            value,
            ..of_kernel.clone()
        }));
    }
    counters
}

/// Returns the CPU ops around a call, outermost first.
fn op_stack(loaded: &HtaTrace, call: CallIdx) -> Vec<&str> {
    let (trace, ops) = (&loaded.trace, &loaded.trace.device.ops);
    let mut stack = vec![];
    let mut next: OpIdx = trace.call_op[call.index()];
    while let Some(op) = next.get() {
        // HTA requires the category `cpu_op`, which annotations do not have.
        if !ops.annotation[op.index()] {
            stack.push(trace.device_name(ops.name[op.index()]));
        }
        next = trace.op_parent[op.index()];
    }
    stack.reverse();
    stack
}

/// Parses names and values from the lines of
/// [`CounterRange::values`](etlink_model::CounterRange::values).
fn counter_values(lines: &str) -> impl Iterator<Item = (&str, f64)> {
    lines.lines().filter_map(|line| {
        let (counter, value) = line.rsplit_once(' ')?;
        Some((counter, value.parse().ok()?))
    })
}
