//! Checks the timeline of all ranks of a run in one file.

use super::expected::{ExpectedContent, ShownRank};
use super::{ExportedPair, PerfettoTools, link_pair, run_silently};
use anyhow::{Context, Result, ensure};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RankSummary, align_clocks, join_ranks, wait_causes};
use etlink_model::GlobalRank;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folders of recorded runs of several ranks.
pub fn recorded_runs(pairs: &Path) -> Result<Vec<PathBuf>> {
    let folders = pairs
        .read_dir()
        .with_context(|| pairs.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?;
    let runs = folders
        .into_iter()
        .map(|folder| folder.path())
        .filter(|folder| !rank_files(folder, 1).is_empty());
    let mut runs: Vec<PathBuf> = runs.collect();
    runs.sort();
    Ok(runs)
}

/// Returns the existing files of a rank: device trace, then host trace.
fn rank_files(run: &Path, rank: usize) -> Vec<PathBuf> {
    let names = ["kineto_trace", "torch_et"]
        .iter()
        .flat_map(|kind| ["json.gz", "json"].map(|ending| format!("{kind}_{rank}.{ending}")));
    names
        .map(|name| run.join(name))
        .filter(|file| file.is_file())
        .collect()
}

/// Compares a run's timeline with its ranks and the connections between them.
pub fn check_timeline(
    run: &Path,
    tools: &PerfettoTools,
    ending: &str,
    option: &str,
    kinds: bool,
) -> Result<String> {
    let output = tools.folder.join("run");
    let mut command = Command::new(&tools.etlink);
    run_silently(command.arg("merge").arg(run).arg("-o").arg(&output).args([
        "--overwrite",
        "--format",
        option,
    ]))?;
    let ranks = (0..)
        .map(|rank| rank_files(run, rank))
        .take_while(|files| !files.is_empty());
    let pair = |mut files: Vec<PathBuf>| {
        link_pair(&ExportedPair {
            name: String::new(),
            // `rank_files` returns the device trace first, and `take_while` drops empty lists.
            device: files.remove(0),
            host: files.pop(),
        })
    };
    let traces: Vec<LinkedTrace> = ranks.map(pair).collect::<Result<_>>()?;
    let facts: Vec<RankSummary> = (0..)
        .map(GlobalRank)
        .zip(&traces)
        .map(|(rank, trace)| RankSummary::from_trace(trace, rank))
        .collect();
    let join = join_ranks(&facts);
    let clocks = align_clocks(&facts, &join);
    let releases = wait_causes(&facts, &join, &clocks);
    let origin = facts
        .iter()
        .zip(&clocks)
        // The command takes the earliest start of any rank, by the first rank's clock.
        .map(|(facts, clock)| clock.aligned(facts.first_ns))
        .min()
        .context("no ranks")?;
    let member = |at: usize| ShownRank {
        trace: &traces[at],
        prefix: format!("rank {at} · "),
        clock: clocks[at],
        origin_ns: origin.0,
        releases: &releases.of_rank[at],
    };
    let shown: Vec<ShownRank<'_>> = (0..traces.len()).map(member).collect();
    let found = tools
        .reader
        .read(&output.join(format!("timeline.{ending}.gz")))?;
    let unix_ns = origin.0.to_string();
    ensure!(
        found.unix_ns.as_ref().is_none_or(|found| *found == unix_ns),
        "0 is {:?} in the file, but {unix_ns} is linked",
        found.unix_ns
    );
    ExpectedContent::new(&shown)?.compare(found, kinds)
}
