//! Splits device time by activity.
//!
//! The *window* of a device is the one of its utilization: the steps, or the recording. Only rows that count are used: see
//! [`CountedWork`](crate::CountedWork). Each instant of the window belongs to the first state in
//! this list that applies: computation runs; communication runs; a copy or memset runs; work that
//! does not count runs, or work from before the recording is awaited; a row that is no work (such
//! as a wait) runs; nothing runs:
//!
//! ```text
//! window = computation + exposed communication + exposed memory + outside + exposed other + idle
//!          exactly, ns
//! busy = window - outside - exposed other - idle
//! share = part / (window - outside)
//! overlap = time in which both computation and communication run
//! overlap share = overlap / communication
//! communication = exposed communication + overlap
//! ```
//! Overlapping rows of one class count once. Rows of all streams of a device are merged; rows of
//! different devices are not. So a sum over devices or ranks is device time, not wall time.

use crate::intervals::{Intervals, by_mask};
use crate::outside_time::{OutsideRows, OutsideTime, is_all_unknown};
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use borsh::{BorshDeserialize, BorshSerialize};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Device time by class, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceTime {
    /// Device number; `None` for sums.
    pub device: Option<i64>,
    /// Start of the window, ns since the origin of the trace; 0 for sums.
    pub start_ns: i64,
    /// Length of the window, ns.
    pub window_ns: i64,
    /// Time without counted work in which work outside the steps runs, work from before the
    /// recording is awaited, or the state is unknown because too many rows were lost. Excluded from
    /// all shares.
    pub outside_ns: i64,
    /// Time in which computation runs.
    pub computation_ns: i64,
    /// Time in which communication runs, without computation.
    pub exposed_communication_ns: i64,
    /// Time in which a copy or memset runs, without computation or communication.
    pub exposed_memory_ns: i64,
    /// Time in which only rows that are no work run, such as waits.
    pub exposed_other_ns: i64,
    /// Time in which nothing runs.
    pub idle_ns: i64,
    /// Time in which communication runs.
    pub communication_ns: i64,
    /// Time in which copies or memsets run.
    pub memory_ns: i64,
    /// Time in which both computation and communication run.
    pub overlap_ns: i64,
    /// `overlap_ns / communication_ns`; `None` without communication.
    pub overlap_share: Option<f64>,
}

impl DeviceTime {
    /// Adds the times of another device or rank.
    pub fn add(&mut self, other: &DeviceTime) {
        let to = [
            &mut self.window_ns,
            &mut self.outside_ns,
            &mut self.computation_ns,
            &mut self.exposed_communication_ns,
            &mut self.exposed_memory_ns,
            &mut self.exposed_other_ns,
            &mut self.idle_ns,
            &mut self.communication_ns,
            &mut self.memory_ns,
            &mut self.overlap_ns,
        ];
        for (to, from) in to.into_iter().zip(other.time_columns()) {
            *to = to.saturating_add(from);
        }
        self.overlap_share = overlap_share(self.overlap_ns, self.communication_ns);
    }

    /// Window without outside time: the denominator of all shares.
    pub fn whole_ns(&self) -> i64 {
        self.window_ns.saturating_sub(self.outside_ns)
    }

    /// Time in which work runs, ns.
    pub fn busy_ns(&self) -> i64 {
        self.whole_ns()
            .saturating_sub(self.idle_ns)
            .saturating_sub(self.exposed_other_ns)
    }

    fn time_columns(&self) -> [i64; 10] {
        [
            self.window_ns,
            self.outside_ns,
            self.computation_ns,
            self.exposed_communication_ns,
            self.exposed_memory_ns,
            self.exposed_other_ns,
            self.idle_ns,
            self.communication_ns,
            self.memory_ns,
            self.overlap_ns,
        ]
    }

    /// Computes the times of `some` rows, sorted by start, over `window`; without a window, from the
    /// first row's start to the last row's end. O(rows).
    pub(crate) fn from_rows(
        rows: &ClassifiedRows<'_>,
        some: Vec<usize>,
        outside: &OutsideTime,
        window: Option<(i64, i64)>,
    ) -> DeviceTime {
        let spans = some.iter().map(|row| rows.span(*row));
        let extent = spans.reduce(|all, one| (all.0, all.1.max(one.1)));
        let Some(window) = window.or(extent) else {
            return DeviceTime::default();
        };
        let sets = work_sets(rows, some.into_iter(), window);
        DeviceTime::from_sets(window, sets, outside)
    }

