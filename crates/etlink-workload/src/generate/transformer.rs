//! Generates a training step of a transformer from a few numbers.
//!
//! Ranks are numbered like Megatron-LM's: tensor first, then data, then pipeline. A layer has two
//! all-reduces of activations among its tensor ranks. With experts, the layer's second half is an
//! all-to-all, the experts, and an all-to-all back. Stages pass activations to the next one as in
//! GPipe. At the end, each gradient is reduced among the ranks that hold the same weights:
//! attention gradients among all data ranks, expert gradients among the data ranks with the same
//! experts.
//!
//! Operations per layer and token: 24 h² + 4 s h (Narayanan et al., "Efficient Large-Scale Language
//! Model Training on GPU Clusters Using Megatron-LM", 2021, without the vocabulary). Weights of a
//! layer: 4 h² of attention and 8 h² of its second half.

use super::{RankWork, WorkloadSizes};
use crate::set::{GroupNumbers, WorkloadSet};
use etlink_chakra::proto::CollectiveCommType;
use etlink_model::Failure;

/// Operations of a device per microsecond: half of an A100's bf16 peak in its data sheet.
const OPERATIONS_PER_MICRO: u64 = 156_000_000;
/// Bytes of a bf16 number.
const BYTES: u64 = 2;
/// Weights of a layer's attention, in h²: queries, keys, values and the projection.
const ATTENTION_WEIGHTS: u64 = 4;
/// Weights of a layer's second half, in h²: two matrices four times as wide as the layer.
const SECOND_HALF_WEIGHTS: u64 = 8;

/// Dimensions of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transformer {
    /// Ranks that share each layer.
    pub tensor: u32,
    /// Number of pipeline stages.
    pub pipeline: u32,
    /// Data ranks that share the experts of a layer; 1 means no experts.
    pub expert: u32,
    /// Number of layers in all stages.
    pub layers: u32,
    /// Width of a layer.
    pub hidden: u64,
    /// Tokens per sequence; a micro-batch is one sequence.
    pub sequence: u64,
}

/// Coordinates of a rank.
#[derive(Clone, Copy)]
struct RankPlace {
    tensor: u32,
    data: u32,
    stage: u32,
}

/// Groups of a rank; `None` if a group has just one rank.
struct RankGroups {
    tensor: Option<u32>,
    data: Option<u32>,
    /// Data ranks that share the experts of a layer.
    expert: Option<u32>,
    /// Data ranks that hold the same experts.
    same_experts: Option<u32>,
}

impl Transformer {
    pub(super) fn generate(&self, sizes: &WorkloadSizes) -> Result<WorkloadSet, Failure> {
        let data = self.data_ranks(sizes.ranks)?;
        let mut numbers = GroupNumbers::default();
        let mut set = WorkloadSet::default();
        for rank in 0..sizes.ranks {
            let place = RankPlace {
                tensor: rank % self.tensor,
                data: rank / self.tensor % data,
                stage: rank / self.tensor / data,
            };
            let groups = self.groups(place, data, &mut numbers);
            let mut work = RankWork::new(rank, sizes);
            self.add_step(&mut work, place, data, &groups);
            let graph = work.graph.finish(&[("source", "etlink generate")]);
            set.ranks.push(graph);
        }
        set.groups = numbers.into_groups();
        Ok(set)
    }

    /// Returns the number of ranks that hold the same part of the model.
    fn data_ranks(&self, ranks: u32) -> Result<u32, Failure> {
        let Transformer {
            tensor, pipeline, ..
        } = *self;
        let parts = u64::from(tensor) * u64::from(pipeline);
        if parts == 0 || !u64::from(ranks).is_multiple_of(parts) {
            return Err(Failure::new(format!(
                "{ranks} ranks cannot be divided into {tensor} tensor times {pipeline} pipeline \
                 ranks; give a multiple of {parts}"
            )));
        }
        let data = ranks / tensor / pipeline;
        let (expert, layers) = (self.expert, self.layers);
        if expert == 0 || !data.is_multiple_of(expert) {
            return Err(Failure::new(format!(
                "{data} data ranks cannot be divided into {expert} expert ranks; give a divisor"
            )));
        }
        if layers == 0 || !layers.is_multiple_of(pipeline) {
            return Err(Failure::new(format!(
                "{layers} layers cannot be divided into {pipeline} stages; give a multiple"
            )));
        }
        Ok(data)
    }

