//! Ops by self time, for programs without device work.
//!
//! Empty for traces with device work: `top` covers those, next to device times.

use crate::rows::ClassifiedRows;
use crate::sums::sum_by_key;
use crate::top::{self, KeyAverage, key_averages};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::cmp::Reverse;

/// Totals of all ops or calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOpTotals {
    /// Name of the op or call.
    pub name: String,
    /// Number of ops or calls.
    pub count: u64,
    /// Time without the ops inside, ns.
    pub self_ns: i64,
    /// Time with the ops inside, ns.
    pub total_ns: i64,
    /// Share of all ops' self time, 0 to 1.
    pub share: f64,
}

/// Totals the ops by falling self time; empty if there is device work. O(n log n) in the number of
/// ops.
pub(crate) fn host_op_totals(rows: &ClassifiedRows<'_>) -> Vec<HostOpTotals> {
    if !rows.is_empty() {
        return vec![];
    }
    let top = key_averages(&rows.trace.device, top::Options::default());
    // an annotation's self time is time that no op explains
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

/// Sums the totals of all ranks.
pub(crate) fn sum_host_ops<'a>(ranks: impl Iterator<Item = &'a HostOpTotals>) -> Vec<HostOpTotals> {
    with_shares(sum_by_key(
        ranks,
        |op| &op.name,
        |sum, op| {
            sum.count += op.count;
            sum.self_ns = sum.self_ns.saturating_add(op.self_ns);
            sum.total_ns = sum.total_ns.saturating_add(op.total_ns);
        },
    ))
}

/// Adds the shares and sorts by falling self time, ties by name.
fn with_shares(mut all: Vec<HostOpTotals>) -> Vec<HostOpTotals> {
    let whole: f64 = all.iter().map(|op| op.self_ns as f64).sum();
    for op in &mut all {
        op.share = op.self_ns as f64 / whole;
    }
    all.sort_by(|a, b| (Reverse(a.self_ns), &a.name).cmp(&(Reverse(b.self_ns), &b.name)));
    all
}
