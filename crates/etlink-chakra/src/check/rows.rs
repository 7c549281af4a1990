//! The dependencies as rows that petgraph's algorithms walk.

use petgraph::Direction;
use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::visit::{
    GraphBase, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers, VisitMap, Visitable,
};

/// Edges between nodes 0..n, by source and by target.
pub(super) struct Rows {
    out: Half,
    into: Half,
}

#[derive(Default)]
struct Half {
    first: Vec<usize>,
    all: Vec<u32>,
}

impl Half {
    fn new(nodes: usize, edges: &[(u32, u32)], of: fn(&(u32, u32)) -> (u32, u32)) -> Self {
        let mut first = vec![0; nodes + 1];
        edges
            .iter()
            .for_each(|edge| first[of(edge).0 as usize + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let (mut next, mut all) = (first.clone(), vec![0; edges.len()]);
        for edge in edges {
            let (at, other) = of(edge);
            all[next[at as usize]] = other;
            next[at as usize] += 1;
        }
        Half { first, all }
    }

    fn of(&self, node: u32) -> std::iter::Copied<std::slice::Iter<'_, u32>> {
        let node = node as usize;
        self.all[self.first[node]..self.first[node + 1]]
            .iter()
            .copied()
    }
}

impl Rows {
    /// `edges` are pairs of nodes below `nodes`.
    pub(super) fn new(nodes: usize, edges: &[(u32, u32)]) -> Self {
        Rows {
            out: Half::new(nodes, edges, |&(from, to)| (from, to)),
            into: Half::new(nodes, edges, |&(from, to)| (to, from)),
        }
    }

    /// Groups of nodes that wait for each other. petgraph's Kosaraju keeps its own stack, so a
    /// chain of any length is fine; it is only run when the topological sort fails.
    pub(super) fn cycles(&self) -> Vec<Vec<u32>> {
        if toposort(self, None).is_ok() {
            return vec![];
        }
        let mut cycles = kosaraju_scc(self);
        cycles.retain(|cycle| cycle.len() > 1);
        cycles.iter_mut().for_each(|cycle| cycle.sort_unstable());
        cycles.sort_unstable();
        cycles
    }

    fn len(&self) -> u32 {
        u32::try_from(self.out.first.len() - 1).unwrap_or(u32::MAX)
    }
}

impl GraphBase for Rows {
    type NodeId = u32;
    type EdgeId = (u32, u32);
}

impl<'r> IntoNeighbors for &'r Rows {
    type Neighbors = std::iter::Copied<std::slice::Iter<'r, u32>>;

    fn neighbors(self, node: u32) -> Self::Neighbors {
        self.out.of(node)
    }
}

impl<'r> IntoNeighborsDirected for &'r Rows {
    type NeighborsDirected = std::iter::Copied<std::slice::Iter<'r, u32>>;

    fn neighbors_directed(self, node: u32, direction: Direction) -> Self::NeighborsDirected {
        match direction {
            Direction::Outgoing => self.out.of(node),
            Direction::Incoming => self.into.of(node),
        }
    }
}

impl IntoNodeIdentifiers for &Rows {
    type NodeIdentifiers = std::ops::Range<u32>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        0..self.len()
    }
}

impl Visitable for Rows {
    type Map = Visited;

    fn visit_map(&self) -> Visited {
        Visited(vec![false; self.len() as usize])
    }

    fn reset_map(&self, map: &mut Visited) {
        *map = self.visit_map();
    }
}

/// Which nodes were visited.
#[derive(Default)]
pub(super) struct Visited(Vec<bool>);

impl VisitMap<u32> for Visited {
    fn visit(&mut self, node: u32) -> bool {
        !std::mem::replace(&mut self.0[node as usize], true)
    }

    fn is_visited(&self, node: &u32) -> bool {
        self.0[*node as usize]
    }

    fn unvisit(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.0[node as usize], false)
    }
}
