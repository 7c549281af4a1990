//! Detects communication without concurrent device work.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::communication_time::CommunicationTime;
use crate::findings::covered_time::CoveredTime;
use crate::findings::detect::host_waits::{host_waits, pageable_copy};
use crate::findings::kind::CauseKind;
use crate::findings::text::sum_ns;
use crate::findings::view::{HostSync, RankView};
use crate::median_ns;
use crate::{RowClass, input_bytes};
use etlink_link::ranks::rank_list;
use etlink_link::{EdgeKind, LinkedTrace, Node, NodeKind};
use etlink_model::{CollectiveKind, NodeIdx, OpIdx, RowKind, dtype_bytes};
use etlink_replay::GraphEdits;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Name for communication whose kind the trace does not show.
pub(crate) const UNNAMED_COMMUNICATION: &str = "communication";

/// Most digits of a group name that a program may have chosen; longer numbers are addresses.
const MOST_DIGITS: usize = 8;

/// Collectives of one kind in one group.
#[derive(Default)]
struct CollectiveGroup {
    edits: GraphEdits,
    waits: GraphEdits,
    times: Vec<i64>,
    /// Total bytes of all messages, if each message has a size.
    bytes: Option<u64>,
    longest: Option<(i64, i64)>,
    /// Start and end of each.
    spans: Vec<(i64, i64)>,
    /// Time that the host blocks in copies queued behind the collectives, in ns.
    host_waited_ns: i64,
    /// Op with the longest such block, and its duration in ns.
    host_op: Option<(i64, String)>,
}

/// Returns communication by kind and group; the replay computes the exposed part.
pub(crate) fn exposed_communication(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let trace = view.trace;
    let mut groups: BTreeMap<String, CollectiveGroup> = BTreeMap::new();
    let communicates = &communication_time(view).nodes;
    let waits = host_comm_waits(trace);
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let start = view.node_span(index).0;
        if !communicates[index.index()] || start < view.span.0 || start > view.span.1 {
            continue;
        }
        let group = groups.entry(communication_name(view, index)).or_default();
        // Scaled, not removed: the ranks still meet there.
        group.edits.scaled.push((index, 0.0));
        // Later slices and waits belong to a call whose first slice has the total time.
        if node.on_device || trace.is_communication(&node) {
            let sum = if group.times.is_empty() {
                Some(0)
            } else {
                group.bytes
            };
            let both = sum.zip(message_bytes(trace, &node));
            group.bytes = both.map(|(sum, bytes)| bytes.saturating_add(sum));
            let (start, end) = communication_span(view, &waits, index);
            let length = end.saturating_sub(start);
            group.times.push(length);
            group.spans.push((start, end));
            if group.longest.is_none_or(|(longest, _)| length > longest) {
                group.longest = Some((length, start));
            }
        }
    }
    for (index, edits) in without_waits(trace, communicates) {
        if let Some(group) = groups.get_mut(&communication_name(view, index)) {
            group.waits.extend(&edits);
        }
    }
    add_host_waits(view, &mut groups);
    let mut candidates = vec![];
    let computation = computation_time(view);
    for (subject, mut group) in groups {
        // Calls on several threads or streams overlap: each moment counts once.
        let covered = CoveredTime::new(std::mem::take(&mut group.spans));
        let evidence = CauseEvidence {
            count: group.times.len() as u64,
            time_ns: sum_ns(group.times.iter().copied()),
            typical_ns: median_ns(&mut group.times),
            message_bytes: group
                .bytes
                .map(|bytes| bytes / group.times.len().max(1) as u64),
            exposed_ns: Some(covered.without(&computation)),
            start_ns: group.longest.map(|(_, start)| start),
            end_ns: group
                .longest
                .map(|(length, start)| start.saturating_add(length)),
            compared: (group.host_waited_ns > 0).then_some(group.host_waited_ns as f64),
            within: group.host_op.map(|(_, name)| name),
            ..CauseEvidence::default()
        };
        let kind = CauseKind::ExposedCommunication;
        candidates.push(CauseCandidate {
            other_edits: Some(group.waits),
            ..view.candidate(kind, subject, group.edits, evidence)
        });
    }
    candidates
}

/// Returns the bytes that a rank contributes to a communication; for a range of Gloo, the size of
/// its inputs. `None` if the trace does not show it.
fn message_bytes(trace: &LinkedTrace, node: &Node) -> Option<u64> {
    let Some(found) = trace.collective(node) else {
        if node.on_device {
            return None;
        }
        let op = trace.op_of(node)?;
        return input_bytes(trace, op.index()).filter(|bytes| *bytes > 0);
    };
    if found.kind() == CollectiveKind::Barrier {
        return Some(0);
    }
    let element = dtype_bytes(found.names.get(found.record.dtype))?;
    let bytes = element.saturating_mul(found.record.in_elements);
    (bytes > 0).then_some(bytes)
}

