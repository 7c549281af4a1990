//! Share of time in which a device is busy.
//!
//! The *whole* is the time that the program took, not the time that its device rows span:
//!
//! ```text
//! steps    if the trace has steps: from the begin of the first that counts to the end of the last,
//!          on the host or of its device work, whichever is later: the sum of their lengths
//! process  otherwise: from the first to the last host event, or to the end of the device work they
//!          launched; the device rows alone if the trace has no host events
//!
//! window = busy + before + unknown + idle               exactly, ns
//! busy   = computation + exposed communication + exposed memory
//! share  = busy / (window - before - unknown)
//! ```
//! `unknown` is time in which the recorder lost so many rows that the device's state is unknown
//! ([`RowSanity`](etlink_model::RowSanity)), whatever rows it contains. `before` is time that
//! nothing in the trace explains and in which no other work runs: rows launched before the
//! recording run, or the first row of a stream has been launched and waits for such work. If that
//! row is the first of its device, the device carried out such work from the start of the window,
//! also before that launch. Time before the recording is neither busy nor idle. Rows that are no
//! work, such as waits, are idle time. A collective counts from its own rank's arrival;
//! [`ExposedCommunication`](crate::ExposedCommunication) gives the part in which the device only
//! waits for other ranks.

use crate::breakdown::{sum_masks, work_sets};
use crate::intervals::{Intervals, by_mask};
use crate::outside_time::{is_all_unknown, unknown_time};
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::steps::{StepTime, counted_steps, is_zero, steps_window};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{EarlierWait, LinkedTrace, is_from_before, waits_for_earlier_work};
use etlink_model::TimeNs;
use serde::Serialize;

/// Period that [`Utilization`] refers to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UtilizationWindow {
    /// Time of the steps.
    Steps,
    /// Time that the process recorded.
    #[default]
    Process,
}

/// Utilization of a device while the program runs, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Utilization {
    /// Device number; `None` for sums.
    pub device: Option<i64>,
    /// Kind of the window.
    pub window: UtilizationWindow,
    /// Number of steps in the window that count; summed over devices in sums.
    pub steps: u64,
    /// Start of the window, ns since the origin of the trace; 0 for sums.
    pub start_ns: i64,
    /// Length of the window.
    pub window_ns: i64,
    /// Time in which only work from before the recording runs or is awaited; excluded from all
    /// shares.
    pub before_recording_ns: i64,
    /// Time with so many lost rows that the state is unknown; excluded from all shares.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ns: i64,
    /// Time in which work runs.
    pub busy_ns: i64,
    /// Time in which computation runs.
    pub computation_ns: i64,
    /// Time in which communication runs, without computation.
    pub exposed_communication_ns: i64,
    /// Time in which a copy or memset runs, without computation or communication.
    pub exposed_memory_ns: i64,
    /// Time in which no work runs.
    pub idle_ns: i64,
    /// `busy_ns / (window_ns - before_recording_ns - unknown_ns)`; `None` for an empty window.
    pub busy_share: Option<f64>,
}

impl Utilization {
    /// Start and end of the window, ns since the origin of the trace.
    pub fn span(&self) -> (i64, i64) {
        (self.start_ns, self.start_ns.saturating_add(self.window_ns))
    }

    /// Window without unexplained time: the denominator of all shares.
    pub fn whole_ns(&self) -> i64 {
        self.window_ns
            .saturating_sub(self.before_recording_ns)
            .saturating_sub(self.unknown_ns)
    }

    /// Time in which the device does more than communicate.
    pub fn compute_or_copy_ns(&self) -> i64 {
        self.computation_ns.saturating_add(self.exposed_memory_ns)
    }

    /// Share of time in which the device does more than communicate.
    pub fn compute_or_copy_share(&self) -> Option<f64> {
        busy_share(self.compute_or_copy_ns(), self.whole_ns())
    }

    fn add(&mut self, other: &Utilization) {
        if other.window == UtilizationWindow::Process {
            self.window = UtilizationWindow::Process;
        }
        self.steps += other.steps;
        for (to, from) in [
            (&mut self.window_ns, other.window_ns),
            (&mut self.before_recording_ns, other.before_recording_ns),
            (&mut self.unknown_ns, other.unknown_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.computation_ns, other.computation_ns),
            (
                &mut self.exposed_communication_ns,
                other.exposed_communication_ns,
            ),
            (&mut self.exposed_memory_ns, other.exposed_memory_ns),
            (&mut self.idle_ns, other.idle_ns),
        ] {
            *to = to.saturating_add(from);
        }
        self.busy_share = busy_share(self.busy_ns, self.whole_ns());
    }
}

fn busy_share(busy_ns: i64, whole_ns: i64) -> Option<f64> {
    (whole_ns > 0).then(|| busy_ns as f64 / whole_ns as f64)
}

/// Returns the start of the window of [`Utilization`]. O(1) with steps, else O(host events + rows).
pub(crate) fn window_start(trace: &LinkedTrace, steps: &[StepTime]) -> Option<i64> {
    let window = steps_window(steps).or_else(|| process_window(trace));
    window.map(|(start, _)| start)
}

