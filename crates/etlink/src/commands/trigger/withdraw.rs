//! Withdrawal of requests.
//!
//! A withdrawal is a plan that says so, in the file in which the ranks make their plans. The first
//! plan wins, because creating a file under an existing name fails. So a request is never both
//! withdrawn and recorded.

use super::job::{ArmedJob, OWN, create_from};
use crate::Outcome;
use crate::commands::print_report;
use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Time for the planning rank to remove a plan of another request.
const OTHER_PLAN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Result of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The request is withdrawn; nobody records it.
    Withdrawn,
    /// The ranks had already agreed to record from this step on.
    TooLate(u64),
}

/// Runs `etlink trigger --cancel`.
pub fn cancel(job: &ArmedJob) -> Result<Outcome> {
    let Some(request) = job.request()? else {
        bail!("no recording is requested in {}", job.folder.display());
    };
    let age = job.age_of_request();
    Ok(match withdraw(job, &request.id)? {
        Withdrawal::Withdrawn => {
            print_report(&format!(
                "withdrawn: the request of {}{age}\n",
                asker(&request.by)
            ))?;
            Outcome::Done
        }
        Withdrawal::TooLate(first) => {
            print_report(&format!(
                "too late: the ranks have agreed to record from step {first} on, and will do so\n"
            ))?;
            Outcome::Found
        }
    })
}

/// Runs `etlink trigger --stop`.
pub fn stop(job: &ArmedJob) -> Result<Outcome> {
    let Some(request) = job.request()? else {
        bail!("no recording is in progress in {}", job.folder.display());
    };
    let age = job.age_of_request();
    let asker = asker(&request.by);
    if job.planned(&request.id).is_none() {
        bail!("the recording of {asker} has not started{age}; use --cancel to cancel it");
    }
    job.end(&request.id)?;
    print_report(&format!(
        "the recording of {asker}{age}, ends now, at the same step on all ranks\n"
    ))?;
    Ok(Outcome::Done)
}

fn asker(by: &str) -> String {
    match by {
        OWN => format!("`{by}`"),
        _ => by.to_owned(),
    }
}

/// Withdraws a request that the ranks have not agreed on.
///
/// # Errors
/// The folder cannot be written.
pub fn withdraw(job: &ArmedJob, request: &str) -> Result<Withdrawal> {
    let plan = serde_json::json!({ "id": request, "withdrawn": true });
    let file = job.temporary(&serde_json::to_vec(&plan)?)?;
    let begun = Instant::now();
    loop {
        match create_from(file.path(), &job.plan_path()) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| job.cannot_write()),
        }
        match job.plan() {
            Some(plan) if plan.id == request && plan.withdrawn => break,
            Some(plan) if plan.id == request => return Ok(Withdrawal::TooLate(plan.first)),
            // no rank makes plans any more
            _ if begun.elapsed() > OTHER_PLAN => break,
            _ => std::thread::sleep(PAUSE),
        }
    }
    job.forget(request);
    Ok(Withdrawal::Withdrawn)
}
