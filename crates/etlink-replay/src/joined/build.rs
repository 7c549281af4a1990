//! Builds the nodes and edges of the joined graph.

use super::RankGraph;
use super::plan::{MeetingIdx, Plan, RankNodes};
use crate::graph::{EdgeKind, GraphBuilder, ReplayDep, ReplayKind, ReplayNode, Resource};
use etlink_model::{DurationNs, NodeIdx, ResourceIdx};

/// Name of the place of meetings.
const BETWEEN: &str = "between ranks";

/// Builds all nodes: the ranks' own, arrivals, meetings.
pub(super) fn joined_nodes(ranks: &[RankGraph], plan: &Plan) -> GraphBuilder {
    let mut builder = GraphBuilder::new(all_resources(ranks));
    let (nodes, edges) = plan.size(ranks);
    builder.reserve(nodes, edges);
    // Starts of only some ranks would place the others at 0: then no rank has measured times.
    let measured = ranks.iter().all(|rank| rank.graph.measured);
    let mut arrivals = vec![];
    let mut first_resource = 0;
    for (rank, place) in ranks.iter().zip(&plan.ranks) {
        for node in rank.graph.indices() {
            let source = SourceNode {
                rank,
                place: *place,
                first_resource,
                node,
                measured,
            };
            source.push_to(plan, &mut builder, &mut arrivals);
        }
        first_resource += rank.graph.resources.len();
    }
    // Arrivals come after all nodes of the ranks, whose numbers are thus only shifted.
    for (node, deps) in arrivals {
        builder.push(node, deps);
    }
    for meeting in &plan.meetings {
        let node = ReplayNode {
            kind: ReplayKind::Arrival,
            // The last resource belongs to no rank: see `all_resources`.
            resource: ResourceIdx::new(first_resource),
            start: measured.then_some(meeting.time),
            duration: DurationNs::ZERO,
        };
        let arrivals = meeting.arrivals.iter();
        builder.push(
            node,
            arrivals.map(|arrival| ReplayDep {
                from: plan.arrival_node(*arrival),
                kind: EdgeKind::Collective,
                inferred: false,
                latency: Some(DurationNs::ZERO),
            }),
        );
    }
    builder
}

/// Returns the threads and streams of all ranks, rank by rank, then the place of meetings.
fn all_resources(ranks: &[RankGraph]) -> Vec<Resource> {
    let mut all = vec![];
    for rank in ranks {
        for resource in &rank.graph.resources {
            all.push(Resource {
                rank: Some(rank.rank),
                ..resource.clone()
            });
        }
    }
    all.push(Resource {
        name: BETWEEN.to_owned(),
        on_device: false,
        rank: None,
    });
    all
}

/// A node of a rank.
struct SourceNode<'r> {
    rank: &'r RankGraph,
    place: RankNodes,
    first_resource: usize,
    node: NodeIdx,
    measured: bool,
}

impl SourceNode<'_> {
    fn push_to(
        &self,
        plan: &Plan,
        builder: &mut GraphBuilder,
        arrivals: &mut Vec<(ReplayNode, Vec<ReplayDep>)>,
    ) {
        let graph = &self.rank.graph;
        let number = self.place.common_node(self.node);
        let own = graph.deps(self.node).map(|dep| ReplayDep {
            from: self.place.common_node(dep.from),
            ..dep
        });
        let mut node = self.as_measured();
        let mut meetings = plan.meetings_before(number).peekable();
        let arrival = plan.arrival_at(number);
        // Nearly all nodes take no part in a collective.
        if arrival.is_none() && meetings.peek().is_none() {
            return builder.push(node, own);
        }
        let mut own: Vec<ReplayDep> = own.collect();
        // The arrival inherits the node's dependencies. No more time passes between it, or the
        // meeting, and the rank's part of the transfer.
        let mut latency = Some(DurationNs::ZERO);
        if let Some(arrival) = arrival {
            let dep = ReplayDep {
                from: plan.arrival_node(arrival),
                kind: self.order_kind(),
                inferred: false,
                latency,
            };
            let arrival_node = ReplayNode {
                kind: ReplayKind::Arrival,
                duration: DurationNs::ZERO,
                ..node
            };
            arrivals.push((arrival_node, std::mem::replace(&mut own, vec![dep])));
        } else if self.measured {
            // The node itself waits for the meeting, and for what only its rank knows. The latency
            // of each edge follows only from the times of both together.
            latency = None;
            for dep in &mut own {
                dep.latency = None;
            }
        }
        if plan.transfers.binary_search(&number).is_ok() {
            // a worker's range or a wait represents the collective
            node.kind = ReplayKind::Collective;
        }
        let meetings: Vec<MeetingIdx> = meetings.collect();
        if let (Some(start), Some(met)) = (node.start, plan.last_meeting(&meetings)) {
            // if clocks put the last arrival after the end, nothing is left of the transfer, and
            // the end is late by the same time
            let begins = start.max(met.min(start + node.duration));
            (node.start, node.duration) = (Some(begins), start + node.duration - begins);
        }
        let meetings = meetings.into_iter().map(|meeting| ReplayDep {
            from: plan.meeting_node(meeting),
            kind: EdgeKind::Collective,
            inferred: false,
            latency,
        });
        // A meeting and the rank's own work can end together. The run takes the first of equal ends
        // for the cause, so the meeting goes first.
        builder.push(node, meetings.chain(own));
    }

    /// Returns the kind of order between an arrival and its node, as for the rest of the thread or
    /// stream.
    fn order_kind(&self) -> EdgeKind {
        if self.rank.graph.on_device(self.node) {
            EdgeKind::StreamOrder
        } else {
            EdgeKind::ProgramOrder
        }
    }

    fn as_measured(&self) -> ReplayNode {
        let (graph, node) = (&self.rank.graph, self.node.index());
        let resource = self.first_resource + graph.resource[node].index();
        ReplayNode {
            kind: graph.kind[node],
            resource: ResourceIdx::new(resource),
            start: self.measured.then(|| graph.start[node]),
            duration: graph.duration[node],
        }
    }
}
