//! A window of a written graph: its nodes, on the threads and streams that it names.

use super::path_columns::{self, PathColumns, ReplayedRank};
use super::ranges::{DrawnRange, drawn_place, nest_ranges};
use super::run_timeline::RankPlace;
use super::strings::StringTable;
use super::timeline::{Timeline, TimelineSource, Tooltip};
use super::tracks::TimelineTrack;
use super::wait_columns::WaitColumns;
use super::window::TimelineWindow;
use etlink_analysis::KernelRules;
use etlink_model::{NodeIdx, TimeNs, UnixNs};
use etlink_replay::{EdgeKind, LabelSource, PathStep, ReplayGraph, ReplayKind, ReplayRun};

/// A written graph and its run.
#[derive(Clone, Copy)]
pub struct WrittenGraph<'t> {
    /// The graph.
    pub graph: &'t ReplayGraph,
    /// Replay run of the graph.
    pub run: &'t ReplayRun,
    /// Critical path; empty for a graph without edges, which cannot explain its duration.
    pub path: &'t [PathStep],
    /// Labels of nodes.
    pub labels: &'t dyn LabelSource,
    /// Rules that classify kernels.
    pub rules: &'t KernelRules,
    /// Tooltip text of a node: lines `what: value`.
    pub about: &'t dyn Fn(usize) -> String,
    /// Origin of times, in ns since the Unix epoch.
    pub base_ns: i64,
}

/// Draws a window with at most `most` ranges. Uses measured times, or the run's times if there
/// are none. Gaps and delays appear as the time between ranges. O(n log n).
pub fn graph_timeline(
    of: WrittenGraph<'_>,
    window: TimelineWindow,
    most: usize,
    member: Option<&RankPlace<'_>>,
) -> Timeline {
    let WrittenGraph {
        graph, run, labels, ..
    } = of;
    let ran = ReplayedRank { graph, run, labels };
    let start = window.start;
    let steps = path_columns::path_in_window(run, of.path, &window);
    let mut on_path: Vec<usize> = steps.iter().map(|step| step.node.index()).collect();
    on_path.sort_unstable();
    let few = on_path.len() <= most / 2;
    let kept = |id: usize| few && on_path.binary_search(&id).is_ok();
    let mut strings = StringTable::new(most.saturating_mul(40));
    let all = nodes_in_window(of, &window);
    let (mut timeline, place) =
        Timeline::draw_ranges(window, all, (graph.len(), most), &kept, &of, &mut strings);
    // Nodes of a written graph do not name the op they belong to.
    timeline.set_ops(|_| None);
    timeline.deps = node_waits(of, &place, start, &mut strings);
    let range = |step: &PathStep| drawn_place(&place, step.node.index());
    timeline.path = PathColumns::new(ran, &steps, (start, most / 2), range, &mut strings);
    if let Some(member) = member {
        timeline.set_member(member, UnixNs(of.base_ns.saturating_add(start.0)), |node| {
            place.get(node.index()).copied()
        });
    }
    timeline.strings = strings.into_all();
    timeline
}

impl WrittenGraph<'_> {
    /// Returns the begin and end of a node.
    fn node_span(&self, node: NodeIdx) -> (TimeNs, TimeNs) {
        if self.graph.measured {
            (self.graph.start[node.index()], self.graph.end(node))
        } else {
            (self.run.start[node.index()], self.run.end(node))
        }
    }

    /// Returns the starts and ends of all nodes that can be drawn.
    pub fn spans(&self) -> impl Iterator<Item = (TimeNs, TimeNs)> {
        self.graph
            .indices()
            .filter(|node| is_work(self.graph.kind[node.index()]))
            .map(|node| self.node_span(node))
    }
}

fn is_work(kind: ReplayKind) -> bool {
    // Nodes without thread time are the empty space between ranges; an arrival is an instant.
    !kind.is_delay() && !matches!(kind, ReplayKind::HostGap | ReplayKind::Arrival)
}

fn nodes_in_window(of: WrittenGraph<'_>, window: &TimelineWindow) -> Vec<DrawnRange> {
    let graph = of.graph;
    let drawn = |node: NodeIdx| {
        let (id, (start, end)) = (node.index(), of.node_span(node));
        let inside = is_work(graph.kind[id])
            && start < window.end
            && (end > window.start || start >= window.start);
        // streams after threads
        let track = graph.resource[id].0
            + if graph.on_device(node) {
                graph.resources.len() as u32
            } else {
                0
            };
        inside.then_some(DrawnRange {
            track,
            depth: 0,
            start,
            end,
            id,
            count: 1,
        })
    };
    nest_ranges(graph.indices().filter_map(drawn).collect())
}

fn node_waits(
    of: WrittenGraph<'_>,
    place: &[u32],
    origin: TimeNs,
    strings: &mut StringTable,
) -> WaitColumns {
    let mut found: Vec<(u32, bool, EdgeKind, NodeIdx, bool, NodeIdx)> = vec![];
    for node in of.graph.indices() {
        let Some(to) = drawn_place(place, node.index()) else {
            continue;
        };
        for edge in of.graph.edges_to(node) {
            let dep = of.graph.dep(edge);
            if dep.kind != EdgeKind::ProgramOrder {
                found.push((
                    to,
                    // `false` sorts first, so the deciding reason precedes the others of its node.
                    of.run.decided[node.index()] != edge,
                    dep.kind,
                    dep.from,
                    dep.inferred,
                    node,
                ));
            }
        }
    }
    found.sort_unstable();
    let mut deps = WaitColumns::default();
    for (to, not_decided, kind, from, inferred, node) in found {
        let drawn = drawn_place(place, from.index());
        deps.to.push(to);
        deps.from.push(drawn.map_or_else(
            || -1 - i64::from(strings.number_of(of.labels.name(from))),
            i64::from,
        ));
        deps.kind.push(kind as u8);
        let (start, ended) = (of.node_span(node).0, of.node_span(from).1);
        deps.at.push(start.since(origin));
        deps.gap.push(start.since(ended));
        deps.flags
            .push(u8::from(!not_decided) + 2 * u8::from(inferred));
    }
    deps
}

impl TimelineSource for WrittenGraph<'_> {
    fn track_at(&self, number: u32) -> TimelineTrack {
        let resources = &self.graph.resources;
        // Device tracks are numbered after host tracks, and both count all resources.
        let of = resources.get(number as usize % resources.len().max(1));
        // "stream 7 of device 0"
        let (name, group) = of.map_or(("", ""), |of| {
            of.name.split_once(" of ").unwrap_or((&of.name, ""))
        });
        TimelineTrack {
            name: name.to_owned(),
            group: group.to_owned(),
            stream: of.is_some_and(|of| of.on_device),
            ranges: 0,
        }
    }

    fn range_kind(&self, id: usize) -> u8 {
        match self.graph.kind[id] {
            ReplayKind::Collective => 1,
            ReplayKind::MemoryCopy => 2,
            ReplayKind::Kernel => self.rules.class(self.labels.name(NodeIdx::new(id))) as u8,
            ReplayKind::Runtime => 6,
            _ => 4,
        }
    }

    fn range_tooltip(&self, id: usize, strings: &mut StringTable) -> Tooltip {
        let name = strings.number_of(self.labels.name(NodeIdx::new(id)));
        Tooltip {
            name,
            about: strings.number_of(&(self.about)(id)),
            correlation: self
                .labels
                .correlation(NodeIdx::new(id))
                .map(|correlation| correlation.0)
                .filter(|correlation| *correlation > 0),
            ..Tooltip::default()
        }
    }
}
