//! Device work outside the program's steps: work launched before the recording and, if the trace
//! has steps, before the first of them.
//!
//! A device row belongs to the step whose host range launched it (correlation, call, step),
//! whenever it runs: at the start of a recording, a device still carries out the previous
//! iteration. If the call is unknown, the row's own start is used. Work launched after the last
//! step belongs to none, except what an inference engine launches after its last iteration
//! (sampling), which is part of it.

use crate::outside_time::{OutsideRows, unknown_time};
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::steps::{StepTime, between_counted, trace_steps};
use crate::utilization::window_start;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{LinkedTrace, NoLaunch, is_from_before, waits_for_earlier_work};
use etlink_model::TimeNs;
use serde::Serialize;

/// Launch time of work outside the steps.
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
pub enum OutsideCause {
    /// Launched before the recording began.
    #[default]
    BeforeRecording,
    /// Launched during the recording, before the first step.
    BeforeSteps,
    /// Launched after the last whole step.
    AfterSteps,
}

impl OutsideCause {
    /// All causes, in order of time.
    pub const ALL: [OutsideCause; 3] = [
        OutsideCause::BeforeRecording,
        OutsideCause::BeforeSteps,
        OutsideCause::AfterSteps,
    ];

    /// Phrase to follow "launched" in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            OutsideCause::BeforeRecording => "before the recording",
            OutsideCause::BeforeSteps => "before the first step",
            OutsideCause::AfterSteps => "after the last whole step",
        }
    }
}

/// Device rows of one device that are left out of the tables of kernels, copies, device time, idle
/// time and coverage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideWork {
    /// Device number.
    pub device: i64,
    /// Launch time of the rows.
    pub launched: OutsideCause,
    /// Number of rows.
    pub rows: u64,
    /// Sum of the rows' durations, ns.
    pub sum_ns: i64,
}

/// Selection of a trace's work that is compared and summed.
#[derive(Clone, Copy, Debug)]
pub struct CountedWork<'t> {
    trace: &'t LinkedTrace,
    /// Start of the first step, and end of the last one unless work after it is part of it.
    steps: Option<(i64, Option<i64>)>,
}

impl<'t> CountedWork<'t> {
    /// Selects the work of a trace's steps. O(ops + rows log rows).
    pub fn new(trace: &'t LinkedTrace) -> CountedWork<'t> {
        CountedWork::from_steps(trace, &trace_steps(trace))
    }

    /// Selects the work of these `steps`, sorted by time.
    pub(crate) fn from_steps(trace: &'t LinkedTrace, steps: &[StepTime]) -> CountedWork<'t> {
        let is_last_cut = steps.last().is_some_and(|step| step.excluded.is_some());
        let counted = between_counted(steps);
        let steps = counted.first().zip(counted.last()).map(|(first, last)| {
            let ends = is_last_cut || last.phase.is_none();
            (first.start_ns, ends.then(|| last.end_ns()))
        });
        CountedWork { trace, steps }
    }

    /// Returns the reason a device row does not count; `None` if it counts.
    pub fn row_cause(&self, row: usize) -> Option<OutsideCause> {
        if is_from_before(self.trace, row) {
            return Some(OutsideCause::BeforeRecording);
        }
        let device = &self.trace.device;
        let is_launched = self.trace.row_no_launch[row] == NoLaunch::Launched;
        let call = if is_launched {
            self.trace.row_call[row].get()
        } else {
            None
        };
        let launched = call.map_or(device.rows.start[row], |call| {
            device.calls.start[call.index()]
        });
        self.time_cause(launched)
    }

    /// Returns the reason a host range that begins at `time` does not count; `None` if it counts.
    pub fn time_cause(&self, time: TimeNs) -> Option<OutsideCause> {
        let (first, last) = self.steps?;
        if time.0 < first {
            return Some(OutsideCause::BeforeSteps);
        }
        let is_after = last.is_some_and(|last| time.0 >= last);
        is_after.then_some(OutsideCause::AfterSteps)
    }
}

/// Marks the rows that do not count. `steps` are sorted by time. O(nodes + rows).
pub(crate) fn outside_rows(
    rows: &ClassifiedRows<'_>,
    counted: &CountedWork<'_>,
    steps: &[StepTime],
) -> OutsideRows {
    let causes = (0..rows.len()).map(|row| counted.row_cause(row));
    OutsideRows {
        is_outside: causes.map(|cause| cause.is_some()).collect(),
        waits: waits_for_earlier_work(rows.trace),
        window_start: window_start(rows.trace, steps).unwrap_or_default(),
        unknown: unknown_time(rows.trace),
    }
}

/// Totals the outside work per device and cause. O(rows).
pub(crate) fn outside_work(
    rows: &ClassifiedRows<'_>,
    counted: &CountedWork<'_>,
) -> Vec<OutsideWork> {
    let mut all = vec![];
    for (device, of_device) in rows.devices.iter().zip(&rows.of_devices) {
        let mut sums = OutsideCause::ALL.map(|launched| OutsideWork {
            device: *device,
            launched,
            ..OutsideWork::default()
        });
        // a row that is a wait is no lost work
        let work = of_device.iter().copied();
        let work = work.filter(|row| rows.class[*row] != RowClass::Other);
        for row in work {
            if let Some(cause) = counted.row_cause(row) {
                let sum = &mut sums[cause as usize];
                sum.rows += 1;
                let duration = rows.trace.device.rows.duration[row].0;
                sum.sum_ns = sum.sum_ns.saturating_add(duration);
            }
        }
        all.extend(sums.into_iter().filter(|sum| sum.rows > 0));
    }
    all
}
