//! Operations and bytes of kernels by name: the points of a roofline.

use crate::record_tables::RankRecords;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analyze::RecordVisitor;
use etlink_link::LinkedTrace;
use etlink_link::roofline::{op_work, row_work};
use etlink_model::NameId;
use etlink_tables::{RankTrace, RecordTable};
use indexmap::IndexMap;
use serde::Serialize;

/// Kernels of one name whose work is computed by one formula.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct KernelWork {
    /// Kernel name.
    name: String,
    /// Name of the formula for the work.
    formula: &'static str,
    /// Number of kernels.
    rows: u64,
    /// Sum of the durations, in ns.
    duration_ns: i64,
    /// Sum of the operations; a multiplication and an addition are two.
    operations: u64,
    /// Sum of the bytes read and written, counting each tensor once.
    bytes: u64,
}

/// Returns a row per name of each rank's device rows, the longest first.
pub(crate) fn kernel_work_table(ranks: &[RankTrace]) -> Result<RecordBatch> {
    let mut table = RecordTable::default();
    RankRecords::blank(&mut table).visit(&KernelWork::default())?;
    for rank in ranks {
        let mut records = RankRecords::of_rank(&mut table, rank.rank);
        for line in kernel_work(&rank.trace) {
            records.visit(&line)?;
        }
    }
    Ok(table.finish()?)
}

fn kernel_work(trace: &LinkedTrace) -> Vec<KernelWork> {
    let rows = &trace.device.rows;
    let mut by_name: IndexMap<(NameId, &str), KernelWork> = IndexMap::new();
    for (row, work) in row_work(trace, &op_work(trace)).into_iter().enumerate() {
        let formula = work.formula.name();
        let found = by_name.entry((rows.name[row], formula)).or_default();
        found.formula = formula;
        found.rows += 1;
        found.duration_ns = found.duration_ns.saturating_add(rows.duration[row].0);
        found.operations = found.operations.saturating_add(work.operations);
        found.bytes = found.bytes.saturating_add(work.bytes);
    }
    let mut lines = vec![];
    for ((name, _), found) in by_name {
        lines.push(KernelWork {
            name: trace.device_name(name).to_owned(),
            ..found
        });
    }
    // a stable sort: equal durations stay in the order of the trace
    lines.sort_by_key(|line| std::cmp::Reverse(line.duration_ns));
    lines
}
