//! Device rows by class and name: count, sum, mean, shortest, longest, standard deviation of their durations, ns.
//!
//! `share` is the sum of a name's durations over that of all rows. Rows that overlap count each: these are
//! sums over rows, which may be more than the time that passed.

use crate::moments::Moments;
use crate::rows::Rows;
use crate::rules::Class;
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// All rows of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kernel {
    /// What it does.
    pub class: Class,
    /// What the rules call it: a library, or a kind of kernel.
    pub label: String,
    /// Its name, as the trace has it.
    pub name: String,
    /// Of the rows' durations.
    #[serde(flatten)]
    pub durations: Moments,
    /// Part of all rows' durations.
    pub share: f64,
}

/// Of one rank, by falling sum. O(rows).
pub(crate) fn kernels(rows: &Rows<'_>) -> Vec<Kernel> {
    let mut all: IndexMap<(NameId, Class, u16), Moments, FxBuildHasher> = IndexMap::default();
    let device = &rows.trace.device.rows;
    for row in 0..rows.len() {
        all.entry((device.name[row], rows.class[row], rows.label[row]))
            .or_default()
            .add(device.duration[row].0);
    }
    let kernel = |((name, class, label), durations): ((NameId, Class, u16), Moments)| Kernel {
        class,
        label: rows.rules.label_at(label).to_owned(),
        name: rows.trace.device_name(name).to_owned(),
        durations,
        share: 0.0,
    };
    finish(all.into_iter().map(kernel).collect())
}

/// Of all ranks.
pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Kernel>) -> Vec<Kernel> {
    let mut sums: IndexMap<(Class, &str, &str), Moments, FxBuildHasher> = IndexMap::default();
    for kernel in all {
        sums.entry((kernel.class, &kernel.label, &kernel.name))
            .or_default()
            .merge(&kernel.durations);
    }
    let kernel = |((class, label, name), durations): ((Class, &str, &str), Moments)| Kernel {
        class,
        label: label.to_owned(),
        name: name.to_owned(),
        durations,
        share: 0.0,
    };
    finish(sums.into_iter().map(kernel).collect())
}

fn finish(mut all: Vec<Kernel>) -> Vec<Kernel> {
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
