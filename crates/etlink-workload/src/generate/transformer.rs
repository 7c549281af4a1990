//! Generates the work of a transformer from a few numbers.
//!
//! Ranks are numbered like Megatron-LM's: tensor first, then context, data and pipeline. The
//! context and data ranks of a stage hold the same weights: they are its *replicas*. A layer has
//! two all-reduces of activations among its tensor ranks. With experts, the layer's second half is
//! an all-to-all, the experts, and an all-to-all back; neighbouring replicas share the experts of a
//! layer. Context ranks hold parts of a sequence, and gather each other's keys and values.
//!
//! Operations per layer and token: 24 h² + 4 s h (Narayanan et al., "Efficient Large-Scale Language
//! Model Training on GPU Clusters Using Megatron-LM", 2021), and 2 h V for the vocabulary's logits.
//! Weights of a layer: 4 h² of attention, 8 h² of its second half, and 4 h of its two norms.

use super::schedule::PipelineSchedule;
use super::{RankWork, WorkloadSizes};
use crate::set::{GroupNumbers, WorkloadSet};
use etlink_chakra::proto::CollectiveCommType::{self as Kind, AllReduce, AllToAll};
use etlink_model::Failure;

/// Operations of a device per microsecond: half of an A100's bf16 peak in its data sheet.
pub(super) const OPERATIONS_PER_MICRO: u64 = 156_000_000;
/// Bytes that the memory of an A100 moves per microsecond, by its data sheet.
pub(super) const BYTES_PER_MICRO: u64 = 2_039_000;
/// Bytes of a bf16 number.
pub(super) const BYTES: u64 = 2;
/// Weights of a layer's attention, in h²: queries, keys, values and the projection.
const ATTENTION_WEIGHTS: u64 = 4;
/// Weights of a layer's second half, in h²: two matrices four times as wide as the layer.
const SECOND_HALF_WEIGHTS: u64 = 8;
/// Weights of a norm, in h: factors and offsets.
pub(super) const NORM_WEIGHTS: u64 = 2;

/// Dimensions of a transformer and its distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transformer {
    /// Ranks that share each layer.
    pub tensor: u32,
    /// Ranks that share each sequence.
    pub context: u32,
    /// Number of pipeline stages.
    pub pipeline: u32,
    /// Replicas that share the experts of a layer; 1 means no experts.
    pub expert: u32,
    /// Number of layers in all stages.
    pub layers: u32,
    /// Width of a layer.
    pub hidden: u64,
    /// Tokens per sequence; a micro-batch is one sequence.
    pub sequence: u64,
    /// Number of tokens in the vocabulary; 0 leaves out embeddings and logits.
    pub vocabulary: u64,
    /// True if layers have norms.
    pub norms: bool,
    /// ZeRO stage: replicas share the optimizer's states (1), the gradients (2), the weights (3).
    pub zero: u32,
    /// Order of micro-batches.
    pub schedule: PipelineSchedule,
    /// Chunks of layers per stage.
    pub chunks: u32,
    /// Work that the ranks do.
    pub work: ModelWork,
}

/// Work of a transformer's ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelWork {
    /// A training step; rounds are micro-batches of each data rank.
    #[default]
    Training,
    /// Reads prompts; rounds are prompts of each replica.
    Prefill,
    /// Writes tokens, one after the other; rounds are requests of each replica, in one batch.
    Decode {
        /// Tokens of each request.
        tokens: u32,
    },
    /// Ranks of one pool read prompts, and send keys and values to those of another, which write
    /// tokens. Rounds are prompts of each replica of the first pool.
    Disaggregated {
        /// Ranks of the first pool.
        prefill: u32,
        /// Tokens of each request.
        tokens: u32,
    },
}

/// Ranks that run the whole model, once or several times.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    pub(super) first: u32,
    pub(super) replicas: u32,
}

/// Ranks that take part in a collective.
#[derive(Clone, Copy)]
pub(super) enum Among {
    Tensor,
    Context,
    Replicas,
    /// Replicas that share the experts of a layer.
    Experts,
    /// Replicas that hold the same experts.
    SameExperts,
    /// The first and the last stage, which both hold the embeddings.
    Embeddings,
}

/// A rank of a model under construction.
pub(super) struct ModelRank<'s> {
    pub(super) model: Transformer,
    pub(super) work: RankWork<'s>,
    pub(super) pool: Pool,
    pub(super) tensor: u32,
    pub(super) replica: u32,
    pub(super) stage: u32,
    /// Number and size of each group; `None` if it has just one rank, or no use.
    groups: [Option<(u32, u32)>; 6],
}

