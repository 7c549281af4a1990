//! Computes the times of nodes in a simulator that runs one host node and one device node at a
//! time.
//!
//! Threads run concurrently, and so do streams. Run one after the other, they would take the sum of
//! their times. The time in which several nodes run is therefore attributed to one of them: work
//! takes precedence over a thread that waits for a device or for other ranks, such waits over gaps,
//! and later starts over earlier ones. A node's time is what remains of it here; all nodes together
//! take as long as host or devices were busy.
//!
//! ```text
//! thread 1   op | op | op | op |             thread 1   op | op | op | op |
//! thread 2   gap           | op          ->  thread 2                   gap | op
//! ```
//! A gap, in which its own thread or stream does nothing, becomes a wait for the work that ended
//! last before the gap ends. It keeps the remaining time and the corresponding start: otherwise it
//! would keep others from running, and its measured start would contradict the wait. O(n log n).

use super::PartGraph;
use etlink_link::{Edge, EdgeKind, Edges, NodeKind};
use etlink_model::{DurationNs, NodeIdx, TimeNs};
use std::borrow::Cow;
use std::collections::BinaryHeap;

/// Maximum number of ended nodes searched for a gap's wait.
const LOOK_BACK: usize = 64;

/// Priority of a node in the attribution of time, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimePriority {
    /// Nothing is known to run: host gaps, unexplained waits, time before the recording.
    Gap,
    /// A thread waits for a device or for other ranks.
    Wait,
    /// Any other work.
    Work,
}

/// A running node, or the wait of its thread before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunningNode {
    priority: TimePriority,
    start: TimeNs,
    node: NodeIdx,
    end: TimeNs,
}

/// Sets the times of a whole graph, and makes gaps wait if they are written. Communications, which
/// have a place of their own, keep all their time.
pub(super) fn serialize(whole: &mut PartGraph<'_>, gaps_wait: bool) {
    let (nodes, edges) = (&whole.nodes, &whole.edges);
    let mut takes = vec![DurationNs(0); nodes.len()];
    for &node in &whole.communications {
        takes[node.index()] = nodes.duration[node.index()];
        takes[node.index()] += nodes.latency(edges, node);
    }
    let mut waits = vec![];
    // Host and devices run concurrently in the simulator too, so each has its own time to
    // attribute.
    for on_device in [false, true] {
        let mut all = running_nodes(whole, on_device);
        attribute_time(&all, &mut takes);
        let found = if gaps_wait {
            wait_anchors(whole, &all, &takes)
        } else {
            vec![]
        };
        for &(at, anchor) in &found {
            all[at].start = nodes.end(anchor);
            waits.push(Edge {
                to: all[at].node,
                kind: EdgeKind::Handoff,
                from: anchor,
                inferred: true,
            });
        }
        // Gaps that now begin later leave their time to others, so all time is attributed again.
        if !found.is_empty() {
            all.iter()
                .for_each(|running| takes[running.node.index()] = DurationNs(0));
            all.sort_unstable_by_key(|running| (running.start, running.node));
            attribute_time(&all, &mut takes);
        }
    }
    if !waits.is_empty() {
        let nodes = whole.nodes.to_mut();
        for wait in &waits {
            let (end, since) = (nodes.end(wait.to), nodes.end(wait.from));
            let gap = wait.to.index();
            nodes.start[gap] = nodes.start[gap].max(since);
            nodes.duration[gap] = end - nodes.start[gap];
        }
        waits.extend(whole.edges.iter());
        whole.edges = Cow::Owned(Edges::new(waits, whole.nodes.len()));
    }
    whole.takes = takes;
}

/// Returns the nodes that run on the host or on devices, with latency, by start.
fn running_nodes(whole: &PartGraph<'_>, on_device: bool) -> Vec<RunningNode> {
    let (nodes, edges) = (&whole.nodes, &whole.edges);
    let mut all: Vec<RunningNode> = vec![];
    for node in nodes
        .indices()
        .filter(|node| nodes.on_device[node.index()] == on_device && !whole.is_communication(*node))
    {
        let gap = matches!(
            nodes.kind[node.index()],
            NodeKind::HostGap | NodeKind::Boundary | NodeKind::UnexplainedWait
        );
        let start = nodes.start[node.index()].shifted(-nodes.latency(edges, node).0);
        all.push(RunningNode {
            priority: if gap {
                TimePriority::Gap
            } else {
                TimePriority::Work
            },
            start,
            node,
            end: nodes.end(node),
        });
        let deps = edges.deps(node);
        let last = deps
            .iter()
            .map(|edge| edge.from)
            .max_by_key(|from| (nodes.end(*from), *from));
        let before = deps
            .iter()
            .find(|edge| edge.kind == EdgeKind::ProgramOrder)
            .map(|edge| nodes.end(edge.from));
        // The simulator's host also stands still until a device or the network is done.
        let is_waited_for =
            |last: NodeIdx| nodes.on_device[last.index()] || whole.is_communication(last);
        if let Some(since) =
            before.filter(|since| *since < start && last.is_some_and(is_waited_for))
        {
            all.push(RunningNode {
                priority: TimePriority::Wait,
                start: since,
                node,
                end: start,
            });
        }
    }
    all.sort_unstable_by_key(|running| (running.start, running.node));
    all
}

