//! Makes a slower rank like the others.

use super::error::QuestionError;
use etlink_model::{GlobalRank, NodeIdx};
use etlink_replay::{GraphEdits, LabelSource, ReplayGraph, ReplayKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Work of one name on a rank.
#[derive(Default)]
struct NameTime {
    nodes: Vec<NodeIdx>,
    time_ns: i64,
}

/// Shortens the work of `rank` to the median time of the other ranks, name by name: work of hosts
/// and devices, without communication. Work that takes less time than on other ranks, or occurs more
/// often, stays. O(nodes).
///
/// # Errors
/// There is no such rank, or no other.
pub fn straggler_edits(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    rank: GlobalRank,
) -> Result<GraphEdits, QuestionError> {
    let mut work: FxHashMap<(ReplayKind, &str), BTreeMap<GlobalRank, NameTime>> =
        FxHashMap::default();
    let mut ranks: BTreeMap<GlobalRank, ()> = BTreeMap::new();
    for node in graph.indices() {
        let kind = graph.kind[node.index()];
        let Some(own) = graph.rank(node) else {
            continue;
        };
        ranks.insert(own, ());
        let is_work =
            !kind.is_delay() && kind != ReplayKind::Collective && kind != ReplayKind::Arrival;
        if is_work {
            let by_rank = work.entry((kind, labels.name(node))).or_default();
            let time = by_rank.entry(own).or_default();
            time.nodes.push(node);
            time.time_ns += graph.duration[node.index()].0;
        }
    }
    if !ranks.contains_key(&rank) || ranks.len() < 2 {
        let list: Vec<String> = ranks.keys().map(GlobalRank::to_string).collect();
        return Err(QuestionError::NoAnswer(format!(
            "no rank {rank} to compare with others; ranks: {}",
            list.join(", ")
        )));
    }
    let mut edits = GraphEdits::default();
    for by_rank in work.values() {
        let Some(own) = by_rank.get(&rank).filter(|own| own.time_ns > 0) else {
            continue;
        };
        let others = by_rank.iter().filter(|(other, _)| **other != rank);
        let mut means: Vec<f64> = others.map(|(_, time)| time.mean_ns()).collect();
        means.sort_by(f64::total_cmp);
        // The lower of two middle values: half of the ranks are at least as fast.
        let Some(median) = means.get(means.len().saturating_sub(1) / 2) else {
            continue;
        };
        let factor = median / own.mean_ns();
        if factor < 1.0 {
            edits
                .scaled
                .extend(own.nodes.iter().map(|node| (*node, factor)));
        }
    }
    // The hash map has no defined order.
    edits.scaled.sort_by_key(|(node, _)| *node);
    Ok(edits)
}

impl NameTime {
    fn mean_ns(&self) -> f64 {
        self.time_ns as f64 / self.nodes.len().max(1) as f64
    }
}