impl Transformer {
    pub(super) fn generate(&self, sizes: &WorkloadSizes) -> Result<WorkloadSet, Failure> {
        self.check(sizes)?;
        let pools = match self.work {
            ModelWork::Disaggregated { prefill, .. } => vec![
                self.pool(0, prefill)?,
                self.pool(prefill, sizes.ranks.saturating_sub(prefill))?,
            ],
            _ => vec![self.pool(0, sizes.ranks)?],
        };
        if let [readers, writers] = pools[..] {
            let prompts = u64::from(readers.replicas) * u64::from(sizes.rounds);
            let writers = writers.replicas;
            if !prompts.is_multiple_of(writers.into()) {
                return Err(Failure::new(format!(
                    "{prompts} prompts cannot be divided among {writers} decoding replicas; give a \
                     multiple (--rounds)"
                )));
            }
        }
        let mut numbers = GroupNumbers::default();
        let mut set = WorkloadSet::default();
        for rank in 0..sizes.ranks {
            let pool = pools.iter().rfind(|pool| pool.first <= rank);
            let pool = pool.copied().unwrap_or(pools[0]);
            let mut own = ModelRank::new(*self, rank, pool, sizes, &mut numbers);
            match self.work {
                ModelWork::Training => own.train(),
                ModelWork::Prefill => own.read_prompts(None),
                ModelWork::Decode { tokens } => own.write_tokens(sizes.rounds.into(), tokens),
                ModelWork::Disaggregated { prefill, .. } if rank < prefill => {
                    own.read_prompts(pools.get(1).copied());
                }
                ModelWork::Disaggregated { tokens, .. } => {
                    let requests = own.receive_prompts(pools[0]);
                    own.write_tokens(requests, tokens);
                }
            }
            set.ranks
                .push(own.work.graph.finish(&[("source", "etlink generate")]));
        }
        set.groups = numbers.into_groups();
        Ok(set)
    }

    fn check(&self, sizes: &WorkloadSizes) -> Result<(), Failure> {
        let (layers, pipeline, chunks) = (self.layers, self.pipeline, self.chunks);
        let parts = u64::from(pipeline) * u64::from(chunks);
        let refused = if parts == 0 || layers == 0 || u64::from(layers) % parts != 0 {
            let of = if chunks > 1 { " chunks of all" } else { "" };
            format!("{layers} layers cannot be divided into {parts}{of} stages; give a multiple")
        } else if chunks > 1 && self.schedule != PipelineSchedule::OneFOneB {
            "only the schedule 1f1b interleaves chunks; give --schedule 1f1b".to_owned()
        } else if chunks > 1 && (pipeline == 1 || !sizes.rounds.is_multiple_of(pipeline)) {
            format!(
                "{chunks} chunks per stage need two or more stages and a multiple of {pipeline} \
                 micro-batches (--rounds)"
            )
        } else if self.context == 0 || !self.sequence.is_multiple_of(self.context.into()) {
            let (tokens, context) = (self.sequence, self.context);
            format!("{tokens} tokens cannot be divided among {context} context ranks")
        } else {
            return Ok(());
        };
        Err(Failure::new(refused))
    }

    /// Returns the ranks from `first` as replicas of the model.
    pub(super) fn pool(&self, first: u32, ranks: u32) -> Result<Pool, Failure> {
        let (tensor, pipeline) = (self.tensor, self.pipeline);
        let parts = u64::from(tensor) * u64::from(pipeline);
        if parts == 0 || !u64::from(ranks).is_multiple_of(parts) {
            return Err(Failure::new(format!(
                "{ranks} ranks cannot be divided into {tensor} tensor times {pipeline} pipeline \
                 ranks; give a multiple of {parts}"
            )));
        }
        if ranks == 0 {
            let none = "the prefill ranks leave no rank to decode; give fewer --prefill-ranks";
            return Err(Failure::new(none));
        }
        let replicas = ranks / tensor / pipeline;
        for (kind, parts) in [("expert", self.expert), ("context", self.context)] {
            if parts == 0 || !replicas.is_multiple_of(parts) {
                return Err(Failure::new(format!(
                    "{replicas} data ranks cannot be divided into {parts} {kind} ranks; give a \
                     divisor"
                )));
            }
        }
        Ok(Pool { first, replicas })
    }

    /// Returns the number of a rank.
    pub(super) fn rank_at(&self, pool: Pool, stage: u32, replica: u32, tensor: u32) -> u32 {
        pool.first + (stage * pool.replicas + replica) * self.tensor + tensor
    }

    /// Returns the weights of a layer on a rank: those of all replicas, and those of its experts.
    pub(super) fn layer_weights(&self) -> [u64; 2] {
        let square = self.hidden * self.hidden;
        let [attention, second] =
            [ATTENTION_WEIGHTS, SECOND_HALF_WEIGHTS].map(|of| of * square / u64::from(self.tensor));
        let norms = 2 * NORM_WEIGHTS * self.hidden * u64::from(self.norms);
        if self.expert == 1 {
            [attention + second + norms, 0]
        } else {
            [attention + norms, second]
        }
    }

