//! Idle time, launches.

use super::round;
use super::rows::{HtaRow, HtaRowKind, HtaTrace};
use serde::Serialize;
use std::collections::BTreeMap;

/// `get_idle_time_breakdown`, us.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct IdleTime {
    pub rank: i64,
    pub stream: i64,
    pub idle_category: &'static str,
    pub idle_time: f64,
    pub idle_time_ratio: Option<f64>,
}

/// `get_cuda_kernel_launch_stats`, us.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct LaunchStats {
    pub correlation: i64,
    pub cpu_duration: f64,
    pub gpu_duration: f64,
    pub launch_delay: f64,
}

/// HTA's `consecutive_kernel_delay`, which it takes for us.
const KERNEL_WAIT_US: f64 = 30.0;

pub(super) fn idle_times(loaded: &HtaTrace<'_>) -> Vec<IdleTime> {
    let mut streams: BTreeMap<i64, Vec<&HtaRow>> = BTreeMap::new();
    loaded
        .rows
        .iter()
        .filter(|row| row.kind == HtaRowKind::Work)
        .for_each(|row| streams.entry(row.stream).or_default().push(row));
    streams
        .into_iter()
        .flat_map(|(stream, rows)| idle_times_of_stream(loaded, stream, &rows))
        .collect()
}

fn idle_times_of_stream(loaded: &HtaTrace<'_>, stream: i64, rows: &[&HtaRow]) -> Vec<IdleTime> {
    let mut sums: BTreeMap<&'static str, i64> = BTreeMap::new();
    // HTA subtracts the end of the row before, even where an earlier row still runs.
    for pair in rows.windows(2) {
        let [before, row] = pair else { continue };
        let gap = row.start.saturating_sub(before.end);
        // The order of the two questions is HTA's: a late
        // launch counts as such however short the gap is.
        let late = loaded.called(row).is_some_and(|called| called > before.end);
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

/// By correlation.
pub(super) fn launch_stats(loaded: &HtaTrace<'_>) -> Vec<LaunchStats> {
    // HTA lists CUDA's and MTIA's names alone; `cuLaunchKernel` and HIP's are missing there.
    let launches = [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "runFunction - job_prep_and_submit_for_execution",
    ];
    let mut all: Vec<LaunchStats> = vec![];
    for row in &loaded.rows {
        let Some(call) = row
            .call
            .filter(|call| launches.contains(&loaded.call_name(*call)))
        else {
            continue;
        };
        let (start, end) = loaded.call(call);
        all.push(LaunchStats {
            correlation: row.correlation.0,
            cpu_duration: loaded.us(end.saturating_sub(start)),
            gpu_duration: loaded.us(row.duration()),
            launch_delay: loaded.us(row.start.saturating_sub(end).max(0)),
        });
    }
    // Rows of one correlation have no order in HTA; here the duration makes one.
    all.sort_by(|a, b| {
        a.correlation
            .cmp(&b.correlation)
            .then(a.gpu_duration.total_cmp(&b.gpu_duration))
    });
    all
}
