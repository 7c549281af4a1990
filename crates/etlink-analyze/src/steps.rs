//! Steps: their definition, durations, and device work.
//!
//! Steps are those of [`etlink_link::ranks::RankSteps`], from the first of these sources that a
//! trace has: ranges marked by the user; `ProfilerStep#N`; iterations of an inference engine (vLLM,
//! SGLang, ATOM); the time from the end of one `Optimizer.step…` to the end of the next (forward,
//! backward, optimizer; time that the window truncates is no step); annotations that differ only by
//! a number at the end. A trace with none of these has no steps.
//!
//! Device rows belong to the step in which their launch call began, on any thread; of nested steps,
//! to the innermost. They may run after the step's end on the host. `device` times cover these
//! rows, as in [`DeviceTime`]: their window extends from the first row's start to the last row's
//! end.
//!
//! Steps that the recording truncates are unlike the others and would halve a mean: see
//! [`StepExclusion`].

use crate::breakdown::DeviceTime;
use crate::duration_stats::median_ns;
use crate::intervals::Intervals;
use crate::outside_time::{OutsideTime, unknown_time};
use crate::rows::ClassifiedRows;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::NoLaunch;
use etlink_link::ranks::{RankSteps, StepSpan};
use etlink_model::{DeviceTrace, StepIdx};
use serde::Serialize;

/// Reason a step is left out of all means, medians, spreads and per-step figures.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepExclusion {
    /// The step launched nothing on a device, while other steps did.
    #[default]
    NoDeviceRows,
    /// First or last step, less than a tenth as long as any other: truncated by the recording.
    /// Never applies to inference steps: a decode can be that much shorter than a prefill.
    Stub,
    /// The recorder lost all device rows of the step.
    LostRows,
}

impl StepExclusion {
    /// Phrase to follow the name of the step in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            StepExclusion::NoDeviceRows => "launched no device work",
            StepExclusion::Stub => "is truncated",
            StepExclusion::LostRows => "lost its device rows",
        }
    }
}

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
    /// Part of that time in which no thread runs an op or a runtime call: Python between them, or
    /// activity that the trace does not show.
    pub between_ops_ns: i64,
    /// Part of the time from the step's start to its last device row's end in which devices only
    /// carry out, or wait for, work launched before the recording, such as the previous iteration.
    pub before_recording_ns: i64,
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
    let mut steps = trace_steps(&rows.trace.device);
    let mut of_step: Vec<Vec<usize>> = vec![vec![]; steps.len()];
    let mut open: Vec<usize> = vec![];
    let mut next = 0;
    for (called, row) in launched_rows(rows, !steps.is_empty()) {
        // Launches and steps are both sorted by time: one pass with a stack of open steps is
        // enough.
        let begun = steps.partition_point(|step| step.start_ns <= called);
        open.extend(next..begun);
        next = begun;
        // steps that have ended may be above others that have not
        while open
            .pop_if(|step| steps[*step].end_ns() <= called)
            .is_some()
        {}
        if let Some(list) = open.last().and_then(|step| of_step.get_mut(*step)) {
            list.push(row);
        }
    }
    let busy_host = if steps.is_empty() {
        Intervals::default()
    } else {
        host_intervals(&rows.trace.device)
    };
    // a step's time includes only its own rows: no other work takes part of it
    let unknown = unknown_time(rows.trace);
    let outside = OutsideTime {
        intervals: unknown.clone(),
        begin: None,
    };
    of_step.iter_mut().for_each(|list| list.sort_unstable());
    for (step, list) in steps.iter_mut().zip(of_step) {
        let gaps = busy_host.gaps_within((step.start_ns, step.end_ns()));
        let gaps = gaps.iter().map(|(start, end)| end.saturating_sub(*start));
        step.between_ops_ns = gaps.fold(0, i64::saturating_add);
        step.rows = list.len() as u64;
        if !list.is_empty() {
            step.set_device_time(&DeviceTime::from_rows(rows, list, &outside, None));
        } else if unknown.length_within((step.start_ns, step.end_ns())) > 0 {
            step.excluded = Some(StepExclusion::LostRows);
        }
    }
    exclude_empty_steps(&mut steps);
    steps
}

/// Returns the steps that count in means.
pub fn counted_steps(steps: &[StepTime]) -> impl Iterator<Item = &StepTime> + Clone {
    steps.iter().filter(|step| step.excluded.is_none())
}

