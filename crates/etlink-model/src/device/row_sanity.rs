//! Plausibility of device rows, and removal of implausible ones.

use crate::{DeviceTrace, GraphDependencies, RowIdx, TimeNs};
use borsh::{BorshDeserialize, BorshSerialize};

/// Gaps in the device rows of a trace, stored as [`DeviceTrace::row_sanity`].
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RowSanity {
    /// Number of calls that launch device work.
    pub launches: u64,
    /// Number of launches without a row, including those whose row was left out.
    pub without_row: u64,
    /// Disjoint intervals, ascending, that lack too many rows for any statement about the devices.
    pub unknown: Vec<(TimeNs, TimeNs)>,
}

impl RowSanity {
    /// Returns true if nothing can be said about any time.
    pub fn is_all_unknown(&self) -> bool {
        self.unknown == [ALL_TIME]
    }
}

/// Interval that contains all times.
pub const ALL_TIME: (TimeNs, TimeNs) = (TimeNs(i64::MIN), TimeNs(i64::MAX));

impl DeviceTrace {
    /// Drops the ops whose entry in `keep` is false, with their details. O(ops).
    pub fn retain_ops(&mut self, keep: &[bool]) {
        let order = kept(keep);
        self.ops.reorder(&order);
        if let Some(details) = &mut self.details {
            details.ops.reorder(&order);
        }
    }

    /// Drops the calls whose entry in `keep` is false, with their details. O(calls).
    pub fn retain_calls(&mut self, keep: &[bool]) {
        let order = kept(keep);
        self.calls.reorder(&order);
        if let Some(details) = &mut self.details {
            details.calls.reorder(&order);
        }
    }

    /// Drops the device rows whose entry in `keep` is false, with their details and dependencies.
    /// O(rows).
    pub fn retain_rows(&mut self, keep: &[bool]) {
        let order = kept(keep);
        self.keep_rows(&order);
        if let Some(details) = &mut self.details {
            details.rows.reorder(&order);
        }
    }

    /// Keeps these device rows in this order, ascending, without their details, and what depends on
    /// them. O(rows).
    pub(crate) fn keep_rows(&mut self, order: &[u32]) {
        let mut place = vec![RowIdx::NONE; self.rows.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old as usize] = RowIdx::new(new);
        }
        self.rows.reorder(order);
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

/// Returns the row numbers whose entry in `keep` is true.
fn kept(keep: &[bool]) -> Vec<u32> {
    let rows = (0u32..).zip(keep);
    rows.filter_map(|(row, kept)| kept.then_some(row)).collect()
}
