//! Generates runs for tests of simulators, without a recording.
//!
//! | pattern | each rank |
//! |---|---|
//! | `comp`, `comps`, `chain` | computes once, twice at once, twice in turn |
//! | `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `broadcast` | computes, then takes part in the collective |
//! | `message` | even ranks send to the next one |
//! | `ring` | sends to the next rank and receives from the previous one |
//! | `transformer` | trains, by data, tensor, context, pipeline and expert parallelism |
//! | `prefill`, `decode`, `disaggregated` | reads prompts, writes tokens, does one of both |
//!
//! The patterns up to `message` are those cases of Chakra's `et_generator` that simulators can run.
//! Its other cases are left out: metadata nodes and barriers stop ASTRA-sim, memory nodes need a memory
//! model, and its sends and receives name no peer.

mod inference;
mod schedule;
pub mod simai;
mod training;
mod transformer;

#[cfg(test)]
pub(crate) mod model_tests;
#[cfg(test)]
pub(crate) mod tests;

pub use schedule::PipelineSchedule;
pub use transformer::{ModelWork, Transformer};

use crate::builder::{Message, NodeId, WorkloadBuilder};
use crate::set::WorkloadSet;
use etlink_chakra::example_broadcast_micros;
use etlink_chakra::proto::CollectiveCommType as Kind;
use etlink_model::Failure;

/// Pattern of work per rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadPattern {
    /// One computation.
    Computation,
    /// Two independent computations.
    Computations,
    /// Two computations, one after the other.
    Chain,
    /// A computation and a collective of all ranks, once per round.
    Collective(Kind),
    /// A message from each even rank to the next one.
    Message,
    /// A message from every rank to the next one.
    Ring,
    /// A training step of a transformer, or its inference.
    Transformer(Transformer),
}

/// Sizes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSizes {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// Bytes per communication.
    pub bytes: u64,
    /// Duration of each computation, µs.
    pub micros: u64,
    /// Upper limit of the random extra duration of a computation, percent.
    pub jitter: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Generates the graphs of all ranks. The same numbers give the same graphs.
///
/// # Errors
/// The parallelism of a transformer does not fit the number of ranks.
pub fn generate(pattern: &WorkloadPattern, sizes: &WorkloadSizes) -> Result<WorkloadSet, Failure> {
    if let WorkloadPattern::Transformer(transformer) = pattern {
        return transformer.generate(sizes);
    }
    let ranks = (0..sizes.ranks).map(|rank| {
        let mut work = RankWork::new(rank, sizes);
        work.add(pattern);
        work.graph.finish(&[("source", "etlink generate")])
    });
    Ok(WorkloadSet {
        ranks: ranks.collect(),
        ..WorkloadSet::default()
    })
}

/// A rank under construction. Its work is one chain unless a pattern adds explicit dependencies.
pub(crate) struct RankWork<'s> {
    pub(crate) rank: u32,
    pub(crate) sizes: &'s WorkloadSizes,
    pub(crate) graph: WorkloadBuilder,
    /// Node that the next one in the chain waits for.
    last: Option<NodeId>,
    chance: fastrand::Rng,
}

impl<'s> RankWork<'s> {
    pub(crate) fn new(rank: u32, sizes: &'s WorkloadSizes) -> RankWork<'s> {
        let seed = sizes.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(rank);
        RankWork {
            rank,
            sizes,
            graph: WorkloadBuilder::default(),
            last: None,
            chance: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a computation with jitter after all previous work.
    pub(crate) fn compute(&mut self, name: &str, micros: u64) {
        let more = self.chance.u64(0..=u64::from(self.sizes.jitter));
        let longer = u128::from(micros) * u128::from(more) / 100;
        let micros = micros.saturating_add(u64::try_from(longer).unwrap_or(u64::MAX));
        let deps = self.last.as_slice();
        self.last = Some(self.graph.add_computation(name, micros, deps));
    }

    pub(crate) fn collective(&mut self, name: &str, kind: Kind, bytes: u64, group: Option<u32>) {
        let deps = self.last.as_slice();
        self.last = Some(self.graph.add_collective(name, kind, bytes, group, deps));
        if kind == Kind::Broadcast {
            self.graph.set_duration(example_broadcast_micros(bytes));
        }
    }

    pub(crate) fn send(&mut self, name: &str, to: u32, tag: u32, bytes: u64) {
        self.last = Some(self.send_aside(name, to, tag, bytes));
    }

    /// Adds a message that later work does not wait for.
    fn send_aside(&mut self, name: &str, to: u32, tag: u32, bytes: u64) -> NodeId {
        let message = Message {
            source: self.rank,
            destination: to,
            tag,
            bytes,
        };
        self.graph.add_send(name, message, self.last.as_slice())
    }

    pub(crate) fn receive(&mut self, name: &str, from: u32, tag: u32, bytes: u64) {
        let message = Message {
            source: from,
            destination: self.rank,
            tag,
            bytes,
        };
        let node = self.graph.add_receive(name, message, self.last.as_slice());
        self.last = Some(node);
    }

    fn add(&mut self, pattern: &WorkloadPattern) {
        let (micros, bytes) = (self.sizes.micros, self.sizes.bytes);
        match pattern {
            WorkloadPattern::Computation => self.compute("COMP_NODE", micros),
            WorkloadPattern::Computations => {
                self.compute("COMP_NODE", micros);
                self.graph.add_computation("COMP_NODE", micros, &[]);
            }
            WorkloadPattern::Chain => {
                self.compute("COMP_NODE", micros);
                self.compute("COMP_NODE", micros);
            }
            WorkloadPattern::Collective(kind) => {
                for _ in 0..self.sizes.rounds {
                    self.compute("COMP_NODE", micros);
                    self.collective(kind.as_str_name(), *kind, bytes, None);
                }
            }
            WorkloadPattern::Message => self.add_messages(),
            WorkloadPattern::Ring => self.add_ring(),
            // generated for all ranks at once
            WorkloadPattern::Transformer(_) => {}
        }
    }

    /// Adds messages from even ranks to the next one. The last rank of an odd number has no peer,
    /// and computes alone.
    fn add_messages(&mut self) {
        let (rank, bytes) = (self.rank, self.sizes.bytes);
        for round in 0..self.sizes.rounds {
            self.compute("COMP_NODE", self.sizes.micros);
            if rank % 2 == 1 {
                self.receive("COMM_RECV_NODE", rank - 1, round, bytes);
            } else if rank + 1 < self.sizes.ranks {
                self.send("COMM_SEND_NODE", rank + 1, round, bytes);
            }
        }
    }

    /// Adds a send before the receive, so that ranks do not deadlock.
    fn add_ring(&mut self) {
        let (rank, ranks, bytes) = (self.rank, self.sizes.ranks, self.sizes.bytes);
        for round in 0..self.sizes.rounds {
            self.compute("COMP_NODE", self.sizes.micros);
            if ranks > 1 {
                self.send("COMM_SEND_NODE", (rank + 1) % ranks, round, bytes);
                self.receive("COMM_RECV_NODE", (rank + ranks - 1) % ranks, round, bytes);
            }
        }
    }
}
