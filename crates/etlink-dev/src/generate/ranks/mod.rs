//! Makes the traces of many ranks from one rank's: a run with known ground truth.
//!
//! ```text
//! true time   rank 0   ──[op]~~~~~~~~~~~~~~──   a collective's op is recorded; later work
//!                        └─ |=====waits====transfer|   waits until it has ended on all ranks
//!             late     ~~~~~~~[op]~~~~~~~──   the same, but arrives later
//!                               └─ |transfer|
//! own time    = true time + offset + drift · (true time - start)
//! ```
//! The recorded text is kept except for times, durations, ranks, groups and process ids. A CPU
//! recording has no device rows: each collective gets a launch call and a kernel. The kernel begins
//! when its rank arrives, and ends on all ranks together, apart from the last hop, once the last
//! rank has arrived. Same seed, same bytes.

mod scenario;
mod text;

pub use scenario::{LateRank, RunScenario, ScenarioSettings};

use super::{TraceRepeater, read_unpacked, write_file};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use text::TraceTemplate;

/// A recorded rank that can be written as any rank of a larger run.
#[derive(Debug)]
pub struct RankTemplate {
    host: TraceTemplate,
    device: TraceTemplate,
}

impl RankTemplate {
    /// Reads the traces of one rank, as plain text.
    ///
    /// # Errors
    /// A trace is damaged, does not state its rank, has device rows of its own, or contains a
    /// collective of only some ranks.
    pub fn new(host: Vec<u8>, device: Vec<u8>) -> Result<RankTemplate> {
        let device = TraceTemplate::device(device).context("device trace")?;
        let host = TraceTemplate::host(host, &device.of).context("host trace")?;
        Ok(RankTemplate { host, device })
    }

    /// Opens the traces of one rank, plain or gzip, and repeats their window.
    ///
    /// # Errors
    /// A file cannot be read, or [`RankTemplate::new`] fails.
    pub fn open(host: &Path, device: &Path, times: u32) -> Result<RankTemplate> {
        let recording =
            TraceRepeater::new(Some(read_unpacked(host)?), Some(read_unpacked(device)?))?;
        let (mut host, mut device) = (vec![], vec![]);
        // Repeated first, as text, so that gaps are found in all repetitions.
        recording.write_host(times.max(1), &mut host)?;
        recording.write_device(times.max(1), &mut device)?;
        RankTemplate::new(host, device)
    }

    /// Draws the events of a run with these settings.
    ///
    /// # Errors
    /// There are fewer than two ranks, or the late rank is not among them.
    pub fn scenario(&self, wishes: &ScenarioSettings) -> Result<RunScenario> {
        RunScenario::new(wishes, &self.device.spans(), self.device.window)
    }

    /// Writes the host trace of a rank.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_host(
        &self,
        scenario: &RunScenario,
        rank: usize,
        out: &mut dyn std::io::Write,
    ) -> std::io::Result<()> {
        self.host.write(scenario, rank, out)
    }

    /// Writes the device trace of a rank.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_device(
        &self,
        scenario: &RunScenario,
        rank: usize,
        out: &mut dyn std::io::Write,
    ) -> std::io::Result<()> {
        self.device.write(scenario, rank, out)
    }
}

/// Contents of `truth.json`: the expected results of a tool that reads the traces.
#[derive(Debug, Serialize)]
struct RunTruth<'s> {
    recorded: String,
    wishes: &'s ScenarioSettings,
    /// Per rank, the lead of its clock over true time at the begin of the window, ns.
    offset_ns: &'s [i64],
    /// Per rank, the drift of its clock, ns per second; positive if it is fast.
    drift_ppb: &'s [i64],
    collectives: usize,
    /// Per collective, the rank that arrives last.
    last: Vec<usize>,
}

/// Writes all ranks and `truth.json` into `folder`. Returns the folder's files.
///
/// # Errors
/// [`RankTemplate::open`] or [`RankTemplate::scenario`] fails, the folder is not empty, or a file
/// cannot be written.
pub fn write_run(
    host: &Path,
    device: &Path,
    times: u32,
    wishes: &ScenarioSettings,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let recorded = RankTemplate::open(host, device, times)?;
    let scenario = recorded.scenario(wishes)?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    // Leftover traces of a larger run would look like further ranks of this one.
    if folder.read_dir()?.next().is_some() {
        bail!("{} is not empty: choose another folder", folder.display());
    }
    let mut files = vec![];
    for rank in 0..wishes.ranks {
        let [to_host, to_device] =
            ["torch_et", "kineto_trace"].map(|kind| folder.join(format!("{kind}_{rank}.json.gz")));
        write_file(&to_host, true, |out| {
            recorded.write_host(&scenario, rank, out)
        })?;
        write_file(&to_device, true, |out| {
            recorded.write_device(&scenario, rank, out)
        })?;
        files.extend([to_host, to_device]);
    }
    let last = (0..scenario.collectives())
        .map(|collective| scenario.last(collective))
        .collect();
    let name = device
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let truth = RunTruth {
        recorded: name,
        wishes,
        offset_ns: &scenario.offset_ns,
        drift_ppb: &scenario.drift_ppb,
        collectives: scenario.collectives(),
        last,
    };
    let path = folder.join("truth.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&truth)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    files.push(path);
    Ok(files)
}

#[cfg(test)]
mod tests;
