//! Call trees per rank, from [`call_tree`]: the most expensive nodes, as columns.
//!
//! ```text
//! call_tree ── prune (nodes of a rank) ── RankTrees ── prune until it fits ── PackedTrees
//! ```
//! A page of many ranks has room for few nodes per rank. Trees are therefore pruned as soon as they
//! are made, and again when all trees are packed and measured together.

use super::packed_timeline::pack_json;
use super::strings::StringTable;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analysis::top::{CallKind, CallNode, CallTree, TopOrder, TreeOptions, call_tree};
use etlink_model::{AuxiliaryKind, DeviceTrace};
use serde::Serialize;
use std::io;

/// Page budget for all trees, in bytes.
const TREE_BYTES: usize = 300_000;
/// Largest number of nodes in all trees of a page.
pub const TREE_NODES: usize = 24_000;
/// Largest number of nodes per tree. The trace of 61 MB has 2,898 with all Python frames.
const MOST_NODES: usize = 6_000;
/// Smallest number of nodes per tree that is tried.
const LEAST_NODES: usize = 16;

/// Trees of a rank: modules, ops and annotations, plus a tree with all Python frames if the trace
/// has any.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankTrees {
    trees: Vec<PrunedTree>,
}

/// A tree reduced to its most expensive nodes.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
struct PrunedTree {
    with_frames: bool,
    /// Remaining nodes, parents before children.
    nodes: Vec<CallNode>,
    /// Number of nodes in the whole tree.
    whole: usize,
    /// Largest share of host or device time among the removed nodes.
    cut_share: f64,
    host_ns: i64,
    device_ns: i64,
}

/// A tree in the page, as columns.
#[derive(Debug, Serialize)]
struct CallTreeColumns {
    with_frames: bool,
    depth: Vec<u32>,
    kind: Vec<u8>,
    /// Indices into the table of names.
    name: Vec<u32>,
    count: Vec<u64>,
    host_ns: Vec<i64>,
    self_host_ns: Vec<i64>,
    device_ns: Vec<i64>,
    self_device_ns: Vec<i64>,
    /// Number of nodes in the whole tree.
    nodes: usize,
    cut_share: f64,
    /// Sum over all roots, including removed ones.
    total_host_ns: i64,
    total_device_ns: i64,
}

/// Trees of all ranks, in rank order. A rank without trees has an empty list, as do the last ranks
/// if there is no room.
#[derive(Debug, Serialize)]
pub(super) struct PageTrees {
    kinds: [CallKind; 7],
    names: Vec<String>,
    ranks: Vec<Vec<CallTreeColumns>>,
}

/// Kinds by number.
const KINDS: [CallKind; 7] = [
    CallKind::Thread,
    CallKind::Device,
    CallKind::Step,
    CallKind::Annotation,
    CallKind::Module,
    CallKind::Python,
    CallKind::Op,
];

impl RankTrees {
    /// Builds the trees of a trace that was read with its auxiliary events, for a page shared by
    /// `ranks` ranks. O(n log n).
    pub fn from_trace(trace: &DeviceTrace, ranks: usize) -> RankTrees {
        let has_frames = trace.auxiliary.kind.contains(&AuxiliaryKind::Python);
        let most = (TREE_NODES / ranks.max(1)).clamp(LEAST_NODES, MOST_NODES);
        let order = if trace.rows.is_empty() {
            TopOrder::Host
        } else {
            TopOrder::Device
        };
        let tree_of = |python: bool| {
            let options = TreeOptions {
                python,
                each_module: false,
                order,
            };
            PrunedTree::from_tree(call_tree(trace, options), python).prune(most)
        };
        let mut trees = vec![tree_of(false)];
        if has_frames {
            trees.push(tree_of(true));
        }
        // a trace without host events has at most one node
        trees.retain(|tree| tree.whole > 1);
        RankTrees { trees }
    }
}

impl PrunedTree {
    fn from_tree(tree: CallTree, with_frames: bool) -> PrunedTree {
        let (host_ns, device_ns) = tree.totals();
        PrunedTree {
            with_frames,
            whole: tree.nodes.len(),
            nodes: tree.nodes,
            cut_share: 0.0,
            host_ns,
            device_ns,
        }
    }

    /// Keeps the `most` nodes with the largest share of host or device time. A node stays only if
    /// its parent does.
    fn prune(&self, most: usize) -> PrunedTree {
        if self.nodes.len() <= most {
            return self.clone();
        }
        let shares = self.shares();
        let mut by_share: Vec<usize> = (0..self.nodes.len()).collect();
        // Among equals parents come first, because they precede their children.
        by_share.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
        let (kept, cut) = by_share.split_at(most);
        let cut_share = cut.first().map_or(0.0, |first| shares[*first]);
        let mut kept = kept.to_vec();
        kept.sort_unstable();
        let mut places = vec![None; self.nodes.len()];
        for (place, at) in (0..).zip(&kept) {
            places[*at] = Some(place);
        }
        let nodes = kept.iter().map(|at| {
            let node = &self.nodes[*at];
            CallNode {
                parent: node.parent.and_then(|parent| places[parent as usize]),
                ..node.clone()
            }
        });
        PrunedTree {
            nodes: nodes.collect(),
            cut_share: cut_share.max(self.cut_share),
            ..*self
        }
    }

