//! Why a file is not read.

use super::graph::FileKind;

/// Why a file could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ChakraReadError {
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
    #[error(
        "a Chakra trace (.et), its JSON, or an ET+ JSON was expected; {}",
        describe_kind(*.kind)
    )]
    NotChakra {
        /// What it is instead.
        kind: FileKind,
    },
}

fn describe_kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::KinetoTrace => "this is a Kineto trace",
        _ => "this begins like none of them",
    }
}
