//! Protobuf traces for simulators.
//!
//! ```text
//! length GlobalMetadata, length Node 0, length Node 1, …
//! ```
//! Lengths are varints. Nodes are those of the linked graph in its order, so ids ascend with
//! time, which is how ASTRA-sim chooses among ready nodes. `ctrl_deps` are program order,
//! `data_deps` launches and stream order; simulators wait for both alike. Nothing but
//! COMP, COMM_COLL, COMM_SEND and COMM_RECV nodes is written: ASTRA-sim aborts on metadata
//! nodes. O(nodes + edges), about a microsecond per node.

pub(crate) mod comm;
pub(crate) mod metadata;
mod node;
mod rounding;
pub(crate) mod sink;
mod wire;

#[cfg(test)]
mod tests;

use crate::{WriteOptions, WriteSummary};
use etlink_link::LinkedTrace;
use node::Encoder;
use sink::Sink;
use std::io;

/// Writes a trace as protobuf, uncompressed, as simulators read it.
///
/// # Errors
/// Those of `out`.
pub fn write_et(trace: &LinkedTrace, options: &WriteOptions<'_>, out: &mut impl io::Write) -> io::Result<WriteSummary> {
    let mut sink = Sink::new(out);
    sink.message(metadata::global_metadata(trace).bytes())?;
    let mut encoder = Encoder::new(trace, options);
    for index in 0..trace.nodes.len() {
        sink.message(encoder.node(index))?;
    }
    let bytes = sink.finish()?;
    Ok(WriteSummary { bytes, ..encoder.summary })
}
