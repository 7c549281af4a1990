//! Waits of the ranges in a window.

use super::ranges::{RangeIds, drawn_place};
use super::strings::StringTable;
use etlink_link::{Edge, EdgeKind, LinkedTrace, Node};
use etlink_model::TimeNs;
use etlink_replay::{ReplayGraph, ReplayRun};
use serde::Serialize;

/// Waits as columns. Thread order is visible in the track and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct WaitColumns {
    /// Range that waited, by its place among the drawn ones.
    pub(super) to: Vec<u32>,
    /// Range waited for, by place; if not drawn, its name as `-1 - string`.
    pub(super) from: Vec<i64>,
    /// Reason for the wait, an index into [`EdgeKind::ALL`].
    pub(super) kind: Vec<u8>,
    /// End of the wait, the node's start, in ns from the window's start.
    pub(super) at: Vec<i64>,
    /// Gap in ns from the end of the cause to `at`; for a launch, from the begin of the call.
    pub(super) gap: Vec<i64>,
    /// Bit flags: 1 = the cause that ended last and so decided the start; 2 = inferred, not
    /// recorded.
    pub(super) flags: Vec<u8>,
}

/// A linked trace and its replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayedTrace<'t> {
    pub(super) trace: &'t LinkedTrace,
    pub(super) graph: &'t ReplayGraph,
    pub(super) run: &'t ReplayRun,
    pub(super) ids: RangeIds,
}

/// Returns all waits of drawn ranges, by range. `place` holds each range's place among the drawn
/// ones, as in [`drawn_place`]. O(nodes + edges).
pub(super) fn wait_columns(
    of: ReplayedTrace<'_>,
    place: &[u32],
    origin: TimeNs,
    strings: &mut StringTable,
) -> WaitColumns {
    let nodes = &of.trace.nodes;
    let mut found: Vec<(u32, Edge, bool)> = vec![];
    for index in nodes.indices() {
        let node = nodes.get(index);
        let to = of.ids.of_node(&node);
        let Some(to) = to.and_then(|id| drawn_place(place, id)) else {
            continue;
        };
        let numbers = of.graph.edges_to(index);
        for (edge, number) in of.trace.edges.deps(index).iter().zip(numbers) {
            if edge.kind != EdgeKind::ProgramOrder {
                let decided = of.run.decided.get(index.index()) == Some(&number);
                found.push((to, edge, decided));
            }
        }
    }
    // The deciding reason comes first per range, so it survives deduplication.
    found.sort_by_key(|(to, edge, decided)| (*to, !*decided, edge.kind, edge.from));
    let mut deps = WaitColumns::default();
    let mut last = None;
    for (to, edge, decided) in found {
        let before = nodes.get(edge.from);
        let (from, ended) = edge_cause(of, &edge, &before);
        let drawn = from.and_then(|id| drawn_place(place, id));
        // A cause outside the window is not drawn: its name replaces it, as a negative number.
        let from = drawn.map_or_else(
            || -1 - i64::from(strings.number_of(of.trace.name(&before))),
            i64::from,
        );
        // The nodes of one range wait for each other, and may wait for another range several times.
        if from == i64::from(to) || last == Some((to, from, edge.kind)) {
            continue;
        }
        last = Some((to, from, edge.kind));
        let at = nodes.start[edge.to.index()];
        deps.to.push(to);
        deps.from.push(from);
        deps.kind.push(edge.kind as u8);
        deps.at.push(at.since(origin));
        deps.gap.push(at.since(ended));
        deps.flags
            .push(u8::from(decided) + 2 * u8::from(edge.inferred));
    }
    deps
}

/// Returns the range that an edge comes from, and the time when the wait could have ended. A launch
/// edge begins at the node before the call, but the call is the cause.
fn edge_cause(of: ReplayedTrace<'_>, edge: &Edge, before: &Node) -> (Option<usize>, TimeNs) {
    let trace = of.trace;
    let row = if edge.kind == EdgeKind::Launch {
        trace.row_of(&trace.nodes.get(edge.to))
    } else {
        None
    };
    match row.and_then(|row| trace.row_call.get(row.index())?.get()) {
        // A row could have started when its call began: the call's own time is part of the delay.
        Some(call) => (
            Some(of.ids.call_id(call.index())),
            trace.device.calls.start[call.index()],
        ),
        // All other reasons hold until their cause has ended.
        None => (of.ids.of_node(before), before.start + before.duration),
    }
}