/// Attributes each instant to one of the nodes that run then.
fn attribute_time(all: &[RunningNode], takes: &mut [DurationNs]) {
    let mut open: BinaryHeap<RunningNode> = BinaryHeap::new();
    let mut now = TimeNs(i64::MIN);
    for running in all {
        attribute_until(running.start, &mut now, &mut open, takes);
        open.push(*running);
    }
    attribute_until(TimeNs(i64::MAX), &mut now, &mut open, takes);
}

/// Attributes the time from `now` to `next` to the greatest of `open`, and removes nodes that end
/// before.
fn attribute_until(
    next: TimeNs,
    now: &mut TimeNs,
    open: &mut BinaryHeap<RunningNode>,
    takes: &mut [DurationNs],
) {
    while *now < next
        && let Some(&top) = open.peek()
    {
        // A node that ended while a greater one ran has nothing left: its end is before `now`.
        let end = top.end.min(next).max(*now);
        // A thread that waits takes no time of the simulator's host.
        if top.priority != TimePriority::Wait {
            takes[top.node.index()] += end - *now;
        }
        *now = end;
        if top.end <= *now {
            open.pop();
        }
    }
    *now = next.max(*now);
}

/// Returns the positions of gaps that have to share their time, and the node each can wait for:
/// among other threads or streams, the last one to end before the gap does, and before any
/// dependent of the gap.
fn wait_anchors(
    whole: &PartGraph<'_>,
    all: &[RunningNode],
    takes: &[DurationNs],
) -> Vec<(usize, NodeIdx)> {
    let nodes = &whole.nodes;
    let mut followed = vec![NodeIdx::NONE; nodes.len()];
    for edge in whole.edges.iter() {
        let first = &mut followed[edge.from.index()];
        // Nodes are numbered by time, so the gap's first dependent has the lowest number.
        *first = edge.to.min(*first);
    }
    let mut works: Vec<&RunningNode> = all
        .iter()
        .filter(|running| running.priority == TimePriority::Work)
        .collect();
    works.sort_unstable_by_key(|running| (running.end, running.node));
    let mut found = vec![];
    for (at, gap) in all.iter().enumerate().filter(|(_, gap)| {
        gap.priority == TimePriority::Gap && takes[gap.node.index()] < gap.end - gap.start
    }) {
        let own_track = nodes.track[gap.node.index()];
        let ended = &works[..works.partition_point(|work| work.end <= gap.end)];
        // The search starts with the last to end and stops at nodes that ended before the gap
        // began.
        for work in ended.iter().rev().take(LOOK_BACK) {
            if work.end <= gap.start {
                break;
            }
            let is_elsewhere = nodes.track[work.node.index()] != own_track;
            // An edge from a node after a dependent of the gap could close a cycle.
            if is_elsewhere && work.node < followed[gap.node.index()] {
                found.push((at, work.node));
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Draws starts, lengths and priorities.
    fn spans() -> impl Strategy<Value = Vec<(i64, i64, u8)>> {
        prop::collection::vec((0i64..200, 0i64..50, 0u8..3), 0..40)
    }

    /// Returns true if anything of this priority or a higher one runs at `at`.
    fn is_running(spans: &[(i64, i64, u8)], at: i64, least: u8) -> bool {
        spans.iter().any(|&(start, length, priority)| {
            priority >= least && start <= at && at < start + length
        })
    }

    proptest! {
        #[test]
        fn each_instant_is_given_once(spans in spans()) {
            let priorities = [TimePriority::Gap, TimePriority::Wait, TimePriority::Work];
            let mut all: Vec<RunningNode> = vec![];
            for (node, &(start, length, priority)) in (0..).map(NodeIdx).zip(&spans) {
                all.push(RunningNode {
                    priority: priorities[usize::from(priority)],
                    start: TimeNs(start),
                    node,
                    end: TimeNs(start + length),
                });
            }
            all.sort_unstable_by_key(|running| (running.start, running.node));
            let mut takes = vec![DurationNs(0); spans.len()];
            attribute_time(&all, &mut takes);
            let works = (0..300).filter(|at| is_running(&spans, *at, 2));
            let gaps = (0..300)
                .filter(|at| is_running(&spans, *at, 0) && !is_running(&spans, *at, 1));
            let mut sums = [0; 3];
            for (take, (_, _, priority)) in takes.iter().zip(&spans) {
                sums[usize::from(*priority)] += take.0;
            }
            prop_assert_eq!(sums, [gaps.count() as i64, 0, works.count() as i64]);
        }
    }
}
