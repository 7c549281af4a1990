//! Reads and links drawn traces, and checks the invariants of every linked trace.

use etlink_link::{EdgeKind, Error, LinkOptions, LinkedTrace, NodeKind};
use etlink_model::{
    AnomalyKind, DeviceTrace, DurationNs, HostTrace, NodeIdx, RowIdx, TimeNs, TrackIdx,
};
use etlink_testing::{HostSchema, TraceBuilder};

pub(crate) fn device(draw: &TraceBuilder) -> DeviceTrace {
    etlink_formats::kineto::read(
        &draw.kineto()[..],
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect("a device trace")
}

pub(crate) fn host(draw: &TraceBuilder) -> HostTrace {
    etlink_formats::host::read(
        &draw.host(HostSchema::V1_1_1)[..],
        etlink_formats::host::HostReadOptions::default(),
    )
    .expect("a host trace")
}

/// Links a device trace alone.
pub(crate) fn alone(draw: &TraceBuilder) -> LinkedTrace {
    checked(etlink_link::link(None, device(draw), LinkOptions::default()).expect("links"))
}

/// Links a device trace alone, after replacing the first `old` in its text with `new`.
pub(crate) fn alone_changed(draw: &TraceBuilder, old: &str, new: &str) -> LinkedTrace {
    let text = String::from_utf8(draw.kineto()).expect("text");
    let changed = text.replacen(old, new, 1);
    assert_ne!(text, changed);
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let device = etlink_formats::kineto::read(changed.as_bytes(), options).expect("a device trace");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

/// Links both traces of the drawing.
pub(crate) fn both(draw: &TraceBuilder) -> LinkedTrace {
    checked(pair(draw, draw).expect("links"))
}

/// Links the host trace of one drawing with the device trace of another.
pub(crate) fn pair(of_host: &TraceBuilder, of_device: &TraceBuilder) -> Result<LinkedTrace, Error> {
    etlink_link::link(
        Some(host(of_host)),
        device(of_device),
        LinkOptions::default(),
    )
}

/// All anomalies with their counts.
pub(crate) fn anomalies(trace: &LinkedTrace) -> Vec<(AnomalyKind, u64)> {
    trace
        .report
        .anomalies
        .iter()
        .map(|(kind, anomaly)| (kind, anomaly.count))
        .collect()
}

/// Every device row as `row <- call of op`, in order of time.
pub(crate) fn launches(trace: &LinkedTrace) -> Vec<String> {
    let device = &trace.device;
    let name = |name| device.names.get(name);
    let launch = |row: usize| {
        let call = trace.row_call[row]
            .get()
            .map_or("none", |call| name(device.calls.name[call.index()]));
        let op = trace.row_op[row]
            .get()
            .map_or("none", |op| name(device.ops.name[op.index()]));
        format!("{} <- {call} of {op}", name(device.rows.name[row]))
    };
    (0..device.rows.len()).map(launch).collect()
}

/// Lists edges of a kind as `from -> to`, by `to`, without those from boundaries.
pub(crate) fn edges(trace: &LinkedTrace, kind: EdgeKind) -> Vec<String> {
    let name = |node: NodeIdx| trace.name(&trace.nodes.get(node)).to_owned();
    let of_boundary =
        |edge: &etlink_link::Edge| trace.nodes.kind[edge.from.index()] == NodeKind::Boundary;
    let of_kind = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == kind && !of_boundary(edge));
    of_kind
        .map(|edge| format!("{} -> {}", name(edge.from), name(edge.to)))
        .collect()
}

/// All delays as `kind start-end`, in us, in order of time.
pub(crate) fn delays(trace: &LinkedTrace) -> Vec<String> {
    let nodes = trace
        .nodes
        .indices()
        .map(|at| trace.nodes.get(at))
        .filter(|node| node.kind.is_delay() && node.duration > DurationNs(0));
    nodes
        .map(|node| {
            format!(
                "{} {}-{}",
                trace.name(&node),
                node.start.0 / 1_000,
                (node.start + node.duration).0 / 1_000
            )
        })
        .collect()
}

/// Lists the nodes of host thread 0 after its boundary as `name start-end`, in us.
pub(crate) fn thread(trace: &LinkedTrace) -> Vec<String> {
    let nodes = trace
        .nodes
        .indices()
        .map(|at| trace.nodes.get(at))
        .filter(|node| !node.on_device && node.track == TrackIdx(0));
    nodes
        .skip(1)
        .map(|node| {
            format!(
                "{} {}-{}",
                trace.name(&node),
                node.start.0 / 1_000,
                (node.start + node.duration).0 / 1_000
            )
        })
        .collect()
}

/// Asserts the invariants of every linked trace.
pub(crate) fn checked(trace: LinkedTrace) -> LinkedTrace {
    every_row_is_one_node(&trace);
    edges_go_forward_in_number_and_time(&trace);
    streams_are_in_order(&trace);
    threads_add_up(&trace);
    counts_agree(&trace);
    trace
}

/// Lists the nodes of device rows.
fn rows(trace: &LinkedTrace) -> Vec<NodeIdx> {
    trace
        .nodes
        .indices()
        .filter(|&at| trace.row_of(&trace.nodes.get(at)).is_some())
        .collect()
}

/// Returns a node and the delays that it waits for.
fn with_delays(trace: &LinkedTrace, node: NodeIdx) -> Vec<NodeIdx> {
    let is_delay = |from: &NodeIdx| {
        let from = from.index();
        trace.nodes.on_device[from] && trace.nodes.kind[from].is_delay()
    };
    let deps = trace.edges.deps(node).iter();
    let delays = deps.map(|edge| edge.from).filter(is_delay);
    [node].into_iter().chain(delays).collect()
}

fn every_row_is_one_node(trace: &LinkedTrace) {
    let mut sources: Vec<u32> = rows(trace)
        .iter()
        .map(|at| trace.nodes.source[at.index()])
        .collect();
    sources.sort_unstable();
    assert!(
        sources
            .iter()
            .copied()
            .eq(0..trace.device.rows.len() as u32),
        "every device row is a node, once"
    );
    for at in rows(trace) {
        let node = trace.nodes.get(at);
        let row = trace.row_of(&node).unwrap_or(RowIdx::NONE).index();
        let number = trace.device.queues[trace.device.rows.queue[row].index()].device;
        let mut clocks = trace.report.device_clocks.iter();
        let clock = clocks.find(|clock| clock.device == number);
        let ahead = clock.map_or(DurationNs(0), |clock| clock.ahead_ns);
        let drifts = clock.is_some_and(|clock| clock.drift_ppb != 0);
        let recorded = (
            trace.device.rows.start[row],
            trace.device.rows.duration[row],
        );
        if !drifts {
            assert_eq!((node.start + ahead, node.duration), recorded);
        }
        let edges = with_delays(trace, at)
            .into_iter()
            .flat_map(|node| trace.edges.deps(node).iter());
        let launched = trace.row_no_launch[row] == etlink_link::NoLaunch::Launched;
        let launches = edges.filter(|edge| edge.kind == EdgeKind::Launch).count();
        assert_eq!(
            launches,
            usize::from(launched),
            "a launched row has its launch as a dep"
        );
    }
}

/// Each row comes after every row of its queue that ended before it began, directly or through
/// others.
fn streams_are_in_order(trace: &LinkedTrace) {
    let rows = rows(trace);
    if rows.len() > 300 {
        return;
    }
    let mut before: Vec<Vec<NodeIdx>> = vec![vec![]; trace.nodes.len()];
    for &at in &rows {
        let edges = with_delays(trace, at)
            .into_iter()
            .flat_map(|node| trace.edges.deps(node).iter());
        let follows = edges
            .filter(|edge| edge.kind == EdgeKind::StreamOrder)
            .map(|edge| edge.from);
        let mut all: Vec<NodeIdx> = follows
            .flat_map(|from| before[from.index()].iter().copied().chain([from]))
            .collect();
        all.sort_unstable();
        all.dedup();
        before[at.index()] = all;
    }
    for &at in &rows {
        let node = trace.nodes.get(at);
        let earlier = rows
            .iter()
            .filter(|&&other| other != at && trace.nodes.track[other.index()] == node.track);
        for &other in earlier {
            let (begun, ended) = (trace.nodes.start[other.index()], trace.nodes.end(other));
            // rows of length 0 at the same instant are not ordered
            let orders = ended < node.start || ended == node.start && begun < node.start;
            assert!(
                !orders || before[at.index()].contains(&other),
                "node {} does not follow {}",
                at.0,
                other.0
            );
        }
    }
}

fn edges_go_forward_in_number_and_time(trace: &LinkedTrace) {
    // An edge proven by ids or by a call's meaning is kept even if the clocks contradict it, and is
    // counted.
    let is_counted = |kind| trace.report.anomalies.count(kind) > 0;
    // A row can start a few microseconds before a long launch call returns.
    let early = if is_counted(AnomalyKind::LaunchCorrected) {
        1_000_000
    } else {
        30_000
    };
    let late = if is_counted(AnomalyKind::WaitCorrected) {
        i64::MAX / 2
    } else {
        2_000
    };
    for edge in trace.edges.iter() {
        assert!(edge.from < edge.to, "{edge:?}");
        let (from, to) = (trace.nodes.get(edge.from), trace.nodes.get(edge.to));
        let tolerance = match edge.kind {
            EdgeKind::ProgramOrder
            | EdgeKind::Handoff
            | EdgeKind::Tensor
            | EdgeKind::Collective => 0,
            EdgeKind::Launch => early,
            EdgeKind::EventWait => 2_000,
            EdgeKind::HostWait => late,
            EdgeKind::StreamOrder => 1_000,
        };
        // With programmatic dependent launch a row starts before its predecessor ends.
        let is_ordered = edge.kind == EdgeKind::StreamOrder
            && from.start <= to.start
            && from.start + from.duration <= to.start + to.duration;
        assert!(
            is_ordered || (from.start + from.duration).0 <= to.start.0 + tolerance,
            "{edge:?} contradicts the times"
        );
    }
}

/// Slices, gaps and waits of a thread follow each other and add up to its wall time; each op has
/// one first slice.
fn threads_add_up(trace: &LinkedTrace) {
    let mut exclusive = vec![0; trace.device.ops.len()];
    let mut first = vec![0; trace.device.ops.len()];
    // if ranges overlap, the running one may have ended before the last of them
    let overlaps = anomalies(trace).iter().any(|(kind, _)| {
        matches!(
            kind,
            AnomalyKind::PartialOverlap | AnomalyKind::HostTimeImpossible
        )
    });
    // an edge that clock errors reversed is counted instead
    let dropped = anomalies(trace)
        .iter()
        .any(|(kind, _)| *kind == AnomalyKind::WaitContradicted);
    let rounding = DurationNs(if overlaps { i64::MAX } else { 1_000 });
    for thread in 0..trace.device.threads.len() as u32 {
        let is_own = |at: &NodeIdx| {
            let at = at.index();
            !trace.nodes.on_device[at] && trace.nodes.track[at] == TrackIdx(thread)
        };
        let nodes: Vec<NodeIdx> = trace.nodes.indices().filter(is_own).collect();
        for pair in nodes.windows(2) {
            let (before, after) = (trace.nodes.get(pair[0]), trace.nodes.get(pair[1]));
            let ended = before.start + before.duration;
            assert!(
                before.duration >= DurationNs(0) && ended <= after.start,
                "no overlap"
            );
            let of_call = waited_until(trace, pair[1], EdgeKind::HostWait)
                .is_some_and(|until| after.start - until <= rounding);
            // a worker wakes some time after it received work
            let of_worker = waited_until(trace, pair[1], EdgeKind::Handoff)
                .is_some_and(|until| until <= after.start);
            // recorded waits between threads, written by `etlink record`
            let waits = &trace.device.waits;
            let recorded = (0..waits.len()).any(|wait| {
                waits.thread[wait].0 == thread
                    && waits.start[wait] <= ended.max(before.start)
                    && waits.start[wait] + waits.duration[wait] == after.start
            });
            assert!(
                ended == after.start || of_call || of_worker || recorded || dropped,
                "no hole but a wait"
            );
            let ordered = trace
                .edges
                .deps(pair[1])
                .iter()
                .any(|edge| edge.kind == EdgeKind::ProgramOrder && edge.from == pair[0]);
            assert!(ordered, "program order");
        }
        for node in nodes
            .iter()
            .map(|&at| trace.nodes.get(at))
            .filter(|node| node.source != u32::MAX)
        {
            if node.kind != NodeKind::Runtime {
                exclusive[node.source as usize] += node.duration.0;
                first[node.source as usize] += usize::from(node.first);
            }
        }
    }
    let want: Vec<i64> = trace
        .op_exclusive
        .iter()
        .map(|duration| duration.0)
        .collect();
    assert_eq!(exclusive, want);
    assert!(first.iter().all(|count| *count == 1), "{first:?}");
}

/// Returns the time at which the last of what a host node waited for in this way had ended.
fn waited_until(trace: &LinkedTrace, node: NodeIdx, kind: EdgeKind) -> Option<TimeNs> {
    let waits = trace
        .edges
        .deps(node)
        .iter()
        .filter(|edge| edge.kind == kind);
    waits.map(|edge| trace.nodes.end(edge.from)).max()
}

fn counts_agree(trace: &LinkedTrace) {
    let report = &trace.report;
    assert_eq!(report.nodes.values().sum::<u64>(), trace.nodes.len() as u64);
    assert_eq!(report.edges.values().sum::<u64>(), trace.edges.len() as u64);
    assert_eq!(
        report.device_rows,
        report.launched + report.no_launch.values().sum::<u64>()
    );
    let by_row: usize = trace
        .nodes
        .indices()
        .map(|node| trace.edges.deps(node).len())
        .sum();
    assert_eq!(by_row, trace.edges.len());
}
