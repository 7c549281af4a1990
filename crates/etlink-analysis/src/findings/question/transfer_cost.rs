//! Cost of a collective by its size, fitted to all collectives of its kind and group.
//!
//! ```text
//! time |            x
//!      |       x ..'     latency + bytes / bandwidth: the line
//!      |  x ..'          any excess of a transfer over the line is kept as measured
//!      |..'
//!      +---------------- bytes
//! ```
//! With twice the network bandwidth, only the size-dependent part is halved. The slope of the line
//! is the median over all pairs of sizes (Theil, 1950; Sen, 1968), which tolerates arbitrary errors
//! in up to 29 % of the sizes.

use super::predicted::{PredictedMemory, PredictedTime, PredictedTimes};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{CollectiveKind, DurationNs, NodeIdx};
use etlink_replay::{EditableGraph, GraphEdits, ReplayGraph, work_makespan};
use std::collections::BTreeMap;

/// Fewest sizes from which latency and bandwidth can be separated.
const LEAST_SIZES: usize = 3;

/// Minimum ratio of the largest size to the smallest: otherwise noise would determine the slope.
const LEAST_SPREAD: u64 = 2;

/// Maximum number of sizes used, since pairs are quadratic; uneven all-to-alls can have more.
const MOST_SIZES: usize = 64;

/// Class of transfers that share a fitted line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub(super) struct TransferClass {
    pub(super) kind: CollectiveKind,
    pub(super) group: String,
}

/// A transfer whose parts change.
#[derive(Clone, Copy, Debug, PartialEq, BorshSerialize, BorshDeserialize)]
struct TransferChange {
    node: NodeIdx,
    /// Size in bytes; 0 if unknown.
    bytes: u64,
    by_size: f64,
    by_latency: f64,
}

/// Answer of one rank's trace to a question.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct RankAnswer {
    /// Changes to nodes of the rank's graph.
    pub edits: GraphEdits,
    /// Other changes, if those that gain less are the answer.
    pub(super) other_edits: GraphEdits,
    /// Notes on what the changes rest on.
    notes: Vec<String>,
    /// Time of predicted work.
    times: PredictedTimes,
    /// Peak memory of each device.
    memory: Vec<PredictedMemory>,
    transfers: BTreeMap<TransferClass, Vec<TransferChange>>,
}

impl From<GraphEdits> for RankAnswer {
    fn from(edits: GraphEdits) -> RankAnswer {
        RankAnswer {
            edits,
            ..RankAnswer::default()
        }
    }
}

impl RankAnswer {
    pub(super) fn predicted(
        edits: GraphEdits,
        notes: Vec<String>,
        (times, memory): (PredictedTimes, Vec<PredictedMemory>),
    ) -> RankAnswer {
        RankAnswer {
            edits,
            notes,
            times,
            memory,
            ..RankAnswer::default()
        }
    }

    /// Multiplies the size-dependent time of a transfer by one factor, and its latency by another.
    pub(super) fn change_transfer(
        &mut self,
        node: NodeIdx,
        class: TransferClass,
        bytes: u64,
        (by_size, by_latency): (f64, f64),
    ) {
        self.transfers
            .entry(class)
            .or_default()
            .push(TransferChange {
                node,
                bytes,
                by_size,
                by_latency,
            });
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.edits.is_empty() && self.transfers.is_empty()
    }
}

/// Changes to the graph of all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphAnswer {
    /// Edits of the graph's nodes.
    pub edits: GraphEdits,
    /// Notes on what the changes rest on; ranks with the same note share it.
    pub notes: Vec<String>,
    /// Time of predicted work, of all ranks.
    pub predicted: Vec<PredictedTime>,
    /// Peak memory of the device that needs most, of the devices of all ranks.
    pub memory: Option<PredictedMemory>,
}

/// Combines the ranks' answers, each with the rank's first node in the graph. In that graph, a
/// transfer takes the time after the last rank's arrival, so only this time scales with the size.
/// O(transfers log transfers).
pub fn answer_for_graph(graph: &ReplayGraph, ranks: &[(NodeIdx, &RankAnswer)]) -> GraphAnswer {
    let (mut answer, mut other_edits) = (GraphAnswer::default(), GraphEdits::default());
    let mut classes: BTreeMap<&TransferClass, Vec<(NodeIdx, TransferChange)>> = BTreeMap::new();
    let mut times = PredictedTimes::default();
    for (first, rank) in ranks {
        times.extend(&rank.times);
        for memory in &rank.memory {
            let most = answer.memory.as_ref();
            if most.is_none_or(|most| most.predicted_bytes < memory.predicted_bytes) {
                answer.memory = Some(memory.clone());
            }
        }
        answer.edits.extend_shifted(&rank.edits, *first);
        other_edits.extend_shifted(&rank.other_edits, *first);
        for note in &rank.notes {
            if !answer.notes.contains(note) {
                answer.notes.push(note.clone());
            }
        }
        for (class, changes) in &rank.transfers {
            let of_class = classes.entry(class).or_default();
            for change in changes {
                of_class.push((NodeIdx(first.0 + change.node.0), *change));
            }
        }
    }
    answer.predicted = times.list();
    for (class, changes) in classes {
        let duration = |node: NodeIdx| graph.duration[node.index()];
        let samples = changes.iter();
        let samples = samples.map(|(node, change)| (change.bytes, duration(*node)));
        let cost = TransferCost::fit(samples.collect());
        answer.notes.push(class.describe(cost.as_ref()));
        for (node, change) in changes {
            let factor = match &cost {
                Some(cost) => cost.factor(duration(node), &change),
                // A barrier's message is one element, whatever the ranks and the network.
                None if class.kind == CollectiveKind::Barrier => change.by_latency,
                // All time counts as size-dependent, so that the answer is a bound.
                None => change.by_size,
            };
            answer.edits.scaled.push((node, factor));
        }
    }
    if !other_edits.is_empty() {
        let editable = EditableGraph::new(graph);
        let length = |edits: &GraphEdits| work_makespan(graph, &editable.run_edited(edits));
        if length(&other_edits) > length(&answer.edits) {
            answer.edits = other_edits;
        }
    }
    answer
}

