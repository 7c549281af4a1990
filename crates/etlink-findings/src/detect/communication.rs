//! Communication that the device does nothing beside.

use crate::candidate::{CauseCandidate, CauseEvidence};
use crate::kind::CauseKind;
use crate::text::{median_ns, sum_ns};
use crate::view::RankView;
use etlink_analyze::RowClass;
use etlink_link::{EdgeKind, NodeKind};
use etlink_model::{CollectiveKind, NodeIdx};
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// Collectives of one kind in one group.
#[derive(Default)]
struct CollectiveGroup {
    edits: GraphEdits,
    waits: GraphEdits,
    times: Vec<i64>,
    longest: Option<(i64, i64)>,
}

/// Communication by kind and group; the replay says how much of it is exposed.
pub(crate) fn exposed_communication(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let trace = view.trace;
    let mut groups: BTreeMap<String, CollectiveGroup> = BTreeMap::new();
    let communicates = communication_nodes(view);
    let shares_stream = streams_that_compute(view);
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let (start, end) = view.node_span(index);
        if !communicates[index.index()] || start < view.span.0 || start > view.span.1 {
            continue;
        }
        let group = groups.entry(subject_of(view, index)).or_default();
        // Not removed: the ranks still meet there.
        group.edits.scaled.push((index, 0.0));
        group.times.push(end.saturating_sub(start));
        let queue = node.queue();
        if queue.is_some_and(|queue| shares_stream[queue.index()]) {
            // What follows on its stream cannot run beside it: only its own time can go.
            group.waits.scaled.push((index, 0.0));
        }
        if group
            .longest
            .is_none_or(|(longest, _)| end.saturating_sub(start) > longest)
        {
            group.longest = Some((end.saturating_sub(start), start));
        }
    }
    free_followers(view, &communicates, &mut groups);
    let mut candidates = vec![];
    for (subject, mut group) in groups {
        let evidence = CauseEvidence {
            count: group.times.len() as u64,
            time_ns: sum_ns(group.times.iter().copied()),
            typical_ns: median_ns(&mut group.times),
            start_ns: group.longest.map(|(_, start)| start),
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

/// Per node, whether it communicates.
fn communication_nodes(view: &RankView<'_>) -> Vec<bool> {
    let trace = view.trace;
    let mut communicates = vec![];
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let row = trace.row_of(&node);
        let by_class =
            row.is_some_and(|row| view.rows.class[row.index()] == RowClass::Communication);
        communicates.push(node.kind == NodeKind::Collective || by_class);
    }
    communicates
}

/// Per stream, whether it computes too.
fn streams_that_compute(view: &RankView<'_>) -> Vec<bool> {
    let queues = &view.trace.device.rows.queue;
    let mut compute = vec![false; view.trace.device.queues.len()];
    for (queue, class) in queues.iter().zip(&view.rows.class) {
        compute[queue.index()] |= *class == RowClass::Computation;
    }
    compute
}

/// What waits for communication on another stream or thread goes on without it.
///
/// Without their time collectives still hold the ranks together, but no longer take their turns on
/// the network; without their waits it is the other way round.
fn free_followers(
    view: &RankView<'_>,
    communicates: &[bool],
    groups: &mut BTreeMap<String, CollectiveGroup>,
) {
    for edge in view.trace.edges.iter() {
        let (from, to) = (edge.from.index(), edge.to.index());
        let brings = matches!(
            edge.kind,
            EdgeKind::EventWait | EdgeKind::HostWait | EdgeKind::Handoff
        );
        if !brings || !communicates[from] || communicates[to] {
            continue;
        }
        if let Some(group) = groups.get_mut(&subject_of(view, edge.from)) {
            group.waits.freed.push((edge.to, edge.kind));
        }
    }
}

/// `all_reduce of mesh_tp, 8 ranks`; of what has no record what the kernel's name tells.
fn subject_of(view: &RankView<'_>, node: NodeIdx) -> String {
    let trace = view.trace;
    let node = trace.nodes.get(node);
    let Some(found) = trace.collective(&node) else {
        let kind = CollectiveKind::from_name(trace.name(&node));
        return match kind {
            CollectiveKind::Other => "communication".to_owned(),
            kind => kind.name().to_owned(),
        };
    };
    let (record, names) = (found.record, found.names);
    // Names of groups are numbers that differ between ranks; descriptions are the same on all.
    let group = match names.get(record.group_desc) {
        "" | "undefined" => names.get(record.group_name),
        desc => desc,
    };
    let kind = found.kind().name();
    match (group, record.group_size) {
        ("", 0) => kind.to_owned(),
        (group, 0) => format!("{kind} of {group}"),
        ("", size) => format!("{kind} of {size} ranks"),
        (group, size) => format!("{kind} of {group}, {size} ranks"),
    }
}