/// Returns true if a node is a wait in which a thread blocks for work that an earlier op began.
fn is_host_wait(trace: &LinkedTrace, index: NodeIdx) -> bool {
    let comm = trace.host_comm(&trace.nodes.get(index));
    comm.is_some_and(|comm| comm.is_wait && comm.node == index)
}

/// Returns the waits at the end of host communications, by the op that began each.
fn host_comm_waits(trace: &LinkedTrace) -> FxHashMap<OpIdx, NodeIdx> {
    let waits = trace.host_comms.iter().filter(|comm| comm.is_wait);
    waits.map(|comm| (comm.given, comm.node)).collect()
}

/// Returns the span of the communication that a node belongs to, as in `analyze` and in the replay
/// of all ranks (`RankSummary`): the later wait of the thread, or the call if there is no wait.
fn communication_span(
    view: &RankView<'_>,
    waits: &FxHashMap<OpIdx, NodeIdx>,
    index: NodeIdx,
) -> (i64, i64) {
    let node = view.trace.nodes.get(index);
    let is_carrier = view.trace.host_comm(&node).is_some();
    if node.on_device || is_carrier {
        return view.node_span(index);
    }
    let op = OpIdx(node.source);
    if let Some(wait) = waits.get(&op).filter(|wait| **wait > index) {
        return view.node_span(*wait);
    }
    // The first slice represents a call with several slices.
    let span = view.op_span(op);
    (span.start, span.end)
}

/// Returns the time in which devices compute. O(rows log rows).
fn computation_time(view: &RankView<'_>) -> CoveredTime {
    let computes = |row: &usize| view.rows.class[*row] == RowClass::Computation;
    let rows = view.rows_inside().filter(computes);
    CoveredTime::new(rows.map(|row| view.rows.span(row)).collect())
}

/// Returns the part of the window in which the host communicates, in ns, for a trace without a
/// device.
pub(crate) fn host_communication_ns(view: &RankView<'_>) -> i64 {
    let communicates = &communication_time(view).nodes;
    let waits = host_comm_waits(view.trace);
    let nodes = view.trace.nodes.indices();
    let nodes = nodes.filter(|node| communicates[node.index()]);
    let spans = nodes.map(|node| communication_span(view, &waits, node));
    // Communications of several threads can overlap: each moment counts once.
    CoveredTime::new(spans.collect()).between(view.span.0, view.span.1)
}

/// Returns the time in which the device communicates. O(nodes log nodes) on first use.
pub(crate) fn communication_time<'v>(view: &'v RankView<'_>) -> &'v CommunicationTime {
    view.communication
        .get_or_init(|| measure_communication(view))
}

fn measure_communication(view: &RankView<'_>) -> CommunicationTime {
    let nodes = communication_nodes(view);
    let on_device = view.trace.nodes.indices();
    let on_device =
        on_device.filter(|node| nodes[node.index()] && view.trace.nodes.on_device[node.index()]);
    let mut spans = vec![];
    let mut ends = vec![];
    for node in on_device {
        let span = view.node_span(node);
        spans.push(span);
        ends.push((span.1, node));
    }
    ends.sort_unstable();
    CommunicationTime {
        nodes,
        covered: CoveredTime::new(spans),
        ends,
    }
}

/// Returns the communication that ran during most of a host wait; `None` if there is none. O(log
/// nodes).
pub(crate) fn communication_waited_for(view: &RankView<'_>, sync: &HostSync) -> Option<NodeIdx> {
    let time = communication_time(view);
    let end = view.node_span(sync.node).0;
    let start = end.saturating_sub(sync.waited_ns);
    if time.covered.between(start, end).saturating_mul(2) <= sync.waited_ns {
        return None;
    }
    // The awaited communication has ended; the last one to end blocked the thread longest.
    let ended = time.ends.partition_point(|(other, _)| *other <= end);
    let (_, node) = time.ends[..ended].last()?;
    Some(*node)
}

/// Adds the host's blocked time in copies that are queued behind communication.
fn add_host_waits(view: &RankView<'_>, groups: &mut BTreeMap<String, CollectiveGroup>) {
    for sync in host_waits(view) {
        let Some(node) = communication_waited_for(view, sync) else {
            continue;
        };
        // Reading a number or synchronizing requests the wait explicitly, and has a kind of its
        // own.
        if pageable_copy(view, sync).is_none() {
            continue;
        }
        let Some(group) = groups.get_mut(&communication_name(view, node)) else {
            continue;
        };
        group.host_waited_ns = sync.waited_ns.saturating_add(group.host_waited_ns);
        let longest = group.host_op.as_ref().map_or(0, |(longest, _)| *longest);
        if sync.waited_ns > longest
            && let Some(op) = sync.op
        {
            group.host_op = Some((sync.waited_ns, view.op_name(op).to_owned()));
        }
    }
}

