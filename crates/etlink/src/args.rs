//! What can be typed.

use bytesize::ByteSize;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Links PyTorch host traces (execution traces) and device traces (Kineto) into dependency graphs and writes Chakra execution traces.
#[derive(Debug, Parser)]
#[command(name = "etlink", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done; 1 done, but a check failed, a rank failed, or damage was found under --strict; 2 could not do it.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Link one rank: a host trace and a device trace in, one file out
    Link(Link),
    /// Link every rank found in a folder and its subfolders, one output file each
    Merge(Merge),
    /// Check files against what simulators and other readers need
    Check(Check),
    /// Say what kind of file it is and what is in it
    Inspect(Inspect),
}

/// `etlink link`.
#[derive(Debug, ClapArgs)]
pub struct Link {
    /// Host trace: PyTorch execution trace (JSON; gzip and zstd are recognised), `-` for standard input
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Device trace: Kineto trace (JSON; gzip and zstd are recognised), `-` for standard input
    #[arg(long, value_name = "KINETO")]
    pub device: PathBuf,
    /// Rank, when the traces do not say
    #[arg(long)]
    pub rank: Option<i64>,
    /// Output file: `x.et` is Chakra protobuf, `x.json` or `x.json.gz` merged JSON (ET+), `-` standard output; without it only the report is printed
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub how: How,
}

/// `etlink merge`.
#[derive(Debug, ClapArgs)]
pub struct Merge {
    /// Folder with the traces of all ranks; each subfolder with traces is a run of its own
    pub dir: PathBuf,
    /// Folder for the output: `<name>.<rank>.et`; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// How to link and write.
#[derive(Debug, ClapArgs)]
pub struct How {
    /// Format of the output [default: what its name ends in; for `merge` et]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Threads to use; the output does not depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Memory to stay within, such as `16G` or `500M` (`Gi`, `Mi`: powers of two); what takes more is refused before work starts, `merge` links as many ranks at once as fit [default: what the system can give]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<ByteSize>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write no file for a rank whose traces are damaged or of two runs, and exit with 1
    #[arg(long)]
    pub strict: bool,
    /// Replace existing output files, and link traces that do not seem to belong together
    #[arg(long)]
    pub force: bool,
}

fn size(text: &str) -> Result<ByteSize, &'static str> {
    text.parse().map_err(|_| "a size is a number and a unit, such as 16G, 500M or 2GiB")
}

/// `etlink check`.
#[derive(Debug, ClapArgs)]
pub struct Check {
    /// Chakra files (`.et`), merged JSON (ET+), or folders with them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// `etlink inspect`.
#[derive(Debug, ClapArgs)]
pub struct Inspect {
    /// Any trace: host trace, device trace, Chakra protobuf, merged JSON; `-` for standard input
    pub file: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Chakra protobuf, for simulators
    Et,
    /// Merged JSON (ET+), for chakra_converter and et_replay
    Json,
}
