//! Device rows by class and name, with statistics of their durations in ns: count, sum, mean,
//! shortest, longest, standard deviation.
//!
//! Rows launched before the recording or before the first step are left out;
//! [`OutsideWork`](crate::OutsideWork) counts them.
//!
//! `share` is the sum of a name's durations divided by the sum over all rows that work. Overlapping
//! rows count separately, so sums over rows may exceed the elapsed time. Rows that are no work,
//! such as waits ([`RowClass::Other`]), have no share and count in none.

use crate::duration_stats::DurationStats;
use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::short_names::short_names;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::roofline::row_op_texts;
use etlink_model::{NameId, RowIdx};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// Totals of all rows of one name.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct KernelTotals {
    /// Class of the work.
    pub class: RowClass,
    /// Label given by the rules: a library, or a kind of kernel.
    pub label: String,
    /// Name, as in the trace.
    pub name: String,
    /// Readable name, distinct from all others of the table; `None` if it is the name itself: see
    /// [`short_names`].
    pub short: Option<Box<str>>,
    /// Statistics of the rows' durations.
    pub durations: DurationStats,
    /// Share of the durations of all rows that work; `None` for rows that only wait.
    pub share: Option<f64>,
    /// Ops or annotations that the rows belong to, by falling time. Rows of graph launches belong
    /// to none.
    pub ops: Box<[KernelOp]>,
}

/// A kernel's rows that belong to one op.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct KernelOp {
    /// Name of the op or annotation.
    pub name: Arc<str>,
    /// Number of rows.
    pub rows: u64,
    /// Sum of the rows' durations, ns.
    pub time_ns: i64,
}

impl KernelTotals {
    /// Op with the most time in these rows.
    pub fn op(&self) -> Option<&str> {
        self.ops.first().map(|op| &*op.name)
    }

    /// Number of further ops with rows of this name.
    pub fn other_ops(&self) -> usize {
        self.ops.len().saturating_sub(1)
    }

    /// Readable name.
    pub fn short_name(&self) -> &str {
        self.short.as_deref().unwrap_or(&self.name)
    }
}

/// A kernel's totals as printed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct KernelRecord<'a> {
    /// Kind of work.
    class: RowClass,
    /// Library, or kind of kernel.
    label: &'a str,
    /// Name, as in the trace.
    name: &'a str,
    /// Readable name.
    short_name: &'a str,
    /// Number of rows.
    count: u64,
    /// Sum of the durations, ns.
    sum_ns: i64,
    /// Part of the sum in which the rows waited for ranks whose recordings began later, ns; the
    /// mean and the deviation leave it out.
    start_skew_ns: i64,
    /// Mean duration, ns: (`sum_ns` - `start_skew_ns`) / `count`.
    mean_ns: f64,
    /// Shortest duration, ns.
    min_ns: i64,
    /// Longest duration, ns.
    max_ns: i64,
    /// Standard deviation of the durations, ns; null for a single row.
    stddev_ns: Option<f64>,
    /// Share of the durations of all rows that work; null for rows that only wait.
    share: Option<f64>,
    /// Op or annotation with the most time in these rows.
    op: &'a str,
    /// Number of other ops with rows of this name.
    other_ops: usize,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for KernelTotals {
    fn schema_name() -> Cow<'static, str> {
        "KernelTotals".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        KernelRecord::json_schema(generator)
    }
}

// by hand: the short name is stored only if it differs from the name
impl Serialize for KernelTotals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let durations = &self.durations;
        let record = KernelRecord {
            class: self.class,
            label: &self.label,
            name: &self.name,
            short_name: self.short_name(),
            count: durations.count,
            sum_ns: durations.sum_ns,
            start_skew_ns: durations.left_out_ns,
            mean_ns: durations.mean_ns(),
            min_ns: durations.min_ns,
            max_ns: durations.max_ns,
            stddev_ns: durations.stddev_ns(),
            share: self.share,
            op: self.op().unwrap_or(""),
            other_ops: self.other_ops(),
        };
        record.serialize(to)
    }
}

