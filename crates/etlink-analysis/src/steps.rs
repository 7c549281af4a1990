//! Steps: their definition, lengths, and device work.
//!
//! Steps are those of [`etlink_link::ranks::RankSteps`], from the first of these sources that a
//! trace has: ranges marked by the user; `ProfilerStep#N`; iterations of an inference engine (vLLM,
//! SGLang, ATOM); the time from the end of one `Optimizer.step…` to the end of the next (forward,
//! backward, optimizer; time that the window truncates is no step); annotations that differ only by
//! a number at the end. A trace with none of these has no steps. Their lengths, their device rows,
//! and the steps that count come from there, too.
//!
//! Device rows of a step may run after its end on the host. `device` times cover these rows, as in
//! [`DeviceTime`]: their window extends from the first row's start to the last row's end.

use crate::breakdown::DeviceTime;
use crate::intervals::Intervals;
use crate::outside_time::{OutsideTime, unknown_time};
use crate::rows::ClassifiedRows;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::{RankSteps, StepExclusion, StepSpan};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::DeviceTrace;
use serde::Serialize;

/// One step; times in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTime {
    /// Name of the annotation. Of several steps with one name, all but the first have a number: `a
    /// (2)`.
    pub name: String,
    /// `prefill`, `decode`, `mixed`, or the word of the user's pattern; `None` without a phase.
    pub phase: Option<String>,
    /// Number of requests; `None` unless the name states it.
    pub batch: Option<u64>,
    /// Number of tokens processed by the model; `None` unless the name states it.
    pub tokens: Option<u64>,
    /// Start, ns since the origin of the trace.
    pub start_ns: i64,
    /// Time on the host.
    pub duration_ns: i64,
    /// Begin of the step's length, ns since the origin of the trace: the end of the previous
    /// step's, or `start_ns`.
    pub begin_ns: i64,
    /// Length of the step: until it has ended on the host and on devices. Lengths add up to the
    /// window of [`Utilization`](crate::Utilization), except those of steps that do not follow each
    /// other, as in inference.
    pub length_ns: i64,
    /// Part of that time in which no thread runs an op or a runtime call: Python between them, or
    /// activity that the trace does not show.
    pub between_ops_ns: i64,
    /// Number of device rows launched in the step.
    pub rows: u64,
    /// Reason the step is left out of means; `None` for most steps.
    pub excluded: Option<StepExclusion>,
    /// First start of these rows, ns since the origin of the trace.
    pub device_start_ns: i64,
    /// Time from there to the rows' last end.
    pub device_window_ns: i64,
    /// Time of computation.
    pub computation_ns: i64,
    /// Time of communication without concurrent computation.
    pub exposed_communication_ns: i64,
    /// Time of copies without concurrent computation or communication.
    pub exposed_memory_ns: i64,
    /// Time in which only other rows run.
    pub exposed_other_ns: i64,
    /// Time in which none of the step's rows runs, except `unknown_ns`.
    pub idle_ns: i64,
    /// Time in which none of the step's rows runs, but so many were lost that the state is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ns: i64,
    /// Time of communication.
    pub communication_ns: i64,
    /// Time of concurrent communication and computation.
    pub overlap_ns: i64,
}

/// Computes the steps of a rank, in order of time. O(ops + rows · log rows).
pub(crate) fn step_times(rows: &ClassifiedRows<'_>) -> Vec<StepTime> {
    let device = &rows.trace.device;
    let spans = RankSteps::of_trace(rows.trace);
    let mut of_step: Vec<Vec<usize>> = vec![vec![]; spans.len()];
    let of_rows = RankSteps::of_rows(rows.trace, &spans).into_iter();
    for (row, step) in of_rows.enumerate() {
        if let Some(step) = step.get() {
            of_step[step.index()].push(row);
        }
    }
    let busy_host = if spans.is_empty() {
        Intervals::default()
    } else {
        host_intervals(rows.trace)
    };
    // a step's time includes only its own rows: no other work takes part of it
    let outside = OutsideTime {
        intervals: unknown_time(rows.trace),
        begin: None,
    };
    let mut steps = vec![];
    for (span, list) in spans.iter().zip(of_step) {
        let mut step = StepTime::from_span(device, span);
        let gaps = busy_host.gaps_within((step.start_ns, step.end_ns()));
        let gaps = gaps.iter().map(|(start, end)| end.saturating_sub(*start));
        step.between_ops_ns = gaps.fold(0, i64::saturating_add);
        step.rows = list.len() as u64;
        if !list.is_empty() {
            step.set_device_time(&DeviceTime::from_rows(rows, list, &outside, None));
        }
        steps.push(step);
    }
    sort_steps(&mut steps);
    steps
}

