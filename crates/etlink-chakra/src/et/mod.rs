//! Protobuf traces for simulators.
//!
//! ```text
//! length GlobalMetadata, length Node 0, length Node 1, …
//! ```
//! Lengths are varints. Nodes are those of the linked graph in its order, so ids ascend with
//! time, which is how ASTRA-sim chooses among ready nodes. `ctrl_deps` are program order,
//! `data_deps` launches and stream order; simulators wait for both alike. Nothing but
//! COMP, COMM_COLL, COMM_SEND and COMM_RECV nodes is written: ASTRA-sim aborts on metadata
//! nodes. O(nodes + edges). Batches of nodes are encoded on all threads of the rayon pool while
//! the batches before them are written; the bytes do not depend on it.

pub(crate) mod comm;
pub(crate) mod metadata;
mod node;
mod plan;
mod rounding;
pub(crate) mod sink;
mod wire;

#[cfg(test)]
mod tests;

use crate::{Groups, WriteOptions, WriteSummary};
use etlink_link::LinkedTrace;
use node::Encoder;
use plan::Plan;
use prost::encoding::encode_varint;
use rayon::prelude::*;
use sink::Sink;
use std::io;

/// Nodes that one thread encodes at a time; some 500 KB.
const BATCH_NODES: usize = 2048;

/// Writes a trace as protobuf, uncompressed, as simulators read it.
///
/// # Errors
/// Those of `out`.
pub fn write_et(trace: &LinkedTrace, options: &WriteOptions<'_>, out: &mut impl io::Write) -> io::Result<WriteSummary> {
    let mut sink = Sink::new(out);
    sink.message(metadata::global_metadata(trace).bytes())?;
    let (groups, plan) = (Groups::new(trace), Plan::of(trace));
    let wave = BATCH_NODES * rayon::current_num_threads();
    let mut summary = WriteSummary::default();
    let (mut full, mut empty): (Vec<Batch>, Vec<Batch>) = (vec![], vec![]);
    for start in (0..trace.nodes.len() + wave).step_by(wave) {
        let nodes = start.min(trace.nodes.len())..(start + wave).min(trace.nodes.len());
        empty.resize_with(nodes.len().div_ceil(BATCH_NODES), Batch::default);
        rayon::in_place_scope(|scope| {
            let (groups, plan, empty) = (&groups, &plan, &mut empty);
            scope.spawn(move |_| {
                let batches = empty.par_iter_mut().enumerate();
                batches.for_each(|(at, batch)| {
                    let from = nodes.start + at * BATCH_NODES;
                    batch.fill(Encoder::new(trace, groups, options, plan), from..(from + BATCH_NODES).min(nodes.end));
                });
            });
            full.iter().try_for_each(|batch| sink.block(&batch.bytes))
        })?;
        empty.iter().for_each(|batch| summary.add(&batch.summary));
        std::mem::swap(&mut full, &mut empty);
    }
    summary.bytes = sink.finish()?;
    Ok(summary)
}

/// Encoded nodes, each after its length.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    summary: WriteSummary,
}

impl Batch {
    fn fill(&mut self, mut encoder: Encoder<'_>, nodes: std::ops::Range<usize>) {
        self.bytes.clear();
        for node in nodes {
            let message = encoder.node(node);
            encode_varint(message.len() as u64, &mut self.bytes);
            self.bytes.extend_from_slice(message);
        }
        self.summary = encoder.summary;
    }
}