/// For each node: returns true if it communicates.
fn communication_nodes(view: &RankView<'_>) -> Vec<bool> {
    let trace = view.trace;
    let mut communicates = vec![];
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let row = trace.row_of(&node);
        let by_class =
            row.is_some_and(|row| view.rows.class[row.index()] == RowClass::Communication);
        let is_node = node.kind == NodeKind::Collective || is_host_wait(trace, index);
        communicates.push(is_node || by_class);
    }
    communicates
}

/// Returns edits without the waits for each communication. Of a stream or thread that also does
/// other work, only the node's own time can be removed.
///
/// Without their durations, collectives still synchronize the ranks, but no longer take turns on
/// the network. Without their waits, it is the other way round. O(nodes log nodes + edges).
pub(crate) fn without_waits(
    trace: &LinkedTrace,
    communicates: &[bool],
) -> BTreeMap<NodeIdx, GraphEdits> {
    let track = |index: NodeIdx| {
        let node = trace.nodes.get(index);
        (node.thread(), node.queue())
    };
    let is_work = |index: &NodeIdx| {
        let node = trace.nodes.get(*index);
        let row = trace.row_of(&node);
        let is_kernel = row.map(|row| trace.device.rows.kind[row.index()] == RowKind::Kernel);
        let works = is_kernel.unwrap_or(node.kind != NodeKind::Boundary);
        works && !communicates[index.index()]
    };
    let working = trace.nodes.indices().filter(is_work).map(track);
    let working: FxHashSet<_> = working.collect();
    let mut waits: BTreeMap<NodeIdx, GraphEdits> = BTreeMap::new();
    for index in trace.nodes.indices() {
        if communicates[index.index()] && working.contains(&track(index)) {
            waits.entry(index).or_default().scaled.push((index, 0.0));
        }
    }
    for edge in trace.edges.iter() {
        let brings = matches!(
            edge.kind,
            EdgeKind::EventWait | EdgeKind::HostWait | EdgeKind::Handoff
        );
        if brings && communicates[edge.from.index()] && !communicates[edge.to.index()] {
            let freed = &mut waits.entry(edge.from).or_default().freed;
            freed.push((edge.to, edge.kind));
        }
    }
    waits
}

/// Names a communication: `all_reduce of mesh_tp, 8 ranks`; for a group named by a number,
/// `all_reduce of ranks 0, 1`; without a record, the kind in the kernel's name.
pub(crate) fn communication_name(view: &RankView<'_>, node: NodeIdx) -> String {
    let trace = view.trace;
    let node = trace.nodes.get(node);
    let wait = trace.host_comm(&node).filter(|comm| comm.is_wait);
    let given = wait.and_then(|comm| trace.op_collective(comm.given.get()?));
    let Some(found) = trace.collective(&node).or(given) else {
        let kind = CollectiveKind::from_name(trace.name(&node));
        return match kind {
            CollectiveKind::Other => UNNAMED_COMMUNICATION.to_owned(),
            kind => kind.name().to_owned(),
        };
    };
    let (record, names) = (found.record, found.names);
    // Group names are numbers that differ between ranks; descriptions are the same on all ranks.
    let group = match names.get(record.group_desc) {
        "" | "undefined" => names.get(record.group_name),
        desc => desc,
    };
    // Old versions of PyTorch name groups by their address in memory, which is meaningless and
    // differs between ranks.
    let is_address = group.len() > MOST_DIGITS && group.bytes().all(|digit| digit.is_ascii_digit());
    let group = if is_address { "" } else { group };
    let kind = found.kind().name();
    // A number would look like a rank.
    let is_number = !group.is_empty() && group.bytes().all(|digit| digit.is_ascii_digit());
    let ranks = is_number.then(|| view.group_resolver().ranks(&found));
    if let Some(ranks) = ranks.flatten() {
        return format!("{kind} of {}", rank_list("rank", &ranks));
    }
    let quoted = format!("group \"{group}\"");
    let group = if is_number { &quoted } else { group };
    match (group, record.group_size) {
        ("", 0) => kind.to_owned(),
        (group, 0) => format!("{kind} of {group}"),
        ("", size) => format!("{kind} of {size} ranks"),
        (group, size) => format!("{kind} of {group}, {size} ranks"),
    }
}
