//! How far a device's clock is ahead of the host's.
//!
//! ```text
//! host      cudaMemcpy ---------------|
//! device                  ==copy=========|     ends after the call that waited for it
//!                                     <-->     at least so far is its clock ahead
//! ```
//! CUPTI and ROCm convert the device's time to the host's. What is left is 1 or 2 us on most
//! devices and up to 9 us on MI300. A call that blocks until a row has ended says how far it is at
//! least, and the quickest launch how far at most, for no row starts before its launch. The least
//! shift is taken that puts all returns behind what they waited for, but one in a hundred.

use crate::device::calls::Does;
use crate::device::launch::Launches;
use crate::device::{calls, row_end};
use crate::limits::CLOCK_TOLERANCE;
use etlink_model::{CallIdx, DeviceTrace, DurationNs, RowIdx, RowKind, TimeNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of the returns, one in so many may be left out: damage, or a wait that was none.
const OUTLIERS: usize = 100;

/// Fewer returns than this say nothing of a clock.
const LEAST_RETURNS: usize = 3;

/// A device whose clock is ahead of the host's by more than the tolerance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceClock {
    /// Number of the device.
    pub device: i64,
    /// By so much at least.
    pub ahead_ns: DurationNs,
    /// By so much at most: the quickest launch.
    pub at_most_ns: DurationNs,
    /// Calls that say so.
    pub returns: u64,
}

#[derive(Default)]
struct Samples {
    /// From the return of a call to the end of what it waited for.
    late: Vec<DurationNs>,
    /// From the begin of a launch call to the start of its row.
    launch: Vec<DurationNs>,
}

/// Measures the clocks of all devices; those that need no shift are left out. O(rows log rows).
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
            of_device.launch.push(start - device.calls.start[at]);
            if blocks_for_copy(device, row, does) {
                of_device.late.push(end - returned);
            }
            let last = launched.entry(number).or_insert(end);
            *last = end.max(*last);
        }
        // Of several devices it is not known which one the call is for.
        if does == Does::DeviceSync
            && launched.len() == 1
            && let Some((number, last)) = launched.first_key_value()
        {
            samples
                .entry(*number)
                .or_default()
                .late
                .push(*last - returned);
        }
    }
    let clocks = samples.into_iter();
    clocks
        .filter_map(|(number, of_device)| clock(number, of_device))
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

fn clock(number: i64, mut samples: Samples) -> Option<DeviceClock> {
    samples.late.sort_unstable();
    samples.launch.sort_unstable();
    let returns = samples.late.len();
    if returns < LEAST_RETURNS {
        return None;
    }
    let most = samples
        .late
        .get((returns - returns / OUTLIERS).checked_sub(1)?)?;
    let at_most_ns = *samples.launch.get(samples.launch.len() / OUTLIERS)?;
    // Returns that no clock explains are of calls that did not wait, or of damage.
    let explained = *most <= at_most_ns;
    (explained && *most > CLOCK_TOLERANCE).then_some(DeviceClock {
        device: number,
        ahead_ns: *most,
        at_most_ns,
        returns: returns as u64,
    })
}

/// Moves the starts of the rows of these devices; back where `back`.
pub(crate) fn shift_rows(device: &mut DeviceTrace, clocks: &[DeviceClock], back: bool) {
    if clocks.is_empty() {
        return;
    }
    for row in 0..device.rows.len() {
        let number = device.queues[device.rows.queue[row].index()].device;
        if let Some(clock) = clocks.iter().find(|clock| clock.device == number) {
            let start = &mut device.rows.start[row].0;
            *start += if back {
                clock.ahead_ns.0
            } else {
                -clock.ahead_ns.0
            };
        }
    }
}
