//! Reads what this crate or Chakra wrote.
//!
//! ```text
//! bytes ── sniff ─┬─ ChakraEt   varint-delimited protobuf
//!                 ├─ ChakraJson what chakra_jsonizer prints
//!                 └─ EtPlus     ET+ JSON, also a plain host trace: the op tree
//!                       └─> ChakraGraph: columns, with what was wrong as findings
//! ```
//! Damage is no error as long as something can be read. Linear in the file.

pub(crate) mod error;
pub(crate) mod graph;
mod sniff;

#[cfg(test)]
mod tests;

pub use error::ChakraReadError;
pub use graph::{
    ChakraGraph, CommAttrs, FileKind, GraphNode, GraphSummary, IdLists, NodePlacement,
};
pub use sniff::{SNIFF_BYTES, sniff};

use crate::et::metadata::NODE_COUNT;
use crate::finding::{FindingExample, FindingKind};
use std::io::Read;

/// Reads a trace; the source is to be unpacked already.
///
/// # Errors
/// See [`ChakraReadError`]; damage becomes [`ChakraGraph::findings`].
pub fn read(mut source: impl Read + Send) -> Result<ChakraGraph, ChakraReadError> {
    let mut head = vec![];
    let wanted = SNIFF_BYTES as u64;
    // A source that fails here fails again below, where more is known about it.
    let early = source.by_ref().take(wanted).read_to_end(&mut head).err();
    let kind = sniff(&head);
    if head.is_empty() {
        return match early {
            None => Ok(empty_graph()),
            Some(source) => Err(ChakraReadError::Io { offset: 0, source }),
        };
    }
    let whole = head.as_slice().chain(FailingReader(early)).chain(source);
    let mut graph = match kind {
        FileKind::ChakraEt => crate::et::read_et(whole)?,
        FileKind::ChakraJson => crate::et::read_jsonizer(whole)?,
        FileKind::EtPlus | FileKind::HostTrace => crate::etplus::read_etplus(whole)?,
        FileKind::KinetoTrace | FileKind::Unknown => {
            return Err(ChakraReadError::NotChakra { kind });
        }
    };
    // Only now are all nodes there: the count stands in the first message.
    compare_node_count(&mut graph);
    Ok(graph)
}

/// Compares the nodes with the number that the first message states, if it states one: a file that
/// is cut between two messages shows it nowhere else.
fn compare_node_count(graph: &mut ChakraGraph) {
    let Some(stated) = graph.metadata_int(NODE_COUNT) else {
        return;
    };
    // nodes that could not be decoded are counted as such
    let undecodable = graph.findings.count(FindingKind::Undecodable);
    let present = graph.len() as u64 + undecodable;
    let differ = stated.abs_diff(present.cast_signed());
    graph
        .findings
        .add(FindingKind::NodeCountDiffers, differ, || FindingExample {
            detail: format!("{present} of {stated} nodes are there"),
            ..FindingExample::default()
        });
}

fn empty_graph() -> ChakraGraph {
    let mut graph = ChakraGraph::default();
    graph
        .findings
        .note(FindingKind::EmptyFile, FindingExample::default);
    graph
}

/// Ends, with the error if there was one.
struct FailingReader(Option<std::io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
