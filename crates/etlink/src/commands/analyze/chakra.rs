//! A written graph (`.et`, its JSON, ET+) as a device trace, as far as its nodes tell.
//!
//! Device nodes become rows, runtime nodes calls (all slices of one together), communication nodes have type, size and group. Annotations, sizes of
//! copies, grids and allocations are not there, nor communications that no simulator runs, such as barriers; steps are in a tree (ET+) alone.

use crate::commands::check::GroupList;
use crate::commands::replay::chakra::{Numbers, on_device};
use anyhow::{Result, bail};
use etlink_chakra::proto::{CollectiveCommType, NodeType};
use etlink_chakra::read;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{
    Collective, Correlation, CpuOp, DeviceQueue, DeviceRow, DeviceTrace, DurationNs, HostThread,
    NameId, QueueIdx, RowKind, RuntimeCall, ThreadIdx, TimeNs, TrackLabel,
};
use indexmap::IndexMap;

/// What is said above the tables.
pub(super) const NOTE: &str = "a written graph says nothing of steps (ET+ does), sizes of copies, grids, allocations, barriers and when Gloo began; \
what a thread did for less than 1 us counts to the call before it";

/// The graph of the rows of `file`.
pub(super) fn linked(
    file: &read::Graph,
    name: &str,
    rank: Option<i64>,
    groups: &GroupList,
) -> Result<LinkedTrace> {
    if file.start_ns.iter().all(Option::is_none) {
        bail!("{name} has no times: there is nothing to analyze");
    }
    match trace_of(file, rank, groups)? {
        Some(trace) => Ok(trace),
        None => {
            bail!("{name} has neither device nodes nor communications: there is nothing to analyze")
        }
    }
}

/// The same, if it has rows, communications of the host or, being a tree, steps. Its own edges tell only when calls began: what a row waited for is told from the times.
pub(in crate::commands) fn trace_of(
    file: &read::Graph,
    rank: Option<i64>,
    groups: &GroupList,
) -> Result<Option<LinkedTrace>> {
    let mut device = DeviceTrace {
        bytes: file.bytes,
        ..DeviceTrace::default()
    };
    device.header.rank = rank;
    device.header.world_size = file
        .metadata
        .iter()
        .find(|(key, _)| key == "world_size")
        .and_then(|(_, size)| size.parse().ok());
    let (mut rows, mut calls, mut ops, numbers) =
        (vec![], IndexMap::new(), vec![], Numbers::new(file));
    for index in 0..file.len() {
        let Some(start) = file.start_ns[index].map(TimeNs) else {
            continue;
        };
        let (kind, duration) = (
            file.names.get(file.kind[index]),
            DurationNs(file.inclusive_ns[index].max(0)),
        );
        let correlation = file.correlation[index].map_or(Correlation::NONE, Correlation);
        let on_device = on_device(file, index, file.place_of(index));
        if matches!(
            kind,
            "boundary" | "unexplained_wait" | "latency" | "host_gap"
        ) {
            continue;
        }
        let id = device.names.intern(file.name_of(index));
        if on_device {
            rows.push(row(
                file,
                index,
                &mut device,
                groups,
                DeviceRow {
                    name: id,
                    start,
                    duration,
                    correlation,
                    ..DeviceRow::default()
                },
            ));
        } else if file.format.is_tree() && file.name_of(index).starts_with("ProfilerStep#") {
            let thread = thread(file, index, &mut device);
            ops.push(CpuOp {
                name: id,
                thread,
                start,
                duration,
                annotation: true,
                ..op()
            });
        } else if is_communication(file, index) {
            let collective = collective(file, index, &mut device, groups);
            ops.push(CpuOp {
                name: id,
                thread: thread(file, index, &mut device),
                start,
                duration,
                collective,
                ..op()
            });
        } else if kind == "runtime" && correlation != Correlation::NONE {
            let (thread, begun) = (
                thread(file, index, &mut device),
                begun(file, &numbers, index, start),
            );
            let new = || RuntimeCall {
                name: id,
                thread,
                start: begun,
                duration,
                correlation,
                external_id: -1,
                kernel: NameId::EMPTY,
            };
            let call = calls.entry((correlation, thread, id)).or_insert_with(new);
            // slices come in order of time
            call.duration = call.duration.max(start + duration - call.start);
        }
    }
    rows.sort_by_key(|row| row.start);
    calls.sort_by(|_, call, _, other| call.start.cmp(&other.start));
    ops.sort_by_key(|op| op.start);
    ops.into_iter().for_each(|op| device.ops.push(op));
    rows.into_iter().for_each(|row| device.rows.push(row));
    calls.into_values().for_each(|call| device.calls.push(call));
    if device.rows.is_empty() && device.ops.is_empty() {
        return Ok(None);
    }
    Ok(Some(etlink_link::link(
        None,
        device,
        LinkOptions::default(),
    )?))
}

