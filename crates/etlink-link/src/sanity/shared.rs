//! Rows that bear the correlation of another launch.
//!
//! ROCm and CUPTI have been seen to give the rows of two launches one id, so that the other launch
//! has no row (kineto#1416). Launches of a thread that follow each other, of which each has no row or
//! several, are one run: where it has as many rows as launches, they belong together in order.

use super::launches::{LaunchCalls, LaunchKind};
use super::row_place;
use crate::limits::EARLY_START;
use etlink_model::{Anomaly, AnomalyKind, CallIdx, Correlation, DeviceTrace, RowIdx};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Gives such rows the correlation of their own launch. O(rows + calls).
pub(super) fn give_shared_rows(device: &mut DeviceTrace, calls: &LaunchCalls) {
    let mut rows_of: FxHashMap<Correlation, u32> = FxHashMap::default();
    for id in &device.rows.correlation {
        *rows_of.entry(*id).or_default() += 1;
    }
    let shared = shared_rows(device, calls, &rows_of);
    if shared.is_empty() {
        return;
    }
    let (mut given, mut ambiguous) = (Anomaly::default(), Anomaly::default());
    for run in launch_runs(device, calls, &rows_of, &shared) {
        let of_calls = run.iter().filter_map(|call| shared.get(call));
        let (mut rows, mut several) = (vec![], 0);
        for of_call in of_calls {
            several += 1;
            rows.extend_from_slice(of_call);
        }
        let Some(last) = rows.last() else { continue };
        let place = row_place(device, *last);
        let found = if belong_together(device, &rows, &run) {
            for (row, call) in rows.iter().zip(&run) {
                device.rows.correlation[row.index()] = device.calls.correlation[call.index()];
            }
            &mut given
        } else {
            &mut ambiguous
        };
        found.count += rows.len() as u64 - several;
        found.first.get_or_insert(place);
    }
    for (kind, mut found) in [
        (AnomalyKind::CorrelationShared, given),
        (AnomalyKind::CorrelationAmbiguous, ambiguous),
    ] {
        found.of = device.rows.len() as u64;
        device.anomalies.add_all(kind, found);
    }
}

/// The kernels of calls that launch one and have several, by call, in order of their starts.
fn shared_rows(
    device: &DeviceTrace,
    calls: &LaunchCalls,
    rows_of: &FxHashMap<Correlation, u32>,
) -> BTreeMap<CallIdx, Vec<RowIdx>> {
    let mut shared: BTreeMap<CallIdx, Vec<RowIdx>> = BTreeMap::new();
    for (row, id) in (0..).map(RowIdx).zip(&device.rows.correlation) {
        let is_node = device.rows.graph_node[row.index()] != 0;
        if rows_of.get(id).is_none_or(|rows| *rows < 2) || is_node {
            continue;
        }
        let call = calls.call_of(*id);
        let launches_one = |call: &CallIdx| calls.kind(*call) == Some(LaunchKind::Kernel);
        if let Some(call) = call.filter(launches_one) {
            shared.entry(call).or_default().push(row);
        }
    }
    shared.retain(|_, rows| rows.len() > 1);
    shared
}

/// Launches of one thread that follow each other, of which each has no row or several.
fn launch_runs(
    device: &DeviceTrace,
    calls: &LaunchCalls,
    rows_of: &FxHashMap<Correlation, u32>,
    shared: &BTreeMap<CallIdx, Vec<RowIdx>>,
) -> Vec<Vec<CallIdx>> {
    let mut open: Vec<Vec<CallIdx>> = vec![vec![]; device.threads.len()];
    let mut runs = vec![];
    for launch in &calls.launches {
        let lacks_row = !launch.ids.iter().any(|id| rows_of.contains_key(id));
        let may_have_none = launch.kind == LaunchKind::Set || launch.may_be_captured;
        // A launch of which no row is missing does not part those beside it.
        if lacks_row && (may_have_none || launch.ids.is_empty()) {
            continue;
        }
        let run = &mut open[device.calls.thread[launch.call.index()].index()];
        let is_kernel = launch.kind == LaunchKind::Kernel;
        if is_kernel && lacks_row || shared.contains_key(&launch.call) {
            run.push(launch.call);
        } else {
            runs.push(std::mem::take(run));
        }
    }
    runs.extend(open);
    runs
}

/// Whether as many rows as launches are there, and none starts before its launch.
fn belong_together(device: &DeviceTrace, rows: &[RowIdx], run: &[CallIdx]) -> bool {
    let mut pairs = rows.iter().zip(run);
    rows.len() == run.len()
        && pairs.all(|(row, call)| {
            let called = device.calls.start[call.index()];
            called.since(device.rows.start[row.index()]) <= EARLY_START.0
        })
}
