//! Finds rows at times at which they cannot have run.
//!
//! A stream runs its rows in the order of their launches. Rows that agree with it form the longest
//! increasing run of starts (patience sorting, O(n log n)); a row outside it by more than clocks
//! explain has a wrong time. Calls of several threads that overlap may enqueue their rows in either
//! order. This needs no common clock of host and device. A single row, or one without a known call,
//! is compared with the recording.

use super::launches::LaunchCalls;
use super::rows_where;
use crate::device::call_end;
use crate::limits::{EARLY_START, MOST_OVERLAPPING, RECORDING_MARGIN};
use crate::search::Groups;
use etlink_model::QueueIdx;
use etlink_model::{DeviceTrace, RowIdx, TableIdx, TimeNs};

/// Returns the rows with an impossible start, ascending.
pub(super) fn misplaced_rows(device: &DeviceTrace, calls: &LaunchCalls) -> Vec<RowIdx> {
    let mut is_wrong = vec![false; device.rows.len()];
    mark_outside(device, &mut is_wrong);
    let by_queue: Groups<QueueIdx, RowIdx> = Groups::new(&device.rows.queue, device.queues.len());
    for queue in 0..device.queues.len() {
        let mut launched: Vec<LaunchedRow> = vec![];
        for row in by_queue.rows(QueueIdx::from_index(queue)) {
            let call = calls.call_of(device.rows.correlation[row.index()]);
            if !is_wrong[row.index()]
                && let Some(call) = call
            {
                launched.push(LaunchedRow {
                    called: device.calls.start[call.index()],
                    start: device.rows.start[row.index()],
                    returned: call_end(device, call),
                    row: *row,
                });
            }
        }
        launched.sort_unstable();
        for place in out_of_order(&launched) {
            is_wrong[launched[place].row.index()] = true;
        }
    }
    rows_where(device.rows.len(), |row| is_wrong[row])
}

/// A row with the times of its launch call, ordered by call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaunchedRow {
    called: TimeNs,
    start: TimeNs,
    returned: TimeNs,
    row: RowIdx,
}

impl LaunchedRow {
    /// True if this row starts more than [`EARLY_START`] after a row that was launched later.
    fn contradicts(&self, later: &LaunchedRow) -> bool {
        self.returned <= later.called && self.start.since(later.start) > EARLY_START.0
    }
}

/// Returns the indexes of rows whose starts contradict the order of their launches.
fn out_of_order(launched: &[LaunchedRow]) -> Vec<usize> {
    if launched.is_sorted_by_key(|row| row.start) {
        return vec![];
    }
    let in_order = longest_run(launched);
    let mut out = vec![];
    let mut next = 0;
    for (place, row) in launched.iter().enumerate() {
        if in_order.get(next) == Some(&place) {
            next += 1;
            continue;
        }
        // Calls that overlap this one say nothing, but others further away may.
        let (before, after) = in_order.split_at(next);
        let mut before = before.iter().rev().take(MOST_OVERLAPPING);
        let mut after = after.iter().take(MOST_OVERLAPPING);
        if before.any(|place| launched[*place].contradicts(row))
            || after.any(|place| row.contradicts(&launched[*place]))
        {
            out.push(place);
        }
    }
    out
}

/// Returns the indexes of the longest increasing subsequence of starts. A frequent wrong time forms
/// none.
fn longest_run(launched: &[LaunchedRow]) -> Vec<usize> {
    let mut last_of_length: Vec<usize> = vec![];
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(launched.len());
    for (place, row) in launched.iter().enumerate() {
        let length = last_of_length.partition_point(|last| launched[*last].start < row.start);
        previous.push(length.checked_sub(1).map(|shorter| last_of_length[shorter]));
        match last_of_length.get_mut(length) {
            Some(last) => *last = place,
            None => last_of_length.push(place),
        }
    }
    let mut run: Vec<usize> =
        std::iter::successors(last_of_length.last().copied(), |place| previous[*place]).collect();
    run.reverse();
    run
}

/// Marks rows that start further from the recording than its length. The recording covers the times
/// of calls and of the middle half of the rows' starts.
fn mark_outside(device: &DeviceTrace, is_wrong: &mut [bool]) {
    let starts = &device.rows.start;
    // fewer rows have no middle half
    if starts.len() < 4 {
        return;
    }
    let (mut first, mut last) = (
        starts[starts.len() / 4],
        starts[(starts.len() * 3).div_ceil(4) - 1],
    );
    let calls = &device.calls;
    for (start, duration) in calls.start.iter().zip(&calls.duration) {
        first = first.min(*start);
        last = last.max(*start + *duration);
    }
    let margin = last.since(first).max(RECORDING_MARGIN.0);
    for (row, start) in starts.iter().enumerate() {
        is_wrong[row] |= first.since(*start) > margin || start.since(last) > margin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_wrong_starts_are_told_from_many_right_ones() {
        let launched = |starts: &[i64]| -> Vec<LaunchedRow> {
            let rows = (0..).zip(starts);
            rows.map(|(row, ms)| LaunchedRow {
                called: TimeNs(i64::from(row)),
                start: TimeNs(ms * 1_000_000),
                returned: TimeNs(i64::from(row) + 1),
                row: RowIdx(row),
            })
            .collect()
        };
        for (starts, wrong) in [
            (&[10, 20, 30, 40][..], &[][..]),
            (&[10, 900, 30, 40], &[1]),
            (&[10, 20, 0, 30, 0, 0, 50], &[2, 4, 5]),
            (&[10, 20, 30, -5], &[3]),
            // by 1 ms
            (&[10, 12, 11, 13], &[]),
        ] {
            assert_eq!(out_of_order(&launched(starts)), wrong, "{starts:?}");
        }
        // the first call blocks, and other threads launch meanwhile
        let mut blocked = launched(&[60, 10, 20, 30, 70]);
        blocked[0].returned = TimeNs(4);
        assert!(out_of_order(&blocked).is_empty());
        blocked[0].returned = TimeNs(1);
        assert_eq!(out_of_order(&blocked), [0]);
        // a wrong start right after a call that blocks
        let mut hidden = launched(&[10, 20, 30, 0, 40]);
        hidden[2].returned = TimeNs(4);
        assert_eq!(out_of_order(&hidden), [3]);
    }
}
