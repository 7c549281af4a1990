//! Makes the traces of many ranks out of those of one: a run of which everything is known.
//!
//! ```text
//! true time   rank 0   ──[op]~~~~~~~~~~~~~~──   a collective's op is recorded; what comes after it
//!                        └─ |=====waits====transfer|   waits until it is over on all ranks
//!             late     ~~~~~~~[op]~~~~~~~──   the same, but comes to it later
//!                               └─ |transfer|
//! own time    = true time + offset + drift · (true time - start)
//! ```
//! The recorded text stays but for times, lengths, ranks, groups and process ids. A CPU recording
//! has no device rows: each collective gets a launch call and a kernel, which begins when the rank
//! has come to it and ends, but for the last hop, when it ends on all ranks: after the last has
//! begun. Same seed, same bytes.

mod scenario;
mod shared;
mod source;
mod text;

pub use scenario::{LateRank, RunScenario, ScenarioSettings};
pub use shared::{PackedTrace, SharedObject};

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
    /// Takes in the traces of one rank, as plain text.
    ///
    /// # Errors
    /// A trace is damaged, says not which rank it is, has device rows of its own, or communicates
    /// with a part of the ranks only.
    pub fn new(host: Vec<u8>, device: Vec<u8>) -> Result<RankTemplate> {
        let device = TraceTemplate::device(device).context("device trace")?;
        let host = TraceTemplate::host(host, &device.of).context("host trace")?;
        Ok(RankTemplate { host, device })
    }

    /// Opens the traces of one rank, plain or gzip, and repeats their window.
    ///
    /// # Errors
    /// A file cannot be read, and those of [`RankTemplate::new`].
    pub fn open(host: &Path, device: &Path, times: u32) -> Result<RankTemplate> {
        let recording =
            TraceRepeater::new(Some(read_unpacked(host)?), Some(read_unpacked(device)?))?;
        let (mut host, mut device) = (vec![], vec![]);
        // Repeated first, as text: the gaps of ranks are then found in all repetitions.
        recording.write_host(times.max(1), &mut host)?;
        recording.write_device(times.max(1), &mut device)?;
        RankTemplate::new(host, device)
    }

    /// What happens, in a run of so many ranks.
    ///
    /// # Errors
    /// Fewer than two ranks, or a late rank that is not among them.
    pub fn scenario(&self, wishes: &ScenarioSettings) -> Result<RunScenario> {
        RunScenario::new(wishes, &self.device.collectives, self.device.window)
    }

    /// Writes the host trace of a rank.
    ///
    /// # Errors
    /// Those of `out`.
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
    /// Those of `out`.
    pub fn write_device(
        &self,
        scenario: &RunScenario,
        rank: usize,
        out: &mut dyn std::io::Write,
    ) -> std::io::Result<()> {
        self.device.write(scenario, rank, out)
    }
}

/// `truth.json`: what a tool that reads the traces should find.
#[derive(Debug, Serialize)]
struct RunTruth<'s> {
    recorded: String,
    wishes: &'s ScenarioSettings,
    /// Per rank, what its clock is ahead of true time when the window begins, ns.
    offset_ns: &'s [i64],
    /// Per rank, by how much its clock is fast, ns per second.
    drift_ppb: &'s [i64],
    collectives: usize,
    /// Of each collective, the rank that comes last.
    last: Vec<usize>,
}

/// Writes all ranks into `folder`, with `truth.json` beside them. Returns the folder's files.
///
/// # Errors
/// Those of [`RankTemplate::open`] and [`RankTemplate::scenario`], a folder that is not empty, or a
/// file that cannot be written.
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
    // Traces of a larger run before would be further ranks of this one.
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
