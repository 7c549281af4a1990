//! How far a device's clock is off the host's.
//!
//! ```text
//! host      cudaMemcpy ---------------|
//! device                  ==copy=========|     ahead: ends after the call that waited for it
//! host        cudaLaunchKernel --
//! device    ==kernel==                         behind: starts before the call that launched it
//! ```
//! CUPTI and ROCm convert the device's time to the host's. What is left is 1 or 2 us on most
//! devices and up to 9 us on MI300. A call that blocks until a row has ended says how far it is
//! ahead at least, and a launch how far at most, for no row starts before its launch. The least
//! shift is taken that agrees with all but one in a hundred of both.
//!
//! Where every shift misses by more than 2 us, the clock can run faster or slower than the host's. A
//! drift is looked for at which one fits. By how much returns and launches miss each other would be
//! a convex function of the drift, were none of them left out. With outliers it is nearly so: the
//! search can miss a drift that fits, but takes none that does not.

use crate::device::calls::Does;
use crate::device::launch::Launches;
use crate::device::{calls, row_end};
use crate::graph::kinds::NoLaunch;
use crate::limits::{CLOCK_TOLERANCE, LAUNCH_LATENCY, MAX_DRIFT_PPB};
use crate::search::{last_fit, least_at};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{CallIdx, DeviceTrace, DurationNs, RowIdx, RowKind, TimeNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of the returns and launches, one in so many may be left out: damage, or a wait that was none.
const OUTLIERS: usize = 100;

/// Fewer returns than this say nothing of a clock, and neither do fewer early rows.
const LEAST_SAMPLES: usize = 3;

/// Fewer returns or launches than this say nothing of a drift.
const LEAST_FOR_DRIFT: usize = 8;

/// A device whose clock is off the host's by more than the tolerance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceClock {
    /// Number of the device.
    pub device: i64,
    /// So far ahead is its clock at least, at `at_ns`; less than nothing: so far behind at least.
    pub ahead_ns: DurationNs,
    /// So far it is at most, which is further from 0. `None` where nothing tells.
    pub at_most_ns: Option<DurationNs>,
    /// By how much it gets further ahead, ns per second of its own time (parts per billion); 0
    /// where one shift fits all.
    pub drift_ppb: i64,
    /// The instant, by the device's clock; of a clock without drift any other does as well.
    pub at_ns: TimeNs,
    /// Calls that waited for it.
    pub returns: u64,
    /// Rows that were launched.
    pub launches: u64,
}

impl DeviceClock {
    /// A time of this clock by the host's.
    fn by_host(&self, time: TimeNs) -> TimeNs {
        let since = time.0.saturating_sub(self.at_ns.0);
        let ahead = self.ahead_ns.0.saturating_add(moved(self.drift_ppb, since));
        time.shifted(ahead.saturating_neg())
    }

