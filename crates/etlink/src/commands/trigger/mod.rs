//! `etlink trigger`: requests a recording from the processes of a running job, waits for it, and
//! reports the result.

mod find;
mod job;
mod patience;
mod remote;
mod show;
mod wait;
mod withdraw;

use crate::Outcome;
use crate::args::TriggerArgs;
use crate::envelope::{JsonReport, print_json_report};
use anyhow::{Result, bail};
use job::{ArmedJob, ArmedPeer};
use patience::Patience;
use serde::Serialize;
use show::print_result;
use std::path::PathBuf;
use std::time::Duration;

/// Default time to wait for a requested recording.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Result of a requested recording.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggeredRecording {
    /// Folder of the job.
    pub folder: PathBuf,
    /// Folder of the recording, if there is one.
    pub recording: Option<PathBuf>,
    /// Results by rank.
    pub ranks: Vec<TriggeredRank>,
}

/// Result of a rank.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggeredRank {
    /// Number of the rank.
    pub rank: Option<u32>,
    /// Process id of the rank, if known.
    pub pid: Option<u32>,
    /// Host name of the process, if known.
    pub host: Option<String>,
    /// First step that the rank recorded.
    pub first_step: Option<u64>,
    /// Last step that the rank recorded.
    pub last_step: Option<u64>,
    /// True if the rank is still recording.
    pub is_recording: bool,
    /// Reason why the rank recorded nothing, or not everything yet.
    pub why: Option<String>,
}

impl JsonReport for TriggeredRecording {
    const SCHEMA: &'static str = "etlink.trigger";
}

impl TriggeredRecording {
    fn is_whole(&self) -> bool {
        self.ranks.iter().all(|rank| rank.why.is_none())
    }
}

pub fn run(args: &TriggerArgs) -> Result<Outcome> {
    if let Some(remote) = remote::RemoteJob::parse(&args.job) {
        return remote.run(args);
    }
    if args.cancel {
        return withdraw::cancel(&open_job(&args.job)?);
    }
    if args.stop {
        return withdraw::stop(&open_job(&args.job)?);
    }
    // before the request: a signal in between would leave the request behind
    let patience = Patience::new(args.timeout.unwrap_or(TIMEOUT))?;
    let job = match args.timeout {
        Some(_) => wait::for_job(&args.job, &patience)?,
        None => open_job(&args.job)?,
    };
    let peers = match args.timeout {
        Some(_) => wait::first_steps(&job, &patience)?,
        None => job.peers()?,
    };
    check_peers(&job, &peers)?;
    let request = job.ask(args)?;
    let result = wait::wait(&job, &request, peers, &patience)?;
    if args.print.json {
        print_json_report(&result)?;
    } else {
        print_result(&result)?;
    }
    Ok(if result.is_whole() {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// Opens the job that a folder or a process id names.
fn open_job(job: &str) -> Result<ArmedJob> {
    ArmedJob::open(find::folder_of(job)?)
}

/// Refuses a job without a process that can record.
fn check_peers(job: &ArmedJob, peers: &[ArmedPeer]) -> Result<()> {
    if peers.is_empty() {
        bail!(
            "the job in {} cannot record: {}",
            job.folder.display(),
            job.why_nobody()
        );
    }
    if !peers.iter().any(ArmedPeer::is_waited_for) {
        bail!(
            "all processes of the job in {} have ended or died",
            job.folder.display()
        );
    }
    Ok(())
}
