//! Edges the other way round: who waits for a node.

use super::{ReplayDep, ReplayGraph};

pub(crate) struct Followers {
    first: Vec<u32>,
    all: Vec<u32>,
}

impl Followers {
    /// Those of the edges that are `kept`.
    pub(crate) fn new(graph: &ReplayGraph, kept: impl Fn(ReplayDep) -> bool) -> Followers {
        let edges = || {
            (0..graph.len())
                .flat_map(|node| graph.deps(node).map(move |dep| (node as u32, dep)))
                .filter(|(_, dep)| kept(*dep))
        };
        // Two passes over the edges (count, then place) take no list per node.
        let mut first = vec![0u32; graph.len() + 1];
        edges().for_each(|(_, dep)| first[dep.from as usize + 1] += 1);
        for node in 0..graph.len() {
            first[node + 1] += first[node];
        }
        let mut all = vec![0u32; first.last().map_or(0, |edges| *edges as usize)];
        let mut next = first.clone();
        for (node, dep) in edges() {
            let place = &mut next[dep.from as usize];
            all[*place as usize] = node;
            *place += 1;
        }
        Followers { first, all }
    }

    pub(crate) fn of(&self, node: u32) -> &[u32] {
        &self.all[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}
