//! Errors of reading.

use super::graph::FileKind;
use etlink_model::advice;

/// Reasons for which a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ChakraReadError {
    /// The source failed.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// Bytes read before the failure.
        offset: u64,
        /// Error of the source.
        source: std::io::Error,
    },
    /// The document has no nodes, or its array is unreadable.
    // The source is part of the text, so that the remedy comes last.
    #[error("{}: not an execution trace{}", .0, advice(self.remedy()))]
    Json(etlink_json::JsonReadError),
    /// The file is not a Chakra trace in any form.
    #[error(
        "expected a Chakra trace (.et), its JSON, or merged JSON (ET+), but {}{}",
        describe_kind(*.kind),
        advice(self.remedy())
    )]
    NotChakra {
        /// Actual kind of the file.
        kind: FileKind,
    },
}

impl ChakraReadError {
    /// Returns advice for the user; `None` if there is none.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            ChakraReadError::Json(_) => {
                "give a file written by etlink, PyTorch or chakra_converter"
            }
            ChakraReadError::NotChakra { .. } => {
                "give a file written by etlink or chakra_converter"
            }
            ChakraReadError::Io { .. } => return None,
        };
        Some(remedy.to_owned())
    }
}

impl From<etlink_json::JsonReadError> for ChakraReadError {
    fn from(error: etlink_json::JsonReadError) -> Self {
        ChakraReadError::Json(error)
    }
}

fn describe_kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::KinetoTrace => "this is a Kineto trace",
        _ => "the file does not start like any of these",
    }
}
