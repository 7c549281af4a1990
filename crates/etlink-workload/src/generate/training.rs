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

use super::RankWork;
use super::schedule::{Pass, Task};
use super::transformer::{BYTES, HalfLayer, NORM_WEIGHTS, RankPlace, Transformer, add_all_reduce};
use etlink_chakra::proto::CollectiveCommType;

/// Bytes of a single-precision number.
const SINGLE: u64 = 4;
/// All-reduces of a loss over a divided vocabulary: the maximum, the label's logit, the sum.
const LOSS_REDUCTIONS: u32 = 3;

impl Transformer {
    /// Adds a training step.
    pub(super) fn train(&self, work: &mut RankWork<'_>, place: &RankPlace) {
        let rounds = work.sizes.rounds;
        let schedule = self.schedule;
        for task in schedule.tasks(place.stage, self.pipeline, self.chunks, rounds) {
            match task.pass {
                Pass::Forward => self.add_forward(work, place, task),
                _ => self.add_backward(work, place, task),
            }
        }
        let mut all = [0; 2];
        for chunk in 0..self.chunks {
            let of_chunk = self.chunk_weights(place, chunk);
            all = [all[0] + of_chunk[0], all[1] + of_chunk[1]];
        }
        if self.zero < 2 {
            self.reduce_gradients(work, place, all);
        }
        let shards = match self.zero {
            0 | 1 => 1,
            _ => u64::from(place.pool.replicas),
        };
        let table = self.table_weights().div_ceil(shards) * BYTES;
        add_all_reduce(work, "gradients of embeddings", table, place.of_embeddings);
        work.compute("optimizer", work.sizes.micros);
        if matches!(self.zero, 1 | 2) {
            self.gather_weights(work, place, all);
        }
    }

    fn add_forward(&self, work: &mut RankWork<'_>, place: &RankPlace, task: Task) {
        let (is_first, is_last) = self.ends(place, task.chunk);
        let activations = self.activations();
        if !is_first {
            let before = self.neighbour(place, task.chunk, false);
            work.receive("activations", before.0, self.tag(task), activations);
        }
        self.gather_shards(work, place, [self.end_weights(place, task.chunk), 0]);
        if is_first && self.vocabulary > 0 {
            add_all_reduce(work, "embeddings", activations, place.of_tensor);
        }
        (0..self.chunk_layers()).for_each(|_| self.add_layer(work, place, task.pass));
        if is_last && self.vocabulary > 0 {
            work.compute("forward logits", self.logit_micros(1));
            let bytes = self.tokens() * SINGLE;
            (0..LOSS_REDUCTIONS).for_each(|_| add_all_reduce(work, "loss", bytes, place.of_tensor));
        }
        if !is_last {
            let (next, chunk) = self.neighbour(place, task.chunk, true);
            let tag = self.tag(Task { chunk, ..task });
            work.send_aside("activations", next, tag, activations);
        }
    }

    fn add_backward(&self, work: &mut RankWork<'_>, place: &RankPlace, task: Task) {
        let (is_first, is_last) = self.ends(place, task.chunk);
        let (pass, activations) = (task.pass, self.activations());
        let has_inputs = pass != Pass::WeightGradients;
        if has_inputs && !is_last {
            let next = self.neighbour(place, task.chunk, true);
            work.receive("gradients", next.0, self.tag(task) + 1, activations);
        }
        let end = [self.end_weights(place, task.chunk), 0];
        if has_inputs {
            self.gather_shards(work, place, end);
        }
        if is_last && self.vocabulary > 0 {
            let times = if pass == Pass::Backward { 2 } else { 1 };
            work.compute("backward logits", self.logit_micros(times));
            if has_inputs {
                add_all_reduce(work, "tensor parallel", activations, place.of_tensor);
            }
        }
        (0..self.chunk_layers()).for_each(|_| self.add_layer(work, place, pass));
        if pass != Pass::InputGradients {
            match self.zero {
                2 => self.reduce_gradients(work, place, self.chunk_weights(place, task.chunk)),
                3 => self.reduce_gradients(work, place, end),
                _ => {}
            }
        }
        if has_inputs && !is_first {
            let (before, chunk) = self.neighbour(place, task.chunk, false);
            let tag = self.tag(Task { chunk, ..task }) + 1;
            work.send_aside("gradients", before, tag, activations);
        }
    }