/// Running totals over the rows of a name.
#[derive(Default)]
struct RowSums<'t> {
    durations: DurationStats,
    /// Rows and their durations, by the op they belong to.
    ops: IndexMap<&'t str, (u64, i64), FxBuildHasher>,
}

/// Totals the kernels of a rank, by falling sum. O(rows).
pub(crate) fn kernel_totals(
    rows: &ClassifiedRows<'_>,
    counted: &CountedWork<'_>,
) -> Vec<KernelTotals> {
    let mut all: IndexMap<(NameId, RowClass, u16), RowSums<'_>, FxBuildHasher> =
        IndexMap::default();
    let device = &rows.trace.device.rows;
    for row in (0..rows.len()).filter(|row| counted.row_cause(*row).is_none()) {
        // The class is part of the key: a kernel may carry a collective's arguments in one row and
        // not in another.
        let sums = all
            .entry((device.name[row], rows.class[row], rows.label[row]))
            .or_default();
        sums.durations.add(device.duration[row].0);
        if let Some((name, _)) = row_op_texts(rows.trace, RowIdx::new(row)) {
            let (of_op, ns) = sums.ops.entry(name).or_default();
            *of_op += 1;
            *ns = ns.saturating_add(device.duration[row].0);
        }
    }
    // few ops launch many kernels: each name is stored once
    let mut texts: FxHashMap<&str, Arc<str>> = FxHashMap::default();
    let mut kernels = vec![];
    for ((name, class, label), sums) in all {
        let mut ops = vec![];
        for (op, (of_op, time_ns)) in sums.ops {
            let text = texts.entry(op);
            let text = text.or_insert_with(|| op.into());
            ops.push(KernelOp {
                name: text.clone(),
                rows: of_op,
                time_ns,
            });
        }
        kernels.push(KernelTotals {
            class,
            label: rows.rules.label_at(label).to_owned(),
            name: rows.trace.device_name(name).to_owned(),
            short: None,
            durations: sums.durations,
            share: None,
            ops: ordered_ops(ops),
        });
    }
    with_shares(kernels)
}

/// Sums the totals of all ranks.
pub(crate) fn sum_kernels<'a>(all: impl Iterator<Item = &'a KernelTotals>) -> Vec<KernelTotals> {
    type RankSums<'a> = (
        DurationStats,
        IndexMap<&'a Arc<str>, (u64, i64), FxBuildHasher>,
    );
    let mut sums: IndexMap<(RowClass, &str, &str), RankSums<'a>, FxBuildHasher> =
        IndexMap::default();
    for kernel in all {
        let (durations, ops) = sums
            .entry((kernel.class, &kernel.label, &kernel.name))
            .or_default();
        durations.merge(&kernel.durations);
        for op in &kernel.ops {
            let (rows, sum) = ops.entry(&op.name).or_default();
            *rows += op.rows;
            *sum = sum.saturating_add(op.time_ns);
        }
    }
    let mut kernels = vec![];
    for ((class, label, name), (durations, ops)) in sums {
        let ops = ops.into_iter().map(|(name, (rows, time_ns))| KernelOp {
            name: name.clone(),
            rows,
            time_ns,
        });
        kernels.push(KernelTotals {
            class,
            label: label.to_owned(),
            name: name.to_owned(),
            short: None,
            durations,
            share: None,
            ops: ordered_ops(ops.collect()),
        });
    }
    with_shares(kernels)
}

/// Sorts by falling time, ties by name.
fn ordered_ops(mut ops: Vec<KernelOp>) -> Box<[KernelOp]> {
    ops.sort_by(|a, b| (Reverse(a.time_ns), &a.name).cmp(&(Reverse(b.time_ns), &b.name)));
    ops.into_boxed_slice()
}

fn with_shares(mut all: Vec<KernelTotals>) -> Vec<KernelTotals> {
    let works = |kernel: &KernelTotals| kernel.class != RowClass::Other;
    let own = all.iter().filter(|kernel| works(kernel));
    let whole = own.fold(0i64, |sum, kernel| {
        sum.saturating_add(kernel.durations.sum_ns)
    });
    for kernel in all.iter_mut().filter(|kernel| works(kernel)) {
        kernel.share = Some(kernel.durations.sum_ns as f64 / whole.max(1) as f64);
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
