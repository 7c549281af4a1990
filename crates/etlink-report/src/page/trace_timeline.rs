//! A window of a rank from its linked trace: ops, calls and device rows.

use super::path_columns::{self, PathColumns, ReplayedRank};
use super::ranges::{NONE, RangeIds, TraceRange, drawn_place, ranges_in_window};
use super::run_timeline::RankPlace;
use super::strings::StringTable;
use super::timeline::{Timeline, TimelineSource, Tooltip};
use super::tooltip::tooltip_text;
use super::tracks::{TimelineTrack, trace_track};
use super::wait_columns;
use super::window::TimelineWindow;
use crate::track_names::TrackNames;
use etlink_analysis::ClassifiedRows;
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{NodeIdx, OpIdx, TimeNs};
use etlink_replay::{PathStep, ReplayGraph, ReplayRun};

/// A rank's trace, run and critical path, shared by all its windows.
#[derive(Clone, Copy)]
pub struct TracedRank<'t> {
    /// Classified device rows, with the trace.
    pub rows: &'t ClassifiedRows<'t>,
    /// Replay graph of the trace.
    pub graph: &'t ReplayGraph,
    /// Replay run of the graph.
    pub run: &'t ReplayRun,
    /// Critical path of the whole run.
    pub path: &'t [PathStep],
}

/// Draws a window with at most `most` ranges. Names may take 40 times `most` bytes before they are
/// shortened. `member` is the rank's place in the run. O(n log n).
pub fn trace_timeline(
    of: TracedRank<'_>,
    window: TimelineWindow,
    most: usize,
    member: Option<&RankPlace<'_>>,
) -> Timeline {
    let TracedRank {
        rows, graph, run, ..
    } = of;
    let trace = rows.trace;
    let ids = RangeIds::new(trace);
    let ran = ReplayedRank {
        graph,
        run,
        labels: trace,
    };
    let (origin, start) = (TimeNs(window.start.0), window.start);
    let steps = path_columns::path_in_window(run, of.path, &window);
    // a gap is time of the program itself, not of the annotation around it
    let of_path = |step: &PathStep| {
        let node = trace.nodes.get(step.node);
        if node.kind != NodeKind::HostGap {
            ids.of_node(&node)
        } else {
            None
        }
    };
    let mut on_path: Vec<usize> = steps.iter().filter_map(of_path).collect();
    on_path.sort_unstable();
    // Ranges of the path stay unmerged if they leave half of the budget to the others.
    let few = on_path.len() <= most / 2;
    let mut strings = StringTable::new(most.saturating_mul(40));
    let all = ranges_in_window(trace, ids, (window.start, window.end));
    let kept = |id: usize| few && on_path.binary_search(&id).is_ok();
    let source = TraceSource {
        rows,
        ids,
        names: TrackNames::new(&trace.device),
    };
    let (mut timeline, place) =
        Timeline::draw_ranges(window, all, (ids.count, most), &kept, &source, &mut strings);
    let of = wait_columns::ReplayedTrace {
        trace,
        graph,
        run,
        ids,
    };
    timeline.deps = wait_columns::wait_columns(of, &place, origin, &mut strings);
    set_drawn_ops(&mut timeline, trace, ids, &place);
    let range = |step: &PathStep| drawn_place(&place, of_path(step)?);
    // Steps need as much room as ranges but share one track, so half as many suffice.
    timeline.path = PathColumns::new(ran, &steps, (origin, most / 2), range, &mut strings);
    if let Some(member) = member {
        let place_of = |node: NodeIdx| place.get(ids.of_node(&trace.nodes.get(node))?).copied();
        timeline.set_member(member, trace.device.header.unix_time(start), place_of);
    }
    timeline.strings = strings.into_all();
    timeline
}

/// Sets the op of calls and device rows: the innermost op around them that is drawn unmerged.
fn set_drawn_ops(timeline: &mut Timeline, trace: &LinkedTrace, ids: RangeIds, place: &[u32]) {
    let mut drawn_ids = vec![None; timeline.drawn()];
    for (id, at) in place.iter().enumerate().filter(|(_, at)| **at != NONE) {
        // A box of several ranges has no op that all of them belong to.
        if timeline.count.get(*at as usize) == Some(&1) {
            drawn_ids[*at as usize] = Some(id);
        }
    }
    let single = |op: OpIdx| {
        let at = drawn_place(place, op.index());
        at.filter(|at| timeline.count[*at as usize] == 1)
    };
    let ops: Vec<Option<u32>> = drawn_ids
        .into_iter()
        .map(|id| {
            let mut op = match ids.range_at(id?) {
                TraceRange::Op(_) => None,
                TraceRange::Call(at) => trace.call_op[at].get(),
                TraceRange::Row(at) => trace.row_op[at].get(),
            };
            // The number of parents is bounded by the stack depth, so this is short.
            while let Some(one) = op {
                if let Some(at) = single(one) {
                    return Some(at);
                }
                op = trace.op_parent[one.index()].get();
            }
            None
        })
        .collect();
    timeline.set_ops(|at| ops[at]);
}

struct TraceSource<'t> {
    rows: &'t ClassifiedRows<'t>,
    ids: RangeIds,
    names: TrackNames<'t>,
}

impl TimelineSource for TraceSource<'_> {
    fn track_at(&self, number: u32) -> TimelineTrack {
        trace_track(&self.names, number)
    }

    fn range_kind(&self, id: usize) -> u8 {
        let trace = self.rows.trace;
        match self.ids.range_at(id) {
            // A Gloo collective runs on the host but gets the colour of communication.
            TraceRange::Op(at) if trace.op_collective(OpIdx(at as u32)).is_some() => 1,
            // 4 is an op and 5 an annotation in `KINDS`.
            TraceRange::Op(at) => 4 + u8::from(trace.device.ops.annotation[at]),
            TraceRange::Call(_) => 6,
            TraceRange::Row(at) => self.rows.class[at] as u8,
        }
    }

    fn range_tooltip(&self, id: usize, strings: &mut StringTable) -> Tooltip {
        let (trace, of) = (self.rows.trace, self.ids.range_at(id));
        let device = &trace.device;
        let (name, owner, own, correlation) = match of {
            TraceRange::Op(at) => (device.ops.name[at], None, trace.op_exclusive[at].0, None),
            TraceRange::Call(at) => (
                device.calls.name[at],
                trace.call_op[at].get(),
                0,
                device.calls.correlation[at].get(),
            ),
            TraceRange::Row(at) => (
                device.rows.name[at],
                trace.row_op[at].get(),
                0,
                device.rows.correlation[at].get(),
            ),
        };
        Tooltip {
            name: strings.number_of(device.names.get(name)),
            own,
            about: strings.number_of(&tooltip_text(trace, of)),
            owner: owner.map_or(0, |op| {
                strings.number_of(device.names.get(device.ops.name[op.index()]))
            }),
            correlation: correlation.map(|correlation| correlation.0),
        }
    }
}
