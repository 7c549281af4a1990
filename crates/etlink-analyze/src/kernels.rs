//! Device rows by class and name: count, sum, mean, shortest, longest, standard deviation of their
//! durations, ns.
//!
//! `share` is the sum of a name's durations over that of all rows. Rows that overlap count each:
//! these are sums over rows, which may be more than the time that passed.

use crate::duration_stats::DurationStats;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::short_names::short_names;
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::cmp::Reverse;

/// All rows of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTotals {
    /// What it does.
    pub class: RowClass,
    /// What the rules call it: a library, or a kind of kernel.
    pub label: String,
    /// Its name, as the trace has it.
    pub name: String,
    /// The name as people read it, different from that of the other rows of the table: see
    /// [`short_names`]. None where it is the name itself.
    pub short: Option<Box<str>>,
    /// Of the rows' durations.
    pub durations: DurationStats,
    /// Part of all rows' durations.
    pub share: f64,
}

impl KernelTotals {
    /// The name as people read it.
    pub fn short_name(&self) -> &str {
        self.short.as_deref().unwrap_or(&self.name)
    }
}

// by hand, since the short name is kept only where there is one
impl Serialize for KernelTotals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let durations = &self.durations;
        let mut fields = to.serialize_struct("KernelTotals", 11)?;
        fields.serialize_field("class", &self.class)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("name", &self.name)?;
        fields.serialize_field("short_name", self.short_name())?;
        fields.serialize_field("count", &durations.count)?;
        fields.serialize_field("sum_ns", &durations.sum_ns)?;
        fields.serialize_field("mean_ns", &durations.mean_ns())?;
        fields.serialize_field("min_ns", &durations.min_ns)?;
        fields.serialize_field("max_ns", &durations.max_ns)?;
        fields.serialize_field("stddev_ns", &durations.stddev_ns())?;
        fields.serialize_field("share", &self.share)?;
        fields.end()
    }
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
            short: None,
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
            short: None,
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
    let shorts = short_names(all.iter().map(|kernel| kernel.name.as_str()));
    for (kernel, short) in all.iter_mut().zip(shorts) {
        kernel.short = short;
    }
    all
}
