//! What the traces recorded. Events are numbered: ops and annotations, then calls, device rows, synchronisation rows, each by start.

use crate::Error;
use crate::columns::{Columns, known, some};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, MatchRule, NoLaunch};
use etlink_model::{
    Correlation, DeviceQueue, DurationNs, HostIdx, NameId, RowKind, TimeNs, TrackLabel,
};
use std::ops::Range;

/// An event by its table.
#[derive(Clone, Copy)]
enum Event {
    Op(usize),
    Call(usize),
    Row(usize),
    Sync(usize),
}

pub(crate) fn count(trace: &LinkedTrace) -> usize {
    let device = &trace.device;
    device.ops.len() + device.calls.len() + device.rows.len() + device.syncs.len()
}

/// The event of a call.
pub(crate) fn of_call(trace: &LinkedTrace, call: u32) -> u32 {
    number(trace.device.ops.len()) + call
}

/// The event of a device row.
pub(crate) fn of_row(trace: &LinkedTrace, row: u32) -> u32 {
    number(trace.device.ops.len() + trace.device.calls.len()) + row
}

fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn at(trace: &LinkedTrace, place: usize) -> Event {
    let device = &trace.device;
    let (calls, rows) = (device.ops.len(), device.ops.len() + device.calls.len());
    let syncs = rows + device.rows.len();
    match place {
        op if op < calls => Event::Op(op),
        call if call < rows => Event::Call(call - calls),
        row if row < syncs => Event::Row(row - rows),
        sync => Event::Sync(sync - syncs),
    }
}

/// An instant since the Unix epoch, ns.
pub(crate) fn epoch(trace: &LinkedTrace, time: TimeNs) -> i64 {
    trace.device.header.base_ns.saturating_add(time.0)
}

pub(crate) fn batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: Columns,
) -> Result<RecordBatch, Error> {
    let events: Vec<Event> = places.clone().map(|place| at(trace, place)).collect();
    columns.number("event", places.map(|place| Some(number(place))));
    what(trace, &events, &mut columns);
    ids(trace, &events, &mut columns);
    of_ops(trace, &events, &mut columns);
    of_rows(trace, &events, &mut columns);
    columns.finish()
}

fn what(trace: &LinkedTrace, events: &[Event], columns: &mut Columns) {
    let device = &trace.device;
    let name = |event: &Event| match *event {
        Event::Op(op) => device.ops.name[op],
        Event::Call(call) => device.calls.name[call],
        Event::Row(row) => device.rows.name[row],
        Event::Sync(sync) => device.syncs.name[sync],
    };
    let category = |event: &Event| match *event {
        Event::Row(row) => some(device.names.get(device.rows.category[row])),
        _ => None,
    };
    columns
        .text("kind", events.iter().map(|event| Some(kind(trace, *event))))
        .text("category", events.iter().map(category))
        .text(
            "name",
            events
                .iter()
                .map(|event| Some(device.names.get(name(event)))),
        )
        .signed(
            "start_ns",
            events
                .iter()
                .map(|event| Some(epoch(trace, span(trace, *event).0))),
        )
        .signed(
            "duration_ns",
            events.iter().map(|event| Some(span(trace, *event).1.0)),
        );
    threads(trace, columns, || {
        events.iter().map(|event| match *event {
            Event::Op(op) => Some(device.ops.thread[op].index()),
            Event::Call(call) => Some(device.calls.thread[call].index()),
            _ => None,
        })
    });
    queues(columns, || {
        events.iter().map(|event| match *event {
            Event::Row(row) => device.queues.get(device.rows.queue[row].index()),
            Event::Sync(sync) => device.queues.get(device.syncs.queue[sync].index()),
            _ => None,
        })
    });
}

fn kind(trace: &LinkedTrace, event: Event) -> &'static str {
    let device = &trace.device;
    match event {
        Event::Op(op) if device.ops.annotation[op] => "annotation",
        Event::Op(_) => "op",
        Event::Call(_) => "call",
        Event::Row(row) => match device.rows.kind[row] {
            RowKind::Kernel => "kernel",
            RowKind::Memcpy => "memcpy",
            RowKind::Memset => "memset",
        },
        Event::Sync(_) => "sync",
    }
}

fn span(trace: &LinkedTrace, event: Event) -> (TimeNs, DurationNs) {
    let device = &trace.device;
    match event {
        Event::Op(op) => (device.ops.start[op], device.ops.duration[op]),
        Event::Call(call) => (device.calls.start[call], device.calls.duration[call]),
        Event::Row(row) => (device.rows.start[row], device.rows.duration[row]),
        Event::Sync(sync) => (device.syncs.start[sync], device.syncs.duration[sync]),
    }
}

/// `pid` and `tid` of threads, and both as text where they are no numbers.
pub(crate) fn threads<I: Iterator<Item = Option<usize>>>(
    trace: &LinkedTrace,
    columns: &mut Columns,
    threads: impl Fn() -> I,
) {
    let all = &trace.device.threads;
    let number = |label: TrackLabel| {
        if let TrackLabel::Int(number) = label {
            Some(number)
        } else {
            None
        }
    };
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
        .text(
            "thread",
            threads().map(|thread| labels.get(thread?).map(String::as_str)),
        )
        .signed("pid", threads().map(|thread| number(all.get(thread?)?.pid)))
        .signed("tid", threads().map(|thread| number(all.get(thread?)?.tid)));
}

