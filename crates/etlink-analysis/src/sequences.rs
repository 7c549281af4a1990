//! Sequences of kernels launched by an op: number of occurrences and times.
//!
//! An *instance* is an outermost op whose name contains the requested text. Its sequence is the
//! list of names of the device rows launched by calls inside it, sorted by start. `device` is the
//! sum of the rows' durations, `op` the sum of the ops' durations.

use crate::rows::ClassifiedRows;
use crate::sums::sum_by_key;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// Totals of all instances with one sequence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelSequence {
    /// Name of the op.
    pub op: String,
    /// Number of instances.
    pub count: u64,
    /// Number of rows per instance.
    pub rows: u64,
    /// Sum of the rows' durations, ns.
    pub device_ns: i64,
    /// Sum of the ops' durations, ns.
    pub op_ns: i64,
    /// Names of the rows, joined by ` | `.
    pub names: String,
}

/// Totals the sequences by falling device time. O(ops + rows).
pub(crate) fn kernel_sequences(rows: &ClassifiedRows<'_>, text: &str) -> Vec<KernelSequence> {
    let (trace, device) = (rows.trace, &rows.trace.device);
    let matches: Vec<bool> = device
        .names
        .iter()
        .map(|name| name.contains(text))
        .collect();
    // a parent has a lower number than its children
    let mut instance: Vec<u32> = Vec::with_capacity(device.ops.len());
    for op in 0..device.ops.len() {
        let outer = trace.op_parent[op]
            .get()
            .and_then(|parent| instance.get(parent.index()).copied())
            .unwrap_or(u32::MAX);
        let own = if matches[device.ops.name[op].index()] {
            op as u32
        } else {
            u32::MAX
        };
        // The outermost op wins: nested ones with the same text are parts of the same sequence.
        instance.push(if outer != u32::MAX { outer } else { own });
    }
    let mut lists: IndexMap<u32, Vec<usize>, FxBuildHasher> = IndexMap::default();
    for (op, own) in (0u32..).zip(&instance) {
        // Instances without kernels count too, as an empty sequence.
        if op == *own {
            lists.insert(op, vec![]);
        }
    }
    for row in 0..rows.len() {
        // Rows are sorted by start, so each list is in the order of the device's work.
        let op = trace.row_call[row]
            .get()
            .and_then(|call| trace.call_op[call.index()].get());
        if let Some(list) = op.and_then(|op| lists.get_mut(instance.get(op.index())?)) {
            list.push(row);
        }
    }
    let mut all: IndexMap<(NameId, Vec<NameId>), KernelSequence, FxBuildHasher> =
        IndexMap::default();
    for (op, list) in lists {
        let name = device.ops.name[op as usize];
        let found = all
            .entry((
                name,
                list.iter().map(|row| device.rows.name[*row]).collect(),
            ))
            .or_default();
        found.count += 1;
        found.rows = list.len() as u64;
        found.device_ns = list.iter().fold(found.device_ns, |sum, row| {
            sum.saturating_add(device.rows.duration[*row].0)
        });
        found.op_ns = found
            .op_ns
            .saturating_add(device.ops.duration[op as usize].0);
    }
    let mut named = vec![];
    for ((op, list), found) in all {
        let names: Vec<&str> = list.iter().map(|name| device.names.get(*name)).collect();
        named.push(KernelSequence {
            op: device.names.get(op).to_owned(),
            names: names.join(" | "),
            ..found
        });
    }
    sort_sequences(named)
}

/// Sums the totals of all ranks.
pub(crate) fn sum_sequences<'a>(
    all: impl Iterator<Item = &'a KernelSequence>,
) -> Vec<KernelSequence> {
    sort_sequences(sum_by_key(
        all,
        |one| (&one.op, &one.names),
        |sum, one| {
            sum.count += one.count;
            sum.device_ns = sum.device_ns.saturating_add(one.device_ns);
            sum.op_ns = sum.op_ns.saturating_add(one.op_ns);
        },
    ))
}

fn sort_sequences(mut all: Vec<KernelSequence>) -> Vec<KernelSequence> {
    all.sort_by(|a, b| {
        (Reverse(a.device_ns), Reverse(a.count), &a.op, &a.names).cmp(&(
            Reverse(b.device_ns),
            Reverse(b.count),
            &b.op,
            &b.names,
        ))
    });
    all
}
