//! Failures of reading.

use super::graph::FileKind;
use etlink_json::JsonReadError;
use etlink_model::Failure;
use std::io;

/// Returns the failure of a source after `offset` bytes.
pub(crate) fn stopped(offset: u64, source: io::Error) -> Failure {
    Failure::new(format!("reading stopped at byte {offset}")).because(source)
}

/// Returns the failure of a document without nodes, or with an unreadable array.
pub(crate) fn no_nodes(error: &JsonReadError) -> Failure {
    // The cause is part of the text, so that the remedy comes last.
    Failure::new(format!("{error}: not an execution trace"))
        .advise("give a file written by etlink, PyTorch or chakra_converter")
}

/// Returns the failure of a file that is not a Chakra trace in any form.
pub(crate) fn not_chakra(kind: FileKind) -> Failure {
    let found = match kind {
        FileKind::KinetoTrace => "this is a Kineto trace",
        _ => "the file does not start like any of these",
    };
    Failure::new(format!(
        "expected a Chakra trace (.et), its JSON, or merged JSON (ET+), but {found}"
    ))
    .advise("give a file written by etlink or chakra_converter")
}