    /// A time of the host's clock by this one: what [`DeviceClock::by_host`] takes back, but for
    /// 1 ns of a clock that drifts.
    fn by_device(&self, time: TimeNs) -> TimeNs {
        let shifted = time.shifted(self.ahead_ns.0);
        let since = i128::from(shifted.since(self.at_ns));
        let drift = i128::from(self.drift_ppb);
        let moved = since * drift / (PPB - drift).max(1);
        shifted.shifted(moved.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}

/// The clock of a device, where it is off; `clocks` by device. O(log clocks).
pub(crate) fn clock_of(clocks: &[DeviceClock], device: i64) -> Option<&DeviceClock> {
    let place = clocks.binary_search_by_key(&device, |clock| clock.device);
    place.ok().map(|place| &clocks[place])
}

/// A time of a device's clock by the host's; `clocks` by device.
pub(crate) fn host_time(clocks: &[DeviceClock], device: i64, time: TimeNs) -> TimeNs {
    clock_of(clocks, device).map_or(time, |clock| clock.by_host(time))
}

/// A time of the host's clock by a device's; `clocks` by device.
pub(crate) fn device_time(clocks: &[DeviceClock], device: i64, time: TimeNs) -> TimeNs {
    clock_of(clocks, device).map_or(time, |clock| clock.by_device(time))
}

/// A whole, of which drifts are parts per billion.
const PPB: i128 = 1_000_000_000;

/// By how much a drift moves a clock in this time.
fn moved(ppb: i64, ns: i64) -> i64 {
    let moved = i128::from(ppb) * i128::from(ns) / PPB;
    moved.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// What a row says of a clock.
#[derive(Clone, Copy)]
struct Sample {
    /// By the device's clock.
    at: TimeNs,
    ahead_ns: i64,
}

#[derive(Default)]
struct Samples {
    /// From the return of a call to the end of what it waited for: so far ahead at least.
    late: Vec<Sample>,
    /// From the begin of a launch call to the start of its row: so far ahead at most.
    launch: Vec<Sample>,
}

/// Measures the clocks of all devices, by device; those that need no shift are left out.
/// O(rows log rows).
pub(crate) fn device_clocks(device: &DeviceTrace, launches: &Launches) -> Vec<DeviceClock> {
    if device.rows.is_empty() || device.calls.is_empty() {
        return vec![];
    }
    let does = calls::all(device);
    let mut samples: BTreeMap<i64, Samples> = BTreeMap::new();
    // What the calls up to now have launched, by device: when the last of it ends.
    let mut by_call: Vec<(CallIdx, RowIdx)> = vec![];
    for (row, call) in (0..).map(RowIdx).zip(&launches.row_call) {
        by_call.extend(call.get().map(|call| (call, row)));
    }
    by_call.sort_unstable();
    let mut launched: BTreeMap<i64, TimeNs> = BTreeMap::new();
    let mut rows = by_call.into_iter().peekable();
    for (call, does) in (0..).map(CallIdx).zip(does) {
        let at = call.index();
        let returned = device.calls.start[at] + device.calls.duration[at];
        while let Some((_, row)) = rows.next_if(|(by, _)| *by == call) {
            let number = device_of(device, row);
            let (start, end) = (device.rows.start[row.index()], row_end(device, row));
            let of_device = samples.entry(number).or_default();
            of_device.launch.push(Sample {
                at: start,
                ahead_ns: start.since(device.calls.start[at]),
            });
            if blocks_for_copy(device, row, does) {
                of_device.late.push(Sample {
                    at: end,
                    ahead_ns: end.since(returned),
                });
            }
            let last = launched.entry(number).or_insert(end);
            *last = end.max(*last);
        }
        // Of several devices it is not known which one the call is for.
        if does == Does::DeviceSync
            && launched.len() == 1
            && let Some((number, last)) = launched.first_key_value()
        {
            samples.entry(*number).or_default().late.push(Sample {
                at: *last,
                ahead_ns: last.since(returned),
            });
        }
    }
    let clocks = samples.iter();
    clocks
        .filter_map(|(number, of_device)| clock(*number, of_device))
        .collect()
}

fn device_of(device: &DeviceTrace, row: RowIdx) -> i64 {
    device.queues[device.rows.queue[row.index()].index()].device
}

/// Whether the call returns when the row has ended. To the device it can return when the memory
/// was staged (CUDA's API synchronization behavior).
fn blocks_for_copy(device: &DeviceTrace, row: RowIdx, does: Does) -> bool {
    let name = device.names.get(device.rows.name[row.index()]);
    let to_host = ["DtoH", "Device -> Pageable", "DeviceToHost"];
    device.rows.kind[row.index()] == RowKind::Memcpy
        && to_host.iter().any(|part| name.contains(part))
        && (does == Does::BlockingCopy || name.contains("Pageable"))
}

/// How far ahead a clock is at an instant: at least, and at most.
#[derive(Clone, Copy)]
struct AheadRange {
    least: Option<i64>,
    most: Option<i64>,
}

impl AheadRange {
    /// By how much the two miss each other; no more than 0 where something fits.
    fn missed(self) -> i64 {
        match (self.least, self.most) {
            (Some(least), Some(most)) => least.saturating_sub(most),
            _ => 0,
        }
    }

    /// What fits and is next to 0.
    fn nearest(self) -> i64 {
        let least = self.least.unwrap_or(i64::MIN);
        let most = self.most.unwrap_or(i64::MAX);
        0.clamp(least.min(most), most)
    }
}

fn clock(number: i64, samples: &Samples) -> Option<DeviceClock> {
    let found = DeviceClock {
        device: number,
        returns: samples.late.len() as u64,
        launches: samples.launch.len() as u64,
        ..DeviceClock::default()
    };
    let range = ahead_range(samples, TimeNs(0), 0);
    if range.missed() > CLOCK_TOLERANCE.0 {
        return drifting(found, samples);
    }
    // Returns that no clock explains are of calls that did not wait, or of damage. What misses by
    // no more than the tolerance does not show which, nor a drift: such a clock is left alone.
    let ahead = range.nearest();
    if range.missed() > 0 || ahead.abs() <= CLOCK_TOLERANCE.0 {
        return None;
    }
    let at_most = if ahead > 0 { range.most } else { range.least };
    // A clock that is behind by more than launches take shows in returns as well. Without any, rows
    // of other calls are more likely.
    if at_most.is_none() && ahead < -LAUNCH_LATENCY.0 {
        return None;
    }
    Some(DeviceClock {
        ahead_ns: DurationNs(ahead),
        at_most_ns: at_most.map(DurationNs),
        ..found
    })
}

/// A clock that no shift fits, with the drift at which one does. O(samples · log of the range).
fn drifting(found: DeviceClock, samples: &Samples) -> Option<DeviceClock> {
    let few = samples.late.len().min(samples.launch.len()) < LEAST_FOR_DRIFT;
    let first = samples.launch.iter().map(|sample| sample.at).min()?;
    let last = samples.launch.iter().map(|sample| sample.at).max()?;
    if few {
        return None;
    }
    let at_ns = TimeNs(first.0.midpoint(last.0));
    let missed = |ppb: i64| i128::from(ahead_range(samples, at_ns, ppb).missed());
    let fits = least_at(missed, -MAX_DRIFT_PPB, MAX_DRIFT_PPB);
    if missed(fits) > 0 {
        return None;
    }
    let least = last_fit(missed, fits, -MAX_DRIFT_PPB);
    let most = last_fit(missed, fits, MAX_DRIFT_PPB);
    let drift_ppb = least.midpoint(most);
    let range = ahead_range(samples, at_ns, drift_ppb);
    Some(DeviceClock {
        ahead_ns: DurationNs(range.nearest()),
        drift_ppb,
        at_ns,
        ..found
    })
}

/// How far ahead a clock of this drift is at `at`, by all samples but the outliers.
fn ahead_range(samples: &Samples, at: TimeNs, ppb: i64) -> AheadRange {
    let without_drift = |sample: &Sample| {
        let since = sample.at.0.saturating_sub(at.0);
        sample.ahead_ns.saturating_sub(moved(ppb, since))
    };
    let mut late: Vec<i64> = samples.late.iter().map(without_drift).collect();
    let mut launch: Vec<i64> = samples.launch.iter().map(without_drift).collect();
    let least = match late.len() {
        returns if returns < LEAST_SAMPLES => None,
        returns => {
            let place = returns - returns / OUTLIERS - 1;
            Some(*late.select_nth_unstable(place).1)
        }
    };
    let most = match launch.len() {
        rows if rows < LEAST_SAMPLES => None,
        rows => {
            let place = (rows / OUTLIERS).max(LEAST_SAMPLES - 1);
            Some(*launch.select_nth_unstable(place).1)
        }
    };
    AheadRange { least, most }
}

/// What the rows of a trace had recorded.
pub(crate) struct RecordedTimes {
    start: Vec<TimeNs>,
    duration: Vec<DurationNs>,
}

/// Brings the rows of these devices to the host's clock. What was recorded, if that was another.
/// Which rows start before their launch is seen by that clock.
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
            // By its end, so that rows that follow each other still do.
            let end = clock.by_host(start + duration);
            device.rows.start[row] = clock.by_host(start);
            device.rows.duration[row] = end - device.rows.start[row];
            if let Some(call) = launches.row_call[row].get() {
                let called = device.calls.start[call.index()];
                launches.no_launch[row] = match called <= device.rows.start[row] + CLOCK_TOLERANCE {
                    true => NoLaunch::Launched,
                    false => NoLaunch::StartsBeforeCall,
                };
            }
        }
    }
    Some(recorded)
}

/// Gives the rows their recorded times back.
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
