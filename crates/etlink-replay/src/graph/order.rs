//! An order in which each node comes after all that it waits for (Kahn).

use super::followers::Followers;
use super::{Error, ReplayGraph};

/// The order; empty where that of the numbers will do. O(nodes + edges).
pub(crate) fn topological_order(graph: &ReplayGraph) -> Result<Vec<u32>, Error> {
    // A linked graph is numbered by time, so that its numbers are an order already.
    if (0..graph.len()).all(|node| graph.deps(node).all(|dep| (dep.from as usize) < node)) {
        return Ok(vec![]);
    }
    let followers = Followers::new(graph, |_| true);
    let mut waits: Vec<u32> = (0..graph.len())
        .map(|node| graph.edges_to(node).len() as u32)
        .collect();
    let mut order: Vec<u32> = (0..graph.len() as u32)
        .filter(|node| waits[*node as usize] == 0)
        .collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &follower in followers.of(node) {
            waits[follower as usize] -= 1;
            if waits[follower as usize] == 0 {
                order.push(follower);
            }
        }
    }
    if order.len() < graph.len() {
        Err(Error::Cycle(find_cycle(graph, &waits)))
    } else {
        Ok(order)
    }
}

/// Which `gates` have to open early: of those that are stuck always the first. Numbers are counted
/// from the first gate.
pub(crate) fn jammed_gates(graph: &ReplayGraph, gates: std::ops::Range<u32>) -> Vec<u32> {
    let followers = Followers::new(graph, |_| true);
    let mut waits: Vec<u32> = (0..graph.len())
        .map(|node| graph.edges_to(node).len() as u32)
        .collect();
    let mut ready: Vec<u32> = (0..graph.len() as u32)
        .filter(|node| waits[*node as usize] == 0)
        .collect();
    let (first, mut gates, mut jammed) = (gates.start, gates, vec![]);
    loop {
        // The order of a stack will do: only who gets stuck matters, which no order changes.
        while let Some(node) = ready.pop() {
            for &follower in followers.of(node) {
                waits[follower as usize] -= 1;
                if waits[follower as usize] == 0 {
                    ready.push(follower);
                }
            }
        }
        let Some(gate) = gates.find(|gate| waits[*gate as usize] > 0) else {
            return jammed;
        };
        // It never becomes ready again: no gate has so many deps that they count down to 0.
        waits[gate as usize] = u32::MAX;
        jammed.push(gate - first);
        ready.push(gate);
    }
}

/// One cycle: whoever still waits, waits for one that still waits.
fn find_cycle(graph: &ReplayGraph, waits: &[u32]) -> Vec<u32> {
    let stuck = |node: u32| {
        graph
            .deps(node as usize)
            .map(|dep| dep.from)
            .find(|from| waits[*from as usize] > 0)
    };
    let mut way = vec![];
    let mut seen = vec![u32::MAX; graph.len()];
    // What still waits has a dep that still waits, so the walk back must come to a node twice.
    let mut at = (0..graph.len() as u32).find(|node| waits[*node as usize] > 0);
    while let Some(node) = at {
        if seen[node as usize] != u32::MAX {
            let mut cycle = way.split_off(seen[node as usize] as usize);
            // the walk went from effect to cause
            cycle.reverse();
            return cycle;
        }
        seen[node as usize] = way.len() as u32;
        way.push(node);
        at = stuck(node);
    }
    way
}