/// Returns the median time from the end of a step to the end of the next, on the host and on
/// devices, ns: the time of a loop iteration. The host's own time is shorter while it runs ahead
/// and a queue fills. `None` for a single step, and for inference, whose steps differ. O(n log n).
pub fn step_period(steps: &[StepTime]) -> Option<i64> {
    if steps.iter().any(|step| step.phase.is_some()) {
        return None;
    }
    let counted: Vec<&StepTime> = counted_steps(steps).collect();
    let pairs = counted.windows(2).filter_map(|pair| match pair {
        [one, next] => Some(next.last_end_ns().saturating_sub(one.last_end_ns())),
        _ => None,
    });
    let mut periods: Vec<i64> = pairs.collect();
    (!periods.is_empty()).then(|| median_ns(&mut periods))
}

/// Returns true if a step of a job counts in means: it counts on at least one rank, or no rank
/// excludes it.
pub fn is_counted_step<'a>(ranks: impl Iterator<Item = &'a [StepTime]>, name: &str) -> bool {
    let mut is_excluded = false;
    for step in ranks.flatten().filter(|step| step.name == name) {
        if step.excluded.is_none() {
            return true;
        }
        is_excluded = true;
    }
    !is_excluded
}

fn exclude_empty_steps(steps: &mut [StepTime]) {
    let has_rows = steps.iter().any(|step| step.rows > 0);
    for step in steps.iter_mut().filter(|step| has_rows && step.rows == 0) {
        step.excluded.get_or_insert(StepExclusion::NoDeviceRows);
    }
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
/// the steps only waits for autograd's. Annotations name activity and are no work. O(n log n), near
/// O(n).
fn host_intervals(device: &DeviceTrace) -> Intervals {
    let (ops, calls) = (&device.ops, &device.calls);
    let mut spans = vec![];
    for op in (0..ops.start.len()).filter(|op| !ops.annotation[*op]) {
        spans.push((ops.start[op].0, (ops.start[op] + ops.duration[op]).0));
    }
    for (start, duration) in calls.start.iter().zip(&calls.duration) {
        spans.push((start.0, (*start + *duration).0));
    }
    // two sorted runs, which a stable sort merges
    spans.sort();
    let mut intervals = Intervals::default();
    for (start, end) in spans {
        intervals.push(start, end);
    }
    intervals
}

/// Lists rows with their launch times, sorted by these.
fn launched_rows(rows: &ClassifiedRows<'_>, wanted: bool) -> Vec<(i64, usize)> {
    let trace = rows.trace;
    let call = |row: usize| {
        if wanted && trace.row_no_launch[row] == NoLaunch::Launched {
            trace.row_call[row].get()
        } else {
            None
        }
    };
    let mut all: Vec<(i64, usize)> = (0..rows.len())
        .filter_map(|row| Some((trace.device.calls.start[call(row)?.index()].0, row)))
        .collect();
    all.sort_unstable();
    all
}

fn is_zero(ns: &i64) -> bool {
    *ns == 0
}

impl StepTime {
    /// Time from the step's start until it has ended on the host and on devices, ns.
    pub fn whole_ns(&self) -> i64 {
        self.last_end_ns().saturating_sub(self.start_ns)
    }

    pub(crate) fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// End on the host, or of the device work launched in the step, whichever is later.
    pub(crate) fn last_end_ns(&self) -> i64 {
        if self.rows == 0 {
            return self.end_ns();
        }
        let device_end = self.device_start_ns.saturating_add(self.device_window_ns);
        self.end_ns().max(device_end)
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

/// Returns the steps of a trace, sorted by time, without their device work.
pub(crate) fn trace_steps(device: &DeviceTrace) -> Vec<StepTime> {
    let spans = RankSteps::all_of(device);
    let stubs = RankSteps::stubs(&spans);
    let is_stub = |place: usize| stubs.contains(&StepIdx::new(place));
    let step = |(place, step): (usize, &StepSpan)| StepTime {
        excluded: is_stub(place).then_some(StepExclusion::Stub),
        name: step.name.clone(),
        phase: step.work.phase.clone(),
        batch: step.work.batch,
        tokens: step.work.tokens,
        // `RankSteps` uses Unix time to compare ranks; a trace's own tables use its origin.
        start_ns: device.header.trace_time(step.start_ns).0,
        duration_ns: step.end_ns.since(step.start_ns),
        ..StepTime::default()
    };
    let mut steps: Vec<StepTime> = spans.iter().enumerate().map(step).collect();
    steps.sort_by_key(|step| (step.start_ns, std::cmp::Reverse(step.duration_ns)));
    steps
}