    /// Returns the microseconds of `operations` that tensor ranks share.
    pub(super) fn micros(&self, operations: u128) -> u64 {
        let micros = operations / u128::from(self.tensor) / u128::from(OPERATIONS_PER_MICRO);
        u64::try_from(micros).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the operations of a layer on `tokens` tokens, each of which attends to `sequence`.
    pub(super) fn layer_operations(&self, tokens: u64, sequence: u64) -> u128 {
        // For the longest sequence and the widest layer the products exceed 64 bits.
        let [tokens, s, h] = [tokens, sequence, self.hidden].map(u128::from);
        tokens * (24 * h * h + 4 * s * h)
    }

    /// Returns the microseconds of `times` the work of the logits of `tokens` tokens.
    pub(super) fn logit_micros(&self, tokens: u64, times: u128) -> u64 {
        let [tokens, h, vocabulary] = [tokens, self.hidden, self.vocabulary].map(u128::from);
        self.micros(times * 2 * tokens * h * vocabulary)
    }

    /// Returns the weights of the embeddings on a rank that holds them.
    pub(super) fn table_weights(&self) -> u64 {
        self.vocabulary * self.hidden / u64::from(self.tensor)
    }

    /// Returns the bytes of a sequence's keys and values in a layer of a rank.
    pub(super) fn cache_bytes(&self) -> u64 {
        2 * self.sequence * self.hidden / u64::from(self.tensor) * BYTES
    }
}

impl<'s> ModelRank<'s> {
    /// Creates a rank of a pool, without work.
    pub(super) fn new(
        model: Transformer,
        rank: u32,
        pool: Pool,
        sizes: &'s WorkloadSizes,
        numbers: &mut GroupNumbers,
    ) -> ModelRank<'s> {
        let own = rank - pool.first;
        let tensor = own % model.tensor;
        let replica = own / model.tensor % pool.replicas;
        let stage = own / model.tensor / pool.replicas;
        let at = |replica: u32| model.rank_at(pool, stage, replica, tensor);
        let block = |n: u32| Vec::from_iter((0..n).map(|place| at(replica / n * n + place)));
        let same_experts = (replica % model.expert..pool.replicas).step_by(model.expert as usize);
        let tensor_ranks = (0..model.tensor).map(|at| model.rank_at(pool, stage, replica, at));
        let ends = [0, model.pipeline - 1];
        let trains = model.work == ModelWork::Training;
        let has_twin =
            trains && model.vocabulary > 0 && model.pipeline > 1 && ends.contains(&stage);
        let twins = ends.map(|end| model.rank_at(pool, end, replica, tensor));
        // In the order of `Among`.
        let groups: [(bool, Vec<u32>); 6] = [
            (true, tensor_ranks.collect()),
            (true, block(model.context)),
            (trains, block(pool.replicas)),
            (true, block(model.expert)),
            (trains, same_experts.map(at).collect()),
            (has_twin, twins.to_vec()),
        ];
        let groups = groups.map(|(is_used, ranks)| {
            let size = ranks.len() as u32;
            (is_used && size > 1).then(|| (numbers.number(ranks), size))
        });
        ModelRank {
            model,
            work: RankWork::new(rank, sizes),
            pool,
            tensor,
            replica,
            stage,
            groups,
        }
    }

    /// Adds a collective of a buffer of `bytes`, unless its group has just one rank.
    pub(super) fn communicate(&mut self, name: &str, kind: Kind, bytes: u64, among: Among) {
        if let Some((group, ranks)) = self.groups[among as usize]
            && bytes > 0
        {
            let shards = if kind == Kind::AllGather { ranks } else { 1 };
            let bytes = bytes.div_ceil(shards.into());
            self.work.collective(name, kind, bytes, Some(group));
        }
    }

    /// Adds a message to chunk `at` of the model, which later work does not wait for.
    pub(super) fn send(&mut self, name: &str, at: u32, tag: u32, bytes: u64) {
        self.work
            .send_aside(name, self.rank_of_chunk(at), tag, bytes);
    }

    /// Adds a message from chunk `at` of the model.
    pub(super) fn receive(&mut self, name: &str, at: u32, tag: u32, bytes: u64) {
        self.work.receive(name, self.rank_of_chunk(at), tag, bytes);
    }

    fn rank_of_chunk(&self, at: u32) -> u32 {
        let stage = at % self.model.pipeline;
        self.model
            .rank_at(self.pool, stage, self.replica, self.tensor)
    }

    /// Adds the attention of a layer, without the exchange of keys and values.
    pub(super) fn add_attention(&mut self, way: &str, micros: u64, activations: u64) {
        self.work.compute(&format!("{way} attention"), micros);
        self.communicate("tensor parallel", AllReduce, activations, Among::Tensor);
    }

    /// Adds the second half of a layer: a network, or experts on several ranks.
    pub(super) fn add_mlp(&mut self, way: &str, micros: u64, activations: u64) {
        self.communicate("to experts", AllToAll, activations, Among::Experts);
        self.work.compute(&format!("{way} mlp"), micros);
        self.communicate("from experts", AllToAll, activations, Among::Experts);
        self.communicate("tensor parallel", AllReduce, activations, Among::Tensor);
    }
}
