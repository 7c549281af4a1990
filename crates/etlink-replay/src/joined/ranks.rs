//! How each rank fared.

use super::JoinedGraph;
use crate::figures::{mean_error, node_error, replay_error};
use crate::graph::EdgeKind;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, TimeNs};
use serde::Serialize;
use std::ops::Range;

/// Time in collectives and messages that are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveTimes {
    /// Number of collectives and messages.
    pub count: u64,
    /// From a rank's arrival, or from when it has nothing else to wait for, to the last one's, ns.
    pub waiting_ns: DurationNs,
    /// From the last arrival to the end, ns.
    pub transfer_ns: DurationNs,
}

/// One rank of a run of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankFigures {
    /// Global rank.
    pub rank: GlobalRank,
    /// Nodes, without arrivals.
    pub nodes: u64,
    /// First start to last end, as measured.
    pub measured_ns: Option<DurationNs>,
    /// The same in the run.
    pub replayed_ns: DurationNs,
    /// From the first start of all ranks to this rank's last end, in the run.
    pub end_ns: DurationNs,
    /// By how much of the measured time they differ.
    pub replay_error: Option<f64>,
    /// Mean difference of the nodes' ends, ns.
    pub end_error_ns: Option<DurationNs>,
    /// What it does together with others, in the run.
    pub collectives: CollectiveTimes,
}

impl JoinedGraph {
    /// The ranks one by one. O(nodes + parts).
    pub fn by_rank(&self, run: &ReplayRun) -> Vec<RankFigures> {
        let (origin, _) = run.window();
        let mut figures = vec![];
        for (place, rank) in self.plan.ranks.iter().enumerate() {
            let nodes = self.plan.rank_nodes(place);
            figures.push(self.rank_figures(run, rank.rank, nodes, origin));
        }
        figures
    }

    fn rank_figures(
        &self,
        run: &ReplayRun,
        rank: GlobalRank,
        nodes: Range<u32>,
        origin: TimeNs,
    ) -> RankFigures {
        let graph = &self.graph;
        let replayed_end = indices(&nodes).map(|node| run.end(node)).max();
        let replayed_ns = length_between(self.first_start(&nodes, &run.start), replayed_end);
        let measured_ns = graph.measured.then(|| {
            let measured_end = indices(&nodes).map(|node| graph.end(node)).max();
            length_between(self.first_start(&nodes, &graph.start), measured_end)
        });
        let errors = indices(&nodes).map(|node| node_error(graph, run, node));
        RankFigures {
            rank,
            nodes: nodes.len() as u64,
            measured_ns,
            replayed_ns,
            end_ns: length_between(Some(origin), replayed_end),
            replay_error: measured_ns.map(|measured| replay_error(replayed_ns, measured)),
            end_error_ns: graph.measured.then(|| mean_error(errors)),
            collectives: self.collective_times(run, nodes),
        }
    }

    /// When the first of a rank's nodes starts by `starts`.
    fn first_start(&self, nodes: &Range<u32>, starts: &[TimeNs]) -> Option<TimeNs> {
        let nodes = indices(nodes);
        nodes.map(|node| self.arrival_start(node, starts)).min()
    }

    /// When a node starts by `starts`, or its arrival where it has one.
    fn arrival_start(&self, node: NodeIdx, starts: &[TimeNs]) -> TimeNs {
        // A node that communicates starts when all have come. The rank was there before.
        let node = self.plan.arrival_of(node).unwrap_or(node);
        starts[node.index()]
    }

    fn collective_times(&self, run: &ReplayRun, nodes: Range<u32>) -> CollectiveTimes {
        let all = &self.plan.transfers;
        let start = all.partition_point(|node| node.0 < nodes.start);
        let end = all.partition_point(|node| node.0 < nodes.end);
        let own = &all[start..end];
        let mut sum = CollectiveTimes {
            count: own.len() as u64,
            ..CollectiveTimes::default()
        };
        for &node in own {
            sum.waiting_ns += self.wait_for_others(run, node);
            sum.transfer_ns += run.duration[node.index()];
        }
        sum
    }

    /// How much later a transfer begins because of the others.
    fn wait_for_others(&self, run: &ReplayRun, node: NodeIdx) -> DurationNs {
        let (mut own, mut met) = (None, None);
        for dep in self.graph.deps(node) {
            let latest = if dep.kind == EdgeKind::Collective {
                &mut met
            } else {
                &mut own
            };
            *latest = (*latest).max(Some(run.end(dep.from)));
        }
        met.zip(own)
            .map_or(DurationNs::ZERO, |(met, own)| met - own)
    }
}

/// The nodes of a rank, which follow each other in the common graph.
fn indices(nodes: &Range<u32>) -> impl ExactSizeIterator<Item = NodeIdx> + use<> {
    nodes.clone().map(NodeIdx)
}

/// From a first start to a last end; zero of a rank without nodes.
fn length_between(first: Option<TimeNs>, last: Option<TimeNs>) -> DurationNs {
    last.zip(first)
        .map_or(DurationNs::ZERO, |(last, first)| last - first)
}
