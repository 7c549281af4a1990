//! Copies and memsets by kind (`Memcpy HtoD (Pinned -> Device)`): bytes, time, bandwidth.
//!
//! ```text
//! bandwidth = bytes / time in which at least one row of the kind with a size runs
//! bytes per ns = GB/s (10⁹ bytes)
//! ```
//! This is the mean over time of the running copies' total bandwidth. A row's size is stated by the
//! row or by its launch call. Rows of unknown size count as rows and in times, but not in bytes or
//! bandwidth.

use crate::intervals::Intervals;
use crate::outside_time::OutsideRows;
use crate::rows::ClassifiedRows;
use crate::sums::sum_by_key;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{NameId, RowKind};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// Totals of one kind of copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopyTotals {
    /// Name of the kind, as in the trace.
    pub kind: String,
    /// Number of rows.
    pub rows: u64,
    /// Number of rows of unknown size.
    pub rows_without_size: u64,
    /// Sum of the known sizes, bytes.
    pub bytes: u64,
    /// Sum of the durations, ns.
    pub sum_ns: i64,
    /// Sum of the durations of rows of known size, ns.
    pub sized_sum_ns: i64,
    /// Time in which at least one row runs, ns; summed over ranks.
    pub busy_ns: i64,
    /// Time in which at least one row of known size runs, ns.
    pub sized_busy_ns: i64,
    /// `bytes / sized_busy_ns`; `None` if no size is known.
    pub gb_per_s: Option<f64>,
    /// Highest bandwidth of a single copy.
    pub max_gb_per_s: Option<f64>,
}

impl CopyTotals {
    fn with_bandwidth(mut self) -> CopyTotals {
        self.gb_per_s = (self.bytes > 0 && self.sized_busy_ns > 0)
            .then(|| self.bytes as f64 / self.sized_busy_ns as f64);
        self
    }

    fn add(&mut self, other: &CopyTotals) {
        self.rows += other.rows;
        self.rows_without_size += other.rows_without_size;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.sized_sum_ns = self.sized_sum_ns.saturating_add(other.sized_sum_ns);
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.sized_busy_ns = self.sized_busy_ns.saturating_add(other.sized_busy_ns);
        self.max_gb_per_s = larger_bandwidth(self.max_gb_per_s, other.max_gb_per_s);
    }
}

fn larger_bandwidth(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Totals the copies of a rank, by falling bytes. O(rows).
pub(crate) fn copy_totals(rows: &ClassifiedRows<'_>, outside: &OutsideRows) -> Vec<CopyTotals> {
    let device = &rows.trace.device.rows;
    let mut all: IndexMap<(NameId, i64), (CopyTotals, [Intervals; 2]), FxBuildHasher> =
        IndexMap::default();
    let is_copy = |row: &usize| matches!(device.kind[*row], RowKind::Memcpy | RowKind::Memset);
    let counted = (0..rows.len()).filter(|row| !outside.contains_row(*row));
    for row in counted.filter(is_copy) {
        let empty = || {
            (
                CopyTotals {
                    kind: rows.name(row).to_owned(),
                    ..CopyTotals::default()
                },
                Default::default(),
            )
        };
        let (copies, [busy, sized_busy]) = all
            // Copies of two devices run at once: their busy times are added, not merged.
            .entry((device.name[row], rows.device(row)))
            .or_insert_with(empty);
        copies.rows += 1;
        let (bytes, (start, end)) = (device.bytes[row], rows.span(row));
        let lasted = end.saturating_sub(start);
        copies.sum_ns = copies.sum_ns.saturating_add(lasted);
        // Rows are sorted by start, as `Intervals::push` requires.
        busy.push(start, end);
        if bytes == 0 {
            copies.rows_without_size += 1;
            continue;
        }
        copies.bytes = copies.bytes.saturating_add(bytes);
        copies.sized_sum_ns = copies.sized_sum_ns.saturating_add(lasted);
        sized_busy.push(start, end);
        let one = (lasted > 0).then(|| bytes as f64 / lasted as f64);
        copies.max_gb_per_s = larger_bandwidth(copies.max_gb_per_s, one);
    }
    let all: Vec<CopyTotals> = all
        .into_values()
        .map(|(copies, [busy, sized])| CopyTotals {
            busy_ns: busy.total_length(),
            sized_busy_ns: sized.total_length(),
            ..copies
        })
        .collect();
    // merges the devices of the rank
    sum_copies(all.iter())
}

/// Sums the totals of all ranks.
pub(crate) fn sum_copies<'a>(all: impl Iterator<Item = &'a CopyTotals>) -> Vec<CopyTotals> {
    let sums = sum_by_key(all, |one| &one.kind, CopyTotals::add).into_iter();
    let mut all: Vec<CopyTotals> = sums.map(CopyTotals::with_bandwidth).collect();
    all.sort_by(|a, b| (Reverse(a.bytes), &a.kind).cmp(&(Reverse(b.bytes), &b.kind)));
    all
}