/// Computes the utilization per device with rows, by number. O(rows log rows + host events).
pub(crate) fn utilizations(rows: &ClassifiedRows<'_>, steps: &[StepTime]) -> Vec<Utilization> {
    let of_steps = steps_window(steps);
    let kind = match of_steps {
        Some(_) => UtilizationWindow::Steps,
        None => UtilizationWindow::Process,
    };
    let Some(window) = of_steps.or_else(|| process_window(rows.trace)) else {
        return vec![];
    };
    let mut all = vec![];
    let before_times = times_before(rows, window);
    let unknown = if is_all_unknown(rows.trace) {
        Intervals::of_span(window)
    } else {
        unknown_time(rows.trace).clipped_to(window)
    };
    let devices = rows.devices.iter().zip(&rows.of_devices);
    for ((device, of_device), before) in devices.zip(before_times) {
        let launched = of_device.iter().copied();
        let launched = launched.filter(|row| !is_from_before(rows.trace, *row));
        let [computation, communication, memory, _] = work_sets(rows, launched, window);
        let sets = [computation, communication, memory, before, unknown.clone()];
        // bit 0 of a mask is computation, 1 communication, 2 memory, 3 before, 4 unknown
        let times: [i64; 32] = by_mask(&sets);
        let computation_ns = sum_masks(&times, |mask| mask & 0b1_0001 == 0b1);
        let exposed_communication_ns = sum_masks(&times, |mask| mask & 0b1_0011 == 0b10);
        let exposed_memory_ns = sum_masks(&times, |mask| mask & 0b1_0111 == 0b100);
        let busy_ns = computation_ns
            .saturating_add(exposed_communication_ns)
            .saturating_add(exposed_memory_ns);
        let mut one = Utilization {
            device: Some(*device),
            window: kind,
            steps: counted_steps(steps).count() as u64,
            start_ns: window.0,
            window_ns: window.1.saturating_sub(window.0),
            before_recording_ns: times[0b1000],
            unknown_ns: unknown.total_length(),
            busy_ns,
            computation_ns,
            exposed_communication_ns,
            exposed_memory_ns,
            idle_ns: 0,
            busy_share: None,
        };
        one.idle_ns = one.whole_ns().saturating_sub(busy_ns);
        one.busy_share = busy_share(busy_ns, one.whole_ns());
        all.push(one);
    }
    all
}

/// Returns, per device, the intervals of the window in which work from before the recording runs or
/// is awaited, even next to other work.
fn times_before(rows: &ClassifiedRows<'_>, window: Span) -> Vec<Intervals> {
    let waits = waits_for_earlier_work(rows.trace);
    let devices = rows.of_devices.iter();
    devices
        .map(|of_device| time_before(rows, of_device, &waits, window))
        .collect()
}

/// Sums the utilization of devices or ranks: device time, not wall time.
pub(crate) fn sum_utilizations<'a>(all: impl Iterator<Item = &'a Utilization>) -> Vec<Utilization> {
    let mut sum: Option<Utilization> = None;
    for one in all {
        match &mut sum {
            Some(sum) => sum.add(one),
            None => {
                sum = Some(Utilization {
                    device: None,
                    start_ns: 0,
                    ..one.clone()
                });
            }
        }
    }
    sum.into_iter().collect()
}

type Span = (i64, i64);

fn process_window(trace: &LinkedTrace) -> Option<Span> {
    let device = &trace.device;
    let host = [
        (&device.ops.start, &device.ops.duration),
        (&device.calls.start, &device.calls.duration),
    ];
    let host = host.into_iter().flat_map(|(starts, durations)| {
        let spans = starts.iter().zip(durations);
        spans.map(|(start, duration)| (start.0, (*start + *duration).0))
    });
    let window = host.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let rows = &device.rows;
    let row_span = |row: usize| (rows.start[row].0, (rows.start[row] + rows.duration[row]).0);
    let all_rows = (0..rows.len()).map(row_span);
    match window {
        Some((start, end)) => {
            let launched = (0..rows.len()).filter(|row| !is_from_before(trace, *row));
            let last = launched.map(|row| row_span(row).1).max();
            Some((start, last.map_or(end, |last| last.max(end))))
        }
        None => all_rows.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))),
    }
}

/// Returns the intervals of the window in which rows from before the recording run or are awaited.
fn time_before(
    rows: &ClassifiedRows<'_>,
    of_device: &[usize],
    waits: &[EarlierWait],
    window: Span,
) -> Intervals {
    let mut spans: Vec<Span> = vec![];
    for row in of_device.iter().copied() {
        let works = rows.class[row] != RowClass::Other;
        if works && is_from_before(rows.trace, row) {
            // the time before this row on the device is unknown, too
            spans.push((window.0, rows.span(row).1));
        }
    }
    for wait in waits {
        if of_device.binary_search(&wait.row).is_ok() {
            let start = rows.span(wait.row).0;
            spans.push((wait.begin((TimeNs(window.0), TimeNs(start))).0, start));
        }
    }
    for span in &mut spans {
        *span = (span.0.max(window.0), span.1.min(window.1));
    }
    spans.sort_unstable();
    let mut before = Intervals::default();
    for (start, end) in spans {
        before.push(start, end);
    }
    before
}
