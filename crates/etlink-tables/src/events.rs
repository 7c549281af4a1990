//! Table of recorded events. They are numbered by table: ops and annotations, then calls, device
//! rows and synchronisation rows, each ordered by start.

use crate::Error;
use crate::columns::{ColumnSet, known_number, non_empty};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, MatchRule, NoLaunch};
use etlink_model::{DeviceQueue, DurationNs, HostIdx, HostTrace, RowKind, TimeNs, TrackLabel};
use std::ops::Range;

/// An event, by its table and row.
#[derive(Clone, Copy)]
enum EventRow {
    Op(usize),
    Call(usize),
    Row(usize),
    Sync(usize),
}

pub(crate) fn event_count(trace: &LinkedTrace) -> usize {
    let device = &trace.device;
    device.ops.len() + device.calls.len() + device.rows.len() + device.syncs.len()
}

/// Rejects a trace with more events than the columns can number.
///
/// # Errors
/// The trace has too many events.
pub(crate) fn check_count(events: usize) -> Result<(), Error> {
    // each kind of event has its own 32 bits, so all kinds together may exceed them
    match u32::try_from(events) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::TooManyEvents { events }),
    }
}

/// Returns the event number of a call.
pub(crate) fn call_event(trace: &LinkedTrace, call: u32) -> u32 {
    event_number(trace.device.ops.len(), call)
}

/// Returns the event number of a device row.
pub(crate) fn row_event(trace: &LinkedTrace, row: u32) -> u32 {
    event_number(trace.device.ops.len() + trace.device.calls.len(), row)
}

/// Returns the event number of `row` of a kind that follows `before` other events.
fn event_number(before: usize, row: u32) -> u32 {
    let number = u32::try_from(before)
        .ok()
        .and_then(|before| before.checked_add(row));
    debug_assert!(number.is_some(), "a trace of so many events is refused");
    // the maximum is never the number of an event
    number.unwrap_or(u32::MAX)
}

fn event_at(trace: &LinkedTrace, place: usize) -> EventRow {
    let device = &trace.device;
    let (calls, rows) = (device.ops.len(), device.ops.len() + device.calls.len());
    let syncs = rows + device.rows.len();
    match place {
        op if op < calls => EventRow::Op(op),
        call if call < rows => EventRow::Call(call - calls),
        row if row < syncs => EventRow::Row(row - rows),
        sync => EventRow::Sync(sync - syncs),
    }
}

/// Converts an instant to ns since the Unix epoch.
pub(crate) fn unix_ns(trace: &LinkedTrace, time: TimeNs) -> i64 {
    trace.device.header.unix_time(time).0
}

pub(crate) fn events_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let events: Vec<EventRow> = places.clone().map(|place| event_at(trace, place)).collect();
    columns.add_number("event", places.map(|place| Some(event_number(place, 0))));
    add_names_and_times(trace, &events, &mut columns);
    add_references(trace, &events, &mut columns);
    add_op_columns(trace, &events, &mut columns);
    add_row_columns(trace, &events, &mut columns);
    columns.finish()
}

fn add_names_and_times(trace: &LinkedTrace, events: &[EventRow], columns: &mut ColumnSet) {
    let device = &trace.device;
    let names = events.iter().map(|event| match *event {
        EventRow::Op(op) => device.ops.name[op],
        EventRow::Call(call) => device.calls.name[call],
        EventRow::Row(row) => device.rows.name[row],
        EventRow::Sync(sync) => device.syncs.name[sync],
    });
    // Only device rows keep the file's category; for ops and calls it follows from `kind`.
    let categories = events.iter().map(|event| match *event {
        EventRow::Row(row) => non_empty(device.names.get(device.rows.category[row])),
        _ => None,
    });
    let kinds = events.iter().map(|event| Some(event_kind(trace, *event)));
    let spans = events.iter().map(|event| event_span(trace, *event));
    let starts = spans.clone().map(|(start, _)| unix_ns(trace, start));
    columns
        .add_text("kind", kinds)
        .add_text("category", categories)
        .add_text("name", names.map(|name| Some(device.names.get(name))))
        .add_signed("start_ns", starts.map(Some))
        .add_signed("duration_ns", spans.map(|(_, duration)| Some(duration.0)));
    add_threads(trace, columns, || {
        events.iter().map(|event| match *event {
            EventRow::Op(op) => Some(device.ops.thread[op].index()),
            EventRow::Call(call) => Some(device.calls.thread[call].index()),
            _ => None,
        })
    });
    add_queues(columns, || {
        events.iter().map(|event| match *event {
            EventRow::Row(row) => device.queues.get(device.rows.queue[row].index()),
            EventRow::Sync(sync) => device.queues.get(device.syncs.queue[sync].index()),
            _ => None,
        })
    });
}

