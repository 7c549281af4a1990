//! Finds launches whose rows are missing, and the time that is unknown because of them.
//!
//! Launches in order form a list of losses and rows. A part of it is unknown if more than 1 /
//! [`LOST_PART`] of its launches lack their row: these are the maximal scoring parts of the list
//! (Ruzzo and Tompa 1999) if a loss counts `LOST_PART - 1` and a row -1. No part extends over more
//! than [`MAX_BETWEEN_LOST`] rows, however many were lost before them. O(calls + rows).

use super::calls::{LostCalls, lost_calls};
use super::launches::{Launch, LaunchCalls, LaunchKind};
use super::{row_place, rows_where};
use crate::device::call_end;
use crate::limits::{FEW_LOST, LEAST_LOST, LOST_OF_ALL, LOST_PART, MAX_BETWEEN_LOST};
use etlink_model::{
    ALL_TIME, Anomaly, AnomalyKind, Correlation, DeviceTrace, NameId, RowIdx, RowKind, RowSanity,
    TableIdx, TimeNs, TrackLabel,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Rows of a launch.
#[derive(Clone, Copy, Debug)]
struct LaunchRows {
    /// Number of rows that it has.
    kept: i64,
    /// Number of rows that it should have but lacks.
    missing: i64,
    /// Start of the first row.
    first: TimeNs,
    /// True if no row was ever recorded.
    is_lost: bool,
}

/// Rows with one correlation id.
#[derive(Clone, Copy, Debug, Default)]
struct RowsOfId {
    count: i64,
    first: TimeNs,
}

/// Counts launches without rows, and finds the time that is unknown since too many are missing.
/// `left_out` counts the removed impossible rows by id.
pub(super) fn lost_rows(
    device: &mut DeviceTrace,
    calls: &LaunchCalls,
    left_out: &FxHashMap<Correlation, i64>,
) -> RowSanity {
    // A truncated file is reported as a whole: Kineto writes rows after calls.
    if device.anomalies.is_cut() {
        return RowSanity::default();
    }
    let (launches, judged) = judged_launches(device, calls, left_out);
    let sanity = RowSanity {
        launches: judged.len() as u64,
        without_row: judged.iter().filter(|rows| rows.kept == 0).count() as u64,
        unknown: vec![],
    };
    let silent = lost_calls(device, calls);
    note_silent_ops(device, &silent);
    if silent.is_empty() && judged.iter().all(|rows| rows.missing == 0) {
        return sanity;
    }
    let mut stretches = lossy_stretches(&judged);
    let whole = judged.iter().map(|rows| rows.kept + rows.missing);
    let whole: i64 = whole.fold(0, i64::saturating_add);
    stretches.retain(|stretch| {
        let missing = judged[stretch.clone()].iter().map(|rows| rows.missing);
        is_loss(missing.fold(0, i64::saturating_add), whole)
    });
    let lost: Vec<usize> = (0..judged.len())
        .filter(|launch| judged[*launch].is_lost)
        .collect();
    let is_much =
        lost.len() as i64 >= FEW_LOST && lost.len() as i64 * LOST_OF_ALL >= judged.len() as i64;
    if let Some(first) = lost.first()
        && (is_much || !stretches.is_empty())
    {
        let call = launches[*first].call;
        let name = device.names.get(device.calls.name[call.index()]);
        let found = Anomaly {
            count: lost.len() as u64,
            of: sanity.launches,
            first: Some(format!(
                "{name}, start {} ns",
                device.calls.start[call.index()]
            )),
            ..Anomaly::default()
        };
        device
            .anomalies
            .add_all(AnomalyKind::LaunchWithoutRow, found);
    }
    RowSanity {
        unknown: unknown_time(device, &launches, &judged, (&stretches, &silent)),
        ..sanity
    }
}

/// True if so many lost events are a loss of the recorder.
pub(super) fn is_loss(lost: i64, of: i64) -> bool {
    lost >= LEAST_LOST || lost >= FEW_LOST && lost.saturating_mul(LOST_OF_ALL) >= of
}

/// Counts kernels without a call that were launched after the first recorded call, if a call is known
/// of kernels of the same name: some calls are never recorded. O(rows + calls).
pub(super) fn note_lost_calls(device: &mut DeviceTrace) {
    let (rows, calls) = (&device.rows, &device.calls);
    let ids: FxHashSet<Correlation> = calls.correlation.iter().copied().collect();
    // each process numbers its calls
    let mut firsts: FxHashMap<TrackLabel, Correlation> = FxHashMap::default();
    for (thread, id) in calls.thread.iter().zip(&calls.correlation) {
        if id.get().is_some() {
            let first = firsts.entry(device.threads[thread.index()].pid);
            let first = first.or_insert(*id);
            *first = (*first).min(*id);
        }
    }
    let Some(first) = firsts.into_values().max() else {
        return;
    };
    let is_called = |row: &usize| ids.contains(&rows.correlation[*row]);
    let called = (0..rows.len()).filter(is_called);
    let names: FxHashSet<NameId> = called.map(|row| rows.name[row]).collect();
    let lost = rows_where(rows.len(), |row| {
        rows.kind[row] == RowKind::Kernel
            && rows.correlation[row] > first
            && !is_called(&row)
            && names.contains(&rows.name[row])
    });
    if is_loss(lost.len() as i64, rows.len() as i64) {
        let found = Anomaly {
            count: lost.len() as u64,
            of: rows.len() as u64,
            first: lost.first().map(|row| row_place(device, *row)),
            ..Anomaly::default()
        };
        device.anomalies.add_all(AnomalyKind::CallLost, found);
    }
}

fn note_silent_ops(device: &mut DeviceTrace, silent: &[LostCalls]) {
    let ops = silent.iter().map(|lost| lost.ops.len() as u64);
    let first = silent.first().and_then(|lost| lost.ops.first());
    let found = Anomaly {
        count: ops.sum(),
        of: device.ops.len() as u64,
        first: first.map(|op| {
            let name = device.names.get(device.ops.name[op.index()]);
            format!("{name}, start {} ns", device.ops.start[op.index()])
        }),
        ..Anomaly::default()
    };
    device
        .anomalies
        .add_all(AnomalyKind::OpWithoutLaunch, found);
}

/// Returns the launches to check, in order, with their rows.
fn judged_launches<'c>(
    device: &DeviceTrace,
    calls: &'c LaunchCalls,
    left_out: &FxHashMap<Correlation, i64>,
) -> (Vec<&'c Launch>, Vec<LaunchRows>) {
    let mut rows_of: FxHashMap<Correlation, RowsOfId> = FxHashMap::default();
    // Rows are sorted by start: the first one found is the earliest.
    for (id, start) in device.rows.correlation.iter().zip(&device.rows.start) {
        let rows = rows_of.entry(*id).or_insert(RowsOfId {
            count: 0,
            first: *start,
        });
        rows.count += 1;
    }
    let (mut launches, mut judged) = (vec![], vec![]);
    for launch in &calls.launches {
        let known: Vec<RowsOfId> = launch
            .ids
            .iter()
            .filter_map(|id| rows_of.get(id).copied())
            .collect();
        let kept: i64 = known.iter().map(|rows| rows.count).sum();
        let left_out = launch.ids.iter().filter_map(|id| left_out.get(id));
        let missing: i64 = left_out.sum();
        let is_lost = kept == 0 && missing == 0;
        // A memset of no bytes has no row, and calls captured from a stream run later.
        let may_have_none = launch.kind == LaunchKind::Set || launch.may_be_captured;
        if launch.ids.is_empty() || is_lost && may_have_none {
            continue;
        }
        launches.push(launch);
        judged.push(LaunchRows {
            kept,
            missing,
            first: known
                .iter()
                .map(|rows| rows.first)
                .min()
                .unwrap_or_default(),
            is_lost,
        });
    }
    let mut of_graphs: Vec<i64> = vec![];
    for (launch, rows) in launches.iter().zip(&judged) {
        if launch.kind == LaunchKind::Graph && !rows.is_lost {
            of_graphs.push(rows.kept + rows.missing);
        }
    }
    of_graphs.sort_unstable();
    let of_graph = of_graphs.get(of_graphs.len() / 2).copied();
    for (launch, rows) in launches.iter().zip(&mut judged) {
        if rows.is_lost {
            rows.missing = match launch.kind {
                LaunchKind::Graph => of_graph.unwrap_or(LEAST_LOST),
                _ => 1,
            };
        }
    }
    (launches, judged)
}

