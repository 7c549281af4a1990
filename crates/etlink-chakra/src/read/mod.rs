//! Reads files written by this crate or by Chakra.
//!
//! ```text
//! bytes ── sniff ─┬─ ChakraEt   varint-delimited protobuf
//!                 ├─ ChakraJson output of chakra_jsonizer
//!                 └─ EtPlus     ET+ JSON, also a plain host trace: the op tree
//!                       └─> ChakraGraph: columns, with faults as findings
//! ```
//! Damage is not an error as long as something can be read. Linear in the file.

pub(crate) mod error;
pub(crate) mod graph;
mod sniff;

#[cfg(test)]
mod tests;

pub use graph::{
    ChakraGraph, CommAttrs, FileKind, GraphNode, GraphSummary, IdLists, NodePlacement,
};
pub use sniff::{SNIFF_BYTES, sniff};

use crate::et::metadata::NODE_COUNT;
use crate::finding::{FindingExample, FindingKind};
use etlink_model::Failure;
use std::io::Read;

/// Reads a trace from a source that is already decompressed.
///
/// # Errors
/// Fails if the source fails or is not a Chakra trace; damage is reported in
/// [`ChakraGraph::findings`].
pub fn read(mut source: impl Read + Send) -> Result<ChakraGraph, Failure> {
    let mut head = vec![];
    let wanted = SNIFF_BYTES as u64;
    // A source that fails here fails again below, where the error has more context.
    let early = source.by_ref().take(wanted).read_to_end(&mut head).err();
    let kind = sniff(&head);
    if head.is_empty() {
        return match early {
            None => Ok(empty_graph()),
            Some(source) => Err(error::stopped(0, source)),
        };
    }
    let whole = head.as_slice().chain(FailingReader(early)).chain(source);
    let mut graph = match kind {
        FileKind::ChakraEt => crate::et::read_et(whole)?,
        FileKind::ChakraJson => crate::et::read_jsonizer(whole),
        FileKind::EtPlus | FileKind::HostTrace => crate::etplus::read_etplus(whole)?,
        FileKind::KinetoTrace | FileKind::Unknown => {
            return Err(error::not_chakra(kind));
        }
    };
    // Only now are all nodes read; the count is in the first message.
    compare_node_count(&mut graph);
    Ok(graph)
}

/// Compares the number of nodes with the number in the first message, if it states one: nothing
/// else shows that a file was truncated between two messages.
fn compare_node_count(graph: &mut ChakraGraph) {
    let Some(stated) = graph.metadata_int(NODE_COUNT) else {
        return;
    };
    // Nodes that could not be decoded are counted separately.
    let undecodable = graph.findings.count(FindingKind::Undecodable);
    let present = graph.len() as u64 + undecodable;
    let differ = stated.abs_diff(present.cast_signed());
    graph
        .findings
        .add(FindingKind::NodeCountDiffers, differ, || {
            FindingExample::described(format!("{present} of {stated} nodes are present"))
        });
}

fn empty_graph() -> ChakraGraph {
    let mut graph = ChakraGraph::default();
    graph
        .findings
        .note(FindingKind::EmptyFile, FindingExample::default);
    graph
}

/// Reader that ends immediately, with the error if there was one.
struct FailingReader(Option<std::io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