fn event_kind(trace: &LinkedTrace, event: EventRow) -> &'static str {
    let device = &trace.device;
    match event {
        EventRow::Op(op) if device.ops.annotation[op] => "annotation",
        EventRow::Op(_) => "op",
        EventRow::Call(_) => "call",
        EventRow::Row(row) => match device.rows.kind[row] {
            RowKind::Kernel => "kernel",
            RowKind::Memcpy => "memcpy",
            RowKind::Memset => "memset",
            RowKind::GraphNode => "graph_node",
        },
        EventRow::Sync(_) => "sync",
    }
}

fn event_span(trace: &LinkedTrace, event: EventRow) -> (TimeNs, DurationNs) {
    let device = &trace.device;
    match event {
        EventRow::Op(op) => (device.ops.start[op], device.ops.duration[op]),
        EventRow::Call(call) => (device.calls.start[call], device.calls.duration[call]),
        EventRow::Row(row) => (device.rows.start[row], device.rows.duration[row]),
        EventRow::Sync(sync) => (device.syncs.start[sync], device.syncs.duration[sync]),
    }
}

/// Adds `pid` and `tid` of threads, and both as text if they are not numbers.
pub(crate) fn add_threads<I: Iterator<Item = Option<usize>>>(
    trace: &LinkedTrace,
    columns: &mut ColumnSet,
    threads: impl Fn() -> I,
) {
    let all = &trace.device.threads;
    // Labels are formatted once per thread, not per event.
    let labels: Vec<String> = all
        .iter()
        .map(|thread| {
            format!(
                "{}/{}",
                trace.device.label(thread.pid),
                trace.device.label(thread.tid)
            )
        })
        .collect();
    columns
        .add_text(
            "thread",
            threads().map(|thread| labels.get(thread?).map(String::as_str)),
        )
        .add_signed(
            "pid",
            threads().map(|thread| integer_label(all.get(thread?)?.pid)),
        )
        .add_signed(
            "tid",
            threads().map(|thread| integer_label(all.get(thread?)?.tid)),
        );
}

/// Returns a label as a number; `None` for names such as `"Spans"`, which Kineto also writes.
fn integer_label(label: TrackLabel) -> Option<i64> {
    match label {
        TrackLabel::Int(number) => Some(number),
        TrackLabel::Text(_) => None,
    }
}

/// Adds `device`, `context` and `stream` of queues.
pub(crate) fn add_queues<'t, I: Iterator<Item = Option<&'t DeviceQueue>>>(
    columns: &mut ColumnSet,
    queues: impl Fn() -> I,
) {
    columns
        .add_signed(
            "device",
            queues().map(|queue| queue.map(|queue| queue.device)),
        )
        .add_signed(
            "context",
            queues().map(|queue| queue.map(|queue| queue.context)),
        )
        .add_signed(
            "stream",
            queues().map(|queue| queue.map(|queue| queue.stream)),
        );
}

/// Adds the references between events: `parent` is the op around an op or call, or the op that a
/// device row belongs to; `launch` is the call that caused a device row.
fn add_references(trace: &LinkedTrace, events: &[EventRow], columns: &mut ColumnSet) {
    let device = &trace.device;
    let correlations = events.iter().map(|event| match *event {
        // Ops have no correlation: only calls and the device work they launch share one.
        EventRow::Op(_) => None,
        EventRow::Call(call) => device.calls.correlation[call].get(),
        EventRow::Row(row) => device.rows.correlation[row].get(),
        EventRow::Sync(sync) => device.syncs.correlation[sync].get(),
    });
    let external_ids = events.iter().map(|event| match *event {
        EventRow::Op(op) => known_number(device.ops.external_id[op]),
        EventRow::Call(call) => known_number(device.calls.external_id[call]),
        EventRow::Row(row) => known_number(device.rows.external_id[row]),
        EventRow::Sync(_) => None,
    });
    let parents = events.iter().map(|event| match *event {
        EventRow::Op(op) => trace.op_parent[op].get(),
        EventRow::Call(call) => trace.call_op[call].get(),
        EventRow::Row(row) => trace.row_op[row].get(),
        EventRow::Sync(_) => None,
    });
    let launches = events.iter().map(|event| match *event {
        EventRow::Row(row) => trace.row_call[row].get(),
        _ => None,
    });
    columns
        .add_signed("correlation", correlations.map(|id| id.map(|id| id.0)))
        .add_signed("external_id", external_ids)
        .add_number("parent", parents.map(|op| op.map(|op| op.0)))
        .add_number(
            "launch",
            launches.map(|call| Some(call_event(trace, call?.0))),
        );
}