    /// Computes the times from the intervals of each class in `sets`, in the order of
    /// [`RowClass::ALL`].
    fn from_sets(
        (start, end): (i64, i64),
        sets: [Intervals; 4],
        outside: &OutsideTime,
    ) -> DeviceTime {
        let [computation, communication, memory, other] = sets;
        let outside = outside.intervals.clipped_to((start, end));
        let sets = [computation, communication, memory, other, outside];
        // Bit 0 of a mask is computation, 1 communication, 2 memory, 3 other, 4 outside. One sweep
        // gives the time of each combination of classes; all figures are sums of these.
        let times: [i64; 32] = by_mask(&sets);
        let busy = sum_masks(&times, |mask| mask != 0);
        let overlap_ns = sum_masks(&times, |mask| mask & 0b11 == 0b11);
        let window_ns = end.saturating_sub(start);
        let communication_ns = sets[RowClass::Communication as usize].total_length();
        DeviceTime {
            device: None,
            start_ns: start,
            window_ns,
            outside_ns: sum_masks(&times, |mask| mask & 0b1_0111 == 0b1_0000),
            computation_ns: sets[RowClass::Computation as usize].total_length(),
            exposed_communication_ns: sum_masks(&times, |mask| mask & 0b11 == 0b10),
            exposed_memory_ns: sum_masks(&times, |mask| mask & 0b111 == 0b100),
            exposed_other_ns: times[0b1000],
            // includes the time before the first and after the last row with a length
            idle_ns: window_ns.saturating_sub(busy),
            communication_ns,
            memory_ns: sets[RowClass::Memory as usize].total_length(),
            overlap_ns,
            overlap_share: overlap_share(overlap_ns, communication_ns),
        }
    }
}

/// Returns the intervals in which rows of each class run within a window, in the order of
/// [`RowClass::ALL`]. `some` is sorted by start. O(rows).
pub(crate) fn work_sets(
    rows: &ClassifiedRows<'_>,
    some: impl Iterator<Item = usize>,
    window: (i64, i64),
) -> [Intervals; 4] {
    let mut sets: [Intervals; 4] = Default::default();
    for row in some {
        let (start, end) = rows.span(row);
        sets[rows.class[row] as usize].push(start.max(window.0), end.min(window.1));
    }
    sets
}

/// Sums the time of all class combinations that satisfy `holds`.
pub(crate) fn sum_masks<const MASKS: usize>(times: &[i64; MASKS], holds: fn(usize) -> bool) -> i64 {
    let masks = (0..MASKS).filter(|mask| holds(*mask));
    masks.fold(0, |sum, mask| sum.saturating_add(times[mask]))
}

fn overlap_share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Computes the times of each device with rows, sorted by device number, in the window of its
/// utilization. O(rows).
pub(crate) fn device_times(
    rows: &ClassifiedRows<'_>,
    outside: &OutsideRows,
    windows: &FxHashMap<i64, (i64, i64)>,
) -> Vec<DeviceTime> {
    // Shares of the remaining rows would show devices as busy all the time.
    if is_all_unknown(rows.trace) {
        return vec![];
    }
    let places = rows.devices.len();
    let outside_times = outside.outside_times(rows, places, |row| rows.device_place(row));
    let mut all = vec![];
    let devices = rows.devices.iter().zip(&rows.of_devices);
    for ((device, of_device), outside_time) in devices.zip(&outside_times) {
        let counted = of_device.iter().copied();
        let counted = counted.filter(|row| !outside.contains_row(*row));
        let window = windows.get(device).copied();
        let times = DeviceTime::from_rows(rows, counted.collect(), outside_time, window);
        all.push(DeviceTime {
            device: Some(*device),
            ..times
        });
    }
    all
}

/// Sums the times of devices or ranks: device time, not wall time.
pub(crate) fn sum_device_times<'a>(all: impl Iterator<Item = &'a DeviceTime>) -> DeviceTime {
    let mut sum = DeviceTime::default();
    all.for_each(|one| sum.add(one));
    sum
}
