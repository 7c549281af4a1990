//! What the nodes of all ranks are called.

use super::{CollectiveNodes, JoinedGraph};
use crate::labels::LabelSource;
use etlink_model::{Correlation, NameId, Names, NodeIdx};

/// A rank's names and numbers, without the trace that they are from.
#[derive(Clone, Debug, Default)]
pub struct RankNames {
    names: Names,
    name: Vec<NameId>,
    correlation: Vec<Correlation>,
    /// Empty: the nodes' places.
    id: Vec<u64>,
}

impl RankNames {
    /// Takes those of so many nodes. O(nodes).
    pub fn from_labels(labels: &dyn LabelSource, nodes: usize) -> RankNames {
        let all = || (0..u32::try_from(nodes).unwrap_or(u32::MAX)).map(NodeIdx);
        let mut names = Names::default();
        let name = all().map(|node| names.intern(labels.name(node))).collect();
        let correlation = all()
            .map(|node| {
                labels
                    .correlation(node)
                    .map_or(Correlation::NONE, Correlation)
            })
            .collect();
        // Linked traces number nodes by place: a list of them would be 8 bytes per node for
        // nothing.
        let places = all().all(|node| labels.id(node) == u64::from(node.0));
        let id = if places {
            vec![]
        } else {
            all().map(|node| labels.id(node)).collect()
        };
        RankNames {
            names,
            name,
            correlation,
            id,
        }
    }
}

impl LabelSource for RankNames {
    fn name(&self, node: NodeIdx) -> &str {
        self.name
            .get(node.index())
            .map_or("", |name| self.names.get(*name))
    }

    fn id(&self, node: NodeIdx) -> u64 {
        self.id
            .get(node.index())
            .copied()
            .unwrap_or(u64::from(node.0))
    }

    fn correlation(&self, node: NodeIdx) -> Option<i64> {
        self.correlation
            .get(node.index())?
            .get()
            .map(|correlation| correlation.0)
    }
}

/// The names of all ranks and collectives. Nodes bear the numbers that they have in their ranks.
#[derive(Clone, Copy, Debug)]
pub struct RankLabels<'l> {
    /// Whose nodes they are.
    pub joined: &'l JoinedGraph,
    /// By rank.
    pub ranks: &'l [RankNames],
    /// As they were joined.
    pub collectives: &'l [CollectiveNodes],
}

/// Where a node of the common graph comes from.
enum Origin {
    Own(usize, NodeIdx),
    Meeting(u32),
}

impl RankLabels<'_> {
    fn origin(&self, node: NodeIdx) -> Origin {
        let plan = &self.joined.plan;
        let meeting = node.0.checked_sub(plan.meeting_nodes().start);
        if let Some(meeting) = meeting.and_then(|at| plan.meetings.get(at as usize)) {
            return Origin::Meeting(meeting.collective);
        }
        let own = node
            .0
            .checked_sub(plan.nodes)
            .and_then(|at| plan.arrivals.get(at as usize))
            .copied()
            .unwrap_or(node);
        let rank = plan
            .ranks
            .partition_point(|(_, first)| *first <= own.0)
            .saturating_sub(1);
        let first = plan.ranks.get(rank).map_or(0, |(_, first)| *first);
        Origin::Own(rank, NodeIdx(own.0 - first))
    }
}

impl LabelSource for RankLabels<'_> {
    fn name(&self, node: NodeIdx) -> &str {
        match self.origin(node) {
            Origin::Own(rank, node) => self.ranks.get(rank).map_or("", |labels| labels.name(node)),
            Origin::Meeting(collective) => self
                .collectives
                .get(collective as usize)
                .map_or("", |collective| &collective.name),
        }
    }

    fn id(&self, node: NodeIdx) -> u64 {
        match self.origin(node) {
            Origin::Own(rank, node) => self.ranks.get(rank).map_or(0, |labels| labels.id(node)),
            Origin::Meeting(collective) => u64::from(collective),
        }
    }

    fn correlation(&self, node: NodeIdx) -> Option<i64> {
        match self.origin(node) {
            Origin::Own(rank, node) => self.ranks.get(rank)?.correlation(node),
            Origin::Meeting(_) => None,
        }
    }
}
