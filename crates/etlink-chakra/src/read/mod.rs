//! Reads what this crate or Chakra wrote.
//!
//! ```text
//! bytes ── sniff ─┬─ ChakraEt   varint-delimited protobuf
//!                 ├─ ChakraJson what chakra_jsonizer prints
//!                 └─ EtPlus     ET+ JSON, also a plain host trace: the op tree
//!                       └─> Graph: columns, with what was wrong as findings
//! ```
//! Damage is no error as long as something can be read. Linear in the file.

mod et;
mod etplus;
mod graph;
mod jsonizer;
mod sniff;
mod wire;

#[cfg(test)]
mod tests;

pub use graph::{CommAttrs, FileKind, Graph, GraphNode, GraphSummary, IdLists, Place};
pub use sniff::{SNIFF_BYTES, sniff};

use crate::finding::{Example, FindingKind};
use std::io::Read;

/// Why a file could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// How many bytes had been read.
        offset: u64,
        /// What the source said.
        source: std::io::Error,
    },
    /// The document has no nodes, or its array is not readable.
    #[error("an execution trace was expected, but {0}")]
    Json(#[from] etlink_json::JsonReadError),
    /// Not a Chakra trace in any form.
    #[error("a Chakra trace (.et), its JSON, or an ET+ JSON was expected; {}", found(*.kind))]
    NotChakra {
        /// What it is instead.
        kind: FileKind,
    },
}

fn found(kind: FileKind) -> &'static str {
    match kind {
        FileKind::KinetoTrace => "this is a Kineto trace",
        _ => "this begins like none of them",
    }
}

/// Reads a trace; the source is to be unpacked already.
///
/// # Errors
/// See [`ReadError`]; damage becomes [`Graph::findings`].
pub fn read(mut source: impl Read + Send) -> Result<Graph, ReadError> {
    let mut head = vec![];
    let wanted = SNIFF_BYTES as u64;
    // A source that fails here fails again below, where more is known about it.
    let early = source.by_ref().take(wanted).read_to_end(&mut head).err();
    let kind = sniff(&head);
    if head.is_empty() {
        return match early {
            None => Ok(empty()),
            Some(source) => Err(ReadError::Io { offset: 0, source }),
        };
    }
    let whole = head.as_slice().chain(Failing(early)).chain(source);
    match kind {
        FileKind::ChakraEt => et::read_et(whole),
        FileKind::ChakraJson => jsonizer::read_jsonizer(whole),
        FileKind::EtPlus | FileKind::HostTrace => etplus::read_etplus(whole),
        FileKind::KinetoTrace | FileKind::Unknown => Err(ReadError::NotChakra { kind }),
    }
}

fn empty() -> Graph {
    let mut graph = Graph::default();
    graph
        .findings
        .note(FindingKind::EmptyFile, Example::default);
    graph
}

/// Ends, with the error if there was one.
struct Failing(Option<std::io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
