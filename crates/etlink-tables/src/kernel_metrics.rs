//! Table of measured kernel metrics, one per row.

use crate::columns::{ColumnSet, non_empty};
use crate::{Error, events};
use arrow_array::RecordBatch;
use etlink_link::LinkedTrace;
use etlink_model::{KernelMetric, NameId};
use std::ops::Range;

pub(crate) fn metrics_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let metrics: Vec<KernelMetric> = places
        .map(|place| trace.kernel_metrics.row(place))
        .collect();
    let text = |name: NameId| non_empty(trace.device.names.get(name));
    columns
        .add_number("event", metrics.iter().map(|one| metric_event(trace, one)))
        .add_text("metric", metrics.iter().map(|one| text(one.metric)))
        .add_text("unit", metrics.iter().map(|one| text(one.unit)))
        .add_float("value", metrics.iter().map(|one| Some(one.value)));
    columns.finish()
}

/// Returns the event of the kernel, or of its launch if the trace has no kernels.
fn metric_event(trace: &LinkedTrace, metric: &KernelMetric) -> Option<u32> {
    match metric.row.get() {
        Some(row) => Some(events::row_event(trace, row.0)),
        None => metric
            .call
            .get()
            .map(|call| events::call_event(trace, call.0)),
    }
}
