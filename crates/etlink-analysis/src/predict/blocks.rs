//! Repeated blocks of a program: its layers.
//!
//! ```text
//! weights in the order of their first use   table, [norm, qkv, out, up, down] x 8, norm, head
//! forward ops of the blocks                 from the first weight of the first block up to the
//!                                           first weight after the last
//! backward ops                              those with the sequence numbers of the forward ops
//! ```

use crate::predict::sources::{SourcePlace, Sources, WeightRead};
use etlink_model::HostTrace;
use rustc_hash::{FxHashMap, FxHashSet};

/// Least number of equal blocks that count as layers.
const LEAST_BLOCKS: usize = 2;

/// Layers of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blocks {
    /// Number of equal blocks.
    pub(crate) count: u64,
    /// True for nodes of the host trace that are part of a block, forward or backward.
    pub(crate) nodes: Vec<bool>,
    /// Share of the weights' bytes that the blocks hold.
    pub(crate) weight_share: f64,
}

/// A run of equal parts in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repetition {
    first: usize,
    period: usize,
    count: usize,
}

/// Finds the layers by the shapes of weights; `None` if no shapes repeat, or no weight follows them.
/// O(weights² + nodes).
pub(crate) fn find_blocks(host: &HostTrace, sources: &Sources) -> Option<Blocks> {
    let weights: Vec<SourcePlace> = sources.layer_weights().collect();
    let shapes: Vec<&[u64]> = weights
        .iter()
        .map(|place| sources.sizes_of(*place))
        .collect();
    let repetition = find_repetition(&shapes)?;
    let end = repetition.first + repetition.period * repetition.count;
    let (first, after) = (weights[repetition.first], *weights.get(end)?);
    let mut nodes = forward_nodes(host, &sources.reads, first, after);
    add_backward_nodes(host, &mut nodes);
    let bytes = |shapes: &[&[u64]]| -> f64 {
        let elements = shapes.iter().map(|sizes| sizes.iter().product::<u64>());
        elements.map(|elements| elements as f64).sum()
    };
    Some(Blocks {
        count: repetition.count as u64,
        nodes,
        weight_share: bytes(&shapes[repetition.first..end]) / bytes(&shapes).max(1.0),
    })
}

/// Returns the longest run of equal parts, of several the one with the shortest parts.
fn find_repetition<T: PartialEq>(items: &[T]) -> Option<Repetition> {
    let mut best: Option<Repetition> = None;
    for period in 1..=items.len() / LEAST_BLOCKS {
        let mut same = 0;
        for at in 0..items.len() - period {
            same = if items[at] == items[at + period] {
                same + 1
            } else {
                0
            };
            let count = same / period + 1;
            let length = period * count;
            let is_longer = best.is_none_or(|best| length > best.period * best.count);
            if count >= LEAST_BLOCKS && is_longer {
                best = Some(Repetition {
                    first: at + period + 1 - length,
                    period,
                    count,
                });
            }
        }
    }
    best
}

/// Marks the nodes between each read of the first weight and the next read of the weight after the
/// blocks, on the thread of the first read.
fn forward_nodes(
    host: &HostTrace,
    reads: &[WeightRead],
    first: SourcePlace,
    after: SourcePlace,
) -> Vec<bool> {
    let nodes = &host.nodes;
    let mut marks = vec![false; nodes.len()];
    let mut begin: Option<usize> = None;
    for (node, weight) in reads {
        match begin {
            None if *weight == first => begin = Some(*node),
            Some(from) if *weight == after => {
                let rows = marks.iter_mut().enumerate().take(*node).skip(from);
                for (row, mark) in rows {
                    *mark = nodes.tid[row] == nodes.tid[from];
                }
                begin = None;
            }
            _ => {}
        }
    }
    marks
}

/// Marks the ops that autograd runs for marked ops, with all that they call.
fn add_backward_nodes(host: &HostTrace, marks: &mut [bool]) {
    let nodes = &host.nodes;
    let numbered = (0..nodes.len()).filter(|row| marks[*row] && nodes.seq_id[*row] >= 0);
    let forward: FxHashSet<i64> = numbered.map(|row| nodes.seq_id[row]).collect();
    let rows: FxHashMap<u64, usize> = nodes.id.iter().copied().zip(0..).collect();
    let parent = |row: usize| rows.get(&nodes.parent[row]).filter(|parent| **parent < row);
    // Autograd accumulates the gradient of a weight right after the op that computes it.
    let mut is_last_marked = false;
    for row in 0..nodes.len() {
        if nodes.scope[row] != BACKWARD {
            continue;
        }
        let accumulates = host.names.get(nodes.name[row]).ends_with("AccumulateGrad");
        if !accumulates {
            is_last_marked = forward.contains(&nodes.seq_id[row]);
        }
        if is_last_marked {
            marks[row] = true;
            // `evaluate_function` also sums the gradient of a broadcast input
            if let Some(parent) = parent(row) {
                let name = host.names.get(nodes.name[*parent]);
                marks[*parent] |= name.starts_with("autograd::engine::evaluate_function");
            }
        }
    }
    for row in 0..nodes.len() {
        let is_inside = parent(row).is_some_and(|parent| marks[*parent]);
        marks[row] |= is_inside;
    }
}

/// `RecordScope` of ops that autograd runs.
const BACKWARD: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_of_the_shortest_parts() {
        let found = find_repetition(b"tabcabcabcnh");
        assert_eq!(
            found,
            Some(Repetition {
                first: 1,
                period: 3,
                count: 3
            })
        );
        assert_eq!(find_repetition(b"abcde"), None);
        let pairs = find_repetition(b"xababababab").expect("a run");
        assert_eq!((pairs.period, pairs.count), (2, 5));
        assert_eq!(find_repetition::<u8>(&[]), None);
    }
}
