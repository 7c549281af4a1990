//! Device work launched before the recording or before the steps.

use crate::{LinkedTrace, NoLaunch, NodeKind};
use etlink_model::{RowIdx, TableIdx, TimeNs};
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
    match trace.row_no_launch[row] {
        NoLaunch::BeforeWindow => true,
        NoLaunch::NoCorrelation => {
            let start = trace.device.rows.start[row];
            let start = trace.host_time(RowIdx::from_index(row), start);
            let first = trace.device.calls.start.first();
            first.is_some_and(|first| start < *first)
        }
        _ => false,
    }
}

/// Lists rows that wait for work from before the recording: the first row of each device, and the
/// first row of a queue while rows of the device run that were launched before the recording. First
/// rows of other queues may wait for anything.
pub fn waits_for_earlier_work(trace: &LinkedTrace) -> Vec<EarlierWait> {
    let nodes = &trace.nodes;
    let earlier = earlier_work(trace);
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
            let work = &earlier[&trace.row_device(RowIdx::from_index(row))];
            let is_first = work.first_row == row;
            if is_first || work.last_end.is_some_and(|end| end >= launched) {
                waits.push(EarlierWait {
                    row,
                    launched,
                    is_first,
                });
            }
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

/// Evidence of a device's work from before the recording.
struct EarlierWork {
    /// First row of the device.
    first_row: usize,
    /// End of the last row launched before the recording.
    last_end: Option<TimeNs>,
}

/// Collects the earlier work per device. O(rows).
fn earlier_work(trace: &LinkedTrace) -> BTreeMap<i64, EarlierWork> {
    let rows = &trace.device.rows;
    let mut devices: BTreeMap<i64, EarlierWork> = BTreeMap::new();
    // Rows are sorted by start.
    for row in 0..rows.len() {
        let work = devices
            .entry(trace.row_device(RowIdx::from_index(row)))
            .or_insert(EarlierWork {
                first_row: row,
                last_end: None,
            });
        if is_from_before(trace, row) {
            work.last_end = work
                .last_end
                .max(Some(rows.start[row] + rows.duration[row]));
        }
    }
    devices
}
