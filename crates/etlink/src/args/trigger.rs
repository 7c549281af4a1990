//! What can be typed about recordings that are asked for.

use super::JsonArgs;
use clap::Args;
use std::time::Duration;

/// `etlink trigger`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all ranks have recorded the steps; 1 a rank has not, which is named; \
        2 nothing could be asked for: no such job, it is not armed, it cannot be written to, or \
        another recording is under way. Ctrl-C takes the request back, unless the ranks have agreed \
        to it or the job is on another machine. With --cancel: 0 it is taken back; 1 it is too late; 2 nothing is asked for. With \
        --stop: 0 the recording ends; 2 none has begun."
)]
pub struct TriggerArgs {
    /// The job: the folder that `etlink record --armed -o` or `etlink_torch.arm` was given, or the
    /// number of a rank, of `etlink record` or of a process under it. On another machine: a folder
    /// that both share, or HOST:DIR or HOST:PID, where etlink is run by ssh
    #[arg(value_name = "PID|DIR|HOST:DIR")]
    pub job: String,
    /// Steps to record [default: what the job was started with, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: Option<u64>,
    /// Record for this time instead, in seconds; all ranks end with the same step
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "steps", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Stop waiting after this time, in seconds: a request that not all ranks have agreed to is
    /// withdrawn, a recording that they have agreed on is made all the same. Given, it is also waited
    /// for the first step of a job that has made none [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Take back what was asked for, unless the ranks have agreed on a step: then it is recorded
    #[arg(long, conflicts_with_all = ["steps", "duration", "timeout", "json"])]
    pub cancel: bool,
    /// End the recording that is under way: what is recorded is kept, and all ranks end with the same
    /// step
    #[arg(long, conflicts_with_all = ["steps", "duration", "timeout", "json", "cancel"])]
    pub stop: bool,
    #[command(flatten)]
    pub print: JsonArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "a time in seconds is a number over 0".to_owned())
}
