//! Steps: what counts as one, how long it took, what the device did for it.
//!
//! A step is what [`etlink_link::ranks::RankSteps`] takes for one: a range that the user marked;
//! else a `ProfilerStep#N`; else an iteration of an inference engine (vLLM, SGLang, ATOM); else the
//! time from the end of one `Optimizer.step…` to the end of the next (forward, backward, optimizer;
//! what the window cuts is none); else annotations that differ by a number at their end alone. A
//! trace with none of these has no steps.
//!
//! Device rows belong to the step in which their launch call began, on whatever thread, of nested
//! ones the innermost; they may run after the step's end on the host. `device` times are over these
//! rows, as in [`DeviceTime`]: their window is from the first one's start to the last one's end.
//!
//! What a recording cuts is no step like the others, and would halve a mean: see [`StepExclusion`].

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

/// Why a step counts in no mean, median or spread, and in no figure per step.
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
    /// It launched nothing on a device, while other steps did.
    #[default]
    NoDeviceRows,
    /// The first or the last, and not a tenth as long as any other: the recording cuts it. Steps of
    /// inference are never that: a decode can be that much shorter than a prefill.
    Stub,
    /// The recorder lost all its device rows.
    LostRows,
}

impl StepExclusion {
    /// As a sentence has it, behind the name of the step.
    pub fn phrase(self) -> &'static str {
        match self {
            StepExclusion::NoDeviceRows => "launched nothing on a device",
            StepExclusion::Stub => "is the cut rest of a step",
            StepExclusion::LostRows => "has lost its device rows",
        }
    }
}

/// One step, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTime {
    /// Name of the annotation; of several with one name all but the first have a number: `a (2)`.
    pub name: String,
    /// `prefill`, `decode`, `mixed`, or the word of the user's pattern.
    pub phase: Option<String>,
    /// Requests, where the name says it.
    pub batch: Option<u64>,
    /// Tokens that went through the model, where the name says it.
    pub tokens: Option<u64>,
    /// Start, ns since the origin of the trace.
    pub start_ns: i64,
    /// Time on the host.
    pub duration_ns: i64,
    /// Of that, time in which no thread runs an op or a runtime call: Python between them, or what
    /// the trace does not show.
    pub between_ops_ns: i64,
    /// Time from its begin until its last device row ends in which devices carry out, or wait for,
    /// what was launched before the recording, the iteration before, and nothing else.
    pub before_recording_ns: i64,
    /// Device rows that were launched in it.
    pub rows: u64,
    /// Why it counts in no mean; none of most.
    pub excluded: Option<StepExclusion>,
    /// First start of these, ns since the origin of the trace.
    pub device_start_ns: i64,
    /// From there to their last end.
    pub device_window_ns: i64,
    /// Computation.
    pub computation_ns: i64,
    /// Communication without computation beside it.
    pub exposed_communication_ns: i64,
    /// Copies with neither beside them.
    pub exposed_memory_ns: i64,
    /// Other rows alone.
    pub exposed_other_ns: i64,
    /// None of its rows runs, but for `unknown_ns`.
    pub idle_ns: i64,
    /// None of its rows runs either, but so many were lost that nothing can be said.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ns: i64,
    /// Communication.
    pub communication_ns: i64,
    /// Communication and computation.
    pub overlap_ns: i64,
}

/// In order of time. O(ops + rows · log rows).
pub(crate) fn step_times(rows: &ClassifiedRows<'_>) -> Vec<StepTime> {
    let mut steps = trace_steps(&rows.trace.device);
    let mut of_step: Vec<Vec<usize>> = vec![vec![]; steps.len()];
    let mut open: Vec<usize> = vec![];
    let mut next = 0;
    for (called, row) in launched_rows(rows, !steps.is_empty()) {
        // Launches and steps are both in order of time:
        // one walk with a stack of open steps is enough.
        let begun = steps.partition_point(|step| step.start_ns <= called);
        open.extend(next..begun);
        next = begun;
        // steps that have ended lie on others that have not
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
    // the rows of a step are all of it: no other work takes from its time
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

/// Those that count in means.
pub fn counted_steps(steps: &[StepTime]) -> impl Iterator<Item = &StepTime> + Clone {
    steps.iter().filter(|step| step.excluded.is_none())
}

/// The median time from the end of a step to that of the next, on the host and on devices, ns: what
/// a loop takes per step. The host's own time is less while it runs ahead and a queue fills. None of a
/// single step, and for inference, whose steps differ. O(n log n).
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

/// Whether a step of a job counts in means: on one rank at least, or no rank says that it does not.
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

/// The steps from the first to the last that counts, or whose rows were lost: what the recording cuts
/// at an edge is no part of the time that shares are of. All where none counts.
pub(crate) fn between_counted(steps: &[StepTime]) -> &[StepTime] {
    let counts = |step: &StepTime| matches!(step.excluded, None | Some(StepExclusion::LostRows));
    let first = steps.iter().position(counts);
    let last = steps.iter().rposition(counts);
    match first.zip(last) {
        Some((first, last)) => &steps[first..=last],
        None => steps,
    }
}

/// When ops or calls run on any thread: during `backward` the thread of the steps only waits for
/// that of autograd. Annotations name what runs and are no work. O(n log n), near O(n).
fn host_intervals(device: &DeviceTrace) -> Intervals {
    let (ops, calls) = (&device.ops, &device.calls);
    let mut spans = vec![];
    for op in (0..ops.start.len()).filter(|op| !ops.annotation[*op]) {
        spans.push((ops.start[op].0, (ops.start[op] + ops.duration[op]).0));
    }
    for (start, duration) in calls.start.iter().zip(&calls.duration) {
        spans.push((start.0, (*start + *duration).0));
    }
    // two runs in order of time, which a stable sort merges
    spans.sort();
    let mut intervals = Intervals::default();
    for (start, end) in spans {
        intervals.push(start, end);
    }
    intervals
}

/// When rows were launched, in that order.
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
    /// From its begin until it has ended on the host and on devices.
    pub fn whole_ns(&self) -> i64 {
        self.last_end_ns().saturating_sub(self.start_ns)
    }

    pub(crate) fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// End on the host, or of the device work that it launched, whichever is later.
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

/// The steps of a trace, without what devices did for them, in order of time.
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
