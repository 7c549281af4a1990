//! Finds rows with a wrong end: they continue over rows that had to wait for them.
//!
//! A row of a stream begins when its predecessor has ended. With programmatic dependent launch it
//! may begin earlier, but not end earlier. So a row that covers others, launched by other calls,
//! did not last that long. To be reported, it must also be much longer than similar rows, cover
//! many, or have many begin inside: the recorder decides what it calls a stream. A row after which
//! nothing runs is wrong if it ends long after a call that waited for its device.
//!
//! If most rows are overlong, so are similar rows. So the usual durations are computed again after
//! the rows that cover many are truncated.

use super::launches::LaunchCalls;
use crate::device::calls::{self, Does};
use crate::device::{call_end, row_end};
use crate::limits::{
    LONGER_THAN_LIKE, LONGER_THAN_RECORDING, MANY_BEGUN, MANY_COVERED, MAX_COVERED_LOOKUPS,
    PROGRAMMATIC_OVERLAP, RECORDING_MARGIN,
};
use crate::search::Groups;
use etlink_model::{
    CallIdx, DeviceRows, DeviceTrace, DurationNs, NameId, QueueIdx, RowIdx, TableIdx, TimeNs,
};
use std::collections::BTreeMap;

/// Returns the overlong rows, ascending, each with the start of the next row. O(n log n).
pub(super) fn overlong_rows(device: &DeviceTrace, calls: &LaunchCalls) -> Vec<(RowIdx, TimeNs)> {
    let by_queue: Groups<QueueIdx, RowIdx> = Groups::new(&device.rows.queue, device.queues.len());
    let overlong = |usual: &UsualDurations| {
        let mut cuts: BTreeMap<RowIdx, TimeNs> = BTreeMap::new();
        for queue in 0..device.queues.len() {
            let rows = by_queue.rows(QueueIdx::from_index(queue));
            cuts.extend(overlong_of_queue(device, rows, usual));
        }
        cuts
    };
    let mut usual = UsualDurations::new(&device.rows, &BTreeMap::new());
    let mut cuts = overlong(&usual);
    if !cuts.is_empty() {
        usual = UsualDurations::new(&device.rows, &cuts);
        cuts = overlong(&usual);
    }
    cuts.extend(beyond_recording(device, calls, &usual, &cuts));
    cuts.into_iter().collect()
}

/// Finds the overlong rows among `rows` of one queue, sorted by start.
fn overlong_of_queue(
    device: &DeviceTrace,
    rows: &[RowIdx],
    usual: &UsualDurations,
) -> Vec<(RowIdx, TimeNs)> {
    let id = |row: RowIdx| device.rows.correlation[row.index()];
    let starts: Vec<TimeNs> = rows
        .iter()
        .map(|row| device.rows.start[row.index()])
        .collect();
    let mut found = vec![];
    for (place, row) in rows.iter().enumerate() {
        let limit = row_end(device, *row).shifted(-PROGRAMMATIC_OVERLAP.0);
        if starts.get(place + 1).is_none_or(|next| *next >= limit) || id(*row).get().is_none() {
            continue;
        }
        let is_of_other_launch =
            |other: &&RowIdx| id(**other) != id(*row) && id(**other).get().is_some();
        let inside = &rows[place + 1..];
        let inside = &inside[..starts[place + 1..].partition_point(|start| *start < limit)];
        // If many rows overlap and none covers another, each would visit all others.
        let others = inside.iter().take(MAX_COVERED_LOOKUPS);
        let others: Vec<RowIdx> = others.filter(is_of_other_launch).copied().collect();
        let covered = others
            .iter()
            .filter(|other| row_end(device, **other) < limit);
        let covered = covered.count();
        let is_longer = usual.is_longer(&device.rows, *row);
        let is_over_many = covered >= MANY_COVERED || others.len() >= MANY_BEGUN;
        let is_wrong = is_over_many || is_longer && (covered > 0 || usual.are_cut);
        if is_wrong && let Some(next) = others.first() {
            found.push((*row, device.rows.start[next.index()]));
        }
    }
    found
}

