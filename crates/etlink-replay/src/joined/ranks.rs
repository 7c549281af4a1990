//! How each rank fared.

use super::JoinedGraph;
use crate::graph::EdgeKind;
use crate::run::ReplayRun;
use crate::stats::share;
use serde::Serialize;

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
            .map(|((rank, first), end)| {
                self.of_rank(run, *rank, *first as usize..end as usize, origin.0)
            })
            .collect()
    }

    fn of_rank(
        &self,
        run: &ReplayRun,
        rank: i64,
        nodes: std::ops::Range<usize>,
        origin: i64,
    ) -> RankFigures {
        let graph = &self.graph;
        let makespan = |start: &dyn Fn(usize) -> i64, end: &dyn Fn(usize) -> i64| {
            let last = nodes.clone().map(end).max();
            last.zip(nodes.clone().map(start).min())
                .map_or(0, |(last, first)| last.saturating_sub(first))
        };
        let replayed_ns = makespan(
            &|node| self.begins(node, run.start[node].0, |at| run.start[at].0),
            &|node| run.end(node).0,
        );
        let measured_ns = graph.measured.then(|| {
            makespan(
                &|node| self.begins(node, graph.start[node].0, |at| graph.start[at].0),
                &|node| graph.end(node).0,
            )
        });
        let late = |node: usize| i128::from(run.end(node).since(graph.end(node))).abs();
        let late = graph
            .measured
            .then(|| nodes.clone().map(late).sum::<i128>() / nodes.len().max(1) as i128);
        RankFigures {
            rank,
            nodes: nodes.len() as u64,
            measured_ns,
            replayed_ns,
            end_ns: nodes
                .clone()
                .map(|node| run.end(node).0)
                .max()
                .unwrap_or(origin)
                .saturating_sub(origin),
            replay_error: measured_ns
                .map(|measured| share((replayed_ns - measured).abs(), measured)),
            end_error_ns: late.map(|late| i64::try_from(late).unwrap_or(i64::MAX)),
            collectives: self.collectives(run, nodes),
        }
    }

    /// When a node or its arrival starts.
    fn begins(&self, node: usize, start: i64, of: impl Fn(usize) -> i64) -> i64 {
        let arrival = self.plan.arrivals.binary_search(&(node as u32));
        arrival.map_or(start, |at| of(self.plan.nodes as usize + at))
    }

    fn collectives(&self, run: &ReplayRun, nodes: std::ops::Range<usize>) -> CollectiveTimes {
        let all = &self.plan.transfers;
        let own = all.partition_point(|node| (*node as usize) < nodes.start)
            ..all.partition_point(|node| (*node as usize) < nodes.end);
        let mut sum = CollectiveTimes {
            count: own.len() as u64,
            ..CollectiveTimes::default()
        };
        for &node in &all[own] {
            sum.waiting_ns = sum
                .waiting_ns
                .saturating_add(self.waits(run, node as usize));
            sum.transfer_ns = sum
                .transfer_ns
                .saturating_add(run.duration[node as usize].0);
        }
        sum
    }

    /// How much later a transfer begins because of the others.
    fn waits(&self, run: &ReplayRun, node: usize) -> i64 {
        let (mut own, mut met) = (None, None);
        for dep in self.graph.deps(node) {
            let latest = if dep.kind == EdgeKind::Collective {
                &mut met
            } else {
                &mut own
            };
            *latest = (*latest).max(Some(run.end(dep.from as usize)));
        }
        met.zip(own).map_or(0, |(met, own)| (met - own).0.max(0))
    }
}
