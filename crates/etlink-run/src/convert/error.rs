//! Errors of converting a graph.

use super::format::GraphFormat;
use crate::{MissingFeature, RunError};
use etlink_chakra::messages::{Losses, MessageError};
use etlink_chakra::picture::{ChoiceError, TooLarge};
use etlink_chakra::read::ChakraReadError;
use etlink_workload::text_workload::TextWorkloadError;
use std::path::PathBuf;

/// Error of converting a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The input has no format that can be converted.
    #[error(
        "{}: not a format that convert reads; give a .et, its JSON, merged JSON (ET+), \
        tables of convert, or a text workload of ASTRA-sim 1.0. To convert a recording, first run \
        `etlink link --device KINETO -o x.et`",
        path.display()
    )]
    UnknownInput {
        /// Path of the input.
        path: PathBuf,
    },
    /// The input has another format than stated.
    #[error("{}: the file is {}, not {}; leave out --from", path.display(), found.describe(),
        said.describe())]
    OtherInput {
        /// Path of the input.
        path: PathBuf,
        /// Detected format.
        found: GraphFormat,
        /// Stated format.
        said: GraphFormat,
    },
    /// The output's name does not identify its format.
    #[error(
        "{}: the file name does not show the format; use .et, .json, .dot, .graphml, \
        .mmd, .goal or .parquet, or give --to",
        path.display()
    )]
    UnknownOutput {
        /// Path of the output.
        path: PathBuf,
    },
    /// The conversion between the two formats is not supported.
    #[error("{}: cannot convert {} to {}: {why}", path.display(), from.describe(), to.describe())]
    NoWay {
        /// Path of the input.
        path: PathBuf,
        /// Format of the input.
        from: GraphFormat,
        /// Format of the output.
        to: GraphFormat,
        /// Reason, and an alternative.
        why: &'static str,
    },
    /// An option does not apply to the formats.
    #[error("{option} {applies}")]
    Unused {
        /// Name of the option.
        option: &'static str,
        /// Formats to which the option applies.
        applies: &'static str,
    },
    /// A folder does not contain a single run.
    #[error("{}: {found}; {remedy}", path.display())]
    NotOneRank {
        /// Path of the folder.
        path: PathBuf,
        /// Contents of the folder.
        found: String,
        /// Remedy for the user.
        remedy: &'static str,
    },
    /// Data would be lost under `--strict`.
    #[error("nothing was written, because --strict refuses to lose: {}", describe(.0))]
    Lossy(Losses),
    /// The input contains no complete node.
    #[error("{}: the file has no complete node{}", path.display(), describe_damage(.losses))]
    NoNodes {
        /// Path of the input.
        path: PathBuf,
        /// Damage of the input.
        losses: Losses,
    },
    /// The input is not a readable graph.
    #[error("{}", path.display())]
    Graph {
        /// Path of the input.
        path: PathBuf,
        /// Error of the reader.
        source: ChakraReadError,
    },
    /// No graph can be made of merged JSON.
    #[error("{}: {why}", path.display())]
    NotLinked {
        /// Path of the input.
        path: PathBuf,
        /// Reason for the failure.
        why: String,
    },
    /// A text workload is invalid.
    #[error("{}", path.display())]
    Text {
        /// Path of the input.
        path: PathBuf,
        /// Error of the parser.
        source: TextWorkloadError,
    },
    /// Tables do not form a graph.
    #[cfg(feature = "parquet")]
    #[error("{}", path.display())]
    Tables {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the tables.
        source: etlink_tables::Error,
    },
    /// This build lacks a feature for one of the formats.
    #[error(transparent)]
    MissingFeature(#[from] MissingFeature),
    /// The output cannot be written.
    #[error(transparent)]
    Sink(std::io::Error),
    /// The chosen part has nothing to draw.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The chosen part is too large to draw.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Describes losses in one line.
fn describe(losses: &Losses) -> String {
    let parts = losses
        .iter()
        .map(|(kind, count)| format!("{}: {count}", kind.describe()));
    parts.collect::<Vec<_>>().join("; ")
}

fn describe_damage(losses: &Losses) -> String {
    if losses.is_empty() {
        String::new()
    } else {
        format!(" ({})", describe(losses))
    }
}

impl ConversionError {
    /// Converts an error of reading messages, adding the path of the input.
    pub(super) fn of_messages(path: &std::path::Path, error: MessageError) -> ConversionError {
        let path = path.to_owned();
        match error {
            MessageError::Read(source) => ConversionError::Graph { path, source },
            MessageError::Sink(source) => ConversionError::Sink(source),
        }
    }
}
