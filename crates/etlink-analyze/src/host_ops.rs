//! Where a program without a device spends its time: ops of the host by their own time.
//!
//! Only of traces without device work. Of others `top` says it, beside the time on devices.

use crate::rows::ClassifiedRows;
use crate::top::{self, KeyAverage, key_averages};
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// All ops or calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOpTotals {
    /// Name.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Time without that of the ops inside them, ns.
    pub self_ns: i64,
    /// Time with that of the ops inside them, ns.
    pub total_ns: i64,
    /// Part of all ops' own time; 0 to 1.
    pub share: f64,
}

/// By falling own time; none where there is device work. O(n log n) in the ops.
pub(crate) fn host_op_totals(rows: &ClassifiedRows<'_>) -> Vec<HostOpTotals> {
    if !rows.is_empty() {
        return vec![];
    }
    let top = key_averages(&rows.trace.device, top::Options::default());
    // an annotation's own time is what no op explains, and no op
    let is_op = |row: &&KeyAverage| !row.on_device && !row.annotation && row.self_host_ns > 0;
    let ops = top.rows.iter().filter(is_op);
    let mut all = vec![];
    for op in ops {
        all.push(HostOpTotals {
            name: op.name.clone(),
            count: op.count,
            self_ns: op.self_host_ns,
            total_ns: op.host_ns,
            share: 0.0,
        });
    }
    with_shares(all)
}

/// Of all ranks.
pub(crate) fn sum_host_ops<'a>(ranks: impl Iterator<Item = &'a HostOpTotals>) -> Vec<HostOpTotals> {
    let mut sums: IndexMap<&str, HostOpTotals, FxBuildHasher> = IndexMap::default();
    for op in ranks {
        let sum = sums.entry(&op.name).or_insert_with(|| HostOpTotals {
            name: op.name.clone(),
            ..HostOpTotals::default()
        });
        sum.count += op.count;
        sum.self_ns = sum.self_ns.saturating_add(op.self_ns);
        sum.total_ns = sum.total_ns.saturating_add(op.total_ns);
    }
    with_shares(sums.into_values().collect())
}

/// By falling own time, equal ones by name.
fn with_shares(mut all: Vec<HostOpTotals>) -> Vec<HostOpTotals> {
    let whole: f64 = all.iter().map(|op| op.self_ns as f64).sum();
    for op in &mut all {
        op.share = op.self_ns as f64 / whole;
    }
    all.sort_by(|a, b| (Reverse(a.self_ns), &a.name).cmp(&(Reverse(b.self_ns), &b.name)));
    all
}
