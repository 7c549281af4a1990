//! What can be typed about two runs.

use super::TableArgs;
use clap::Args;
use std::path::PathBuf;

/// `etlink diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, but a trace was left out: it could not be read, or \
        is damaged under --strict; 2 no trace of one of the runs could be read."
)]
pub struct DiffArgs {
    /// Kineto trace of the run before, or a folder with those of its ranks
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The same of the run after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    #[command(flatten)]
    pub tables: TableArgs,
}