/// Returns the steps that count in means.
pub fn counted_steps(steps: &[StepTime]) -> impl Iterator<Item = &StepTime> + Clone {
    steps.iter().filter(|step| step.excluded.is_none())
}

/// Returns the steps from the first to the last that counts or lost its rows; all if none does. Steps
/// truncated at the edges of the recording are not part of the time that shares refer to.
pub(crate) fn between_counted(steps: &[StepTime]) -> &[StepTime] {
    let counts = |step: &StepTime| matches!(step.excluded, None | Some(StepExclusion::LostRows));
    let first = steps.iter().position(counts);
    let last = steps.iter().rposition(counts);
    match first.zip(last) {
        Some((first, last)) => &steps[first..=last],
        None => steps,
    }
}

/// Returns the intervals in which ops or calls run on any thread: during `backward`, the thread of
/// the steps only waits for autograd's. Annotations name activity and are no work, except those of
/// Gloo's communication. O(n log n), near O(n).
fn host_intervals(trace: &LinkedTrace) -> Intervals {
    let (ops, calls) = (&trace.device.ops, &trace.device.calls);
    let mut spans = vec![];
    for op in (0..ops.start.len()).filter(|op| !ops.annotation[*op]) {
        spans.push((ops.start[op].0, (ops.start[op] + ops.duration[op]).0));
    }
    for (start, duration) in calls.start.iter().zip(&calls.duration) {
        spans.push((start.0, (*start + *duration).0));
    }
    for node in trace.nodes.indices().map(|node| trace.nodes.get(node)) {
        if node.kind == NodeKind::Collective && !node.on_device {
            spans.push((node.start.0, (node.start + node.duration).0));
        }
    }
    // sorted runs, which a stable sort merges
    spans.sort();
    let mut intervals = Intervals::default();
    for (start, end) in spans {
        intervals.push(start, end);
    }
    intervals
}

/// Returns the window of the steps: from the begin of the first that counts to the end of the last;
/// `None` without steps.
pub fn steps_window(steps: &[StepTime]) -> Option<(i64, i64)> {
    let steps = between_counted(steps);
    let begin = steps.iter().map(|step| step.begin_ns).min()?;
    let done = steps.iter().map(StepTime::done_ns).max()?;
    Some((begin, done))
}

pub(crate) fn is_zero(ns: &i64) -> bool {
    *ns == 0
}

impl StepTime {
    fn from_span(device: &DeviceTrace, span: &StepSpan) -> StepTime {
        // `RankSteps` uses Unix time to compare ranks; a trace's own tables use its origin.
        StepTime {
            name: span.name.clone(),
            phase: span.work.phase.clone(),
            batch: span.work.batch,
            tokens: span.work.tokens,
            start_ns: device.header.trace_time(span.start_ns).0,
            duration_ns: span.end_ns.since(span.start_ns),
            begin_ns: device.header.trace_time(span.begin_ns).0,
            length_ns: span.length_ns(),
            excluded: span.excluded,
            ..StepTime::default()
        }
    }

    pub(crate) fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// End of the step's length, ns since the origin of the trace.
    pub(crate) fn done_ns(&self) -> i64 {
        self.begin_ns.saturating_add(self.length_ns)
    }

    fn set_device_time(&mut self, time: &DeviceTime) {
        (self.device_start_ns, self.device_window_ns) = (time.start_ns, time.window_ns);
        (self.computation_ns, self.exposed_communication_ns) =
            (time.computation_ns, time.exposed_communication_ns);
        (self.exposed_memory_ns, self.exposed_other_ns, self.idle_ns) =
            (time.exposed_memory_ns, time.exposed_other_ns, time.idle_ns);
        (self.communication_ns, self.overlap_ns) = (time.communication_ns, time.overlap_ns);
        self.unknown_ns = time.outside_ns;
    }
}

/// Returns the steps of a trace, sorted by time, without their device times. O(rows log rows).
pub(crate) fn trace_steps(trace: &LinkedTrace) -> Vec<StepTime> {
    let spans = RankSteps::of_trace(trace);
    let spans = spans.iter();
    let mut steps: Vec<StepTime> = spans
        .map(|span| StepTime::from_span(&trace.device, span))
        .collect();
    sort_steps(&mut steps);
    steps
}

fn sort_steps(steps: &mut [StepTime]) {
    steps.sort_by_key(|step| (step.start_ns, std::cmp::Reverse(step.duration_ns)));
}
