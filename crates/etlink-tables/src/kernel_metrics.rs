//! Table of measured kernel metrics, one per row.

use crate::columns::Columns;
use crate::{Error, events};
use arrow_array::RecordBatch;
use etlink_link::LinkedTrace;
use etlink_model::KernelMetric;
use std::ops::Range;

pub(crate) fn metrics_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    rank: Option<i64>,
) -> Result<RecordBatch, Error> {
    let metrics = places.map(|place| trace.kernel_metrics.row(place));
    let metrics: Vec<KernelMetric> = metrics.collect();
    let names = &trace.device.names;
    Columns::new(rank, &metrics)
        .number("event", |metric| metric_event(trace, metric))
        .text("metric", |metric| names.get(metric.metric))
        .text("unit", |metric| names.get(metric.unit))
        .float("value", |metric| metric.value)
        .finish()
}

/// Returns the event of the kernel, or of its launch if the trace has no kernels.
fn metric_event(trace: &LinkedTrace, metric: &KernelMetric) -> Option<u32> {
    match metric.row.get() {
        Some(row) => Some(events::row_event(trace, row.0)),
        None => Some(events::call_event(trace, metric.call.get()?.0)),
    }
}
