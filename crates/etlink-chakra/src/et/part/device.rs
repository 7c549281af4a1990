//! Devices alone: what the host did is chains of time between the nodes that launch, wait and
//! communicate.
//!
//! ```text
//! thread    op | op | call | op | gap | sync    ->    host | host        | host
//! stream              kernel        ==|                      kernel    ==|
//! ```
//! A host node is written with the one before it on its thread where it waits for nothing else and
//! nothing else waits for that one. So each path through host nodes keeps its length, and nothing
//! starts earlier or later than in the whole graph. O(nodes + edges).

use super::{PartGraph, stand_in};
use etlink_link::{Edge, EdgeKind, Edges, Nodes};
use std::borrow::Cow;

/// The part of `whole`.
pub(super) fn of(whole: PartGraph<'_>) -> PartGraph<'_> {
    let nodes = whole.nodes.clone();
    let mut stays = nodes.on_device.clone();
    whole
        .communications
        .iter()
        .for_each(|node| stays[*node as usize] = true);
    let with = written_with(&whole.edges, &stays);
    let edges = whole.edges.clone();
    let mut part = PartGraph {
        nodes: Cow::Owned(Nodes::default()),
        edges: Cow::Owned(Edges::default()),
        standing_for: "host",
        ..whole
    };
    let (mut kept, mut takes, mut number) = (Nodes::default(), vec![], vec![0; nodes.len()]);
    for node in 0..nodes.len() {
        let (at, duration) = (with[node] as usize, nodes.duration[node]);
        let take = part.takes.get(node).copied();
        if at == node {
            number[node] = kept.len() as u32;
            part.origin
                .push(if stays[node] { node as u32 } else { u32::MAX });
            kept.push(if stays[node] {
                nodes.get(node)
            } else {
                stand_in(nodes.get(node), duration)
            });
            takes.extend(take);
            continue;
        }
        let at = number[at] as usize;
        number[node] = at as u32;
        kept.duration[at] += duration;
        // The time between the two is part of the chain's length.
        kept.duration[at] += nodes.latency(&edges, node);
        take.into_iter().for_each(|take| takes[at] += take);
    }
    let renumbered = edges.iter().map(|edge| Edge {
        to: number[edge.to as usize],
        from: number[edge.from as usize],
        ..edge
    });
    // Edges within a chain have become loops.
    let made = renumbered.filter(|edge| edge.to != edge.from).collect();
    part.communications = part
        .communications
        .iter()
        .map(|node| number[*node as usize])
        .collect();
    part.edges = Cow::Owned(Edges::new(made, kept.len()));
    (part.nodes, part.takes) = (Cow::Owned(kept), takes);
    part
}

/// Per node, the one that it is written with: itself or the first of its chain.
fn written_with(edges: &Edges, stays: &[bool]) -> Vec<u32> {
    let before: Vec<Option<u32>> = (0..stays.len()).map(|node| before(edges, node)).collect();
    let mut branches = vec![false; stays.len()];
    // A node that something off its chain waits for must end by itself.
    for edge in edges
        .iter()
        .filter(|edge| stays[edge.to as usize] || before[edge.to as usize] != Some(edge.from))
    {
        branches[edge.from as usize] = true;
    }
    let mut with: Vec<u32> = (0..stays.len() as u32).collect();
    for node in (0..stays.len()).filter(|node| !stays[*node]) {
        if let Some(before) = before[node]
            .map(|before| before as usize)
            .filter(|before| !stays[*before] && !branches[*before])
            && edges
                .deps(node)
                .iter()
                .all(|edge| edge.from as usize == before)
        {
            with[node] = with[before];
        }
    }
    with
}

/// The node before this one on its thread.
fn before(edges: &Edges, node: usize) -> Option<u32> {
    edges
        .deps(node)
        .iter()
        .find(|edge| edge.kind == EdgeKind::ProgramOrder)
        .map(|edge| edge.from)
}
