//! Device work launched before the recording or before the steps.

use crate::device::launch::Launches;
use crate::{LinkedTrace, NoLaunch, NodeKind};
use etlink_model::{DeviceTrace, RowIdx, TableIdx, TimeNs};
use std::collections::BTreeMap;

/// A row that waits for work from before the recording. Times are by the clock of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierWait {
    /// The waiting row.
    pub row: usize,
    /// End of the call that launched the row.
    pub launched: TimeNs,
    /// True if the row is the first of its device.
    pub is_first: bool,
}

impl EarlierWait {
    /// Returns the begin of the wait of a row that starts at `start`, not before `from`.
    pub fn begin(&self, (from, start): (TimeNs, TimeNs)) -> TimeNs {
        // A stream still busy with earlier work when its first row comes has been busy since
        // before: nothing in the trace comes in between. A wait that is short compared to the time
        // before it shows no such work: a first launch takes long by itself.
        let is_plausible = start - self.launched >= self.launched - from;
        if self.is_first && is_plausible {
            from
        } else {
            self.launched
        }
    }
}

/// True if a row was launched before the recording began. A row without an id (MTIA) was, if it ran
/// before any recorded call.
pub fn is_from_before(trace: &LinkedTrace, row: usize) -> bool {
    let start = trace.device.rows.start[row];
    let start = trace.host_time(RowIdx::from_index(row), start);
    is_launched_before(&trace.device, trace.row_no_launch[row], start)
}

fn is_launched_before(device: &DeviceTrace, launch: NoLaunch, start: TimeNs) -> bool {
    match launch {
        NoLaunch::BeforeWindow => true,
        NoLaunch::NoCorrelation => {
            let first = device.calls.start.first();
            first.is_some_and(|first| start < *first)
        }
        _ => false,
    }
}

/// Lists rows that wait for work from before the recording: those with a boundary and a launch.
pub fn waits_for_earlier_work(trace: &LinkedTrace) -> Vec<EarlierWait> {
    let nodes = &trace.nodes;
    let earlier = EarlierWork::new(&trace.device, |row| is_from_before(trace, row));
    let mut waits = vec![];
    for node in nodes.indices() {
        let index = node.index();
        if !nodes.on_device[index] || nodes.kind[index] != NodeKind::Boundary {
            continue;
        }
        let row = nodes.source[index] as usize;
        // Before its call, the row is late because of the host, which the trace shows.
        let Some(call) = trace.row_call.get(row).and_then(|call| call.get()) else {
            continue;
        };
        if trace.row_no_launch[row] == NoLaunch::Launched {
            let calls = &trace.device.calls;
            let launched = calls.start[call.index()] + calls.duration[call.index()];
            let launched = trace.device_time(RowIdx::from_index(row), launched);
            waits.push(EarlierWait {
                row,
                launched,
                is_first: earlier.is_first(&trace.device, row),
            });
        }
    }
    waits
}

/// Returns the time until which devices carry out work launched before `start`, by the host's
/// clock: on the device that ends it first, since another may have nothing else to do. O(nodes +
/// rows).
pub(crate) fn earlier_work_end(trace: &LinkedTrace, start: TimeNs) -> TimeNs {
    let rows = &trace.device.rows;
    let mut until: BTreeMap<i64, TimeNs> = BTreeMap::new();
    for row in 0..rows.len() {
        let until = until
            .entry(trace.row_device(RowIdx::from_index(row)))
            .or_insert(start);
        let call = trace.row_call[row].get();
        let launched = call.map(|call| trace.device.calls.start[call.index()]);
        if is_from_before(trace, row) || launched.is_some_and(|launched| launched < start) {
            let end = rows.start[row] + rows.duration[row];
            *until = trace.host_time(RowIdx::from_index(row), end).max(*until);
        }
    }
    for wait in waits_for_earlier_work(trace) {
        let row = RowIdx::from_index(wait.row);
        let begins = rows.start[wait.row];
        let from = trace.device_time(row, start);
        let begin = trace.host_time(row, wait.begin((from, begins)));
        if let Some(until) = until.get_mut(&trace.row_device(row))
            && begin <= *until
        {
            *until = trace.host_time(row, begins).max(*until);
        }
    }
    until.into_values().min().unwrap_or(start)
}

/// Work of each device from before the recording: its first row, and the end of the last row that
/// was launched before.
#[derive(Default)]
pub(crate) struct EarlierWork(BTreeMap<i64, (usize, Option<TimeNs>)>);

impl EarlierWork {
    /// Collects the work; `is_from_before`: true for rows launched before the recording. O(rows).
    fn new(device: &DeviceTrace, is_from_before: impl Fn(usize) -> bool) -> EarlierWork {
        let rows = &device.rows;
        let mut devices = BTreeMap::new();
        // Rows are sorted by start.
        for row in 0..rows.len() {
            let number = device.queues[rows.queue[row].index()].device;
            let (_, last_end) = devices.entry(number).or_insert((row, None));
            if is_from_before(row) {
                *last_end = (*last_end).max(Some(rows.start[row] + rows.duration[row]));
            }
        }
        EarlierWork(devices)
    }

    /// Collects the work of rows that are on the host's clock. O(rows).
    pub(crate) fn of_launches(device: &DeviceTrace, launches: &Launches) -> EarlierWork {
        let (launch, start) = (&launches.no_launch, &device.rows.start);
        EarlierWork::new(device, |row| {
            is_launched_before(device, launch[row], start[row])
        })
    }

    fn of_device(&self, device: &DeviceTrace, row: usize) -> Option<&(usize, Option<TimeNs>)> {
        let queue = &device.queues[device.rows.queue[row].index()];
        self.0.get(&queue.device)
    }

    /// Returns true if a row is the first of its device.
    fn is_first(&self, device: &DeviceTrace, row: usize) -> bool {
        let work = self.of_device(device, row);
        work.is_some_and(|(first, _)| *first == row)
    }

    /// Returns true if the first row of a queue, launched by a call that ended at `launched`, may
    /// wait for such work: the first row of its device, and rows launched while such work runs.
    pub(crate) fn may_delay(&self, device: &DeviceTrace, row: usize, launched: TimeNs) -> bool {
        let work = self.of_device(device, row);
        let is_running = work.is_some_and(|(_, end)| end.is_some_and(|end| end >= launched));
        is_running || self.is_first(device, row)
    }
}