/// `device`, `context` and `stream` of queues.
pub(crate) fn queues<'t, I: Iterator<Item = Option<&'t DeviceQueue>>>(
    columns: &mut Columns,
    queues: impl Fn() -> I,
) {
    columns
        .signed(
            "device",
            queues().map(|queue| queue.map(|queue| queue.device)),
        )
        .signed(
            "context",
            queues().map(|queue| queue.map(|queue| queue.context)),
        )
        .signed(
            "stream",
            queues().map(|queue| queue.map(|queue| queue.stream)),
        );
}

/// How events refer to each other: `parent` is the op around an op or call and the op that a device row is of, `launch` the call
/// that caused a device row.
fn ids(trace: &LinkedTrace, events: &[Event], columns: &mut Columns) {
    let device = &trace.device;
    let correlation = |event: &Event| match *event {
        Event::Op(_) => Correlation::NONE,
        Event::Call(call) => device.calls.correlation[call],
        Event::Row(row) => device.rows.correlation[row],
        Event::Sync(sync) => device.syncs.correlation[sync],
    };
    let external = |event: &Event| match *event {
        Event::Op(op) => known(device.ops.external_id[op]),
        Event::Call(call) => known(device.calls.external_id[call]),
        Event::Row(row) => known(device.rows.external_id[row]),
        Event::Sync(_) => None,
    };
    let parent = |event: &Event| match *event {
        Event::Op(op) => trace.op_parent[op].get(),
        Event::Call(call) => trace.call_op[call].get(),
        Event::Row(row) => trace.row_op[row].get(),
        Event::Sync(_) => None,
    };
    let launch = |event: &Event| match *event {
        Event::Row(row) => trace.row_call[row].get().map(|call| of_call(trace, call.0)),
        _ => None,
    };
    columns
        .signed(
            "correlation",
            events
                .iter()
                .map(|event| correlation(event).get().map(|id| id.0)),
        )
        .signed("external_id", events.iter().map(external))
        .number(
            "parent",
            events.iter().map(|event| parent(event).map(|op| op.0)),
        )
        .number("launch", events.iter().map(launch));
}

fn of_ops(trace: &LinkedTrace, events: &[Event], columns: &mut Columns) {
    let (device, ops) = (&trace.device, &trace.device.ops);
    let each = || {
        events.iter().map(|event| {
            if let Event::Op(op) = *event {
                Some(op)
            } else {
                None
            }
        })
    };
    let host = |op: usize| {
        trace
            .host
            .as_ref()
            .zip(trace.op_host.get(op).copied().and_then(HostIdx::get))
    };
    let list = |op: usize, own: NameId, of: fn(&etlink_model::HostTrace, usize) -> NameId| {
        let text = match host(op) {
            Some((host, node)) => host.names.get(of(host, node.index())),
            None => device.names.get(own),
        };
        some(text)
    };
    columns
        .unsigned(
            "rf_id",
            each().map(|op| ops.rf_id[op?].get().map(|id| id.0)),
        )
        .signed("seq_id", each().map(|op| known(ops.seq_id[op?])))
        .unsigned(
            "host_node",
            each().map(|op| host(op?).map(|(host, node)| host.nodes.id[node.index()])),
        )
        .text("matched_by", each().map(|op| rule(trace.op_rule[op?])))
        .signed(
            "exclusive_ns",
            each().map(|op| Some(trace.op_exclusive[op?].0)),
        )
        .text(
            "input_shapes",
            each().map(|op| {
                list(op?, ops.shapes[op?], |host, node| {
                    host.nodes.inputs[node].shapes
                })
            }),
        )
        .text(
            "input_types",
            each().map(|op| {
                list(op?, ops.types[op?], |host, node| {
                    host.nodes.inputs[node].types
                })
            }),
        );
}

fn rule(rule: MatchRule) -> Option<&'static str> {
    match rule {
        MatchRule::None => None,
        MatchRule::Id => Some("id"),
        MatchRule::Order => Some("order"),
    }
}

fn of_rows(trace: &LinkedTrace, events: &[Event], columns: &mut Columns) {
    let rows = &trace.device.rows;
    let each = || {
        events.iter().map(|event| {
            if let Event::Row(row) = *event {
                Some(row)
            } else {
                None
            }
        })
    };
    let kernels = || each().map(|row| row.filter(|row| rows.kind[*row] == RowKind::Kernel));
    let copies = || each().map(|row| row.filter(|row| rows.kind[*row] != RowKind::Kernel));
    columns
        .text(
            "no_launch",
            each().map(|row| no_launch(trace.row_no_launch[row?])),
        )
        .unsigned("bytes", copies().map(|row| Some(rows.bytes[row?])))
        .unsigned(
            "graph_node",
            each().map(|row| Some(rows.graph_node[row?]).filter(|node| *node != 0)),
        );
    for (place, name) in ["grid_x", "grid_y", "grid_z"].into_iter().enumerate() {
        columns.number(
            name,
            kernels().map(|row| {
                Some(rows.grid[row?])
                    .filter(|grid| *grid != [0; 3])
                    .map(|grid| grid[place])
            }),
        );
    }
    for (place, name) in ["block_x", "block_y", "block_z"].into_iter().enumerate() {
        columns.number(
            name,
            kernels().map(|row| {
                Some(rows.block[row?])
                    .filter(|block| *block != [0; 3])
                    .map(|block| block[place])
            }),
        );
    }
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
