//! What can be typed about two runs.

use super::TableArgs;
use clap::Args;
use etlink_analyze::diff::FailRule;
use std::path::PathBuf;

/// `etlink diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, but a rule of --fail-if holds, or a trace was left \
        out: it could not be read, is of another run, or is damaged under --strict; 2 no trace of \
        one of the runs could be read, a folder has several runs, or a rule is none, names what \
        neither run has, or is for steps that ranks lack."
)]
pub struct DiffArgs {
    /// Kineto trace of the run before, or a folder with those of the ranks of one run
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The same of the run after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// End with 1 where this holds, such as `step > 5%`: what changed (step, device, host, waiting,
    /// utilization, class LABEL, op NAME, kernel NAME), > or <, and by how much (%, ns, us, ms, s);
    /// may be given several times
    #[arg(long, value_name = "RULE")]
    pub fail_if: Vec<FailRule>,
    /// Rules for kernels that come before the built-in ones, as for `analyze`
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub tables: TableArgs,
}
