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
    // the source is part of the text, so that the remedy stands last
    #[error("{0}: not an execution trace; give what etlink, PyTorch or chakra_converter wrote")]
    Json(etlink_json::JsonReadError),
    /// Not a Chakra trace in any form.
    #[error(
        "a Chakra trace (.et), its JSON, or an ET+ JSON was expected; {}; give what etlink or \
         chakra_converter wrote",
        describe_kind(*.kind)
    )]
    NotChakra {
        /// What it is instead.
        kind: FileKind,
    },
}

impl From<etlink_json::JsonReadError> for ChakraReadError {
    fn from(error: etlink_json::JsonReadError) -> Self {
        ChakraReadError::Json(error)
    }
}

fn describe_kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::KinetoTrace => "this is a Kineto trace",
        _ => "this begins like none of them",
    }
}
