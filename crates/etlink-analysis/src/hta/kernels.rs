//! Times by name: kernels and user annotations.

use super::quantile;
use super::rows::{HtaClass, HtaTrace};
use crate::DurationStats;
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of `get_gpu_user_annotation_breakdown`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct NameStats {
    pub name: String,
    #[serde(rename = "sum (us)")]
    pub sum: f64,
    #[serde(rename = "max (us)")]
    pub max: f64,
    #[serde(rename = "min (us)")]
    pub min: f64,
    pub stddev: f64,
    #[serde(rename = "mean (us)")]
    pub mean: f64,
    pub rank: i64,
}

/// A row of `get_gpu_kernel_breakdown`, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "HTA's names, us")]
pub struct KernelStats {
    #[serde(flatten)]
    pub stats: NameStats,
    pub kernel_type: &'static str,
}

/// Returns statistics by type, then by descending sum.
pub(super) fn kernel_stats(loaded: &HtaTrace, most: usize) -> Vec<KernelStats> {
    // HTA sorts and folds each type separately, so a type with few names keeps all of them.
    let of_type = |of: HtaClass| {
        let rows = loaded
            .rows
            .iter()
            .filter(move |row| row.class == of)
            .map(|row| (row.name, row.duration()));
        stats_by_name(loaded, rows, most)
            .into_iter()
            .map(move |stats| KernelStats {
                stats,
                kernel_type: of.name(),
            })
    };
    [
        HtaClass::Communication,
        HtaClass::Computation,
        HtaClass::Memory,
    ]
    .into_iter()
    .flat_map(of_type)
    .collect()
}

/// Returns statistics by descending sum.
pub(super) fn annotation_stats(
    loaded: &HtaTrace,
    all: impl Iterator<Item = (NameId, (i64, i64))>,
    most: usize,
) -> Vec<NameStats> {
    let lengths = all.map(|(name, (start, end))| (name, end.saturating_sub(start)));
    stats_by_name(loaded, lengths, most)
}

/// Number of names after which `get_gpu_user_annotation_breakdown` folds the rest.
pub(super) const ANNOTATIONS: usize = 1_000;

/// HTA's `duration_ratio`.
const RATIO: f64 = 0.8;

fn stats_by_name(
    loaded: &HtaTrace,
    lengths: impl Iterator<Item = (NameId, i64)>,
    most: usize,
) -> Vec<NameStats> {
    let mut times: IndexMap<NameId, DurationStats, FxBuildHasher> = IndexMap::default();
    lengths.for_each(|(name, length)| times.entry(name).or_default().add(length));
    let mut all: Vec<(&str, DurationStats)> = times
        .into_iter()
        .map(|(name, times)| (loaded.trace.device_name(name), times))
        .collect();
    sort_by_sum(&mut all);
    if all.len() > most {
        // Folding changes the order of the sums, because `others` may be the largest.
        all = fold_others(&all, most);
        sort_by_sum(&mut all);
    }
    let stats = all.into_iter();
    stats
        .map(|(name, times)| name_stats(loaded, name, &times))
        .collect()
}

fn name_stats(loaded: &HtaTrace, name: &str, times: &DurationStats) -> NameStats {
    NameStats {
        name: name.to_owned(),
        sum: loaded.us(times.sum_ns),
        max: loaded.us(times.max_ns),
        min: loaded.us(times.min_ns),
        // pandas gives NaN for a single value, which HTA replaces with 0.
        stddev: times.stddev_ns().unwrap_or(0.0) * loaded.unit_us,
        mean: times.mean_ns() * loaded.unit_us,
        rank: loaded.rank,
    }
}

fn sort_by_sum(all: &mut [(&str, DurationStats)]) {
    all.sort_by(|a, b| b.1.sum_ns.cmp(&a.1.sum_ns).then(a.0.cmp(b.0)));
}

/// Folds names into HTA's `others`: names beyond the first `most`, and names at which the running
/// sum exceeds its quantile. All figures become figures of sums, as in HTA.
fn fold_others<'n>(all: &[(&'n str, DurationStats)], most: usize) -> Vec<(&'n str, DurationStats)> {
    // HTA takes the quantile of the running sums, not of the sums. The flaw is kept, because
    // figures must agree.
    let running: Vec<i64> = all
        .iter()
        .scan(0, |sum: &mut i64, one| {
            *sum = sum.saturating_add(one.1.sum_ns);
            Some(*sum)
        })
        .collect();
    let mut sorted: Vec<f64> = running.iter().map(|sum| *sum as f64).collect();
    sorted.sort_by(f64::total_cmp);
    let limit = quantile(&sorted, RATIO);
    let mut sums: BTreeMap<&str, DurationStats> = BTreeMap::new();
    for (at, ((name, times), running)) in all.iter().zip(&running).enumerate() {
        // HTA keeps names with a sum below 0, expecting none; rounding creates some.
        let folds = (at >= most || *running as f64 > limit) && times.sum_ns >= 0;
        let name = if folds { "others" } else { name };
        // Each name enters as a single figure, its sum: HTA groups its first result a second time.
        sums.entry(name).or_default().add(times.sum_ns);
    }
    sums.into_iter().collect()
}
