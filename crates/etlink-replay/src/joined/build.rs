//! The nodes and edges of the common graph.

use super::RankGraph;
use super::plan::Plan;
use crate::graph::{EdgeKind, GraphBuilder, ReplayDep, ReplayKind, ReplayNode, Resource};
use etlink_model::{DurationNs, NodeIdx, TimeNs};

/// Where meetings are.
const BETWEEN: &str = "between ranks";

/// All nodes: the ranks' own, arrivals, meetings.
pub(super) fn build(ranks: &[RankGraph], plan: &Plan) -> GraphBuilder {
    let mut builder = GraphBuilder::new(resources(ranks));
    // Starts of some ranks alone would place the others at 0: then no rank has measured times.
    let measured = ranks.iter().all(|rank| rank.graph.measured);
    let mut arrivals = vec![];
    let mut first_resource = 0;
    for (rank, (_, first)) in ranks.iter().zip(&plan.ranks) {
        for node in rank.graph.indices() {
            let from = Source {
                rank,
                first: *first,
                first_resource,
                node,
                measured,
            };
            from.push(plan, &mut builder, &mut arrivals);
        }
        first_resource += rank.graph.resources.len() as u32;
    }
    // Arrivals come after all nodes of the ranks, which so keep their numbers but for an offset.
    for (node, deps) in arrivals {
        builder.push(node, deps);
    }
    for meeting in &plan.meetings {
        let start = measured.then_some(meeting.time);
        let node = ReplayNode {
            kind: ReplayKind::Arrival,
            resource: first_resource,
            start,
            duration: DurationNs(0),
            latency: Some(DurationNs(0)),
        };
        let dep = |arrival: &u32| ReplayDep {
            from: plan.arrival_node(*arrival),
            kind: EdgeKind::Collective,
            inferred: false,
        };
        builder.push(node, meeting.arrivals.iter().map(dep));
    }
    builder
}

fn resources(ranks: &[RankGraph]) -> Vec<Resource> {
    let own = |rank: &RankGraph| {
        let number = rank.rank;
        rank.graph
            .resources
            .iter()
            .map(move |resource| Resource {
                rank: Some(number),
                ..resource.clone()
            })
            .collect::<Vec<_>>()
    };
    let between = Resource {
        name: BETWEEN.to_owned(),
        on_device: false,
        rank: None,
    };
    ranks.iter().flat_map(own).chain([between]).collect()
}

/// A node of a rank.
struct Source<'r> {
    rank: &'r RankGraph,
    first: u32,
    first_resource: u32,
    node: NodeIdx,
    measured: bool,
}

impl Source<'_> {
    fn push(
        &self,
        plan: &Plan,
        builder: &mut GraphBuilder,
        arrivals: &mut Vec<(ReplayNode, Vec<ReplayDep>)>,
    ) {
        let (graph, number) = (&self.rank.graph, NodeIdx(self.first + self.node.0));
        let own = graph.deps(self.node).map(|dep| ReplayDep {
            from: NodeIdx(self.first + dep.from.0),
            ..dep
        });
        let mut node = self.as_measured();
        let mut meetings = plan.meetings_of(number).peekable();
        let arrival = plan.arrivals.binary_search(&number).ok();
        // Nearly all nodes take no part in a collective.
        if arrival.is_none() && meetings.peek().is_none() {
            return builder.push(node, own);
        }
        // When the node could have started by its own deps: the wait for the meeting counts from
        // then.
        let mut ready = node
            .start
            .filter(|_| !graph.edges_to(self.node).is_empty())
            .zip(node.latency)
            .map(|(start, latency)| TimeNs(start.0.saturating_sub(latency.0)));
        let mut own: Vec<ReplayDep> = own.collect();
        if let Some(at) = arrival {
            let kind = if graph.on_device(self.node) {
                EdgeKind::StreamOrder
            } else {
                EdgeKind::ProgramOrder
            };
            let dep = ReplayDep {
                from: plan.arrival_node(at as u32),
                kind,
                inferred: false,
            };
            arrivals.push((
                ReplayNode {
                    kind: ReplayKind::Arrival,
                    duration: DurationNs(0),
                    ..node
                },
                std::mem::replace(&mut own, vec![dep]),
            ));
            // The arrival has taken over the deps and their latency, and ends when the node had
            // started.
            (ready, node.latency) = (node.start, Some(DurationNs(0)));
        }
        let meetings: Vec<u32> = meetings.collect();
        if plan.transfers.binary_search(&number).is_ok() {
            // a worker's range or a wait is the collective
            node.kind = ReplayKind::Collective;
        }
        if let (Some(start), Some(met)) = (
            node.start,
            meetings
                .iter()
                .map(|meeting| plan.meetings[*meeting as usize].time)
                .max(),
        ) {
            // where clocks have the last come after the end, nothing is left of the transfer, and
            // the end is late by as much
            let begins = start.max(met.min(start + node.duration));
            (node.start, node.duration) = (Some(begins), start + node.duration - begins);
            // Of the two that the transfer waits for, the later one decides, and the latency is
            // what comes after it.
            node.latency = Some(begins - ready.map_or(met, |ready| ready.max(met)));
        }
        let first = plan.meeting_nodes().start;
        let meetings = meetings.into_iter().map(|meeting| ReplayDep {
            from: NodeIdx(first + meeting),
            kind: EdgeKind::Collective,
            inferred: false,
        });
        builder.push(node, meetings.chain(own));
    }

    fn as_measured(&self) -> ReplayNode {
        let (graph, node) = (&self.rank.graph, self.node.index());
        ReplayNode {
            kind: graph.kind[node],
            resource: self.first_resource + graph.resource[node],
            start: self.measured.then(|| graph.start[node]),
            duration: graph.duration[node],
            latency: Some(graph.latency[node]),
        }
    }
}