    /// Returns each node's larger share of both times, limited to its parent's share. Overlapping
    /// ranges are clipped, so a node may have less time than its children.
    fn shares(&self) -> Vec<f64> {
        let share_of = |part: i64, whole: i64| match whole {
            0 => 0.0,
            _ => part as f64 / whole as f64,
        };
        let mut shares: Vec<f64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let host = share_of(node.host_ns, self.host_ns);
            let device = share_of(node.device_ns, self.device_ns);
            let around = node.parent.map_or(f64::INFINITY, |at| shares[at as usize]);
            shares.push(host.max(device).min(around));
        }
        shares
    }

    fn columns(&self, names: &mut StringTable) -> CallTreeColumns {
        let nodes = &self.nodes;
        let times = |time: fn(&CallNode) -> i64| nodes.iter().map(time).collect();
        CallTreeColumns {
            with_frames: self.with_frames,
            depth: nodes.iter().map(|node| node.depth).collect(),
            kind: nodes.iter().map(|node| kind_number(node.kind)).collect(),
            name: nodes
                .iter()
                .map(|node| names.number_of(&node.name))
                .collect(),
            count: nodes.iter().map(|node| node.count).collect(),
            host_ns: times(|node| node.host_ns),
            self_host_ns: times(|node| node.self_host_ns),
            device_ns: times(|node| node.device_ns),
            self_device_ns: times(|node| node.self_device_ns),
            nodes: self.whole,
            cut_share: self.cut_share,
            total_host_ns: self.host_ns,
            total_device_ns: self.device_ns,
        }
    }
}

fn kind_number(kind: CallKind) -> u8 {
    let place = KINDS.iter().position(|of| *of == kind);
    debug_assert!(place.is_some(), "{kind:?} has no number");
    place.map_or(0, |place| place as u8)
}

impl PageTrees {
    /// Creates the page's trees with at most `most` nodes per tree.
    pub(super) fn new<'r>(ranks: impl Iterator<Item = &'r RankTrees>, most: usize) -> PageTrees {
        let mut names = StringTable::new(TREE_BYTES);
        let columns = ranks.map(|rank| {
            let trees = rank.trees.iter();
            trees
                .map(|tree| tree.prune(most).columns(&mut names))
                .collect()
        });
        PageTrees {
            kinds: KINDS,
            ranks: columns.collect(),
            names: names.into_all(),
        }
    }

    /// Packs the trees for the page, pruned until they fit; `None` if there are none.
    pub(super) fn pack(ranks: &[&RankTrees]) -> io::Result<Option<String>> {
        if ranks.iter().all(|rank| rank.trees.is_empty()) {
            return Ok(None);
        }
        let (mut shown, mut most) = (ranks.len(), MOST_NODES);
        loop {
            let trees = PageTrees::new(ranks.iter().copied().take(shown), most);
            let packed = pack_json(&trees)?;
            if packed.len() <= TREE_BYTES {
                return Ok(Some(packed));
            }
            if most > LEAST_NODES {
                most = (most / 2).max(LEAST_NODES);
            } else if shown > 1 {
                // names of a thousand letters, thousands of ranks: show the trees of some ranks
                // only
                shown /= 2;
            } else {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// 0 thread 100/100
    /// 1   a 90/10
    /// 2     b 50/5
    /// 3     c 1/90   more device time than what is around it
    /// 4   d 2/0
    /// ```
    fn drawn() -> PrunedTree {
        let node = |parent: Option<u32>, depth, host_ns, device_ns| CallNode {
            parent,
            depth,
            kind: CallKind::Op,
            name: format!("{host_ns}/{device_ns}"),
            count: 1,
            host_ns,
            device_ns,
            ..CallNode::default()
        };
        let nodes = vec![
            node(None, 0, 100, 100),
            node(Some(0), 1, 90, 10),
            node(Some(1), 2, 50, 5),
            node(Some(1), 2, 1, 90),
            node(Some(0), 1, 2, 0),
        ];
        PrunedTree::from_tree(CallTree { nodes }, false)
    }

    fn names(tree: &PrunedTree) -> Vec<&str> {
        tree.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn what_takes_most_of_either_time_is_kept_with_all_around_it() {
        let tree = drawn();
        assert_eq!(tree.prune(5), tree);
        let four = tree.prune(4);
        assert_eq!(names(&four), ["100/100", "90/10", "50/5", "1/90"]);
        assert_eq!((four.whole, four.cut_share), (5, 0.02));
        let three = tree.prune(3);
        assert_eq!(names(&three), ["100/100", "90/10", "1/90"]);
        assert_eq!(three.nodes[2].parent, Some(1));
        assert_eq!(three.cut_share, 0.5);
        // pruned twice, the page still states the largest removed share
        assert_eq!(three.prune(1).cut_share, 0.9);
        assert_eq!(four.prune(3), three);
    }

    /// Returns letters that do not compress.
    fn noise(length: usize, seed: &mut u64) -> String {
        let mut letter = || {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'0' + (*seed >> 58) as u8)
        };
        (0..length).map(|_| letter()).collect()
    }

    #[test]
    fn trees_of_many_ranks_with_long_names_fit() {
        let mut seed = 1;
        let mut rank_trees = || {
            let mut tree = drawn();
            for child in 0..200 {
                let node = CallNode {
                    name: noise(900, &mut seed),
                    host_ns: 80 - child / 4,
                    ..tree.nodes[1].clone()
                };
                tree.nodes.push(node);
            }
            tree.whole = tree.nodes.len();
            RankTrees { trees: vec![tree] }
        };
        let ranks: Vec<RankTrees> = (0..100).map(|_| rank_trees()).collect();
        let ranks: Vec<&RankTrees> = ranks.iter().collect();
        let whole = PageTrees::new(ranks.iter().copied(), MOST_NODES);
        assert!(pack_json(&whole).expect("packs").len() > 1_000_000);
        let packed = PageTrees::pack(&ranks).expect("packs").expect("trees");
        assert!(packed.len() <= TREE_BYTES, "{}", packed.len());
        assert!(PageTrees::pack(&[]).expect("packs").is_none());
    }
}