    fn add_layer(&self, work: &mut RankWork<'_>, place: &RankPlace, pass: Pass) {
        let times = if pass == Pass::Backward { 2 } else { 1 };
        let operations = times * self.layer_operations(self.tokens(), self.sequence);
        let half = HalfLayer {
            micros: self.micros(operations / 2),
            activations: self.activations(),
        };
        // Keys and values of the whole sequence.
        let both = 2 * self.sequence * self.hidden * BYTES / u64::from(self.tensor);
        let gather = |work: &mut RankWork<'_>| {
            let own = both / u64::from(self.context);
            let kind = CollectiveCommType::AllGather;
            work.collective_among("keys and values", kind, own, place.of_context);
        };
        if pass != Pass::WeightGradients {
            self.gather_shards(work, place, self.layer_weights());
        }
        match pass {
            Pass::Forward => {
                gather(work);
                self.add_attention(work, place, "forward", half);
                self.add_mlp(work, place, "forward", half);
            }
            Pass::Backward | Pass::InputGradients => {
                self.add_mlp(work, place, "backward", half);
                gather(work);
                self.add_attention(work, place, "backward", half);
                let kind = CollectiveCommType::ReduceScatter;
                work.collective_among("keys and values", kind, both, place.of_context);
            }
            Pass::WeightGradients => {
                work.compute("weights mlp", half.micros);
                work.compute("weights attention", half.micros);
            }
        }
        if pass != Pass::InputGradients && pass != Pass::Forward && self.zero == 3 {
            self.reduce_gradients(work, place, self.layer_weights());
        }
    }

    /// Gathers weights that replicas share, before they are used.
    fn gather_shards(&self, work: &mut RankWork<'_>, place: &RankPlace, weights: [u64; 2]) {
        if self.zero == 3 {
            self.gather_weights(work, place, weights);
        }
    }

    fn gather_weights(&self, work: &mut RankWork<'_>, place: &RankPlace, weights: [u64; 2]) {
        let kind = CollectiveCommType::AllGather;
        for (name, weights, group, ranks) in self.sharing(place, weights, ["weights", "experts"]) {
            let own = (weights * BYTES).div_ceil(u64::from(ranks));
            work.collective_among(name, kind, own, group);
        }
    }

    /// Reduces gradients among the ranks that hold the same weights.
    fn reduce_gradients(&self, work: &mut RankWork<'_>, place: &RankPlace, weights: [u64; 2]) {
        let kind = match self.zero {
            0 => CollectiveCommType::AllReduce,
            _ => CollectiveCommType::ReduceScatter,
        };
        let names = ["gradients of weights", "gradients of experts"];
        for (name, weights, group, _) in self.sharing(place, weights, names) {
            work.collective_among(name, kind, weights * BYTES, group);
        }
    }

    /// Returns names, weights, groups and sizes of groups of the weights that are not 0.
    fn sharing(
        &self,
        place: &RankPlace,
        [shared, experts]: [u64; 2],
        names: [&'static str; 2],
    ) -> impl Iterator<Item = (&'static str, u64, Option<u32>, u32)> {
        let replicas = place.pool.replicas;
        let same_experts = replicas / self.expert;
        let all = [
            (names[0], shared, place.of_replicas, replicas),
            (names[1], experts, place.of_same_experts, same_experts),
        ];
        all.into_iter().filter(|(_, weights, ..)| *weights > 0)
    }

    /// Returns the rank and the chunk of the stage after or before one.
    fn neighbour(&self, place: &RankPlace, chunk: u32, is_after: bool) -> (u32, u32) {
        let at = chunk * self.pipeline + place.stage;
        let at = if is_after { at + 1 } else { at - 1 };
        let (stage, chunk) = (at % self.pipeline, at / self.pipeline);
        let rank = self.rank_at(place.pool, stage, place.replica, place.tensor);
        (rank, chunk)
    }

    /// Returns the tag of the activations that a task receives; gradients have the next one.
    fn tag(&self, task: Task) -> u32 {
        2 * (task.batch * self.chunks + task.chunk)
    }

    /// Returns the weights of a chunk: those of all replicas, and those of its experts.
    fn chunk_weights(&self, place: &RankPlace, chunk: u32) -> [u64; 2] {
        let [shared, experts] = self.layer_weights().map(|of| of * self.chunk_layers());
        [shared + self.end_weights(place, chunk), experts]
    }

    /// Returns the weights of a chunk outside of layers: embeddings, and the norm of the last one.
    fn end_weights(&self, place: &RankPlace, chunk: u32) -> u64 {
        let (is_first, is_last) = self.ends(place, chunk);
        let table = if is_first || is_last {
            self.table_weights()
        } else {
            0
        };
        let norm = if is_last && self.norms {
            NORM_WEIGHTS * self.hidden
        } else {
            0
        };
        table + norm
    }

    fn table_weights(&self) -> u64 {
        self.vocabulary * self.hidden / u64::from(self.tensor)
    }

    /// Returns true if a chunk of a stage is the first of the model, and if it is the last.
    fn ends(&self, place: &RankPlace, chunk: u32) -> (bool, bool) {
        let at = chunk * self.pipeline + place.stage;
        (at == 0, at + 1 == self.chunks * self.pipeline)
    }

    fn chunk_layers(&self) -> u64 {
        u64::from(self.layers / self.pipeline / self.chunks)
    }

    /// Returns the tokens of a sequence on one rank.
    fn tokens(&self) -> u64 {
        self.sequence / u64::from(self.context)
    }

    fn activations(&self) -> u64 {
        self.tokens() * self.hidden * BYTES
    }

    fn logit_micros(&self, times: u128) -> u64 {
        self.micros(times * self.logit_operations(self.tokens()))
    }
}
