//! Arguments of `etlink schedule`.

use super::JsonArgs;
use clap::Args;

/// `etlink schedule`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    etlink schedule --wait 1 --warmup 1 --active 2 --repeat 1 --steps 20")]
// so that -1 reaches the schedule, which refuses it with PyTorch's reason
#[command(allow_negative_numbers = true)]
pub struct ScheduleArgs {
    /// Idle steps at the start of each cycle
    #[arg(long, value_name = "N")]
    pub wait: i64,
    /// Steps in which the recorders warm up
    #[arg(long, value_name = "N")]
    pub warmup: i64,
    /// Recorded steps, at least 1; the trace is saved when the last one ends
    #[arg(long, value_name = "N")]
    pub active: i64,
    /// Number of cycles; 0: until the program ends [default: 0]
    #[arg(long, value_name = "N")]
    pub repeat: Option<i64>,
    /// Steps before the first cycle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first: i64,
    /// Unless 0, start the first cycle without its wait
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first_wait: i64,
    /// Number of steps to list, starting with step 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
    #[command(flatten)]
    pub print: JsonArgs,
}
