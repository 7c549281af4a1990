//! Table of recorded events. They are numbered by table: ops and annotations, then calls, device
//! rows and synchronisation rows, each ordered by start.

use crate::Error;
use crate::columns::{Columns, known_number};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, MatchRule, NoLaunch};
use etlink_model::{
    DeviceQueue, DurationNs, HostIdx, HostThread, HostTrace, RowKind, TimeNs, TrackLabel,
};
use std::ops::Range;

/// An event, by its table and row.
#[derive(Clone, Copy)]
enum EventRow {
    Op(usize),
    Call(usize),
    Row(usize),
    Sync(usize),
}

/// An event with its number.
type Event = (usize, EventRow);

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
    rank: Option<i64>,
) -> Result<RecordBatch, Error> {
    let events: Vec<Event> = places
        .map(|place| (place, event_at(trace, place)))
        .collect();
    let mut columns = Columns::new(rank, &events);
    add_names_and_times(trace, &mut columns);
    add_references(trace, &mut columns);
    add_op_columns(trace, &mut columns);
    add_row_columns(trace, &mut columns);
    columns.finish()
}

fn add_names_and_times(trace: &LinkedTrace, columns: &mut Columns<'_, Event>) {
    let device = &trace.device;
    columns
        .number("event", |(place, _)| event_number(*place, 0))
        .text("kind", |(_, event)| event_kind(trace, *event))
        .text("category", |(_, event)| match *event {
            // Only device rows keep the file's category; for ops and calls it follows from `kind`.
            EventRow::Row(row) => Some(device.names.get(device.rows.category[row])),
            _ => None,
        })
        .any_text("name", |(_, event)| {
            device.names.get(match *event {
                EventRow::Op(op) => device.ops.name[op],
                EventRow::Call(call) => device.calls.name[call],
                EventRow::Row(row) => device.rows.name[row],
                EventRow::Sync(sync) => device.syncs.name[sync],
            })
        })
        .signed("start_ns", |(_, event)| {
            unix_ns(trace, event_span(trace, *event).0)
        })
        .signed("duration_ns", |(_, event)| event_span(trace, *event).1.0);
    add_threads(trace, columns, |(_, event)| match *event {
        EventRow::Op(op) => Some(device.ops.thread[op].index()),
        EventRow::Call(call) => Some(device.calls.thread[call].index()),
        _ => None,
    });
    add_queues(columns, |(_, event)| match *event {
        EventRow::Row(row) => device.queues.get(device.rows.queue[row].index()),
        EventRow::Sync(sync) => device.queues.get(device.syncs.queue[sync].index()),
        _ => None,
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
pub(crate) fn add_threads<R>(
    trace: &LinkedTrace,
    columns: &mut Columns<'_, R>,
    thread: impl Fn(&R) -> Option<usize>,
) {
    let all = &trace.device.threads;
    // Labels are formatted once per thread, not per event.
    let label = |thread: &HostThread| {
        let [pid, tid] = [thread.pid, thread.tid].map(|label| trace.device.label(label));
        format!("{pid}/{tid}")
    };
    let labels: Vec<String> = all.iter().map(label).collect();
    columns
        .text("thread", |row| labels.get(thread(row)?).map(String::as_str))
        .signed("pid", |row| integer_label(all.get(thread(row)?)?.pid))
        .signed("tid", |row| integer_label(all.get(thread(row)?)?.tid));
}

/// Returns a label as a number; `None` for names such as `"Spans"`, which Kineto also writes.
fn integer_label(label: TrackLabel) -> Option<i64> {
    match label {
        TrackLabel::Int(number) => Some(number),
        TrackLabel::Text(_) => None,
    }
}

/// Adds `device`, `context` and `stream` of queues.
pub(crate) fn add_queues<'t, R>(
    columns: &mut Columns<'_, R>,
    queue: impl Fn(&R) -> Option<&'t DeviceQueue>,
) {
    columns
        .signed("device", |row| Some(queue(row)?.device))
        .signed("context", |row| Some(queue(row)?.context))
        .signed("stream", |row| Some(queue(row)?.stream));
}

/// Adds the references between events: `parent` is the op around an op or call, or the op that a
/// device row belongs to; `launch` is the call that caused a device row.
fn add_references(trace: &LinkedTrace, columns: &mut Columns<'_, Event>) {
    let device = &trace.device;
    let correlation = |event: EventRow| match event {
        // Ops have no correlation: only calls and the device work they launch share one.
        EventRow::Op(_) => None,
        EventRow::Call(call) => device.calls.correlation[call].get(),
        EventRow::Row(row) => device.rows.correlation[row].get(),
        EventRow::Sync(sync) => device.syncs.correlation[sync].get(),
    };
    let parent = |event: EventRow| match event {
        EventRow::Op(op) => trace.op_parent[op].get(),
        EventRow::Call(call) => trace.call_op[call].get(),
        EventRow::Row(row) => trace.row_op[row].get(),
        EventRow::Sync(_) => None,
    };
    columns
        .signed("correlation", |(_, event)| Some(correlation(*event)?.0))
        .signed("external_id", |(_, event)| match *event {
            EventRow::Op(op) => known_number(device.ops.external_id[op]),
            EventRow::Call(call) => known_number(device.calls.external_id[call]),
            EventRow::Row(row) => known_number(device.rows.external_id[row]),
            EventRow::Sync(_) => None,
        })
        .number("parent", |(_, event)| Some(parent(*event)?.0))
        .number("launch", |(_, event)| match *event {
            EventRow::Row(row) => Some(call_event(trace, trace.row_call[row].get()?.0)),
            _ => None,
        });
}

fn add_op_columns(trace: &LinkedTrace, columns: &mut Columns<'_, Event>) {
    let (device, ops) = (&trace.device, &trace.device.ops);
    let op = |(_, event): &Event| match *event {
        EventRow::Op(op) => Some(op),
        _ => None,
    };
    columns
        .unsigned("rf_id", |event| Some(ops.rf_id[op(event)?].get()?.0))
        .signed("seq_id", |event| known_number(ops.seq_id[op(event)?]))
        .unsigned("host_node", |event| {
            let (host, node) = host_node(trace, op(event)?)?;
            Some(host.nodes.id[node.index()])
        })
        .text("matched_by", |event| match_rule(trace.op_rule[op(event)?]))
        .signed("exclusive_ns", |event| {
            Some(trace.op_exclusive[op(event)?].0)
        })
        .text("input_shapes", |event| {
            let op = op(event)?;
            Some(match host_node(trace, op) {
                // The host trace includes shapes of lists and scalars, which Kineto leaves empty.
                Some((host, node)) => host.names.get(host.nodes.inputs[node.index()].shapes),
                None => device.names.get(ops.shapes[op]),
            })
        })
        .text("input_types", |event| {
            let op = op(event)?;
            Some(match host_node(trace, op) {
                Some((host, node)) => host.names.get(host.nodes.inputs[node.index()].types),
                None => device.names.get(ops.types[op]),
            })
        });
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

fn add_row_columns(trace: &LinkedTrace, columns: &mut Columns<'_, Event>) {
    let rows = &trace.device.rows;
    let row = |(_, event): &Event| match *event {
        EventRow::Row(row) => Some(row),
        _ => None,
    };
    // Copies have no grid, and kernels no bytes: such cells are null, not 0.
    let is_kernel = |row: &usize| rows.kind[*row] == RowKind::Kernel;
    let kernel = |event: &Event| row(event).filter(is_kernel);
    columns
        .text("no_launch", |event| {
            no_launch(trace.row_no_launch[row(event)?])
        })
        .unsigned("bytes", |event| {
            let copy = row(event).filter(|row| !is_kernel(row));
            Some(rows.bytes[copy?])
        })
        .unsigned("graph_node", |event| {
            // CUPTI reports 0 for work outside graphs.
            Some(rows.graph_node[row(event)?]).filter(|node| *node != 0)
        });
    // Three columns instead of a list: every reader can filter and group by plain integers.
    for (axis, name) in ["grid_x", "grid_y", "grid_z"].into_iter().enumerate() {
        columns.number(name, |event| axis_size(rows.grid[kernel(event)?], axis));
    }
    for (axis, name) in ["block_x", "block_y", "block_z"].into_iter().enumerate() {
        columns.number(name, |event| axis_size(rows.block[kernel(event)?], axis));
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
