//! Device time by class and by op, and the host's waits for devices.

use super::time_per_unit;
use crate::analysis::RankAnalysis;
use crate::rules::RowClass;
use crate::top::KeyAverages;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// A part of a run's time, in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartChange {
    /// Class of the rows; `None` unless rolled up by class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<RowClass>,
    /// Label of the class, the op, or the call.
    pub name: String,
    /// Rows or events per unit in the first and the second run.
    pub counts: [f64; 2],
    /// Time per unit in the first and the second run, ns.
    pub times_ns: [i64; 2],
    /// Second time minus first, ns.
    pub cost_ns: i64,
}

/// Sums by class and name.
type PartSums<'t> = IndexMap<(Option<RowClass>, &'t str), [(u64, i64); 2], FxBuildHasher>;

/// Compares device time by class and label of the [rules](crate::rules).
pub(super) fn class_changes(runs: [&[&RankAnalysis]; 2], units: [u64; 2]) -> Vec<PartChange> {
    let mut sums = PartSums::default();
    for (side, ranks) in runs.into_iter().enumerate() {
        for kernel in ranks.iter().flat_map(|rank| &rank.kernels) {
            let key = (Some(kernel.class), kernel.label.as_str());
            let durations = &kernel.durations;
            add_part(&mut sums, key, side, durations.count, durations.sum_ns);
        }
    }
    part_changes(sums, units)
}

/// Compares device time by the op that launched it directly, not through another op.
pub(super) fn op_changes(runs: [&[&KeyAverages]; 2], units: [u64; 2]) -> Vec<PartChange> {
    let mut sums = PartSums::default();
    for (side, tops) in runs.into_iter().enumerate() {
        let rows = tops.iter().flat_map(|top| &top.rows);
        for row in rows.filter(|row| !row.on_device && row.self_device_ns != 0) {
            add_part(
                &mut sums,
                (None, &row.name),
                side,
                row.count,
                row.self_device_ns,
            );
        }
    }
    part_changes(sums, units)
}

/// Like [`op_changes`], but with ops from the graph, which also knows the op if PyTorch wrote no
/// `External id`. Also returns the share of each run's device time with a known op; 1 without
/// device time.
pub(super) fn graph_op_changes(
    runs: [&[&RankAnalysis]; 2],
    units: [u64; 2],
) -> ([f64; 2], Vec<PartChange>) {
    let mut sums = PartSums::default();
    let mut shares = [1.0, 1.0];
    for (side, ranks) in runs.into_iter().enumerate() {
        let kernels = ranks.iter().flat_map(|rank| &rank.kernels);
        let kernels = kernels.filter(|kernel| kernel.class != RowClass::Other);
        let (mut known_ns, mut whole_ns) = (0i64, 0i64);
        for kernel in kernels {
            whole_ns = whole_ns.saturating_add(kernel.durations.sum_ns);
            for op in &kernel.ops {
                known_ns = known_ns.saturating_add(op.time_ns);
                add_part(&mut sums, (None, &op.name), side, op.rows, op.time_ns);
            }
        }
        if whole_ns > 0 {
            shares[side] = known_ns as f64 / whole_ns as f64;
        }
    }
    (shares, part_changes(sums, units))
}

/// Compares the self time of calls in which the host stands still until a device is done.
pub(super) fn waiting_changes(runs: [&[&KeyAverages]; 2], units: [u64; 2]) -> Vec<PartChange> {
    let mut sums = PartSums::default();
    for (side, tops) in runs.into_iter().enumerate() {
        let rows = tops.iter().flat_map(|top| &top.rows);
        for row in rows.filter(|row| !row.on_device && is_wait(&row.name)) {
            add_part(
                &mut sums,
                (None, &row.name),
                side,
                row.count,
                row.self_host_ns,
            );
        }
    }
    part_changes(sums, units)
}

/// True for synchronizing calls: `cudaStreamSynchronize`, `hipDeviceSynchronize`,
/// `cuEventSynchronize`, ….
pub(super) fn is_wait(name: &str) -> bool {
    let is_runtime = ["cu", "hip", "ur", "ze", "musa"]
        .iter()
        .any(|library| name.starts_with(library));
    is_runtime && name.contains("Synchronize")
}

fn add_part<'t>(
    sums: &mut PartSums<'t>,
    key: (Option<RowClass>, &'t str),
    side: usize,
    count: u64,
    ns: i64,
) {
    let both = sums.entry(key).or_default();
    both[side].0 += count;
    both[side].1 = both[side].1.saturating_add(ns);
}

/// Lists the changes by falling absolute cost.
fn part_changes(sums: PartSums<'_>, units: [u64; 2]) -> Vec<PartChange> {
    let mut all = vec![];
    for ((class, name), both) in sums {
        let times_ns = [0, 1].map(|side| time_per_unit(both[side].1, units[side]));
        all.push(PartChange {
            class,
            name: name.to_owned(),
            counts: [0, 1].map(|side| both[side].0 as f64 / units[side] as f64),
            times_ns,
            cost_ns: times_ns[1].saturating_sub(times_ns[0]),
        });
    }
    all.sort_by_key(|part| Reverse(part.cost_ns.unsigned_abs()));
    all
}
