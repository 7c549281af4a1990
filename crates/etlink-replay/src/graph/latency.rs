//! Latency of each edge.
//!
//! ```text
//! launch  |......6 us......>            a kernel starts 6 us after its launch call,
//! stream      ==before==|1 us>          1 us after the kernel before it:
//!                             ==kernel  whatever is later decides
//! ```
//! A measured start shows the latency of only one edge: the one whose cause came last. If another
//! cause decides in a changed run, it has its own latency, so each edge needs one. The deciding
//! edge keeps the measured latency. All other edges get the usual latency of deciding edges of
//! their class, limited to what the measured times allow. A run without changes then reproduces the
//! measured times, unless clocks show a cause that ends after its effect began. A cause whose usual
//! latency does not fit the measured times was quicker than usual: it gets a low latency and does
//! not take part in the decision.

use super::{EdgeKind, ReplayGraph, ReplayKind};
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, TimeNs};
use std::borrow::Cow;

/// Margin by which a cause must end after all others of its node to have decided regardless of
/// latencies.
///
/// In sixteen public traces, 99 % of device rows start within 20 us of the event they follow.
const CLEAR_MARGIN: DurationNs = DurationNs(20_000);

/// Kind of node that waits; latencies differ by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Host,
    /// Kernels, including communication.
    Kernel,
    MemoryCopy,
    /// Delays, which begin when their causes have ended.
    Delay,
}

impl Target {
    const COUNT: usize = 4;

    fn of_node(graph: &ReplayGraph, node: NodeIdx) -> Target {
        match graph.kind[node.index()] {
            kind if kind.is_delay() || kind == ReplayKind::Arrival => Target::Delay,
            ReplayKind::MemoryCopy => Target::MemoryCopy,
            _ if graph.on_device(node) => Target::Kernel,
            _ => Target::Host,
        }
    }
}

/// Class of edges with similar latencies: same kind of edge, same kind of target.
#[derive(Clone, Copy, Debug)]
struct LatencyClass(EdgeKind, Target);

impl LatencyClass {
    const COUNT: usize = EdgeKind::ALL.len() * Target::COUNT;

    fn index(self) -> usize {
        self.0 as usize * Target::COUNT + self.1 as usize
    }

    /// Returns the latency of an edge if no edge of its class decides in the recording.
    ///
    /// Launches, streams and events take a few microseconds on all devices; the host continues at
    /// once.
    fn default_latency(self) -> DurationNs {
        match self {
            LatencyClass(_, Target::Delay) => DurationNs::ZERO,
            LatencyClass(EdgeKind::Launch | EdgeKind::HostWait, _) => DurationNs(5_000),
            LatencyClass(EdgeKind::StreamOrder, _) => DurationNs(1_000),
            LatencyClass(EdgeKind::EventWait, _) => DurationNs(2_000),
            _ => DurationNs::ZERO,
        }
    }
}

/// Computes the latency of each edge. Latencies stated per edge or per node stay; all others are
/// derived from measured starts. O(edges).
pub(super) fn edge_latencies(
    graph: &ReplayGraph,
    (stated, of_nodes): (&[Option<DurationNs>], &[Option<DurationNs>]),
) -> Vec<DurationNs> {
    let is_stated = |edge: EdgeIdx| stated.get(edge.index()).copied().flatten();
    let starts: Cow<'_, [TimeNs]> = if of_nodes.is_empty() {
        Cow::Borrowed(&graph.start)
    } else {
        let nodes = graph.indices();
        Cow::Owned(nodes.map(|node| start(graph, of_nodes, node)).collect())
    };
    let (typical, low) = typical_latencies(graph, &starts);
    let mut latencies = Vec::with_capacity(graph.edges());
    for node in graph.indices() {
        let start = starts[node.index()];
        let target = Target::of_node(graph, node);
        let decided = deciding_edge(graph, node, target, &typical);
        for edge in graph.edges_to(node) {
            let dep = graph.dep(edge);
            let slack = slack(graph, node, start, graph.end(dep.from));
            let class = LatencyClass(dep.kind, target).index();
            let learned = if decided == Some(edge) {
                slack
            } else if typical[class] >= slack {
                // With its whole slack, the edge would decide as well as the actual one, and a
                // quicker cause would change nothing.
                let least = slack.min(DurationNs::ZERO);
                low[class].min(DurationNs(slack.0 - 1)).max(least)
            } else if slack >= DurationNs::ZERO {
                // Only a row that overlapped its predecessor may do so.
                typical[class].max(DurationNs::ZERO)
            } else {
                typical[class]
            };
            latencies.push(is_stated(edge).unwrap_or(learned));
        }
    }
    latencies
}

/// Returns the time from the end of a cause to the start of a node. The time is negative for a
/// device op that starts earlier, such as a launch that overlaps its predecessor on the stream. A
/// host that continues before its cause has ended shows clocks that disagree; it waited
/// nevertheless.
fn slack(graph: &ReplayGraph, node: NodeIdx, start: TimeNs, end: TimeNs) -> DurationNs {
    if graph.is_device_op(node) {
        DurationNs(start.since(end))
    } else {
        start - end
    }
}

