//! Merges the call trees of two runs into one, with the times of both.

use super::time_per_unit;
use crate::top::{CallKind, CallNode, CallTree};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;

/// A node of one or both trees. Times are per unit and include the nodes inside, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TreeChange {
    /// Index of the parent node; `None` for roots.
    pub parent: Option<u32>,
    /// Number of nodes around this one.
    pub depth: u32,
    /// Kind of the node.
    pub kind: CallKind,
    /// Name of the node.
    pub name: String,
    /// Time on the host in the first and the second run.
    pub host_ns: [i64; 2],
    /// Time of the device rows launched in the node, in the first and the second run.
    pub device_ns: [i64; 2],
}

impl TreeChange {
    /// Absolute difference between the runs, ns: on the device if there is device time, else on the
    /// host.
    fn cost_ns(&self, on_device: bool) -> u64 {
        let [first, second] = if on_device {
            self.device_ns
        } else {
            self.host_ns
        };
        first.abs_diff(second)
    }
}

/// Name for all threads, whose numbers differ from run to run.
const THREADS: &str = "all threads";

/// Merges the trees of all ranks of both runs. Nodes come before their children, the largest change
/// first. Leaves out device work that no call in the trace launched. O(nodes log nodes).
pub fn tree_changes(trees: [&[&CallTree]; 2], units: [u64; 2]) -> Vec<TreeChange> {
    let mut merged = MergedTree::default();
    for (side, trees) in trees.into_iter().enumerate() {
        for tree in trees {
            merged.add(tree, side);
        }
    }
    merged.into_changes(units)
}

/// Nodes of all trees, each after its parent, with summed times.
#[derive(Default)]
struct MergedTree {
    nodes: Vec<TreeChange>,
    places: FxHashMap<(Option<u32>, CallKind, String), u32>,
}

impl MergedTree {
    fn add(&mut self, tree: &CallTree, side: usize) {
        let mut places: Vec<Option<u32>> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let parent = node.parent.map(|parent| places[parent as usize]);
            let place = match (node.kind, parent) {
                // nodes below an excluded node are excluded
                (CallKind::Device, _) | (_, Some(None)) => None,
                (_, parent) => Some(self.place_of(node, parent.flatten())),
            };
            places.push(place);
            if let Some(sum) = place.and_then(|place| self.nodes.get_mut(place as usize)) {
                sum.host_ns[side] = sum.host_ns[side].saturating_add(node.host_ns);
                sum.device_ns[side] = sum.device_ns[side].saturating_add(node.device_ns);
            }
        }
    }

    fn place_of(&mut self, node: &CallNode, parent: Option<u32>) -> u32 {
        let name = match node.kind {
            CallKind::Thread => THREADS.to_owned(),
            _ => node.name.clone(),
        };
        let nodes = &mut self.nodes;
        let place = self.places.entry((parent, node.kind, name.clone()));
        *place.or_insert_with(|| {
            nodes.push(TreeChange {
                parent,
                depth: node.depth,
                kind: node.kind,
                name,
                ..TreeChange::default()
            });
            nodes.len() as u32 - 1
        })
    }

    fn into_changes(mut self, units: [u64; 2]) -> Vec<TreeChange> {
        for node in &mut self.nodes {
            for side in [0, 1] {
                node.host_ns[side] = time_per_unit(node.host_ns[side], units[side]);
                node.device_ns[side] = time_per_unit(node.device_ns[side], units[side]);
            }
        }
        let on_device = self.nodes.iter().any(|node| node.device_ns != [0, 0]);
        let mut children: Vec<Vec<u32>> = vec![vec![]; self.nodes.len()];
        let mut roots = vec![];
        for (at, node) in (0..).zip(&self.nodes) {
            match node.parent {
                Some(parent) => children[parent as usize].push(at),
                None => roots.push(at),
            }
        }
        let cost = |at: &u32| Reverse(self.nodes[*at as usize].cost_ns(on_device));
        roots.sort_by_key(cost);
        for list in &mut children {
            list.sort_by_key(cost);
        }
        let mut changes: Vec<TreeChange> = Vec::with_capacity(self.nodes.len());
        // the last entry of the list is taken first
        let mut open: Vec<(u32, Option<u32>)> = vec![];
        open.extend(roots.into_iter().rev().map(|root| (root, None)));
        while let Some((at, parent)) = open.pop() {
            let place = changes.len() as u32;
            changes.push(TreeChange {
                parent,
                ..self.nodes[at as usize].clone()
            });
            let below = children[at as usize].iter().rev();
            open.extend(below.map(|child| (*child, Some(place))));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: Option<u32>, kind: CallKind, name: &str, host_ns: i64) -> CallNode {
        CallNode {
            parent,
            depth: parent.map_or(0, |parent| parent + 1),
            kind,
            name: name.to_owned(),
            host_ns,
            ..CallNode::default()
        }
    }

    #[test]
    fn nodes_of_one_path_are_one_with_the_times_of_both() {
        let before = CallTree {
            nodes: vec![
                node(None, CallKind::Thread, "thread 7", 100),
                node(Some(0), CallKind::Step, "step", 90),
                node(Some(1), CallKind::Op, "aten::mm", 60),
                node(None, CallKind::Device, "not launched", 0),
            ],
        };
        let after = CallTree {
            nodes: vec![
                node(None, CallKind::Thread, "thread 9", 200),
                node(Some(0), CallKind::Step, "step", 180),
                node(Some(1), CallKind::Op, "aten::mm", 40),
                node(Some(1), CallKind::Op, "aten::add", 80),
            ],
        };
        let changes = tree_changes([&[&before], &[&after]], [1, 2]);
        let shown: Vec<_> = changes
            .iter()
            .map(|node| (node.depth, &*node.name, node.host_ns))
            .collect();
        assert_eq!(
            shown,
            [
                (0, "all threads", [100, 100]),
                (1, "step", [90, 90]),
                (2, "aten::mm", [60, 20]),
                (2, "aten::add", [0, 40]),
            ]
        );
        assert_eq!(changes[3].parent, Some(1));
    }
}