/// Fitted cost of transfers by size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TransferCost {
    latency_ns: f64,
    ns_per_byte: f64,
    sizes: usize,
}

impl TransferCost {
    /// Fits the cost to sizes and durations; `None` if there are too few sizes, or they are too
    /// similar.
    fn fit(mut samples: Vec<(u64, DurationNs)>) -> Option<TransferCost> {
        samples.retain(|(bytes, _)| *bytes > 0);
        samples.sort_unstable();
        let by_size = samples.chunk_by(|one, other| one.0 == other.0);
        // Without the traces of other ranks, a transfer includes waiting for them: the fastest
        // transfers of a size have waited least.
        let points: Vec<(u64, DurationNs)> = by_size.map(|size| size[size.len() / 10]).collect();
        let (smallest, largest) = (points.first()?.0, points.last()?.0);
        if points.len() < LEAST_SIZES || largest < smallest.saturating_mul(LEAST_SPREAD) {
            return None;
        }
        let sizes = points.len();
        let step = sizes.div_ceil(MOST_SIZES);
        let points: Vec<(f64, f64)> = points
            .iter()
            .step_by(step)
            .map(|(bytes, duration)| (*bytes as f64, duration.0 as f64))
            .collect();
        let mut slopes = vec![];
        for (place, one) in points.iter().enumerate() {
            for other in &points[place + 1..] {
                slopes.push((other.1 - one.1) / (other.0 - one.0));
            }
        }
        // If messages are so small that only latency matters, noise can make the slope negative.
        let ns_per_byte = middle(slopes)?.max(0.0);
        let rests = points.iter();
        let rests = rests.map(|(bytes, duration)| duration - ns_per_byte * bytes);
        Some(TransferCost {
            latency_ns: middle(rests.collect())?.max(0.0),
            ns_per_byte,
            sizes,
        })
    }

    /// Returns the factor on the duration of a transfer after a change.
    fn factor(&self, duration: DurationNs, change: &TransferChange) -> f64 {
        let whole = duration.0 as f64;
        if whole <= 0.0 {
            return 1.0;
        }
        let of_bytes = (self.ns_per_byte * change.bytes as f64).min(whole);
        let of_latency = self.latency_ns.min(whole - of_bytes);
        let rest = whole - of_bytes - of_latency;
        (of_bytes * change.by_size + of_latency * change.by_latency + rest) / whole
    }
}

/// Returns the median; the lower of two middle values.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl TransferClass {
    fn describe(&self, cost: Option<&TransferCost>) -> String {
        let TransferClass { kind, group } = self;
        let name = kind.name();
        match cost {
            Some(cost) if cost.ns_per_byte > 0.0 => format!(
                "{name} of group {group:?}: {:.3} us latency and {:.2} GB/s, fitted to {} sizes; the \
                 rest of each duration stays as measured",
                cost.latency_ns / 1e3,
                1.0 / cost.ns_per_byte,
                cost.sizes
            ),
            Some(cost) => format!(
                "{name} of group {group:?}: {:.3} us latency, fitted to {} sizes; the duration does \
                 not grow with bytes",
                cost.latency_ns / 1e3,
                cost.sizes
            ),
            None if *kind == CollectiveKind::Barrier => {
                format!("{name} of group {group:?} moves no bytes: its duration counts as latency")
            }
            None => format!(
                "{name} of group {group:?}: too few or too similar sizes to fit a latency; the whole \
                 duration scales with bytes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DurationNs, TransferCost};

    #[test]
    fn a_line_is_found_among_waits() {
        let mut samples = vec![];
        for place in 1..=20_u64 {
            let bytes = place * 50_000;
            for again in 0..20_i64 {
                // Most transfers wait for other ranks, for arbitrary times.
                let wait = if again % 7 == 0 { 0 } else { again * 31_000 };
                let quick = 15_000 + bytes as i64 / 40;
                samples.push((bytes, DurationNs(quick + wait)));
            }
        }
        let cost = TransferCost::fit(samples).expect("a line");
        assert!((cost.latency_ns - 15_000.0).abs() < 1.0, "{cost:?}");
        assert!((cost.ns_per_byte - 0.025).abs() < 1e-6, "{cost:?}");
    }

    #[test]
    fn sizes_that_are_alike_tell_nothing() {
        let alike = [(1_000, 5), (1_001, 9), (1_002, 2)];
        let few = [(1_000, 5), (4_000, 9), (4_000, 2)];
        let unknown = [(0, 5), (0, 9), (7, 2)];
        for samples in [alike, few, unknown] {
            let samples = samples.map(|(bytes, ns)| (bytes, DurationNs(ns)));
            assert_eq!(TransferCost::fit(samples.to_vec()), None);
        }
    }
}
