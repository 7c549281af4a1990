//! Rebuilds the two traces of an ET+ from its nodes, so that they can be linked again.
//!
//! Ops have times, parents and thread numbers; device rows have times, streams and an owning op.
//! Runtime calls, waits and events are missing. A row is launched as late in its op as its own
//! start allows, because an earlier launch would say less about when the row had to wait.

use crate::convert::row_kind;
use crate::read::ChakraGraph;
use etlink_model::{
    Correlation, CpuOp, DeviceQueue, DeviceRow, DeviceTrace, DeviceTraceAssembler, DurationNs,
    Failure, HostTrace, NameId, RowKind, RuntimeCall, ThreadIdx, TimeNs,
};
use rustc_hash::FxHashMap;

/// Scope of user annotations, `RecordScope::USER_SCOPE`.
const USER_SCOPE: u8 = 7;
/// Name of launches that were not recorded.
const LAUNCH: &str = "launch";
/// Time by which a launch precedes its op's end, in nanoseconds: at its end, an op is over.
const INSTANT_NS: i64 = 1;

/// An op with the times of its node.
#[derive(Clone, Copy)]
struct TimedOp {
    thread: ThreadIdx,
    start: i64,
    end: i64,
}

/// Returns the host trace and the device trace. `lines` are all nodes of the file, read as a host
/// trace; `graph` are the same nodes with their times.
///
/// # Errors
/// Fails if no node has a time, or if there are too many.
pub fn rebuilt_traces(
    mut lines: HostTrace,
    graph: &ChakraGraph,
) -> Result<(HostTrace, DeviceTrace), Failure> {
    let mut assembler = DeviceTraceAssembler::default();
    let pid = lines.header.pid.unwrap_or(0);
    let mut ops: FxHashMap<u64, TimedOp> = FxHashMap::default();
    for place in (0..graph.len()).filter(|place| !is_row(graph, *place)) {
        let row = lines.find(graph.id[place]);
        let Some(row) = row.filter(|row| !lines.is_root(*row)) else {
            continue;
        };
        let Some((start, duration)) = times(graph, place) else {
            continue;
        };
        let nodes = &lines.nodes;
        let timed = TimedOp {
            thread: assembler.thread_index(pid, i64::from(nodes.tid[row])),
            start,
            end: start + duration,
        };
        ops.insert(graph.id[place], timed);
        let name = assembler.intern(lines.names.get(nodes.name[row]));
        let shapes = assembler.intern(lines.names.get(nodes.inputs[row].shapes));
        let types = assembler.intern(lines.names.get(nodes.inputs[row].types));
        assembler.trace.ops.push(CpuOp {
            name,
            thread: timed.thread,
            start: TimeNs(timed.start),
            duration: DurationNs(timed.end - timed.start),
            rf_id: nodes.rf_id[row],
            external_id: -1,
            seq_id: nodes.seq_id[row],
            fwd_thread: nodes.fw_tid[row],
            annotation: nodes.scope[row] == USER_SCOPE,
            unfinished: false,
            shapes,
            types,
            strides: NameId::EMPTY,
            values: NameId::EMPTY,
            collective: u32::MAX,
        });
    }
    let mut launches = 0;
    for place in (0..graph.len()).filter(|place| is_row(graph, *place)) {
        let Some((start, duration)) = times(graph, place) else {
            continue;
        };
        let owner = graph.ctrl_deps.list(place).first();
        let owner = owner.and_then(|owner| ops.get(owner)).copied();
        launches += 1;
        let mut correlation = Correlation::NONE;
        if let Some(owner) = owner.filter(|owner| owner.start <= start) {
            correlation = Correlation(launches);
            let latest = start.min(owner.end - INSTANT_NS).max(owner.start);
            let name = assembler.intern(LAUNCH);
            assembler.trace.calls.push(RuntimeCall {
                name,
                thread: owner.thread,
                start: TimeNs(latest),
                duration: DurationNs(0),
                correlation,
                external_id: -1,
                ..RuntimeCall::default()
            });
        }
        push_row(&mut assembler, graph, place, (start, duration, correlation));
    }
    if assembler.trace.ops.is_empty() && assembler.trace.rows.is_empty() {
        let problem =
            "none of its nodes has a time: the host trace was not linked to a device trace";
        return Err(Failure::new(problem));
    }
    let device = assembler.finish();
    let device = device.ok_or_else(|| Failure::new("it has too many nodes"))?;
    drop_rows(&mut lines, graph);
    Ok((lines, device))
}

fn is_row(graph: &ChakraGraph, place: usize) -> bool {
    graph.is_cpu_op[place] == Some(false)
}

fn times(graph: &ChakraGraph, place: usize) -> Option<(i64, i64)> {
    let start = graph.start_ns[place]?;
    let duration = graph.inclusive_ns[place];
    let in_range = TimeNs(start).is_in_range() && TimeNs(duration).is_in_range();
    (in_range && duration >= 0).then_some((start, duration))
}

fn push_row(
    assembler: &mut DeviceTraceAssembler,
    graph: &ChakraGraph,
    place: usize,
    (start, duration, correlation): (i64, i64, Correlation),
) {
    let name = graph.name_of(place);
    let kind = row_kind(name);
    let category = match kind {
        RowKind::Memcpy => "gpu_memcpy",
        RowKind::Memset => "gpu_memset",
        RowKind::Kernel | RowKind::GraphNode => "kernel",
    };
    let (name, category) = (assembler.intern(name), assembler.intern(category));
    let at = graph.place_of(place);
    let queue = assembler.queue_index(DeviceQueue {
        device: at.device.unwrap_or(0),
        context: 0,
        stream: at.stream.unwrap_or(0),
    });
    assembler.trace.rows.push(DeviceRow {
        kind,
        category,
        name,
        queue,
        start: TimeNs(start),
        duration: DurationNs(duration),
        correlation,
        external_id: -1,
        gb_per_s: -1.0,
        collective: u32::MAX,
        ..DeviceRow::default()
    });
}

/// Keeps only the nodes that belong to a host trace.
fn drop_rows(lines: &mut HostTrace, graph: &ChakraGraph) {
    let rows: rustc_hash::FxHashSet<u64> = (0..graph.len())
        .filter(|place| is_row(graph, *place))
        .map(|place| graph.id[place])
        .collect();
    let kept: Vec<u32> = (0..)
        .zip(&lines.nodes.id)
        .filter(|(_, id)| !rows.contains(id))
        .map(|(row, _)| row)
        .collect();
    lines.nodes.reorder(&kept);
    // Only records that the kept nodes refer to, in the order of the nodes.
    let mut order = vec![];
    for record in &mut lines.nodes.collective {
        if *record != u32::MAX {
            order.push(*record);
            *record = u32::try_from(order.len() - 1).unwrap_or(u32::MAX);
        }
    }
    lines.collectives.reorder(&order);
}

#[cfg(test)]
mod tests;