/// Returns the time of parts of the list: from the first launch's call to the start of the next
/// launch that has a row, or to the end of the recording; and the time without calls. All time if
/// this is more than half of it.
fn unknown_time(
    device: &DeviceTrace,
    launches: &[&Launch],
    judged: &[LaunchRows],
    (stretches, silent): (&[Range<usize>], &[LostCalls]),
) -> Vec<(TimeNs, TimeNs)> {
    let rows = (0..device.rows.len()).map(RowIdx::from_index);
    let row_ends = rows.map(|row| crate::device::row_end(device, row));
    let called = |launch: &&Launch| device.calls.start[launch.call.index()];
    let last_call = launches.last().map(|launch| call_end(device, launch.call));
    let (Some(begin), Some(end)) = (
        launches.first().map(called),
        row_ends.chain(last_call).max(),
    ) else {
        return vec![];
    };
    let stretches = stretches.iter().map(|stretch| {
        let from = called(&launches[stretch.start]);
        let returned = call_end(device, launches[stretch.end - 1].call);
        let next = judged.get(stretch.end).map(|rows| rows.first);
        let until = next.map_or(TimeNs(i64::MAX), |next| next.max(returned));
        (from, until)
    });
    let mut all: Vec<_> = stretches
        .chain(silent.iter().map(|lost| lost.span))
        .collect();
    all.sort_unstable();
    let mut unknown: Vec<(TimeNs, TimeNs)> = vec![];
    let mut sum = 0i64;
    for (from, until) in all {
        sum = sum.saturating_add(until.min(end).since(from));
        match unknown.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => unknown.push((from, until)),
        }
    }
    if sum.saturating_mul(2) > end.since(begin) {
        vec![ALL_TIME]
    } else {
        unknown
    }
}

