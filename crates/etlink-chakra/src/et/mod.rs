//! Writes protobuf traces for simulators.
//!
//! ```text
//! length GlobalMetadata, length Node 0, length Node 1, …
//! ```
//! Lengths are varints. Nodes have the order of the linked graph, so ids ascend with time,
//! which is how ASTRA-sim chooses among ready nodes. `ctrl_deps` are program order, waits of calls
//! and handoffs; `data_deps` are launches, stream order, event waits and tensors. Simulators treat
//! both alike. Only COMP, COMM_COLL, COMM_SEND and COMM_RECV nodes are written, because ASTRA-sim
//! aborts on metadata nodes. O(nodes + edges).

pub(crate) mod attributes;
pub(crate) mod communication;
pub(crate) mod metadata;
mod node;
mod part;
mod plan;
mod read;
mod roofline;
mod rounding;
pub(crate) mod shared_texts;
mod weights;

#[cfg(test)]
mod attribute_tests;
#[cfg(test)]
mod tests;

pub(crate) use read::{MessageReader, NextMessage, is_metadata, read_et, read_jsonizer};

use crate::ordered_writer;
use crate::{WriteOptions, WriteSummary};
use etlink_link::LinkedTrace;
use etlink_link::ranks::GroupResolver;
use etlink_model::NodeIdx;
use node::Encoder;
use part::PartGraph;
use plan::{CommTurns, EtPlan};
use shared_texts::SharedTexts;
use std::io;
use weights::EdgeWeights;

/// Nodes per block; about 300 KB.
const BLOCK_NODES: usize = 1024;

/// Writes a trace as uncompressed protobuf, the format that simulators read.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_et(
    trace: &LinkedTrace,
    options: &WriteOptions<'_>,
    out: &mut (impl io::Write + Send),
) -> io::Result<WriteSummary> {
    let groups = GroupResolver::new(trace);
    let mut graph = PartGraph::of(trace, &groups, options);
    let turns = CommTurns::set(&mut graph, options);
    let weights = if options.has_dep_latencies() {
        Some(EdgeWeights::of(trace).map_err(io::Error::other)?)
    } else {
        None
    };
    let plan = EtPlan::of(trace, &graph, turns, weights, options);
    let nodes = graph.len();
    let (node_count, texts) = rayon::join(
        || plan.node_count(&graph, options),
        || SharedTexts::of(trace, &graph, &plan, options),
    );
    let mut summary = ordered_writer::write(
        out,
        nodes.div_ceil(BLOCK_NODES).max(1),
        |block, mut bytes| {
            // The metadata goes with the first block, so that an empty trace has a first message
            // too.
            if block == 0 {
                bytes = metadata::global_metadata(trace, options, &texts, node_count, bytes);
            }
            let mut encoder = Encoder::new(trace, &graph, &groups, options, &plan, &texts, bytes);
            let from = block * BLOCK_NODES;
            let own = from..(from + BLOCK_NODES).min(nodes);
            own.for_each(|node| encoder.node(NodeIdx::new(node)));
            Ok(encoder.finish())
        },
    )?;
    debug_assert_eq!(
        summary.nodes, node_count,
        "the first message states the count"
    );
    // The graph counted the demotions; blocks only write its nodes.
    summary.demoted = graph.demoted;
    Ok(summary)
}
