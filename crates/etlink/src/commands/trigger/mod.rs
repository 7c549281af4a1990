//! `etlink trigger`: asks the processes of a running job for a recording, waits, and says what came
//! of it.

mod find;
mod interrupt;
mod job;
mod remote;
mod show;
mod wait;
mod withdraw;

use crate::Outcome;
use crate::args::TriggerArgs;
use crate::envelope::{JsonReport, print_json_report};
use anyhow::{Result, bail};
use interrupt::Interrupt;
use job::{ArmedJob, ArmedPeer};
use serde::Serialize;
use show::print_result;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// So long it is waited for what was asked for, unless the caller says how long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// What came of a recording that was asked for.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggeredRecording {
    /// Folder of the job.
    pub folder: PathBuf,
    /// Folder of the recording, if there is one.
    pub recording: Option<PathBuf>,
    /// By rank.
    pub ranks: Vec<TriggeredRank>,
}

/// What came of it on a rank.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggeredRank {
    /// Rank.
    pub rank: Option<u32>,
    /// Its process, if there is one.
    pub pid: Option<u32>,
    /// The machine of the process.
    pub host: Option<String>,
    /// First step that it recorded.
    pub first_step: Option<u64>,
    /// Last step that it recorded.
    pub last_step: Option<u64>,
    /// It records and goes on.
    pub is_recording: bool,
    /// Why it recorded none, or not yet all.
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
    let job = ArmedJob::open(find::folder_of(&args.job)?)?;
    if args.cancel {
        return withdraw::cancel(&job);
    }
    if args.stop {
        return withdraw::stop(&job);
    }
    let begun = Instant::now();
    // before the request: a signal between the two would leave it behind
    let interrupt = Interrupt::new()?;
    let peers = peers_that_can_be_asked(&job, args.timeout, &interrupt)?;
    let request = job.ask(args)?;
    let timeout = args.timeout.unwrap_or(TIMEOUT);
    let left = timeout.saturating_sub(begun.elapsed());
    let result = wait::wait(&job, &request, peers, left, &interrupt)?;
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

/// The processes of a job, of which at least one can record.
fn peers_that_can_be_asked(
    job: &ArmedJob,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Vec<ArmedPeer>> {
    let peers = match timeout {
        Some(timeout) => wait::first_steps(job, timeout, interrupt)?,
        None => job.peers()?,
    };
    if peers.is_empty() {
        bail!(
            "the job in {} cannot be asked: {}",
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
    Ok(peers)
}
