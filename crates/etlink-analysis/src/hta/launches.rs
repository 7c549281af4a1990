//! Computes idle time and launch statistics.

use super::round;
use super::rows::{HtaRow, HtaRowKind, HtaTrace};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of `get_idle_time_breakdown`; times are in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct IdleTime {
    pub rank: i64,
    pub stream: i64,
    pub idle_category: &'static str,
    pub idle_time: f64,
    pub idle_time_ratio: Option<f64>,
}

/// A row of `get_cuda_kernel_launch_stats`; times are in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct LaunchStats {
    pub correlation: i64,
    pub cpu_duration: f64,
    pub gpu_duration: f64,
    pub launch_delay: f64,
}

/// A gap between two rows of a stream, in µs, which `get_idle_time_breakdown` sums up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IdleInterval {
    /// HTA's `rank`.
    pub rank: i64,
    /// HTA's `stream`.
    pub stream: i64,
    /// Time from the end of the previous row to the start of this row; `None` for a stream's first
    /// row.
    pub idle_interval: Option<f64>,
    /// True if this row was launched after the previous row ended.
    pub host_wait: bool,
}

/// A row of `get_cuda_kernel_launch_stats`, and the flag for its argument `include_memory_events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LaunchDetail {
    /// HTA's `rank`.
    pub rank: i64,
    /// HTA's columns.
    #[serde(flatten)]
    pub launch: LaunchStats,
    /// True for a copy or a memset.
    pub is_memory: bool,
}

/// HTA's `consecutive_kernel_delay`, which HTA takes for µs.
const KERNEL_WAIT_US: f64 = 30.0;

pub(super) fn idle_times(loaded: &HtaTrace) -> Vec<IdleTime> {
    let streams = work_by_stream(loaded).into_iter();
    streams
        .flat_map(|(stream, rows)| idle_times_of_stream(loaded, stream, &rows))
        .collect()
}

/// Returns gaps by stream, then by time.
pub(super) fn idle_intervals(loaded: &HtaTrace) -> Vec<IdleInterval> {
    let mut intervals = vec![];
    for (stream, rows) in work_by_stream(loaded) {
        // HTA gives the first row a category too, so a stream with one row has a line.
        let first = (None, false);
        let gaps = gaps_of_stream(loaded, &rows).map(|(gap, late)| (Some(loaded.us(gap)), late));
        for (idle_interval, host_wait) in std::iter::once(first).chain(gaps) {
            intervals.push(IdleInterval {
                rank: loaded.rank,
                stream,
                idle_interval,
                host_wait,
            });
        }
    }
    intervals
}

fn work_by_stream(loaded: &HtaTrace) -> BTreeMap<i64, Vec<&HtaRow>> {
    let mut streams: BTreeMap<i64, Vec<&HtaRow>> = BTreeMap::new();
    loaded
        .rows
        .iter()
        .filter(|row| row.kind == HtaRowKind::Work)
        .for_each(|row| streams.entry(row.stream).or_default().push(row));
    streams
}

/// Returns each gap, and true if the row after it was launched after the previous row had ended.
fn gaps_of_stream(loaded: &HtaTrace, rows: &[&HtaRow]) -> impl Iterator<Item = (i64, bool)> {
    // HTA subtracts the end of the previous row, even if an earlier row still runs.
    rows.windows(2).filter_map(|pair| {
        let [before, row] = pair else { return None };
        let gap = row.start.saturating_sub(before.end);
        let late = loaded.called(row).is_some_and(|called| called > before.end);
        Some((gap, late))
    })
}

fn idle_times_of_stream(loaded: &HtaTrace, stream: i64, rows: &[&HtaRow]) -> Vec<IdleTime> {
    let mut sums: BTreeMap<&'static str, i64> = BTreeMap::new();
    for (gap, late) in gaps_of_stream(loaded, rows) {
        // The order of the two tests is HTA's: a late launch counts as such however short the gap.
        let category = match () {
            () if late => "host_wait",
            () if loaded.us(gap) < KERNEL_WAIT_US => "kernel_wait",
            () => "other",
        };
        let sum = sums.entry(category).or_default();
        *sum = i64::saturating_add(*sum, gap);
    }
    let whole = sums.values().copied().fold(0, i64::saturating_add);
    let mut lines = vec![];
    for (idle_category, time) in sums {
        lines.push(IdleTime {
            rank: loaded.rank,
            stream,
            idle_category,
            idle_time: round(loaded.us(time), 2),
            idle_time_ratio: (whole != 0).then(|| round(time as f64 / whole as f64, 2)),
        });
    }
    lines
}

/// Returns launches by correlation.
pub(super) fn launch_stats(loaded: &HtaTrace) -> Vec<LaunchStats> {
    let details = launch_details(loaded).into_iter();
    details.map(|detail| detail.launch).collect()
}

/// Returns launches by correlation, with their kind.
pub(super) fn launch_details(loaded: &HtaTrace) -> Vec<LaunchDetail> {
    // HTA lists only CUDA's and MTIA's names; `cuLaunchKernel` and HIP's are missing.
    let kernels = [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "runFunction - job_prep_and_submit_for_execution",
    ];
    let copies = ["cudaMemcpyAsync", "cudaMemsetAsync"];
    let mut all: Vec<LaunchDetail> = vec![];
    for row in loaded.rows.iter() {
        let Some(call) = row.call else { continue };
        let is_memory = copies.contains(&loaded.call_name(call));
        if !is_memory && !kernels.contains(&loaded.call_name(call)) {
            continue;
        }
        let (start, end) = loaded.call(call);
        let launch = LaunchStats {
            correlation: row.correlation.0,
            cpu_duration: loaded.us(end.saturating_sub(start)),
            gpu_duration: loaded.us(row.duration()),
            launch_delay: loaded.us(row.start.saturating_sub(end).max(0)),
        };
        all.push(LaunchDetail {
            rank: loaded.rank,
            launch,
            is_memory,
        });
    }
    // Rows with the same correlation have no order in HTA; here they are ordered by duration.
    all.sort_by(|a, b| {
        let (a, b) = (&a.launch, &b.launch);
        a.correlation
            .cmp(&b.correlation)
            .then(a.gpu_duration.total_cmp(&b.gpu_duration))
    });
    all
}
