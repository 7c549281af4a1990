//! What can be typed about two runs.

use super::Group;
use bytesize::ByteSize;
use clap::Args as ClapArgs;
use etlink_torch::Ranks;
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
    /// What makes a row of its own: a name, a name with input shapes, or a name with where it was called from (recorded with stacks)
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "name|shape|stack")]
    pub group: Group,
    /// How many frames of the stack tell where from
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: u16,
    /// Rows to show; 0: all that changed. JSON and CSV have all
    #[arg(short = 'n', value_name = "ROWS", default_value_t = 20)]
    pub rows: usize,
    /// Ranks of folders to compare, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<Ranks>,
    /// Threads to use; the figures do not depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Memory to stay within, as for `merge`
    #[arg(long, value_name = "SIZE", value_parser = super::size)]
    pub memory: Option<ByteSize>,
    /// Print as JSON; times are ns
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print a line of CSV per row; times are ns
    #[arg(long)]
    pub csv: bool,
}
