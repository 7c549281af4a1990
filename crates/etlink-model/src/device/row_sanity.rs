//! Whether the device rows of a trace can be true, and rows that are taken out because they cannot.

use crate::{DeviceTrace, GraphDependencies, RowIdx, TimeNs};
use serde::{Deserialize, Serialize};

/// What the device rows of a trace lack, as [`DeviceTrace::row_sanity`] keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSanity {
    /// Calls that launch work of a device.
    pub launches: u64,
    /// How many of these have no row, or one that was left out.
    pub without_row: u64,
    /// Stretches of time, ascending and apart, in which so many rows are missing that nothing can be
    /// said of what devices did.
    pub unknown: Vec<(TimeNs, TimeNs)>,
}

impl RowSanity {
    /// Whether nothing can be said of any time.
    pub fn is_all_unknown(&self) -> bool {
        self.unknown == [ALL_TIME]
    }
}

/// A stretch that has all times.
pub const ALL_TIME: (TimeNs, TimeNs) = (TimeNs(i64::MIN), TimeNs(i64::MAX));

impl DeviceTrace {
    /// Drops the ops of which `keep` says so, with their details. O(ops).
    pub fn retain_ops(&mut self, keep: &[bool]) {
        let order = kept(keep);
        self.ops.reorder(&order);
        if let Some(details) = &mut self.details {
            details.ops.reorder(&order);
        }
    }

    /// Drops the calls of which `keep` says so, with their details. O(calls).
    pub fn retain_calls(&mut self, keep: &[bool]) {
        let order = kept(keep);
        self.calls.reorder(&order);
        if let Some(details) = &mut self.details {
            details.calls.reorder(&order);
        }
    }

    /// Drops the device rows of which `keep` says so, with their details and what depends on them.
    /// O(rows).
    pub fn retain_rows(&mut self, keep: &[bool]) {
        let order = kept(keep);
        let mut place = vec![RowIdx::NONE; self.rows.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old as usize] = RowIdx::new(new);
        }
        self.rows.reorder(&order);
        if let Some(details) = &mut self.details {
            details.rows.reorder(&order);
        }
        let mut dependencies = GraphDependencies::default();
        for index in 0..self.graph_dependencies.len() {
            let mut one = self.graph_dependencies.row(index);
            one.effect = place[one.effect.index()];
            one.cause = place[one.cause.index()];
            if one.effect != RowIdx::NONE && one.cause != RowIdx::NONE {
                dependencies.push(one);
            }
        }
        self.graph_dependencies = dependencies;
    }
}

/// The numbers of the rows that are kept.
fn kept(keep: &[bool]) -> Vec<u32> {
    let rows = (0u32..).zip(keep);
    rows.filter_map(|(row, kept)| kept.then_some(row)).collect()
}
