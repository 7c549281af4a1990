//! What can be typed about two runs.

use super::Tables;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// `etlink diff`.
#[derive(Debug, ClapArgs)]
pub struct Diff {
    /// Kineto trace of the run before, or a folder with those of its ranks
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The same of the run after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    #[command(flatten)]
    pub tables: Tables,
}
