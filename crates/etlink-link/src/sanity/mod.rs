//! Checks if the device rows of a trace can be true: once, before anything is computed from them.
//!
//! Recorders lose rows, write times of 0, write ends that were never read, and use one id for two
//! launches. Each such fault looks like a finding: an idle device, or a kernel that takes all the
//! time. So rows are checked as soon as a trace is read, and impossible ones are removed from its
//! tables. All commands then see the same rows.
//!
//! - Written twice: all columns of two events are equal. One is kept.
//! - No time: start and duration are 0, or a duration of 0 that rounding does not explain. Left
//!   out.
//! - Impossible time: contradicts the order of launches on its stream, or is far outside the
//!   recording. Left out.
//! - Overlong: covers rows of its stream that had to wait for it, and is much longer than similar
//!   rows. Truncated at the start of the next row.
//! - Shared correlation: several rows of a call that launches one kernel. Assigned to adjacent
//!   launches without rows, in order; otherwise counted.
//! - Lost: launching calls without a row. If more than [`LOST_PART`] is missing, time is unknown:
//!   neither busy nor idle.
//! - Lost calls: rows without a call, between calls that launched kernels of their names.
//! - Lost with their calls: ids are missing while ops run that launch work elsewhere. That time is
//!   unknown.
//!
//! Of the host, calls outside the ops that they name, and ops that only their calls name, are counted.
//!
//! The launch of a removed row remains, as a launch without a row, so no idle time results. A
//! truncated row keeps its place in the graph. Rows that overlap by rounding, by programmatic
//! dependent launch, inside one graph launch, or without a correlation (XLA, MTIA) are no fault.
//! Neither are calls inside a stream's capture and `cudaMemsetAsync` without rows: healthy traces
//! have them.
//!
//! Faults are counted in [`DeviceTrace::anomalies`] and [`DeviceTrace::row_sanity`]. O(n log n).

mod calls;
mod diagnoses;
mod duplicates;
mod launches;
mod lost;
mod order;
mod overlong;
mod owners;
mod shared;
mod times;

use etlink_model::{Anomaly, AnomalyKind, CallIdx, Correlation, DeviceTrace, RowIdx, TableIdx};
use launches::{LaunchCalls, LaunchKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Checks the rows of a trace, unless that was done before; see the module.
pub fn judge_rows(device: &mut DeviceTrace) {
    if device.row_sanity.is_some() {
        return;
    }
    let judged = device.rows.len() as u64;
    let mut judge = RowJudge {
        recorded_ns: recorded_ns(device),
        rows: judged,
        left_out: FxHashMap::default(),
    };
    diagnoses::note_diagnoses(device);
    duplicates::drop_duplicates(device);
    let timeless = times::rows_without_time(device);
    judge.leave_out(device, AnomalyKind::RowWithoutTime, &timeless);
    let calls = LaunchCalls::new(device);
    shared::give_shared_rows(device, &calls);
    let misplaced = order::misplaced_rows(device, &calls);
    judge.leave_out(device, AnomalyKind::RowTimeImpossible, &misplaced);
    judge.cut_off(device, &calls);
    device.row_sanity = Some(lost::lost_rows(device, &calls, &judge.left_out));
    // a truncated file is reported as a whole
    if !device.anomalies.is_cut() {
        lost::note_lost_calls(device);
        owners::note_owners(device);
    }
}

/// Returns the calls that launch a kernel but have no row, in order. O(calls + rows).
pub(crate) fn kernels_without_row(device: &DeviceTrace) -> Vec<CallIdx> {
    let sanity = device.row_sanity.as_ref();
    let is_short = sanity.is_some_and(|sanity| sanity.without_row > 0);
    if !is_short && !device.anomalies.is_cut() {
        return vec![];
    }
    let with_row: FxHashSet<Correlation> = device.rows.correlation.iter().copied().collect();
    let launches = LaunchCalls::new(device).launches.into_iter();
    let lost = launches.filter(|launch| {
        let lacks_row = !launch.ids.iter().any(|id| with_row.contains(id));
        lacks_row
            && launch.kind == LaunchKind::Kernel
            && !launch.may_be_captured
            && !launch.ids.is_empty()
    });
    lost.map(|launch| launch.call).collect()
}

/// State shared by the steps of a check.
struct RowJudge {
    /// Sum of the recorded durations, ns.
    recorded_ns: u64,
    rows: u64,
    /// Number of removed rows per id.
    left_out: FxHashMap<Correlation, i64>,
}

impl RowJudge {
    fn leave_out(&mut self, device: &mut DeviceTrace, kind: AnomalyKind, rows: &[RowIdx]) {
        let Some(first) = rows.first() else { return };
        let lost = rows.iter().map(|row| device.rows.duration[row.index()].0);
        let lost_ns = lost.fold(0u64, |sum, ns| sum.saturating_add(ns.max(0) as u64));
        let found = self.found(rows.len(), lost_ns, row_place(device, *first));
        let mut keep = vec![true; device.rows.len()];
        for row in rows {
            keep[row.index()] = false;
            let id = device.rows.correlation[row.index()];
            *self.left_out.entry(id).or_default() += 1;
        }
        device.retain_rows(&keep);
        device.anomalies.add_all(kind, found);
    }

    fn cut_off(&self, device: &mut DeviceTrace, calls: &LaunchCalls) {
        let cuts = overlong::overlong_rows(device, calls);
        let Some((first, _)) = cuts.first() else {
            return;
        };
        let place = row_place(device, *first);
        let mut lost_ns = 0u64;
        for (row, end) in &cuts {
            let start = device.rows.start[row.index()];
            let duration = &mut device.rows.duration[row.index()];
            lost_ns = lost_ns.saturating_add(duration.0.saturating_sub((*end - start).0) as u64);
            *duration = *end - start;
        }
        let found = self.found(cuts.len(), lost_ns, place);
        device.anomalies.add_all(AnomalyKind::RowOverlong, found);
    }

    fn found(&self, count: usize, lost_ns: u64, place: String) -> Anomaly {
        Anomaly {
            count: count as u64,
            of: self.rows,
            device_ns: lost_ns,
            of_device_ns: if lost_ns > 0 { self.recorded_ns } else { 0 },
            first: Some(place),
        }
    }
}

/// Sums the rows' durations, ns.
fn recorded_ns(device: &DeviceTrace) -> u64 {
    let durations = device.rows.duration.iter();
    durations.fold(0, |sum, ns| sum.saturating_add(ns.0.max(0) as u64))
}

/// Maximum length of kernel names in messages; names can be pages long.
const NAME_CHARS: usize = 60;

/// Describes a row for messages.
fn row_place(device: &DeviceTrace, row: RowIdx) -> String {
    let name = device.names.get(device.rows.name[row.index()]);
    let start = device.rows.start[row.index()];
    let cut = name.char_indices().nth(NAME_CHARS);
    let name = cut.map_or(name.to_owned(), |(end, _)| format!("{}…", &name[..end]));
    format!("{name:?}, start {start} ns")
}

/// Returns the indexes of rows for which `is` returns true.
fn rows_where(rows: usize, is: impl Fn(usize) -> bool) -> Vec<RowIdx> {
    (0..rows)
        .filter(|row| is(*row))
        .map(RowIdx::from_index)
        .collect()
}