fn add_op_columns(trace: &LinkedTrace, events: &[EventRow], columns: &mut ColumnSet) {
    let (device, ops) = (&trace.device, &trace.device.ops);
    let each = events.iter().map(|event| match *event {
        EventRow::Op(op) => Some(op),
        _ => None,
    });
    let rf_ids = each.clone().map(|op| ops.rf_id[op?].get());
    columns
        .add_unsigned("rf_id", rf_ids.map(|id| id.map(|id| id.0)))
        .add_signed(
            "seq_id",
            each.clone().map(|op| known_number(ops.seq_id[op?])),
        )
        .add_unsigned(
            "host_node",
            each.clone().map(|op| {
                let (host, node) = host_node(trace, op?)?;
                Some(host.nodes.id[node.index()])
            }),
        )
        .add_text(
            "matched_by",
            each.clone().map(|op| match_rule(trace.op_rule[op?])),
        )
        .add_signed(
            "exclusive_ns",
            each.clone().map(|op| Some(trace.op_exclusive[op?].0)),
        )
        .add_text(
            "input_shapes",
            each.clone().map(|op| {
                let op = op?;
                non_empty(match host_node(trace, op) {
                    // The host trace includes shapes of lists and scalars, which Kineto leaves
                    // empty.
                    Some((host, node)) => host.names.get(host.nodes.inputs[node.index()].shapes),
                    None => device.names.get(ops.shapes[op]),
                })
            }),
        )
        .add_text(
            "input_types",
            each.map(|op| {
                let op = op?;
                non_empty(match host_node(trace, op) {
                    Some((host, node)) => host.names.get(host.nodes.inputs[node.index()].types),
                    None => device.names.get(ops.types[op]),
                })
            }),
        );
}

/// Returns the host trace and the node in it that an op was matched with.
fn host_node(trace: &LinkedTrace, op: usize) -> Option<(&HostTrace, HostIdx)> {
    let node = trace.op_host.get(op)?.get()?;
    Some((trace.host.as_ref()?, node))
}

fn match_rule(rule: MatchRule) -> Option<&'static str> {
    match rule {
        MatchRule::None => None,
        MatchRule::Id => Some("id"),
        MatchRule::Order => Some("order"),
    }
}

fn add_row_columns(trace: &LinkedTrace, events: &[EventRow], columns: &mut ColumnSet) {
    let rows = &trace.device.rows;
    let each = events.iter().map(|event| match *event {
        EventRow::Row(row) => Some(row),
        _ => None,
    });
    // Copies have no grid, and kernels no bytes: such cells are null, not 0.
    let is_kernel = |row: &usize| rows.kind[*row] == RowKind::Kernel;
    let kernels = each.clone().map(|row| row.filter(is_kernel));
    let copies = each.clone().map(|row| row.filter(|row| !is_kernel(row)));
    columns
        .add_text(
            "no_launch",
            each.clone().map(|row| no_launch(trace.row_no_launch[row?])),
        )
        .add_unsigned("bytes", copies.map(|row| Some(rows.bytes[row?])))
        .add_unsigned(
            "graph_node",
            // CUPTI reports 0 for work outside graphs.
            each.map(|row| Some(rows.graph_node[row?]).filter(|node| *node != 0)),
        );
    // Three columns instead of a list: every reader can filter and group by plain integers.
    for (axis, name) in ["grid_x", "grid_y", "grid_z"].into_iter().enumerate() {
        let sizes = kernels.clone().map(|row| Some(rows.grid[row?]));
        columns.add_number(name, sizes.map(|size| axis_size(size?, axis)));
    }
    for (axis, name) in ["block_x", "block_y", "block_z"].into_iter().enumerate() {
        let sizes = kernels.clone().map(|row| Some(rows.block[row?]));
        columns.add_number(name, sizes.map(|size| axis_size(size?, axis)));
    }
}

/// Returns the size on one axis; `None` if all are 0, which readers leave if a kernel's grid or
/// block is missing.
fn axis_size(sizes: [u32; 3], axis: usize) -> Option<u32> {
    (sizes != [0; 3]).then_some(sizes[axis])
}

fn no_launch(reason: NoLaunch) -> Option<&'static str> {
    match reason {
        NoLaunch::Launched => None,
        NoLaunch::NoCallsRecorded => Some("no_calls_recorded"),
        NoLaunch::NoCorrelation => Some("no_correlation"),
        NoLaunch::BeforeWindow => Some("before_window"),
        NoLaunch::CallNotRecorded => Some("call_not_recorded"),
        NoLaunch::StartsBeforeCall => Some("starts_before_call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_up_to_the_last_number() {
        let last = u32::MAX as usize;
        assert_eq!(event_number(last - 7, 7), u32::MAX);
        assert!(check_count(last).is_ok());
        let error = check_count(last + 1).expect_err("one too many");
        assert!(error.to_string().contains("4294967296 events"), "{error}");
    }
}
