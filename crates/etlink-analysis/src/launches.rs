//! Calls that launch work, by name, or by the innermost op or annotation around them. Any call
//! whose correlation a device row carries counts, from any vendor. A graph launch is one call with
//! many rows. Calls outside all ops belong to no op. Rows outside the steps are left out, as in the
//! tables of device time ([`CountedWork`](crate::CountedWork)).
//!
//! `call` is the duration of the call. `delay` is the time from its end to the start of its first
//! row, 0 if the row starts earlier; it includes the time the row queued behind others. Rows are
//! *short* if all rows of their call together take less time than the call. If all rows are short,
//! the host cannot keep the device busy.

use crate::duration_stats::DurationStats;
use crate::outside_time::OutsideRows;
use crate::rows::ClassifiedRows;
use crate::sums::sum_by_key;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{NoLaunch, launches_graph};
use etlink_model::{NameId, RowIdx, TableIdx};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// Totals of all launching calls of one name, or of one op; times in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaunchTotals {
    /// Name of the call or the op.
    pub name: String,
    /// True if any of the calls launches a graph.
    pub graph: bool,
    /// Number of calls.
    pub calls: u64,
    /// Number of device rows they launched.
    pub rows: u64,
    /// Sum of the rows' durations.
    pub rows_ns: i64,
    /// Number of rows whose call took longer than all its rows together.
    pub short_rows: u64,
    /// Sum of the calls' durations.
    pub call_ns: i64,
    /// Mean duration of the calls.
    pub call_mean_ns: f64,
    /// Longest call.
    pub call_max_ns: i64,
    /// Mean delay.
    pub delay_mean_ns: f64,
    /// Shortest delay.
    pub delay_min_ns: i64,
    /// Longest delay.
    pub delay_max_ns: i64,
    #[serde(skip)]
    call: DurationStats,
    #[serde(skip)]
    delay: DurationStats,
}

impl LaunchTotals {
    fn add(&mut self, other: &LaunchTotals) {
        self.calls += other.calls;
        self.rows += other.rows;
        self.rows_ns = self.rows_ns.saturating_add(other.rows_ns);
        self.short_rows += other.short_rows;
        self.call.merge(&other.call);
        self.delay.merge(&other.delay);
    }

    fn with_figures(mut self) -> LaunchTotals {
        (self.call_ns, self.call_mean_ns, self.call_max_ns) =
            (self.call.sum_ns, self.call.mean_ns(), self.call.max_ns);
        (self.delay_mean_ns, self.delay_min_ns, self.delay_max_ns) =
            (self.delay.mean_ns(), self.delay.min_ns, self.delay.max_ns);
        self
    }
}

/// Totals the launches of a rank by name of the call, by falling number of calls. O(rows).
pub(crate) fn launch_totals(rows: &ClassifiedRows<'_>, outside: &OutsideRows) -> Vec<LaunchTotals> {
    let device = &rows.trace.device;
    launches_by(rows, outside, |call| Some(device.calls.name[call]))
}

/// Totals the launches of a rank by name of the op, by falling number of calls. O(rows).
pub(crate) fn op_launch_totals(
    rows: &ClassifiedRows<'_>,
    outside: &OutsideRows,
) -> Vec<LaunchTotals> {
    launches_by(rows, outside, |call| {
        let op = rows.trace.call_op.get(call)?.get()?;
        Some(rows.trace.device.ops.name[op.index()])
    })
}

fn launches_by(
    rows: &ClassifiedRows<'_>,
    outside: &OutsideRows,
    key: impl Fn(usize) -> Option<NameId>,
) -> Vec<LaunchTotals> {
    let device = &rows.trace.device;
    let mut all: IndexMap<NameId, LaunchTotals, FxBuildHasher> = IndexMap::default();
    let lasted = row_time_of_calls(rows);
    let mut seen = vec![false; device.calls.len()];
    // rows are sorted by start, so a call's first row comes first
    for row in (0..rows.len()).filter(|row| !outside.contains_row(*row)) {
        let Some(call) = rows.trace.row_call[row].get() else {
            continue;
        };
        let at = call.index();
        let Some(name) = key(at) else { continue };
        let entry = all.entry(name).or_insert_with(|| LaunchTotals {
            name: device.names.get(name).to_owned(),
            ..LaunchTotals::default()
        });
        entry.graph |= launches_graph(device.names.get(device.calls.name[at]));
        let took = device.calls.duration[at];
        entry.rows += 1;
        entry.rows_ns = entry.rows_ns.saturating_add(device.rows.duration[row].0);
        // The rows of a graph launch count together: one call has to keep the device busy for all
        // of them.
        entry.short_rows += u64::from(lasted[at] < took.0);
        if !std::mem::replace(&mut seen[at], true) {
            entry.calls += 1;
            entry.call.add(took.0);
            // A row that starts before its call, even by the host's clock, says nothing about
            // delays.
            if rows.trace.row_no_launch[row] == NoLaunch::Launched {
                let start = device.rows.start[row];
                let start = rows.trace.host_time(RowIdx::from_index(row), start);
                entry.delay.add((start - (device.calls.start[at] + took)).0);
            }
        }
    }
    sort_launches(all.into_values())
}

/// Sums the durations of each call's rows, ns.
fn row_time_of_calls(rows: &ClassifiedRows<'_>) -> Vec<i64> {
    let device = &rows.trace.device;
    let mut all = vec![0i64; device.calls.len()];
    for row in 0..rows.len() {
        if let Some(sum) = rows.trace.row_call[row]
            .get()
            .and_then(|call| all.get_mut(call.index()))
        {
            *sum = sum.saturating_add(device.rows.duration[row].0);
        }
    }
    all
}

/// Sums the totals of all ranks.
pub(crate) fn sum_launches<'a>(all: impl Iterator<Item = &'a LaunchTotals>) -> Vec<LaunchTotals> {
    sort_launches(sum_by_key(all, |one| &one.name, LaunchTotals::add).into_iter())
}

fn sort_launches(all: impl Iterator<Item = LaunchTotals>) -> Vec<LaunchTotals> {
    let mut all: Vec<LaunchTotals> = all.map(LaunchTotals::with_figures).collect();
    all.sort_by(|a, b| (Reverse(a.calls), &a.name).cmp(&(Reverse(b.calls), &b.name)));
    all
}
