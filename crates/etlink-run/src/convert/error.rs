//! Why a graph is not converted.

use super::format::GraphFormat;
use crate::{MissingFeature, RunError};
use etlink_chakra::messages::{Losses, MessageError};
use etlink_chakra::picture::{ChoiceError, TooLarge};
use etlink_chakra::read::ChakraReadError;
use etlink_workload::text_workload::TextWorkloadError;
use std::path::PathBuf;

/// Why a graph is not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The input is of no format that is converted.
    #[error(
        "{}: none of the formats that convert reads; give a .et, its JSON, merged JSON (ET+), \
        tables of convert, or a text workload of ASTRA-sim 1.0; of a recording `etlink link --device \
        KINETO -o x.et` makes a graph",
        path.display()
    )]
    UnknownInput {
        /// The input.
        path: PathBuf,
    },
    /// The input is not of the format that was said.
    #[error("{}: this is {}, not {}; leave --from out", path.display(), found.describe(),
        said.describe())]
    OtherInput {
        /// The input.
        path: PathBuf,
        /// Its format.
        found: GraphFormat,
        /// The format that was said.
        said: GraphFormat,
    },
    /// The name of the output does not say its format.
    #[error(
        "{}: the name's ending does not tell the format; end it in .et, .json, .dot, .graphml, \
        .mmd, .goal or .parquet, or say --to",
        path.display()
    )]
    UnknownOutput {
        /// The output.
        path: PathBuf,
    },
    /// The two formats do not go together.
    #[error("{}: {} cannot become {}: {why}", path.display(), from.describe(), to.describe())]
    NoWay {
        /// The input.
        path: PathBuf,
        /// Format of the input.
        from: GraphFormat,
        /// Format of the output.
        to: GraphFormat,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// An option that the formats do not take.
    #[error("{option} {applies}")]
    Unused {
        /// The option.
        option: &'static str,
        /// To what it applies.
        applies: &'static str,
    },
    /// A folder that is not one run.
    #[error("{}: {found}; {remedy}", path.display())]
    NotOneRank {
        /// The folder.
        path: PathBuf,
        /// What is in it.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Something would be lost, and that was forbidden.
    #[error("with --strict nothing was written: what would be lost: {}", describe(.0))]
    Lossy(Losses),
    /// Nothing of the input is a node.
    #[error("{}: there is no whole node in it{}", path.display(), describe_damage(.losses))]
    NoNodes {
        /// The input.
        path: PathBuf,
        /// What is damaged.
        losses: Losses,
    },
    /// The input is no trace.
    #[error("{}", path.display())]
    Graph {
        /// The input.
        path: PathBuf,
        /// What is wrong.
        source: ChakraReadError,
    },
    /// Merged JSON of which no graph can be made.
    #[error("{}: {why}", path.display())]
    NotLinked {
        /// The input.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A text workload with a mistake.
    #[error("{}", path.display())]
    Text {
        /// The input.
        path: PathBuf,
        /// What is wrong.
        source: TextWorkloadError,
    },
    /// Tables that are no graph's.
    #[cfg(feature = "parquet")]
    #[error("{}", path.display())]
    Tables {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        source: etlink_tables::Error,
    },
    /// This build lacks what one of the formats needs.
    #[error(transparent)]
    MissingFeature(#[from] MissingFeature),
    /// The output cannot be written.
    #[error(transparent)]
    Sink(std::io::Error),
    /// Nothing to draw.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// Too much to draw.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// What is lost, in a line.
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
    /// Names the input of which messages were to be read.
    pub(super) fn of_messages(path: &std::path::Path, error: MessageError) -> ConversionError {
        let path = path.to_owned();
        match error {
            MessageError::Read(source) => ConversionError::Graph { path, source },
            MessageError::Sink(source) => ConversionError::Sink(source),
        }
    }
}
