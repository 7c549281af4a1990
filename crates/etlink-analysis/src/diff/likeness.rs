//! Checks whether two runs are similar enough to compare their rows one by one.
//!
//! Kernels of another device have other names, and a step with another batch does other work. A
//! list of added and removed kernels is then meaningless, and so is a comparison of step times.

use super::RowChange;
use crate::analysis::RankAnalysis;
use crate::steps::counted_steps;
use crate::top::KeyAverages;
use serde::Serialize;

/// Evidence that two runs do the same work on the same device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunLikeness {
    /// Device names of each run; empty if its traces do not state them.
    pub devices: [Vec<String>; 2],
    /// Ops and runtime calls of the host per unit, in each run.
    pub host_events: [f64; 2],
    /// Mean batch of the steps whose names state it, in each run.
    pub batches: [Option<f64>; 2],
    /// Share of device time in kernels that the other run has too, for the run with the lower
    /// share; `None` without device time.
    pub shared_kernels: Option<f64>,
}

/// Minimum ratio of figures for two runs to count as different work.
const UNLIKE: f64 = 1.1;

impl RunLikeness {
    pub(super) fn from_runs(
        tops: [&[&KeyAverages]; 2],
        ranks: [&[&RankAnalysis]; 2],
        changes: &[RowChange],
    ) -> RunLikeness {
        let host = changes.iter();
        let host = host.filter(|row| !row.on_device && !row.is_annotation);
        let mut host_events = [0.0; 2];
        for row in host {
            for (sum, count) in host_events.iter_mut().zip(row.counts) {
                *sum += count;
            }
        }
        RunLikeness {
            devices: tops.map(device_names),
            host_events,
            batches: ranks.map(mean_batch),
            shared_kernels: shared_kernels(changes),
        }
    }

    /// True if the runs have differently named devices.
    pub fn has_other_devices(&self) -> bool {
        let [first, second] = &self.devices;
        !first.is_empty() && !second.is_empty() && first != second
    }

    /// True if the host does notably more in one of the runs.
    pub fn has_other_work(&self) -> bool {
        is_unlike(self.host_events)
    }

    /// Mean batches of both runs; `None` if they agree or are unknown.
    pub fn other_batches(&self) -> Option<[f64; 2]> {
        let [Some(first), Some(second)] = self.batches else {
            return None;
        };
        is_unlike([first, second]).then_some([first, second])
    }
}

fn is_unlike([first, second]: [f64; 2]) -> bool {
    let least = first.min(second);
    // a trace with only device rows has no host to compare
    least > 0.0 && first.max(second) > UNLIKE * least
}

/// Returns the distinct device names, sorted.
fn device_names(tops: &[&KeyAverages]) -> Vec<String> {
    let names = tops.iter().flat_map(|top| &top.device_names);
    let mut names: Vec<String> = names.cloned().collect();
    names.sort();
    names.dedup();
    names
}

fn mean_batch(ranks: &[&RankAnalysis]) -> Option<f64> {
    let steps = ranks.iter().flat_map(|rank| counted_steps(&rank.steps));
    let batches: Vec<u64> = steps.filter_map(|step| step.batch).collect();
    let sum: f64 = batches.iter().map(|batch| *batch as f64).sum();
    (!batches.is_empty()).then(|| sum / batches.len() as f64)
}

fn shared_kernels(changes: &[RowChange]) -> Option<f64> {
    let (mut shared, mut whole) = ([0.0; 2], [0.0; 2]);
    for row in changes.iter().filter(|row| row.on_device) {
        let is_shared = row.counts.iter().all(|count| *count > 0.0);
        for side in 0..2 {
            let time = row.times_ns[side] as f64;
            whole[side] += time;
            shared[side] += if is_shared { time } else { 0.0 };
        }
    }
    let shares = [0, 1].map(|side| shared[side] / whole[side]);
    let least = shares[0].min(shares[1]);
    (whole[0] > 0.0 && whole[1] > 0.0).then_some(least)
}