    fn groups(&self, place: RankPlace, data: u32, numbers: &mut GroupNumbers) -> RankGroups {
        let rank_at = |tensor: u32, at: u32| (place.stage * data + at) * self.tensor + tensor;
        let mut number = |ranks: Vec<u32>| (ranks.len() > 1).then(|| numbers.number(ranks));
        let first_expert = place.data / self.expert * self.expert;
        let experts = first_expert..first_expert + self.expert;
        let same_experts = (place.data % self.expert..data).step_by(self.expert as usize);
        RankGroups {
            tensor: number((0..self.tensor).map(|at| rank_at(at, place.data)).collect()),
            data: number((0..data).map(|at| rank_at(place.tensor, at)).collect()),
            expert: number(experts.map(|at| rank_at(place.tensor, at)).collect()),
            same_experts: number(same_experts.map(|at| rank_at(place.tensor, at)).collect()),
        }
    }

    fn add_step(&self, work: &mut RankWork<'_>, place: RankPlace, data: u32, groups: &RankGroups) {
        let stride = data * self.tensor;
        let next = (place.stage + 1 < self.pipeline).then_some(work.rank + stride);
        let before = (place.stage > 0).then(|| work.rank - stride);
        let layers = self.layers / self.pipeline;
        let activations = self.sequence * self.hidden * BYTES;
        for batch in 0..work.sizes.rounds {
            if let Some(before) = before {
                work.receive("activations", before, 2 * batch, activations);
            }
            (0..layers).for_each(|_| self.add_layer(work, groups, false));
            if let Some(next) = next {
                work.send("activations", next, 2 * batch, activations);
            }
        }
        for batch in 0..work.sizes.rounds {
            if let Some(next) = next {
                work.receive("gradients", next, 2 * batch + 1, activations);
            }
            (0..layers).for_each(|_| self.add_layer(work, groups, true));
            if let Some(before) = before {
                work.send("gradients", before, 2 * batch + 1, activations);
            }
        }
        self.reduce_gradients(work, groups);
        work.compute("optimizer", work.sizes.micros);
    }

    /// Reduces the gradients of a stage among the ranks that hold the same weights.
    fn reduce_gradients(&self, work: &mut RankWork<'_>, groups: &RankGroups) {
        let layers = u64::from(self.layers / self.pipeline);
        let mut reduce = |name: &str, squares: u64, group: Option<u32>| {
            let Some(group) = group else { return };
            let weights = squares * self.hidden * self.hidden * layers;
            let bytes = weights / u64::from(self.tensor) * BYTES;
            let kind = CollectiveCommType::AllReduce;
            work.collective(name, kind, bytes, Some(group));
        };
        if self.expert == 1 {
            let all = ATTENTION_WEIGHTS + SECOND_HALF_WEIGHTS;
            reduce("gradients of weights", all, groups.data);
        } else {
            reduce("gradients of weights", ATTENTION_WEIGHTS, groups.data);
            let experts = SECOND_HALF_WEIGHTS;
            reduce("gradients of experts", experts, groups.same_experts);
        }
    }

    /// Adds a layer, half of whose work is in each part: attention, then the second half. The
    /// backward pass does twice the work of the forward pass, in reverse order.
    fn add_layer(&self, work: &mut RankWork<'_>, groups: &RankGroups, is_backward: bool) {
        let (way, times) = if is_backward {
            ("backward", 2u64)
        } else {
            ("forward", 1)
        };
        let (s, h) = (self.sequence, self.hidden);
        // for the longest sequence and the widest layer the products exceed 64 bits
        let [wide_s, wide_h] = [s, h].map(u128::from);
        let operations = wide_s * (24 * wide_h * wide_h + 4 * wide_s * wide_h);
        let shared = u128::from(times) * operations / u128::from(self.tensor);
        let micros = shared / u128::from(OPERATIONS_PER_MICRO) / 2;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX).max(1);
        let activations = s * h * BYTES;
        let all_to_all = CollectiveCommType::AllToAll;
        let all_reduce = CollectiveCommType::AllReduce;
        let exchange = |work: &mut RankWork<'_>, name: &str, kind, group: Option<u32>| {
            if group.is_some() {
                work.collective(name, kind, activations, group);
            }
        };
        let forward = ["attention", "mlp"];
        for part in if is_backward {
            ["mlp", "attention"]
        } else {
            forward
        } {
            let experts = if part == "mlp" { groups.expert } else { None };
            exchange(work, "to experts", all_to_all, experts);
            work.compute(&format!("{way} {part}"), micros);
            exchange(work, "from experts", all_to_all, experts);
            exchange(work, "tensor parallel", all_reduce, groups.tensor);
        }
    }
}