/// An op without ids.
fn op() -> CpuOp {
    CpuOp {
        external_id: -1,
        seq_id: -1,
        collective: u32::MAX,
        ..CpuOp::default()
    }
}

fn is_communication(file: &read::Graph, index: usize) -> bool {
    matches!(
        file.node_type[index],
        NodeType::CommSendNode | NodeType::CommRecvNode | NodeType::CommCollNode
    )
}

/// When the call of this slice began. What it did before it waited for a device has no node: it follows on what its thread did before.
fn begun(file: &read::Graph, numbers: &Numbers, index: usize, start: TimeNs) -> TimeNs {
    let deps = |of: usize| {
        file.ctrl_deps
            .of(of)
            .iter()
            .chain(file.data_deps.of(of))
            .filter_map(|id| numbers.of(*id))
            .map(|dep| dep as usize)
    };
    // a latency that is a node has the deps of what it is before
    let of = deps(index)
        .find(|dep| file.names.get(file.kind[*dep]) == "latency")
        .unwrap_or(index);
    let waited = deps(of).any(|dep| on_device(file, dep, file.place_of(dep)));
    let same_thread = deps(of).filter(|dep| waited && file.place[*dep] == file.place[index]);
    let ends = same_thread.filter_map(|dep| {
        Some(TimeNs(file.start_ns[dep]?) + DurationNs(file.duration_ns[dep].max(0)))
    });
    ends.max().map_or(start, |end| end.min(start))
}

fn row(
    file: &read::Graph,
    index: usize,
    device: &mut DeviceTrace,
    groups: &GroupList,
    base: DeviceRow,
) -> DeviceRow {
    let (place, name) = (file.place_of(index), file.name_of(index));
    let queue = DeviceQueue {
        device: place.device.unwrap_or(0),
        context: 0,
        stream: place.stream.unwrap_or(0),
    };
    let kind = match name {
        name if name.starts_with("Memcpy") => RowKind::Memcpy,
        name if name.starts_with("Memset") => RowKind::Memset,
        _ => RowKind::Kernel,
    };
    let collective = collective(file, index, device, groups);
    let queue = QueueIdx::new(position(&mut device.queues, queue));
    DeviceRow {
        kind,
        queue,
        external_id: -1,
        gb_per_s: -1.0,
        collective,
        ..base
    }
}

/// Type, size and group of a communication node.
fn collective(
    file: &read::Graph,
    index: usize,
    device: &mut DeviceTrace,
    groups: &GroupList,
) -> u32 {
    let comm = file.comm_of(index);
    let name = match file.node_type[index] {
        NodeType::CommSendNode => "send",
        NodeType::CommRecvNode => "recv",
        NodeType::CommCollNode => {
            let kind = comm
                .comm_type
                .and_then(|kind| CollectiveCommType::try_from(i32::try_from(kind).ok()?).ok());
            kind.map_or("", |kind| kind.as_str_name())
        }
        _ => return u32::MAX,
    };
    let bytes = comm
        .size
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(0);
    let group = comm.group.map_or("", |group| file.names.get(group));
    let ranks = groups.get(group);
    let world = device.header.world_size.filter(|_| group.is_empty());
    let group_size = ranks
        .map(|ranks| ranks.len() as u64)
        .or(world.and_then(|size| u64::try_from(size).ok()))
        .unwrap_or(0);
    // the size of an all-gather is that of a rank's own part
    let out_elements = if name == CollectiveCommType::AllGather.as_str_name() {
        bytes.saturating_mul(group_size.max(1))
    } else {
        0
    };
    let ranks = ranks.map_or(String::new(), |ranks| format!("{ranks:?}"));
    let record = Collective {
        name: device.names.intern(name),
        // what there are so many of is bytes
        dtype: device.names.intern("Byte"),
        in_elements: bytes,
        out_elements,
        group_size,
        group_name: device.names.intern(group),
        group_ranks: device.names.intern(&ranks),
        src: comm.src.unwrap_or(-1),
        dst: comm.dst.unwrap_or(-1),
        ..Collective::absent()
    };
    device.collectives.push(record);
    u32::try_from(device.collectives.len() - 1).unwrap_or(u32::MAX)
}

fn thread(file: &read::Graph, index: usize, device: &mut DeviceTrace) -> ThreadIdx {
    let place = file.place_of(index);
    let mut label = |label: Option<TrackLabel>| match label {
        Some(TrackLabel::Text(text)) => TrackLabel::Text(device.names.intern(file.names.get(text))),
        Some(number) => number,
        None => TrackLabel::Int(0),
    };
    let thread = HostThread {
        pid: label(place.pid),
        tid: label(place.tid),
    };
    ThreadIdx::new(position(&mut device.threads, thread))
}

fn position<T: PartialEq>(all: &mut Vec<T>, wanted: T) -> usize {
    all.iter()
        .position(|known| *known == wanted)
        .unwrap_or_else(|| {
            all.push(wanted);
            all.len() - 1
        })
}
