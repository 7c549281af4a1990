//! Measures time and memory of one process, including its children.
//!
//! The operating system sums up the usage of all finished children of a process, so each
//! measurement runs in its own small process: `cargo dev measure -- COMMAND …`.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Resources that a process used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Wall time, seconds.
    pub wall: f64,
    /// Processor time in user and kernel mode, seconds.
    pub cpu: f64,
    /// Largest resident set, bytes.
    pub peak_bytes: u64,
    /// Reason why the figures are invalid: the process failed.
    pub failed: Option<String>,
    /// Standard output of the process.
    pub output: String,
}

/// Runs `command` in a measuring process. A failing command is not an error.
pub fn measure_command(command: &[OsString]) -> Result<ProcessUsage> {
    let me = std::env::current_exe()?;
    let output = Command::new(me)
        .arg("measure")
        .arg("--")
        .args(command)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("measuring {command:?} failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("measuring {command:?}"))
}

/// Runs the command to its end, and prints its usage as JSON. This is the measuring process.
pub fn print_usage_of(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    let start = Instant::now();
    let run = Command::new(program)
        .args(arguments)
        // A tool that reads its input would wait forever.
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program:?}"))?;
    let mut usage = ProcessUsage {
        wall: start.elapsed().as_secs_f64(),
        ..usage_of_children()?
    };
    usage.output = String::from_utf8_lossy(&run.stdout).into_owned();
    if !run.status.success() {
        let mut why = run.status.to_string();
        let said = String::from_utf8_lossy(&run.stderr);
        // Python tools print a stack first, and the error in the last line.
        let last = said.trim_end().lines().next_back().unwrap_or_default();
        write!(why, ": {last}")?;
        usage.failed = Some(why);
    }
    println!("{}", serde_json::to_string(&usage)?);
    Ok(())
}

#[cfg(unix)]
fn usage_of_children() -> Result<ProcessUsage> {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu =
        (used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e6;
    // Linux and the BSDs count kilobytes
    let unit = if cfg!(target_vendor = "apple") {
        1
    } else {
        1024
    };
    Ok(ProcessUsage {
        cpu,
        peak_bytes: u64::try_from(used.max_rss())? * unit,
        ..ProcessUsage::default()
    })
}

#[cfg(not(unix))]
fn usage_of_children() -> Result<ProcessUsage> {
    bail!("processor time and memory are measured on Unix only")
}
