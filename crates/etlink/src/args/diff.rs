//! Arguments of `etlink diff`.

use super::{OverwriteArgs, TableArgs, WorkbookArgs};
use clap::Args;
use etlink_analysis::diff::FailRule;
use std::path::PathBuf;

/// `etlink diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink diff before after\n  \
        etlink diff a100 h100 mi300           ops of all runs in one table\n  \
        etlink diff before after --fail-if 'step > 5%' --fail-if 'class gemm > 10%'\n\n\
        Exit codes: 0 done; 1 a rule of --fail-if holds, or a trace was left out: unreadable, not \
        part of the run, or damaged under --strict; 2 no trace of one run could be read, a folder has \
        several runs, or a rule is invalid, has a name that neither run has, or needs steps that \
        ranks lack.")]
pub struct DiffArgs {
    /// Earlier run: a Kineto trace, or a folder with the traces of its ranks
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Later run: a Kineto trace, or a folder with the traces of its ranks
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Further runs: step times and ops by shapes of all runs in one table
    #[arg(value_name = "RUN")]
    pub more: Vec<PathBuf>,
    /// Exit with 1 if this rule holds, such as `step > 5%`; repeatable
    ///
    /// A rule is a figure (step, device, host, waiting, utilization, class LABEL, op NAME, kernel
    /// NAME), > or <, and the change with its unit (%, ns, us, ms, s).
    #[arg(long, value_name = "RULE")]
    pub fail_if: Vec<FailRule>,
    /// File with rules for classes of kernels, tried before the built-in ones
    ///
    /// A line has a class (computation, communication, memory, other), a label, and a regular
    /// expression that is searched in the kernel's name.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub workbook: WorkbookArgs,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    #[command(flatten)]
    pub tables: TableArgs,
}
