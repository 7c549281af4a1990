//! What can be typed about schedules.

use super::JsonArgs;
use clap::Args;

/// `etlink schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    #[command(flatten)]
    pub schedule: TorchScheduleArgs,
    /// How many steps the program has; they count from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
    #[command(flatten)]
    pub print: JsonArgs,
}

/// The arguments of `torch.profiler.schedule`, by its names and with its defaults. Their bounds are
/// the schedule's own affair.
#[derive(Clone, Copy, Debug, Args)]
// so that -1 reaches the schedule, which says why it is refused, as PyTorch does
#[command(allow_negative_numbers = true)]
pub struct TorchScheduleArgs {
    /// Idle steps at the start of each cycle
    #[arg(long, value_name = "N")]
    pub wait: i64,
    /// Steps for which the recorders warm up
    #[arg(long, value_name = "N")]
    pub warmup: i64,
    /// Steps that are recorded, at least 1; the trace is saved when the last of them ends
    #[arg(long, value_name = "N")]
    pub active: i64,
    /// Cycles of wait, warmup and active steps; 0: until the program ends [default: 0]
    #[arg(long, value_name = "N")]
    // none is not 0: `record` and `schedule` do different things without it
    pub repeat: Option<i64>,
    /// Steps before the first cycle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first: i64,
    /// Anything but 0: the first cycle does not wait
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first_wait: i64,
}
