//! Arguments of `etlink trigger`.

use super::JsonArgs;
use clap::Args;
use std::time::Duration;

/// `etlink trigger`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink trigger traces --steps 3\n  \
        etlink trigger gpu7:/data/traces --for 2    by ssh\n\n\
        Exit codes: 0 all ranks have recorded the steps; 1 a rank has not, and is named; 2 no \
        request was possible: no such job, not armed, not writable, or another recording is under \
        way. With --cancel: 0 withdrawn; 1 too late; 2 nothing requested. With --stop: 0 the \
        recording ends; 2 none has begun.\n\n\
        Ctrl-C withdraws the request, unless the ranks have agreed to it or the job is on another \
        machine.")]
pub struct TriggerArgs {
    /// Job: its folder, or the id of one of its processes; HOST:DIR or HOST:PID by ssh
    ///
    /// The folder is that of `etlink record --armed -o` or `etlink_torch.arm`. A process is a rank,
    /// `etlink record`, or any process under it. For a job on another machine, name a shared
    /// folder, or put the host in front: ssh then runs etlink there.
    #[arg(value_name = "PID|DIR|HOST:DIR")]
    pub job: String,
    /// Number of steps to record [default: the job's --steps, or 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: Option<u64>,
    /// Record for this time in seconds instead; all ranks end with the same step
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "steps", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Stop waiting after this time in seconds [default: 600]
    ///
    /// A request that not all ranks have agreed to is then withdrawn; an agreed recording still
    /// takes place. If this option is given, the command also waits for the folder and for the
    /// first step of the job.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Withdraw the current request, unless the ranks have already agreed on a step
    #[arg(long, conflicts_with_all = ["steps", "duration", "timeout", "json"])]
    pub cancel: bool,
    /// End the current recording with the same step on all ranks, and keep it
    #[arg(long, conflicts_with_all = ["steps", "duration", "timeout", "json", "cancel"])]
    pub stop: bool,
    #[command(flatten)]
    pub print: JsonArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "a time in seconds is a number above 0".to_owned())
}