/// Returns the start of a node: the measured one, or the one implied by its stated latency.
fn start(graph: &ReplayGraph, of_nodes: &[Option<DurationNs>], node: NodeIdx) -> TimeNs {
    let measured = graph.start[node.index()];
    let Some(latency) = of_nodes.get(node.index()).copied().flatten() else {
        return measured;
    };
    let latest = graph.deps(node).map(|dep| graph.end(dep.from)).max();
    latest.map_or(measured, |latest| latest + latency)
}

/// Returns the edge that the node waited for longest, by the usual latency of its class. Among
/// equal ones, the first that is not program order: a thread with nothing to wait for continues at
/// once.
fn deciding_edge(
    graph: &ReplayGraph,
    node: NodeIdx,
    target: Target,
    typical: &[DurationNs],
) -> Option<EdgeIdx> {
    let mut latest: Option<((TimeNs, bool), EdgeIdx)> = None;
    for edge in graph.edges_to(node) {
        let dep = graph.dep(edge);
        let ready = graph.end(dep.from) + typical[LatencyClass(dep.kind, target).index()];
        let rank = (ready, dep.kind != EdgeKind::ProgramOrder);
        if latest.is_none_or(|(other, _)| rank > other) {
            latest = Some((rank, edge));
        }
    }
    latest.map(|(_, edge)| edge)
}

/// Returns per class the median latency of the edges that decided beyond doubt, and the latency
/// that nine of ten exceed.
fn typical_latencies(graph: &ReplayGraph, starts: &[TimeNs]) -> (Vec<DurationNs>, Vec<DurationNs>) {
    let classes = all_classes().map(|(kind, target)| LatencyClass(kind, target));
    let default: Vec<DurationNs> = classes.map(LatencyClass::default_latency).collect();
    let [mut low, mut typical, mut high] = [(); 3].map(|()| default.clone());
    let clear = samples(graph, starts, |_| CLEAR_MARGIN);
    take_medians(clear, [&mut low, &mut typical, &mut high], |_| true);
    // Launches can take longer than that margin, and differ within a recording if a clock drifts.
    let long = high.clone();
    [low, typical, high] = [(); 3].map(|()| default.clone());
    let clear = samples(graph, starts, |class| long[class].max(CLEAR_MARGIN));
    let has_clear = take_medians(clear, [&mut low, &mut typical, &mut high], |_| true);
    // A class without such edges uses edges whose source ended after the others' latency had passed
    // as well. The defaults of devices are too rough for this.
    let by_latency = samples(graph, starts, |class| high[class]);
    let others = |class: usize| !has_clear[class];
    let mut unused = default;
    take_medians(by_latency, [&mut low, &mut typical, &mut unused], others);
    (typical, low)
}

/// Returns per class the latencies of edges whose source ended last, and after all others by more
/// than `taken` of their class.
fn samples(
    graph: &ReplayGraph,
    starts: &[TimeNs],
    taken: impl Fn(usize) -> DurationNs,
) -> Vec<Vec<DurationNs>> {
    let mut by_class: Vec<Vec<DurationNs>> = vec![vec![]; LatencyClass::COUNT];
    for node in graph.indices() {
        let target = Target::of_node(graph, node);
        if target == Target::Delay {
            continue;
        }
        let class = |edge| LatencyClass(graph.dep(edge).kind, target).index();
        let end = |edge| graph.end(graph.dep(edge).from);
        let Some(last) = last_to_end(graph, node) else {
            continue;
        };
        // A delay ends at its node's begin by definition, so this is not a latency.
        if graph.kind[graph.dep(last).from.index()].is_delay() {
            continue;
        }
        let mut others = graph.edges_to(node).filter(|edge| *edge != last);
        if others.all(|edge| end(edge) + taken(class(edge)) <= end(last)) {
            let slack = slack(graph, node, starts[node.index()], end(last));
            by_class[class(last)].push(slack);
        }
    }
    by_class
}

/// Writes the first decile, the median and the ninth decile of the wanted classes. Returns which
/// classes have them.
fn take_medians(
    mut by_class: Vec<Vec<DurationNs>>,
    [low, typical, high]: [&mut [DurationNs]; 3],
    is_wanted: impl Fn(usize) -> bool,
) -> Vec<bool> {
    let mut has_median = vec![false; by_class.len()];
    for (class, latencies) in by_class.iter_mut().enumerate() {
        latencies.sort_unstable();
        let last = if is_wanted(class) {
            latencies.len().checked_sub(1)
        } else {
            None
        };
        if let Some(last) = last {
            (low[class], typical[class]) = (latencies[last / 10], latencies[last / 2]);
            high[class] = latencies[last - last / 10];
            has_median[class] = true;
        }
    }
    has_median
}

/// Returns all classes, by index.
fn all_classes() -> impl Iterator<Item = (EdgeKind, Target)> {
    let targets = [
        Target::Host,
        Target::Kernel,
        Target::MemoryCopy,
        Target::Delay,
    ];
    let kinds = EdgeKind::ALL.into_iter();
    kinds.flat_map(move |kind| targets.map(|target| (kind, target)))
}

/// Returns the edge whose source ended last; among equals, the first.
fn last_to_end(graph: &ReplayGraph, node: NodeIdx) -> Option<EdgeIdx> {
    let mut last: Option<(TimeNs, EdgeIdx)> = None;
    for edge in graph.edges_to(node) {
        let end = graph.end(graph.dep(edge).from);
        if last.is_none_or(|(latest, _)| end > latest) {
            last = Some((end, edge));
        }
    }
    last.map(|(_, edge)| edge)
}
