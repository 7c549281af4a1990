//! Figures of each rank in a joined run.

use super::JoinedGraph;
use crate::figures::{mean_error, node_error, replay_error};
use crate::graph::EdgeKind;
use crate::path::resources_with_work;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, GlobalRank, NodeIdx, TimeNs};
use serde::Serialize;
use std::ops::Range;

/// Time in joined collectives and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveTimes {
    /// Number of collectives and messages.
    pub count: u64,
    /// Time in ns from a rank's arrival, or from when it has nothing else to wait for, to the last
    /// arrival.
    pub waiting_ns: DurationNs,
    /// Time in ns from the last arrival to the end.
    pub transfer_ns: DurationNs,
}

/// Figures of one rank in a run of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankFigures {
    /// Global rank.
    pub rank: GlobalRank,
    /// Number of nodes, without arrivals.
    pub nodes: u64,
    /// Measured time from first start to last end.
    pub measured_ns: Option<DurationNs>,
    /// Time from first start to last end in the run.
    pub replayed_ns: DurationNs,
    /// Time from the first start of all ranks to the end of this rank's last work, in the run,
    /// without threads that nothing waits for.
    pub end_ns: DurationNs,
    /// Difference of the two times, relative to the measured one.
    pub replay_error: Option<f64>,
    /// Mean difference of the nodes' ends, in ns.
    pub end_error_ns: Option<DurationNs>,
    /// Joint communications of the rank in the run.
    pub collectives: CollectiveTimes,
}

impl JoinedGraph {
    /// Returns the figures of each rank. O(nodes + parts).
    pub fn by_rank(&self, run: &ReplayRun) -> Vec<RankFigures> {
        let (origin, _) = run.window();
        let has_work = resources_with_work(&self.graph);
        let mut figures = vec![];
        for (place, rank) in self.plan.ranks.iter().enumerate() {
            let nodes = self.plan.rank_nodes(place);
            let at_work =
                indices(&nodes).filter(|node| has_work[self.graph.resource[node.index()].index()]);
            let work_end = at_work.map(|node| run.end(node)).max();
            let end_ns = length_between(Some(origin), work_end);
            figures.push(self.rank_figures(run, rank.rank, nodes, end_ns));
        }
        figures
    }

    fn rank_figures(
        &self,
        run: &ReplayRun,
        rank: GlobalRank,
        nodes: Range<u32>,
        end_ns: DurationNs,
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
            end_ns,
            replay_error: measured_ns.map(|measured| replay_error(replayed_ns, measured)),
            end_error_ns: graph.measured.then(|| mean_error(errors)),
            collectives: self.collective_times(run, nodes),
        }
    }

    /// Returns the first start of a rank's nodes, according to `starts`.
    fn first_start(&self, nodes: &Range<u32>, starts: &[TimeNs]) -> Option<TimeNs> {
        let nodes = indices(nodes);
        nodes.map(|node| self.arrival_start(node, starts)).min()
    }

    /// Returns the start of a node according to `starts`, or of its arrival if it has one.
    fn arrival_start(&self, node: NodeIdx, starts: &[TimeNs]) -> TimeNs {
        // A communicating node starts when all have come. The rank was there before.
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

    /// Returns the delay of a transfer's begin that other ranks caused.
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

/// Returns the nodes of a rank, which are consecutive in the joined graph.
fn indices(nodes: &Range<u32>) -> impl ExactSizeIterator<Item = NodeIdx> + use<> {
    nodes.clone().map(NodeIdx)
}

/// Returns the time from a first start to a last end; zero for a rank without nodes.
fn length_between(first: Option<TimeNs>, last: Option<TimeNs>) -> DurationNs {
    last.zip(first)
        .map_or(DurationNs::ZERO, |(last, first)| last - first)
}
