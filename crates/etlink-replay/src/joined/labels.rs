//! Labels of the nodes of all ranks.

use super::plan::CollectiveIdx;
use super::{CollectiveNodes, JoinedGraph};
use crate::labels::LabelSource;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Correlation, NameId, Names, NodeIdx, RankIdx};
use std::collections::BTreeMap;

/// Names and numbers of a rank's nodes, independent of the trace.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankNames {
    names: Names,
    name: Vec<NameId>,
    correlation: Vec<Correlation>,
    /// Annotations of the few nodes that have one.
    annotation: BTreeMap<NodeIdx, NameId>,
    /// Node ids in the file; empty if they equal the nodes' places.
    id: Vec<u64>,
}

impl RankNames {
    /// Copies the labels of the first `nodes` nodes. O(nodes).
    pub fn from_labels(labels: &dyn LabelSource, nodes: usize) -> RankNames {
        let all = (0..nodes).map(NodeIdx::new);
        let mut names = Names::default();
        let name = all.clone().map(|node| names.intern(labels.name(node)));
        let name = name.collect();
        let noted = all
            .clone()
            .filter(|node| !labels.annotation(*node).is_empty());
        let annotation = noted
            .map(|node| (node, names.intern(labels.annotation(node))))
            .collect();
        // 8 bytes per node instead of the 16 of an `Option`.
        let correlations = all.clone().map(|node| labels.correlation(node));
        let correlation = correlations.map(Option::unwrap_or_default).collect();
        // Linked traces number nodes by place: a list would waste 8 bytes per node.
        let mut numbered = all.clone();
        let places = numbered.all(|node| labels.id(node) == u64::from(node.0));
        let id = if places {
            vec![]
        } else {
            all.map(|node| labels.id(node)).collect()
        };
        RankNames {
            names,
            name,
            correlation,
            annotation,
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

    fn annotation(&self, node: NodeIdx) -> &str {
        let note = self.annotation.get(&node);
        note.map_or("", |note| self.names.get(*note))
    }

    fn correlation(&self, node: NodeIdx) -> Option<Correlation> {
        self.correlation.get(node.index())?.get()
    }
}

/// Labels of all ranks and collectives. Nodes have the numbers of their ranks.
#[derive(Clone, Copy, Debug)]
pub struct RankLabels<'l> {
    /// Joined graph of the ranks.
    pub joined: &'l JoinedGraph,
    /// Names by rank.
    pub ranks: &'l [RankNames],
    /// Collectives that were joined, in the same order.
    pub collectives: &'l [CollectiveNodes],
}

/// Origin of a node in the joined graph.
enum Origin {
    Own(RankIdx, NodeIdx),
    Meeting(CollectiveIdx),
    /// Not a node of the graph.
    Nowhere,
}

impl RankLabels<'_> {
    fn origin(&self, node: NodeIdx) -> Origin {
        let plan = &self.joined.plan;
        if let Some(meeting) = plan.meeting_at(node) {
            return Origin::Meeting(meeting.collective);
        }
        // An arrival has the name of the node that follows it.
        let node = plan.node_of_arrival(node).unwrap_or(node);
        let own = plan.own_node(node);
        own.map_or(Origin::Nowhere, |(rank, own)| Origin::Own(rank, own))
    }

    fn names(&self, rank: RankIdx) -> Option<&RankNames> {
        self.ranks.get(rank.index())
    }
}

impl LabelSource for RankLabels<'_> {
    fn name(&self, node: NodeIdx) -> &str {
        match self.origin(node) {
            Origin::Own(rank, node) => self.names(rank).map_or("", |names| names.name(node)),
            Origin::Meeting(collective) => {
                let collective = self.collectives.get(collective.index());
                collective.map_or("", |collective| &collective.name)
            }
            Origin::Nowhere => "",
        }
    }

    fn id(&self, node: NodeIdx) -> u64 {
        match self.origin(node) {
            Origin::Own(rank, node) => self.names(rank).map_or(0, |names| names.id(node)),
            // A meeting is in no file: its collective's number is what two reports have in common.
            Origin::Meeting(collective) => u64::from(collective.0),
            Origin::Nowhere => 0,
        }
    }

    fn annotation(&self, node: NodeIdx) -> &str {
        match self.origin(node) {
            Origin::Own(rank, node) => self.names(rank).map_or("", |names| names.annotation(node)),
            Origin::Meeting(_) | Origin::Nowhere => "",
        }
    }

    fn correlation(&self, node: NodeIdx) -> Option<Correlation> {
        match self.origin(node) {
            Origin::Own(rank, node) => self.names(rank)?.correlation(node),
            Origin::Meeting(_) | Origin::Nowhere => None,
        }
    }
}