/// Finds rows that end later, after everything else, than the recording is long. They are truncated
/// at the end of everything else.
fn beyond_recording(
    device: &DeviceTrace,
    calls: &LaunchCalls,
    usual: &UsualDurations,
    cuts: &BTreeMap<RowIdx, TimeNs>,
) -> Vec<(RowIdx, TimeNs)> {
    let rows = &device.rows;
    let synchronised = last_device_sync(device);
    let is_long = |row: RowIdx| {
        let outlasts = synchronised.is_some_and(|sync| outlasts_sync(device, calls, row, sync));
        !cuts.contains_key(&row) && (outlasts || usual.is_far_longer(rows, row))
    };
    let all = || (0..rows.len()).map(RowIdx::from_index);
    let long: Vec<RowIdx> = all().filter(|row| is_long(*row)).collect();
    if long.is_empty() {
        return vec![];
    }
    let spans = device.calls.start.iter().zip(&device.calls.duration);
    let spans = spans.map(|(start, duration)| (*start, *start + *duration));
    let others = all().filter(|row| long.binary_search(row).is_err());
    let others = others.map(|row| {
        let end = cuts.get(&row).copied();
        (rows.start[row.index()], end.unwrap_or(row_end(device, row)))
    });
    let extent = spans
        .chain(others)
        .reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let Some((begin, end)) = extent else {
        return vec![];
    };
    let margin = end.since(begin).max(RECORDING_MARGIN.0);
    let is_beyond = |row: &RowIdx| row_end(device, *row).since(end) > margin;
    let cut = |row: RowIdx| (row, end.max(rows.start[row.index()]));
    long.into_iter().filter(is_beyond).map(cut).collect()
}

/// Returns the last call that waits for all streams, for a trace of one process and one device.
fn last_device_sync(device: &DeviceTrace) -> Option<CallIdx> {
    let process = device.threads.first()?.pid;
    let number = device.queues.first()?.device;
    let is_one = device.threads.iter().all(|thread| thread.pid == process)
        && device.queues.iter().all(|queue| queue.device == number);
    if !is_one {
        return None;
    }
    let does = calls::all(device);
    let last = does.iter().rposition(|does| *does == Does::DeviceSync);
    last.map(CallIdx::from_index)
}

/// True if a row launched before a call that waits for its device ends long after that call.
fn outlasts_sync(device: &DeviceTrace, calls: &LaunchCalls, row: RowIdx, sync: CallIdx) -> bool {
    let launched = calls.call_of(device.rows.correlation[row.index()]);
    let is_before =
        launched.is_some_and(|call| call_end(device, call) <= device.calls.start[sync.index()]);
    is_before && row_end(device, row).since(call_end(device, sync)) > RECORDING_MARGIN.0
}

/// Collects the durations of each name's rows, ascending.
pub(super) fn durations_by_name(
    names: &[NameId],
    durations: &[DurationNs],
) -> BTreeMap<NameId, Vec<DurationNs>> {
    let mut by_name: BTreeMap<NameId, Vec<DurationNs>> = BTreeMap::new();
    for (name, duration) in names.iter().zip(durations) {
        by_name.entry(*name).or_default().push(*duration);
    }
    by_name.values_mut().for_each(|all| all.sort_unstable());
    by_name
}

/// Usual durations of rows.
struct UsualDurations {
    /// Median per name, for names with several rows.
    of_name: BTreeMap<NameId, DurationNs>,
    /// Upper quartile of all rows' durations.
    of_most: DurationNs,
    /// True if overlong rows were found, and count with their truncated durations.
    are_cut: bool,
}

impl UsualDurations {
    fn new(rows: &DeviceRows, cuts: &BTreeMap<RowIdx, TimeNs>) -> UsualDurations {
        let mut durations = rows.duration.clone();
        for (row, end) in cuts {
            durations[row.index()] = *end - rows.start[row.index()];
        }
        let mut of_name = BTreeMap::new();
        for (name, all) in durations_by_name(&rows.name, &durations) {
            if all.len() > 3 {
                of_name.insert(name, all[all.len() / 2]);
            }
        }
        let mut all = durations;
        all.sort_unstable();
        UsualDurations {
            are_cut: !cuts.is_empty(),
            of_name,
            of_most: all.get(all.len() * 3 / 4).copied().unwrap_or_default(),
        }
    }

    /// True if a row that covers others is much longer than others of its name, or, for names with
    /// few rows, than most rows.
    fn is_longer(&self, rows: &DeviceRows, row: RowIdx) -> bool {
        let usual = self.of_name.get(&rows.name[row.index()]);
        is_times(rows, row, *usual.unwrap_or(&self.of_most), LONGER_THAN_LIKE)
    }

    /// True if a row that covers none exceeds others of its name so far that it is wrong by itself.
    /// False for a kernel that runs once.
    fn is_far_longer(&self, rows: &DeviceRows, row: RowIdx) -> bool {
        let usual = self.of_name.get(&rows.name[row.index()]);
        usual.is_some_and(|usual| is_times(rows, row, *usual, LONGER_THAN_RECORDING))
    }
}

fn is_times(rows: &DeviceRows, row: RowIdx, usual: DurationNs, factor: i64) -> bool {
    rows.duration[row.index()].0 > usual.0.max(1).saturating_mul(factor)
}
