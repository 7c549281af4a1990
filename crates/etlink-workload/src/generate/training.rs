//! Generates a training step: passes of micro-batches, reductions of gradients, the optimizer.
//!
//! Each gradient is reduced among the replicas that hold the same weights: those of experts among
//! the replicas with the same experts. ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations Toward
//! Training Trillion Parameter Models", 2020) changes the collectives of weights and gradients:
//!
//! | stage | before a layer's passes | after its backward pass | at the end |
//! |---|---|---|---|
//! | 0 | | | all-reduce |
//! | 1 | | | reduce-scatter, optimizer, all-gather |
//! | 2 | | reduce-scatter, once per chunk of layers | optimizer, all-gather |
//! | 3 | all-gather | reduce-scatter | |
//!
//! The first and the last stage hold the embeddings, and sum their gradients.

use super::schedule::{Pass, Task};
use super::transformer::{Among, BYTES, ModelRank, NORM_WEIGHTS, Transformer};
use etlink_chakra::proto::CollectiveCommType::{AllGather, AllReduce, ReduceScatter};

/// Bytes of a single-precision number.
const SINGLE: u64 = 4;
/// All-reduces of a loss over a divided vocabulary: the maximum, the label's logit, the sum.
const LOSS_REDUCTIONS: u32 = 3;

impl ModelRank<'_> {
    /// Adds a training step.
    pub(super) fn train(&mut self) {
        let Transformer { chunks, zero, .. } = self.model;
        let (stage, pipeline) = (self.stage, self.model.pipeline);
        let (rounds, replicas) = (self.work.sizes.rounds, self.pool.replicas);
        for task in self.model.schedule.tasks(stage, pipeline, chunks, rounds) {
            self.add_task(task);
        }
        let of_chunks = (0..chunks).map(|chunk| self.chunk_weights(chunk * pipeline + stage));
        let all = of_chunks.fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        if zero < 2 {
            self.reduce_gradients(all);
        }
        let shards = if zero < 2 { 1 } else { replicas };
        let table = self.model.table_weights().div_ceil(shards.into()) * BYTES;
        self.communicate(
            "gradients of embeddings",
            AllReduce,
            table,
            Among::Embeddings,
        );
        self.work.compute("optimizer", self.work.sizes.micros);
        if matches!(zero, 1 | 2) {
            self.gather_weights(all);
        }
    }

    fn add_task(&mut self, task: Task) {
        let (model, pass) = (self.model, task.pass);
        let at = task.chunk * model.pipeline + self.stage;
        let last = model.chunks * model.pipeline - 1;
        let tag = |at: u32| 2 * (task.batch * model.chunks + at / model.pipeline);
        let tokens = self.tokens();
        let bytes = tokens * model.hidden * BYTES;
        let is_forward = pass == Pass::Forward;
        let has_inputs = pass != Pass::WeightGradients;
        let has_logits = at == last && model.vocabulary > 0;
        if is_forward && at > 0 {
            self.receive("activations", at - 1, tag(at), bytes);
        } else if !is_forward && has_inputs && at < last {
            self.receive("gradients", at + 1, tag(at) + 1, bytes);
        }
        let end = [self.end_weights(at), 0];
        self.gather_shards(pass, end);
        if is_forward && at == 0 && model.vocabulary > 0 {
            self.communicate("embeddings", AllReduce, bytes, Among::Tensor);
        }
        let logit_micros = model.logit_micros(tokens, pass.times());
        if !is_forward && has_logits {
            self.work.compute("backward logits", logit_micros);
            if has_inputs {
                self.communicate("tensor parallel", AllReduce, bytes, Among::Tensor);
            }
        }
        (0..model.layers / (last + 1)).for_each(|_| self.add_layer(pass, bytes));
        if is_forward && has_logits {
            self.work.compute("forward logits", logit_micros);
            for _ in 0..LOSS_REDUCTIONS {
                self.communicate("loss", AllReduce, tokens * SINGLE, Among::Tensor);
            }
        }
        match model.zero {
            2 if pass.has_weight_gradients() => self.reduce_gradients(self.chunk_weights(at)),
            3 if pass.has_weight_gradients() => self.reduce_gradients(end),
            _ => {}
        }
        if is_forward && at < last {
            self.send("activations", at + 1, tag(at + 1), bytes);
        } else if !is_forward && has_inputs && at > 0 {
            self.send("gradients", at - 1, tag(at - 1) + 1, bytes);
        }
    }

    fn add_layer(&mut self, pass: Pass, bytes: u64) {
        let model = self.model;
        let operations = model.layer_operations(self.tokens(), model.sequence);
        let micros = model.micros(pass.times() * operations / 2);
        let both = model.cache_bytes();
        self.gather_shards(pass, model.layer_weights());
        match pass {
            Pass::Forward => {
                self.communicate("keys and values", AllGather, both, Among::Context);
                self.add_attention("forward", micros, bytes);
                self.add_mlp("forward", micros, bytes);
            }
            Pass::Backward | Pass::InputGradients => {
                self.add_mlp("backward", micros, bytes);
                self.communicate("keys and values", AllGather, both, Among::Context);
                self.add_attention("backward", micros, bytes);
                self.communicate("keys and values", ReduceScatter, both, Among::Context);
            }
            Pass::WeightGradients => {
                self.work.compute("weights mlp", micros);
                self.work.compute("weights attention", micros);
            }
        }
        if pass.has_weight_gradients() && model.zero == 3 {
            self.reduce_gradients(model.layer_weights());
        }
    }

    /// Gathers weights that replicas share, before a pass that uses them.
    fn gather_shards(&mut self, pass: Pass, weights: [u64; 2]) {
        if self.model.zero == 3 && pass != Pass::WeightGradients {
            self.gather_weights(weights);
        }
    }

    fn gather_weights(&mut self, weights: [u64; 2]) {
        let [shared, experts] = weights.map(|of| of * BYTES);
        self.communicate("weights", AllGather, shared, Among::Replicas);
        self.communicate("experts", AllGather, experts, Among::SameExperts);
    }

    /// Reduces gradients among the ranks that hold the same weights.
    fn reduce_gradients(&mut self, weights: [u64; 2]) {
        let is_whole = self.model.zero == 0;
        let kind = if is_whole { AllReduce } else { ReduceScatter };
        let [shared, experts] = weights.map(|of| of * BYTES);
        self.communicate("gradients of weights", kind, shared, Among::Replicas);
        self.communicate("gradients of experts", kind, experts, Among::SameExperts);
    }

    /// Returns the weights of chunk `at` of the model: those of all replicas, and of its experts.
    fn chunk_weights(&self, at: u32) -> [u64; 2] {
        let layers = self.model.layers / self.model.pipeline / self.model.chunks;
        let [shared, experts] = self.model.layer_weights().map(|of| of * u64::from(layers));
        [shared + self.end_weights(at), experts]
    }

    /// Returns the weights of chunk `at` outside of layers: embeddings, and the last norm.
    fn end_weights(&self, at: u32) -> u64 {
        let model = &self.model;
        let is_last = at + 1 == model.chunks * model.pipeline;
        let table = u64::from(at == 0 || is_last) * model.table_weights();
        table + u64::from(is_last && model.norms) * NORM_WEIGHTS * model.hidden
    }

    /// Returns the tokens of a sequence on one rank.
    fn tokens(&self) -> u64 {
        self.model.sequence / u64::from(self.model.context)
    }
}
