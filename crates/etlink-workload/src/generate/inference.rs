//! Generates inference: reading prompts, writing tokens, and both in two pools of ranks.
//!
//! A prompt takes the time of its operations. A token takes the time of its operations or, if that
//! is longer, the time in which the device's memory moves a layer's weights and the keys and values
//! of all requests. Both pools are divided alike: a rank sends the keys and values of its layers to
//! the rank of the same stage and tensor place.

use super::transformer::{Among, BYTES, BYTES_PER_MICRO, ModelRank, Pool};
use etlink_chakra::proto::CollectiveCommType::{AllGather, AllReduce};

/// Bytes of a token's number.
const TOKEN_ID: u64 = 8;

impl ModelRank<'_> {
    /// Adds prompts, whose keys and values go to the ranks of `writers`.
    pub(super) fn read_prompts(&mut self, writers: Option<Pool>) {
        let (model, rounds) = (self.model, self.work.sizes.rounds);
        let operations = model.layer_operations(model.sequence, model.sequence);
        let half = (
            model.micros(operations / 2),
            model.sequence * model.hidden * BYTES,
        );
        for round in 0..rounds {
            self.add_stage("prefill", round, 1, half);
            if let Some(writers) = writers {
                let request = u64::from(self.replica) * u64::from(rounds) + u64::from(round);
                let writer = (request % u64::from(writers.replicas)) as u32;
                let to = model.rank_at(writers, self.stage, writer, self.tensor);
                let bytes = self.stage_cache_bytes();
                self.work.send_aside("keys and values", to, round, bytes);
            }
        }
    }

    /// Adds the receipt of keys and values, and returns the number of requests.
    pub(super) fn receive_prompts(&mut self, readers: Pool) -> u64 {
        let rounds = u64::from(self.work.sizes.rounds);
        let all = rounds * u64::from(readers.replicas);
        let own = u64::from(self.replica)..all;
        for request in own.step_by(self.pool.replicas as usize) {
            let (reader, round) = ((request / rounds) as u32, (request % rounds) as u32);
            let (stage, tensor) = (self.stage, self.tensor);
            let from = self.model.rank_at(readers, stage, reader, tensor);
            let bytes = self.stage_cache_bytes();
            self.work.receive("keys and values", from, round, bytes);
        }
        all / u64::from(self.pool.replicas)
    }

    /// Adds the tokens of a batch of requests, one after the other.
    pub(super) fn write_tokens(&mut self, requests: u64, tokens: u32) {
        let (model, stage) = (self.model, self.stage);
        let (last, ids) = (model.pipeline - 1, requests * TOKEN_ID);
        for token in 0..tokens {
            let attended = model.sequence + u64::from(token);
            let operations = model.layer_operations(requests, attended);
            let cached = 2 * requests * attended * model.hidden / u64::from(model.tensor);
            let moved = (model.layer_weights().iter().sum::<u64>() + cached) * BYTES;
            let micros = model.micros(operations / 2);
            let micros = micros.max(moved / 2 / BYTES_PER_MICRO);
            let half = (micros, requests * model.hidden * BYTES);
            if stage == 0 && last > 0 && token > 0 {
                self.receive("token ids", last, token, ids);
            }
            self.add_stage("decode", token, requests, half);
            if stage == last && last > 0 && token + 1 < tokens {
                self.send("token ids", 0, token + 1, ids);
            }
        }
    }

    /// Adds the layers of a stage and its messages, with embeddings on the first stage and the
    /// logits of `tokens` tokens on the last. Half a layer takes some time and has some activations.
    fn add_stage(&mut self, way: &str, tag: u32, tokens: u64, (micros, bytes): (u64, u64)) {
        let (model, stage) = (self.model, self.stage);
        if stage > 0 {
            self.receive("activations", stage - 1, tag, bytes);
        } else if model.vocabulary > 0 {
            self.communicate("embeddings", AllReduce, bytes, Among::Tensor);
        }
        for _ in 0..model.layers / model.pipeline {
            self.add_attention(way, micros, bytes);
            self.add_mlp(way, micros, bytes);
        }
        if stage + 1 < model.pipeline {
            self.send("activations", stage + 1, tag, bytes);
        } else if model.vocabulary > 0 {
            let micros = model.logit_micros(tokens, 1);
            self.work.compute(&format!("{way} logits"), micros);
            let all = tokens * model.vocabulary * BYTES;
            self.communicate("logits", AllGather, all, Among::Tensor);
        }
    }

    fn stage_cache_bytes(&self) -> u64 {
        u64::from(self.model.layers / self.model.pipeline) * self.model.cache_bytes()
    }
}
