//! How each rank fared.

use super::JoinedGraph;
use crate::graph::EdgeKind;
use crate::run::ReplayRun;
use crate::stats::share;
use etlink_model::{NodeIdx, TimeNs};
use serde::Serialize;
use std::ops::Range;

/// Time in collectives and messages that are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectiveTimes {
    /// Number of collectives and messages.
    pub count: u64,
    /// From a rank's arrival, or from when it has nothing else to wait for, to the last one's, ns.
    pub waiting_ns: i64,
    /// From the last arrival to the end, ns.
    pub transfer_ns: i64,
}

/// One rank of a run of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankFigures {
    /// Global rank.
    pub rank: i64,
    /// Nodes, without arrivals.
    pub nodes: u64,
    /// First start to last end, as measured.
    pub measured_ns: Option<i64>,
    /// The same in the run.
    pub replayed_ns: i64,
    /// From the first start of all ranks to this rank's last end, in the run.
    pub end_ns: i64,
    /// By how much of the measured time they differ.
    pub replay_error: Option<f64>,
    /// Mean difference of the nodes' ends, ns.
    pub end_error_ns: Option<i64>,
    /// What it does together with others, in the run.
    pub collectives: CollectiveTimes,
}

impl JoinedGraph {
    /// The ranks one by one. O(nodes + parts).
    pub fn by_rank(&self, run: &ReplayRun) -> Vec<RankFigures> {
        let (origin, _) = run.window();
        let ends = self
            .plan
            .ranks
            .iter()
            .skip(1)
            .map(|(_, first)| *first)
            .chain([self.plan.nodes]);
        let ranks = self.plan.ranks.iter().zip(ends);
        ranks
            .map(|((rank, first), end)| self.rank_figures(run, *rank, *first..end, origin))
            .collect()
    }

    fn rank_figures(
        &self,
        run: &ReplayRun,
        rank: i64,
        nodes: Range<u32>,
        origin: TimeNs,
    ) -> RankFigures {
        let graph = &self.graph;
        let own = || nodes.clone().map(NodeIdx);
        let first_start = |starts: &[TimeNs]| own().map(|node| self.arrival(node, starts)).min();
        let replayed_end = own().map(|node| run.end(node)).max();
        let replayed_ns = length_ns(first_start(&run.start), replayed_end);
        let measured_ns = graph.measured.then(|| {
            let measured_end = own().map(|node| graph.end(node)).max();
            length_ns(first_start(&graph.start), measured_end)
        });
        let end_error_ns = graph.measured.then(|| {
            // Errors of millions of nodes can sum to more than 64 bits in a trace of hours.
            let errors = own().map(|node| i128::from(run.end(node).since(graph.end(node))).abs());
            let mean = errors.sum::<i128>() / nodes.len().max(1) as i128;
            i64::try_from(mean).unwrap_or(i64::MAX)
        });
        RankFigures {
            rank,
            nodes: nodes.len() as u64,
            measured_ns,
            replayed_ns,
            end_ns: replayed_end.map_or(0, |end| end.since(origin)),
            replay_error: measured_ns
                .map(|measured| share((replayed_ns - measured).abs(), measured)),
            end_error_ns,
            collectives: self.collective_times(run, nodes),
        }
    }

    /// When a node starts by `starts`, or its arrival where it has one.
    fn arrival(&self, node: NodeIdx, starts: &[TimeNs]) -> TimeNs {
        let arrival = self.plan.arrivals.binary_search(&node);
        let node = arrival.map_or(node, |at| self.plan.arrival_node(at as u32));
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
            let waiting = self.waiting_ns(run, node);
            sum.waiting_ns = sum.waiting_ns.saturating_add(waiting);
            let transfer = run.duration[node.index()].0;
            sum.transfer_ns = sum.transfer_ns.saturating_add(transfer);
        }
        sum
    }

    /// How much later a transfer begins because of the others.
    fn waiting_ns(&self, run: &ReplayRun, node: NodeIdx) -> i64 {
        let (mut own, mut met) = (None, None);
        for dep in self.graph.deps(node) {
            let latest = if dep.kind == EdgeKind::Collective {
                &mut met
            } else {
                &mut own
            };
            *latest = (*latest).max(Some(run.end(dep.from)));
        }
        met.zip(own).map_or(0, |(met, own)| (met - own).0)
    }
}

/// From a first start to a last end; 0 of a rank without nodes.
fn length_ns(first: Option<TimeNs>, last: Option<TimeNs>) -> i64 {
    last.zip(first).map_or(0, |(last, first)| last.since(first))
}
