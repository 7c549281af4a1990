//! Computes temporal breakdown, overlap and type table.

use super::percent;
use super::rows::{HtaClass, HtaRow, HtaTrace};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of `get_temporal_breakdown`: the window is from the first row's start to the last row's
/// end, compute is the union of computation, non-compute is the rest of the busy time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us and percent")]
pub struct TemporalBreakdown {
    pub rank: i64,
    #[serde(rename = "idle_time(us)")]
    pub idle_time: f64,
    #[serde(rename = "compute_time(us)")]
    pub compute_time: f64,
    #[serde(rename = "non_compute_time(us)")]
    pub non_compute_time: f64,
    #[serde(rename = "kernel_time(us)")]
    pub kernel_time: f64,
    pub idle_time_pctg: f64,
    pub compute_time_pctg: f64,
    pub non_compute_time_pctg: f64,
}

/// A row of `get_comm_comp_overlap`: percent of communication time that overlaps with computation;
/// `None` without communication.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, percent")]
pub struct CommCompOverlap {
    pub rank: i64,
    pub comp_comm_overlap_pctg: Option<f64>,
}

/// A row of `get_gpu_kernel_breakdown`, by types that run together; times are in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us and percent")]
pub struct KernelType {
    pub kernel_type: String,
    pub sum: f64,
    pub percentage: f64,
}

/// Merges rows into intervals: a new one begins if a row starts after all earlier ends. Rounding
/// leaves rows of negative length, which produce intervals of negative length.
fn merged_rows<'r>(rows: impl Iterator<Item = &'r HtaRow>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = vec![];
    let mut latest = i64::MIN;
    for row in rows {
        match all.last_mut() {
            // Touching rows join, as in HTA: a new group begins only after all earlier ends.
            Some(last) if row.start <= latest => last.1 = last.1.max(row.end),
            _ => all.push((row.start, row.end)),
        }
        latest = latest.max(row.end);
    }
    all
}

fn total_length(all: &[(i64, i64)]) -> i64 {
    all.iter().fold(0, |sum, (start, end)| {
        sum.saturating_add(end.saturating_sub(*start))
    })
}

pub(super) fn temporal_breakdown(loaded: &HtaTrace) -> TemporalBreakdown {
    let busy = merged_rows(loaded.rows.iter());
    let (Some(first), Some(last)) = (busy.first(), busy.last()) else {
        return TemporalBreakdown {
            rank: loaded.rank,
            ..Default::default()
        };
    };
    let kernel = last.1.saturating_sub(first.0);
    let idle = kernel.saturating_sub(total_length(&busy));
    let compute = total_length(&merged_rows(rows_of_class(loaded, HtaClass::Computation)));
    // HTA asserts that this is not negative; with rounding it can be, and is reported unchanged.
    let non_compute = kernel.saturating_sub(compute).saturating_sub(idle);
    let share = |time: i64| percent(time as f64, kernel as f64, 2);
    TemporalBreakdown {
        rank: loaded.rank,
        idle_time: loaded.us(idle),
        compute_time: loaded.us(compute),
        non_compute_time: loaded.us(non_compute),
        kernel_time: loaded.us(kernel),
        idle_time_pctg: share(idle),
        compute_time_pctg: share(compute),
        non_compute_time_pctg: share(non_compute),
    }
}

fn rows_of_class(loaded: &HtaTrace, of: HtaClass) -> impl Iterator<Item = &HtaRow> {
    loaded.rows.iter().filter(move |row| row.class == of)
}

/// Returns time by the sum of the running types' values; each piece counts as `of_piece` returns
/// it.
fn times_by_types(
    loaded: &HtaTrace,
    types: &[HtaClass],
    of_piece: impl Fn(i64) -> i64,
) -> BTreeMap<i64, i64> {
    let mut changes: Vec<(i64, i64)> = vec![];
    for (bit, of) in types.iter().enumerate() {
        // The sum of the running types' values identifies the combination: 3 is the first two
        // types.
        let value = 1i64 << bit;
        changes.extend(
            merged_rows(rows_of_class(loaded, *of))
                .into_iter()
                .flat_map(|(start, end)| [(start, value), (end, -value)]),
        );
    }
    // At one instant ends may precede beginnings. The piece between them has no length, but still a
    // line.
    changes.sort_by_key(|change| change.0);
    let (mut times, mut running) = (BTreeMap::new(), 0);
    for (at, (time, change)) in changes.iter().enumerate() {
        running += change;
        let next = changes.get(at + 1).map_or(*time, |next| next.0);
        let held = times.entry(running).or_default();
        *held = i64::saturating_add(*held, of_piece(next.saturating_sub(*time)));
    }
    times
}

pub(super) fn comm_comp_overlap(loaded: &HtaTrace) -> CommCompOverlap {
    let communication = total_length(&merged_rows(rows_of_class(loaded, HtaClass::Communication)));
    let both = times_by_types(
        loaded,
        &[HtaClass::Communication, HtaClass::Computation],
        |time| time,
    )
    .get(&3)
    .copied()
    .unwrap_or(0);
    let share = (communication != 0).then(|| percent(both as f64, communication as f64, 2));
    CommCompOverlap {
        rank: loaded.rank,
        comp_comm_overlap_pctg: share,
    }
}

/// Types of `get_gpu_kernel_breakdown`; without `include_memory_kernels`, only the first two.
pub(super) const KERNEL_TYPES: [HtaClass; 3] = [
    HtaClass::Computation,
    HtaClass::Communication,
    HtaClass::Memory,
];

pub(super) fn kernel_types(loaded: &HtaTrace, types: &[HtaClass]) -> Vec<KernelType> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    // HTA's `astype(int)`.
    let whole_us = |time: i64| {
        if loaded.settings.nanoseconds {
            time / 1_000 * 1_000
        } else {
            time
        }
    };
    for (running, time) in times_by_types(loaded, types, whole_us)
        .into_iter()
        .filter(|(running, _)| *running > 0)
    {
        let names: Vec<&str> = types
            .iter()
            .enumerate()
            .filter(|(bit, _)| running & (1 << bit) != 0)
            .map(|(_, of)| of.name())
            .collect();
        if !names.is_empty() {
            let sum = sums.entry(names.join(" overlapping ")).or_default();
            *sum = sum.saturating_add(time);
        }
    }
    type_table(
        sums.into_iter()
            .map(|(of, sum)| (of, loaded.us(sum)))
            .collect(),
    )
}

/// Sums the type tables of several ranks.
pub(super) fn kernel_types_of_run<'a>(
    ranks: impl Iterator<Item = &'a KernelType>,
) -> Vec<KernelType> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    ranks.for_each(|one| *sums.entry(one.kernel_type.clone()).or_default() += one.sum);
    type_table(sums)
}

fn type_table(sums: BTreeMap<String, f64>) -> Vec<KernelType> {
    let whole = sums.values().sum::<f64>();
    let mut all: Vec<KernelType> = vec![];
    for (kernel_type, sum) in sums {
        all.push(KernelType {
            kernel_type,
            sum,
            percentage: percent(sum, whole, 1),
        });
    }
    all.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    all
}
