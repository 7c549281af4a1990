//! Aligns host and device clocks: the error of each device's clock, and its rows on the host's
//! clock.
//!
//! CUPTI and ROCm convert the device's time to the host's. The remaining error is 1 or 2 us on most
//! devices, and up to 9 us on MI300. [`crate::device::clock_bounds`] collects bounds from calls and
//! rows, [`crate::device::clock_fit`] finds the shift that agrees with them. Waits and the graph
//! are computed with shifted rows, which then get their recorded times back.

use crate::device::clock_bounds::clock_bounds;
use crate::device::clock_fit::{ClockBounds, ClockFit, fit};
use crate::device::launch::{Launches, launch_state};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DeviceTrace, DurationNs, TimeNs};
use serde::Serialize;

/// Error of a device clock that is off the host's by more than the tolerance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceClock {
    /// Number of the device.
    pub device: i64,
    /// Minimum time by which the clock is ahead at `at_ns`; negative if it is behind.
    pub ahead_ns: DurationNs,
    /// Bound on that time further from 0; `None` if unknown.
    pub at_most_ns: Option<DurationNs>,
    /// Increase of the time by which it is ahead, ns per second of its own time (parts per
    /// billion); 0 if a single shift fits.
    pub drift_ppb: i64,
    /// Reference time, by the device's clock; irrelevant for a clock without drift.
    pub at_ns: TimeNs,
    /// Number of calls that waited for the device.
    pub returns: u64,
    /// Number of launched rows.
    pub launches: u64,
    /// Number of these calls and rows that still contradict the clock by more than 2 us.
    pub contradicted: u64,
    /// Largest remaining contradiction.
    pub residual_ns: DurationNs,
}

impl DeviceClock {
    fn new(device: i64, bounds: &ClockBounds, fit: &ClockFit) -> DeviceClock {
        let (contradicted, residual_ns) = bounds.violated_by(fit);
        DeviceClock {
            device,
            ahead_ns: DurationNs(fit.ahead_ns),
            at_most_ns: fit.furthest_ns.map(DurationNs),
            drift_ppb: fit.drift_ppb,
            at_ns: fit.at,
            returns: (bounds.least.len() + bounds.guessed.len()) as u64,
            launches: bounds.most.len() as u64,
            contradicted,
            residual_ns: DurationNs(residual_ns),
        }
    }

    fn fit(&self) -> ClockFit {
        ClockFit {
            ahead_ns: self.ahead_ns.0,
            furthest_ns: None,
            drift_ppb: self.drift_ppb,
            at: self.at_ns,
        }
    }

    /// Converts a time of this clock to the host's clock.
    fn by_host(&self, time: TimeNs) -> TimeNs {
        time.shifted(self.fit().ahead_at(time).saturating_neg())
    }

    /// Converts a time of the host's clock to this clock: the inverse of [`DeviceClock::by_host`],
    /// within 1 ns for drifting clocks.
    fn by_device(&self, time: TimeNs) -> TimeNs {
        time.shifted(self.fit().ahead_by_host(time))
    }
}

/// Returns the clock of a device if it is off; `clocks` are sorted by device. O(log clocks).
pub(crate) fn clock_of(clocks: &[DeviceClock], device: i64) -> Option<&DeviceClock> {
    let place = clocks.binary_search_by_key(&device, |clock| clock.device);
    place.ok().map(|place| &clocks[place])
}

/// Converts a time of a device's clock to the host's clock; `clocks` are sorted by device.
pub(crate) fn host_time(clocks: &[DeviceClock], device: i64, time: TimeNs) -> TimeNs {
    clock_of(clocks, device).map_or(time, |clock| clock.by_host(time))
}

/// Converts a time of the host's clock to a device's clock; `clocks` are sorted by device.
pub(crate) fn device_time(clocks: &[DeviceClock], device: i64, time: TimeNs) -> TimeNs {
    clock_of(clocks, device).map_or(time, |clock| clock.by_device(time))
}

/// Measures the clocks of all devices, by device, leaving out those that need no shift. O(rows log
/// rows).
pub(crate) fn device_clocks(device: &DeviceTrace, launches: &Launches) -> Vec<DeviceClock> {
    if device.rows.is_empty() || device.calls.is_empty() {
        return vec![];
    }
    let mut clocks = vec![];
    for (number, bounds) in clock_bounds(device, launches) {
        clocks.extend(fit(&bounds).map(|fit| DeviceClock::new(number, &bounds, &fit)));
    }
    clocks
}

/// Recorded times of a trace's rows.
pub(crate) struct RecordedTimes {
    start: Vec<TimeNs>,
    duration: Vec<DurationNs>,
}

/// Converts rows to the host's clock, and returns the recorded times if any changed. Launches of
/// rows are judged again on that clock.
pub(crate) fn shift_rows(
    device: &mut DeviceTrace,
    launches: &mut Launches,
    clocks: &[DeviceClock],
) -> Option<RecordedTimes> {
    if clocks.is_empty() {
        return None;
    }
    let recorded = RecordedTimes {
        start: device.rows.start.clone(),
        duration: device.rows.duration.clone(),
    };
    let queues = device.queues.iter();
    let of_queue: Vec<_> = queues.map(|queue| clock_of(clocks, queue.device)).collect();
    for row in 0..device.rows.len() {
        if let Some(clock) = of_queue[device.rows.queue[row].index()] {
            let (start, duration) = (device.rows.start[row], device.rows.duration[row]);
            // By its end, so that consecutive rows stay consecutive.
            let end = clock.by_host(start + duration);
            device.rows.start[row] = clock.by_host(start);
            device.rows.duration[row] = end - device.rows.start[row];
            if let Some(call) = launches.row_call[row].get() {
                let called = device.calls.start[call.index()];
                launches.no_launch[row] = launch_state(called, device.rows.start[row]);
            }
        }
    }
    Some(recorded)
}

/// Restores the recorded times of the rows.
pub(crate) fn restore_rows(device: &mut DeviceTrace, recorded: Option<RecordedTimes>) {
    if let Some(recorded) = recorded {
        device.rows.start = recorded.start;
        device.rows.duration = recorded.duration;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_to_the_host_and_back() {
        for (ahead, drift_ppb) in [(9_000, 0), (-55_000, 0), (700, 120_000), (-3, -1_000_000)] {
            let clocks = [DeviceClock {
                device: 3,
                ahead_ns: DurationNs(ahead),
                drift_ppb,
                at_ns: TimeNs(1_000_000),
                ..DeviceClock::default()
            }];
            for time in [0, 1_000_000, 3_600_000_000_000].map(TimeNs) {
                let back = device_time(&clocks, 3, host_time(&clocks, 3, time));
                assert!(back.since(time).abs() <= 1, "{ahead} {drift_ppb} {time}");
                assert_eq!(host_time(&clocks, 4, time), time, "of another device");
            }
        }
    }
}