/// Returns the ranges of launches of which too many lack their row, ascending.
fn lossy_stretches(judged: &[LaunchRows]) -> Vec<Range<usize>> {
    let mut stretches = vec![];
    // Pieces are separated by so many rows that losses on both sides belong to different ranges.
    let mut piece: Option<Range<usize>> = None;
    let mut between = 0i64;
    let mut end_piece = |piece: Range<usize>| {
        let scores = judged[piece.clone()].iter();
        let scores = scores.map(|rows| rows.missing.saturating_mul(LOST_PART - 1) - rows.kept);
        let parts = maximal_parts(scores).into_iter();
        stretches.extend(parts.map(|part| part.start + piece.start..part.end + piece.start));
    };
    for (launch, rows) in judged.iter().enumerate() {
        if rows.missing == 0 {
            between = between.saturating_add(rows.kept);
            continue;
        }
        let begin = match piece.take() {
            Some(open) if between > MAX_BETWEEN_LOST => {
                end_piece(open);
                launch
            }
            Some(open) => open.start,
            None => launch,
        };
        piece = Some(begin..launch + 1);
        between = 0;
    }
    piece.into_iter().for_each(end_piece);
    stretches
}

/// A part of the list, with the sums of scores before it and up to its end.
struct ScoredPart {
    before: i64,
    up_to: i64,
    range: Range<usize>,
    /// Index of the last earlier part with a lower sum before it.
    lower: Option<usize>,
}

/// Returns the maximal scoring parts of a list of scores, ascending. O(scores).
fn maximal_parts(scores: impl Iterator<Item = i64>) -> Vec<Range<usize>> {
    let mut parts: Vec<ScoredPart> = vec![];
    let mut sum = 0i64;
    for (place, score) in scores.enumerate() {
        let before = sum;
        sum = sum.saturating_add(score);
        if score <= 0 {
            continue;
        }
        let mut part = ScoredPart {
            before,
            up_to: sum,
            range: place..place + 1,
            lower: parts.len().checked_sub(1),
        };
        loop {
            while let Some(lower) = part.lower
                && parts[lower].before >= part.before
            {
                part.lower = parts[lower].lower;
            }
            match part.lower {
                Some(lower) if parts[lower].up_to < part.up_to => {
                    let joined = &parts[lower];
                    part = ScoredPart {
                        before: joined.before,
                        up_to: part.up_to,
                        range: joined.range.start..part.range.end,
                        lower: joined.lower,
                    };
                    parts.truncate(lower);
                }
                _ => break,
            }
        }
        parts.push(part);
    }
    parts.into_iter().map(|part| part.range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_too_many_losses_are_found() {
        let parts = |losses: &str| {
            let scores = losses.bytes().map(|one| if one == b'x' { 3 } else { -1 });
            let parts = maximal_parts(scores).into_iter();
            parts.map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(parts("......"), []);
        assert_eq!(parts("..x..x.."), [(2, 6)]);
        assert_eq!(parts("xx.........x"), [(0, 2), (11, 12)]);
        assert_eq!(parts("x...x...x"), [(0, 1), (4, 5), (8, 9)]);
        assert_eq!(parts("x..x..x"), [(0, 7)]);
    }
}
