//! Removes events that a file contains twice.

use super::launches::{LaunchCalls, LaunchKind};
use crate::limits::ROUNDING;
use etlink_model::{Anomaly, AnomalyKind, DeviceTrace, DurationNs, NameId, Names, TimeNs};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// Keeps one of all identical events, and counts the others. O(n).
pub(super) fn drop_duplicates(device: &mut DeviceTrace) {
    let mut found = Anomaly::default();
    let calls = &device.calls;
    let call_key = |call: usize| {
        let is_known = calls.correlation[call].get().is_some();
        let key = (
            calls.thread[call],
            calls.name[call],
            calls.correlation[call],
        );
        (is_known || calls.duration[call] > ROUNDING).then_some(key)
    };
    let keep_calls = firsts(&calls.start, &calls.duration, call_key);
    let rows = &device.rows;
    let row_key = |row: usize| {
        let key = (
            rows.queue[row],
            rows.name[row],
            rows.correlation[row],
            rows.graph_node[row],
        );
        // Nodes of a graph can be shorter than the rounding of times. If two distinct ones are
        // longer, the second starts later.
        (rows.duration[row] > DurationNs::ZERO).then_some(key)
    };
    let mut keep_rows = firsts(&rows.start, &rows.duration, row_key);
    drop_moved(device, &mut keep_rows);
    let ops = &device.ops;
    let op_key = |op: usize| {
        let is_known = ops.external_id[op] > 0 || ops.rf_id[op].get().is_some();
        let key = (
            ops.thread[op],
            ops.name[op],
            ops.external_id[op],
            ops.rf_id[op],
            ops.seq_id[op],
        );
        is_known.then_some(key)
    };
    let keep_ops = firsts(&ops.start, &ops.duration, op_key);
    found.of = (ops.len() + calls.len() + rows.len()) as u64;
    note(&mut found, &keep_rows, &rows.name, &device.names);
    note(&mut found, &keep_calls, &calls.name, &device.names);
    note(&mut found, &keep_ops, &ops.name, &device.names);
    if found.count == 0 {
        return;
    }
    device.retain_rows(&keep_rows);
    device.retain_calls(&keep_calls);
    device.retain_ops(&keep_ops);
    device.anomalies.add_all(AnomalyKind::EventTwice, found);
}

/// Leaves out rows that run while an equally long row of the same launch and name runs on their
/// queue: no kernel or copy runs twice at a time.
fn drop_moved(device: &DeviceTrace, keep: &mut [bool]) {
    let rows = &device.rows;
    let mut last: FxHashMap<_, usize> = FxHashMap::default();
    let mut moved = vec![];
    for row in (0..rows.len()).filter(|row| keep[*row]) {
        let id = rows.correlation[row];
        let key = (rows.queue[row], rows.name[row], id, rows.graph_node[row]);
        if id.get().is_some()
            && let Some(before) = last.insert(key, row)
            && rows.duration[before] == rows.duration[row]
            && rows.start[row] < rows.start[before] + rows.duration[before]
        {
            moved.push(row);
        }
    }
    if moved.is_empty() {
        return;
    }
    let calls = LaunchCalls::new(device);
    for row in moved {
        let call = calls.call_of(rows.correlation[row]);
        let kind = call.and_then(|call| calls.kind(call));
        keep[row] = kind.is_none_or(|kind| kind == LaunchKind::Graph);
    }
}

/// Returns, per row of a table, true if no identical row precedes it; rows without a key are kept.
/// Rows with one key and start are adjacent, since the table is sorted by time.
fn firsts<K: Eq + Hash>(
    starts: &[TimeNs],
    durations: &[DurationNs],
    key: impl Fn(usize) -> Option<K>,
) -> Vec<bool> {
    let mut keep = vec![true; starts.len()];
    let mut met: FxHashSet<K> = FxHashSet::default();
    let mut begin = 0;
    while begin < starts.len() {
        let time = (starts[begin], durations[begin]);
        let mut end = begin + 1;
        while end < starts.len() && (starts[end], durations[end]) == time {
            end += 1;
        }
        if end > begin + 1 {
            met.clear();
            for (row, keep) in (begin..end).zip(&mut keep[begin..end]) {
                *keep = key(row).is_none_or(|key| met.insert(key));
            }
        }
        begin = end;
    }
    keep
}

fn note(found: &mut Anomaly, keep: &[bool], name: &[NameId], names: &Names) {
    found.count += keep.iter().filter(|kept| !**kept).count() as u64;
    if let Some(first) = keep.iter().position(|kept| !kept) {
        let place = || format!("{:?}", names.get(name[first]));
        found.first.get_or_insert_with(place);
    }
}
