//! Reduces a graph to device work: host work becomes chains of time between the nodes that launch,
//! wait and communicate.
//!
//! ```text
//! thread    op | op | call | op | gap | sync    ->    host | host        | host
//! stream              kernel        ==|                      kernel    ==|
//! ```
//! A host node is merged with the previous node on its thread if it waits for nothing else and
//! nothing else waits for the previous node. Each path through host nodes thus keeps its length,
//! and nothing starts earlier or later than in the whole graph. O(nodes + edges).

use super::{PartGraph, stand_in};
use etlink_link::{Edge, EdgeKind, Edges, Nodes};
use etlink_model::NodeIdx;
use std::borrow::Cow;

/// Returns the device part of `whole`.
pub(super) fn of(whole: PartGraph<'_>) -> PartGraph<'_> {
    let nodes = whole.nodes.clone();
    let mut stays = nodes.on_device.clone();
    whole
        .communications
        .iter()
        .for_each(|node| stays[node.index()] = true);
    let with = written_with(&whole.edges, &stays);
    let edges = whole.edges.clone();
    let origins: Vec<NodeIdx> = nodes
        .indices()
        .map(|node| whole.origin(node).unwrap_or(NodeIdx::NONE))
        .collect();
    let transfers = whole.transfers.clone();
    let mut part = PartGraph {
        nodes: Cow::Owned(Nodes::default()),
        edges: Cow::Owned(Edges::default()),
        origin: vec![],
        standing_for: "host",
        ..whole
    };
    let (mut kept, mut takes, mut number) =
        (Nodes::default(), vec![], vec![NodeIdx(0); nodes.len()]);
    for node in nodes.indices() {
        let (own, first) = (node.index(), with[node.index()]);
        let duration = nodes.duration[own];
        let take = part.takes.get(own).copied();
        if first == node {
            number[own] = NodeIdx::new(kept.len());
            if stays[own] {
                part.origin.push(origins[own]);
                kept.push(nodes.get(node));
            } else {
                part.origin.push(NodeIdx::NONE);
                kept.push(stand_in(nodes.get(node), duration));
            }
            takes.extend(take);
            continue;
        }
        number[own] = number[first.index()];
        let at = number[own].index();
        kept.duration[at] += duration;
        // The time between the two belongs to the chain's length.
        kept.duration[at] += nodes.latency(&edges, node);
        take.into_iter().for_each(|take| takes[at] += take);
    }
    let renumbered = edges.iter().map(|edge| Edge {
        to: number[edge.to.index()],
        from: number[edge.from.index()],
        ..edge
    });
    // Edges within a chain have become loops.
    let made = renumbered.filter(|edge| edge.to != edge.from).collect();
    part.communications = part
        .communications
        .iter()
        .map(|node| number[node.index()])
        .collect();
    let renumbered = |pairs: Vec<(NodeIdx, NodeIdx)>| {
        let pairs = pairs.into_iter();
        pairs
            .map(|(node, comm)| (number[node.index()], number[comm.index()]))
            .collect()
    };
    part.transfers = transfers.map(renumbered);
    part.edges = Cow::Owned(Edges::new(made, kept.len()));
    (part.nodes, part.takes) = (Cow::Owned(kept), takes);
    part
}

/// Returns, for each node, the node it is merged with: itself or the first of its chain.
fn written_with(edges: &Edges, stays: &[bool]) -> Vec<NodeIdx> {
    let all = || (0..stays.len()).map(NodeIdx::new);
    let before: Vec<Option<NodeIdx>> = all().map(|node| before(edges, node)).collect();
    let mut branches = vec![false; stays.len()];
    // A node with a dependent outside of its chain must end by itself.
    for edge in edges
        .iter()
        .filter(|edge| stays[edge.to.index()] || before[edge.to.index()] != Some(edge.from))
    {
        branches[edge.from.index()] = true;
    }
    let mut with: Vec<NodeIdx> = all().collect();
    for node in all().filter(|node| !stays[node.index()]) {
        let ends_alone = |node: &NodeIdx| stays[node.index()] || branches[node.index()];
        let mut deps = edges.deps(node).iter();
        if let Some(before) = before[node.index()]
            && !ends_alone(&before)
            && deps.all(|edge| edge.from == before)
        {
            with[node.index()] = with[before.index()];
        }
    }
    with
}

/// Returns the previous node on the same thread.
fn before(edges: &Edges, node: NodeIdx) -> Option<NodeIdx> {
    edges
        .deps(node)
        .iter()
        .find(|edge| edge.kind == EdgeKind::ProgramOrder)
        .map(|edge| edge.from)
}
