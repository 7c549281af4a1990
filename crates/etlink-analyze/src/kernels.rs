//! Device rows by class and name: count, sum, mean, shortest, longest, standard deviation of their
//! durations, ns.
//!
//! `share` is the sum of a name's durations over that of all rows. Rows that overlap count each:
//! these are sums over rows, which may be more than the time that passed.

use crate::duration_stats::DurationStats;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// All rows of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelTotals {
    /// What it does.
    pub class: RowClass,
    /// What the rules call it: a library, or a kind of kernel.
    pub label: String,
    /// Its name, as the trace has it.
    pub name: String,
    /// Of the rows' durations.
    #[serde(flatten)]
    pub durations: DurationStats,
    /// Part of all rows' durations.
    pub share: f64,
}

/// Of one rank, by falling sum. O(rows).
pub(crate) fn kernel_totals(rows: &ClassifiedRows<'_>) -> Vec<KernelTotals> {
    let mut all: IndexMap<(NameId, RowClass, u16), DurationStats, FxBuildHasher> =
        IndexMap::default();
    let device = &rows.trace.device.rows;
    for row in 0..rows.len() {
        // The class is part of the key: a kernel may have a
        // collective's arguments in one row and not in another.
        all.entry((device.name[row], rows.class[row], rows.label[row]))
            .or_default()
            .add(device.duration[row].0);
    }
    let mut kernels = vec![];
    for ((name, class, label), durations) in all {
        kernels.push(KernelTotals {
            class,
            label: rows.rules.label_at(label).to_owned(),
            name: rows.trace.device_name(name).to_owned(),
            durations,
            share: 0.0,
        });
    }
    with_shares(kernels)
}

/// Of all ranks.
pub(crate) fn sum_kernels<'a>(all: impl Iterator<Item = &'a KernelTotals>) -> Vec<KernelTotals> {
    let mut sums: IndexMap<(RowClass, &str, &str), DurationStats, FxBuildHasher> =
        IndexMap::default();
    for kernel in all {
        sums.entry((kernel.class, &kernel.label, &kernel.name))
            .or_default()
            .merge(&kernel.durations);
    }
    let kernel =
        |((class, label, name), durations): ((RowClass, &str, &str), DurationStats)| KernelTotals {
            class,
            label: label.to_owned(),
            name: name.to_owned(),
            durations,
            share: 0.0,
        };
    with_shares(sums.into_iter().map(kernel).collect())
}

fn with_shares(mut all: Vec<KernelTotals>) -> Vec<KernelTotals> {
    let whole = all.iter().fold(0i64, |sum, kernel| {
        sum.saturating_add(kernel.durations.sum_ns)
    });
    for kernel in all.iter_mut().filter(|_| whole > 0) {
        kernel.share = kernel.durations.sum_ns as f64 / whole as f64;
    }
    all.sort_by(|a, b| {
        (Reverse(a.durations.sum_ns), &a.name, a.class, &a.label).cmp(&(
            Reverse(b.durations.sum_ns),
            &b.name,
            b.class,
            &b.label,
        ))
    });
    all
}
