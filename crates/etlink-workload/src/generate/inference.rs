//! Generates inference: reading prompts, writing tokens, and both in two pools of ranks.
//!
//! A prompt takes the time of its operations. A token takes the time of its operations or, if that
//! is longer, the time in which the device's memory moves a layer's weights and the keys and values
//! of all requests. Both pools are divided alike: a rank sends the keys and values of its layers to
//! the rank of the same stage and tensor place.

use super::RankWork;
use super::transformer::{
    BYTES, BYTES_PER_MICRO, HalfLayer, Pool, RankPlace, Transformer, add_all_reduce,
};
use etlink_chakra::proto::CollectiveCommType;

/// Bytes of a token's number.
const TOKEN_ID: u64 = 8;

impl Transformer {
    /// Adds prompts, whose keys and values go to the ranks of `writers`.
    pub(super) fn read_prompts(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        writers: Option<Pool>,
    ) {
        let rounds = work.sizes.rounds;
        let half = HalfLayer {
            micros: self.micros(self.layer_operations(self.sequence, self.sequence) / 2),
            activations: self.sequence * self.hidden * BYTES,
        };
        for round in 0..rounds {
            self.receive_activations(work, place, round, half);
            self.add_stage(work, place, "prefill", 1, half);
            self.send_activations(work, place, round, half);
            if let Some(writers) = writers {
                let request = u64::from(place.replica) * u64::from(rounds) + u64::from(round);
                let writer = (request % u64::from(writers.replicas)) as u32;
                let to = self.rank_at(writers, place.stage, writer, place.tensor);
                work.send_aside("keys and values", to, round, self.cache_bytes());
            }
        }
    }

    /// Adds the receipt of keys and values, and returns the number of requests.
    pub(super) fn receive_prompts(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        readers: Pool,
    ) -> u64 {
        let rounds = u64::from(work.sizes.rounds);
        let all = rounds * u64::from(readers.replicas);
        let own = u64::from(place.replica)..all;
        for request in own.step_by(place.pool.replicas as usize) {
            let (reader, round) = ((request / rounds) as u32, (request % rounds) as u32);
            let from = self.rank_at(readers, place.stage, reader, place.tensor);
            work.receive("keys and values", from, round, self.cache_bytes());
        }
        all / u64::from(place.pool.replicas)
    }

    /// Adds the tokens of a batch of requests, one after the other.
    pub(super) fn write_tokens(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        requests: u64,
        tokens: u32,
    ) {
        let last = self.rank_at(place.pool, self.pipeline - 1, place.replica, place.tensor);
        let first = self.rank_at(place.pool, 0, place.replica, place.tensor);
        let ids = requests * TOKEN_ID;
        for token in 0..tokens {
            let attended = self.sequence + u64::from(token);
            let operations = self.layer_operations(requests, attended);
            let cached = 2 * requests * attended * self.hidden / u64::from(self.tensor);
            let moved = (self.layer_weights().iter().sum::<u64>() + cached) * BYTES;
            let half = HalfLayer {
                micros: self.micros(operations / 2).max(moved / 2 / BYTES_PER_MICRO),
                activations: requests * self.hidden * BYTES,
            };
            if work.rank == first && work.rank != last && token > 0 {
                work.receive("token ids", last, token, ids);
            }
            self.receive_activations(work, place, token, half);
            self.add_stage(work, place, "decode", requests, half);
            self.send_activations(work, place, token, half);
            if work.rank == last && work.rank != first && token + 1 < tokens {
                work.send_aside("token ids", first, token + 1, ids);
            }
        }
    }

    /// Adds the layers of a stage, with embeddings on the first and the logits of `tokens` tokens
    /// on the last.
    fn add_stage(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        way: &str,
        tokens: u64,
        half: HalfLayer,
    ) {
        if place.stage == 0 && self.vocabulary > 0 {
            add_all_reduce(work, "embeddings", half.activations, place.of_tensor);
        }
        for _ in 0..self.layers / self.pipeline {
            self.add_attention(work, place, way, half);
            self.add_mlp(work, place, way, half);
        }
        if place.stage + 1 == self.pipeline && self.vocabulary > 0 {
            work.compute(
                &format!("{way} logits"),
                self.micros(self.logit_operations(tokens)),
            );
            let own = tokens * self.vocabulary * BYTES / u64::from(self.tensor);
            work.collective_among(
                "logits",
                CollectiveCommType::AllGather,
                own,
                place.of_tensor,
            );
        }
    }

    fn receive_activations(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        tag: u32,
        half: HalfLayer,
    ) {
        if let Some(before) = place.stage.checked_sub(1) {
            let from = self.rank_at(place.pool, before, place.replica, place.tensor);
            work.receive("activations", from, tag, half.activations);
        }
    }

    fn send_activations(
        &self,
        work: &mut RankWork<'_>,
        place: &RankPlace,
        tag: u32,
        half: HalfLayer,
    ) {
        if place.stage + 1 < self.pipeline {
            let to = self.rank_at(place.pool, place.stage + 1, place.replica, place.tensor);
            work.send_aside("activations", to, tag, half.activations);
        }
    }

    /// Returns the bytes of a prompt's keys and values in the layers of a rank.
    fn cache_bytes(&self) -> u64 {
        let layers = u64::from(self.layers / self.pipeline);
        2 * self.sequence * self.hidden / u64::from(self.tensor) * layers * BYTES
    }
}
