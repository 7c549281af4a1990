//! A phase of a merge, for clusters: `etlink.ray` runs each as a task.

use crate::errors::advised_exception;
use crate::worker::run_cancellable;
use anyhow::{Context, Result};
use etlink::documents::{MergePhase, RunQuery, merge_phase as run_phase};
use etlink_run::graphs::is_graph_name;
use etlink_run::merge::phases::{PHASE_FOLDER, remove_phase_files};
use etlink_run::phases::Shard;
use etlink_run::storage::{self, path_without_secrets};
use etlink_run::{Run, RunError, RunOptions, RunSource};
use etlink_torch::RankSelection;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// The files of ranks that were written, and the ranks that failed, each with its reason.
///
/// `pathlib` would take a stroke out of a URL, so that paths are texts here.
type FilesAndFailures = (Vec<OsString>, Vec<(String, String)>);

/// Does a phase of a merge of the folder `source` into `folder`. `shard` is its number and how many
/// there are.
#[pyfunction]
#[pyo3(signature = (source, folder, phase, shard, ranks, memory, threads, strict, simulator, overwrite))]
#[allow(
    clippy::too_many_arguments,
    reason = "the arguments of a function in Python"
)]
pub(crate) fn merge_phase(
    py: Python<'_>,
    source: PathBuf,
    folder: PathBuf,
    phase: &str,
    shard: (u32, u32),
    ranks: Option<String>,
    memory: Option<u64>,
    threads: usize,
    strict: bool,
    simulator: bool,
    overwrite: bool,
) -> PyResult<FilesAndFailures> {
    let shard = Shard::new(shard.0, shard.1)
        .map_err(|error| advised_exception(py, &error.to_string(), "give another"))?;
    let phase = match phase {
        "summaries" => MergePhase::Summaries(shard),
        "join" => MergePhase::Join,
        "write" => MergePhase::Write(shard),
        _ => {
            let problem = format!("unknown phase {phase}");
            return Err(advised_exception(
                py,
                &problem,
                "give summaries, join or write",
            ));
        }
    };
    run_cancellable(py, move |call| {
        let ranks = ranks.map(|ranks| ranks.parse::<RankSelection>());
        let options = RunOptions {
            memory,
            threads,
            strict,
            ranks: ranks.transpose()?,
            ..RunOptions::default()
        };
        let run = RunQuery {
            source: RunSource::Folder(path_without_secrets(source)),
            options: call.options(options),
        };
        let result = run_phase(
            &run,
            &path_without_secrets(folder),
            phase,
            simulator,
            overwrite,
        )?;
        let files = result.files.into_iter().map(PathBuf::into_os_string);
        Ok((files.collect(), result.failed))
    })
}

/// How many ranks the folder `source` has, of those that are asked for. Stores what was found in it
/// for the phases of a merge into `folder`.
#[pyfunction]
pub(crate) fn list_merge_ranks(
    py: Python<'_>,
    source: PathBuf,
    folder: PathBuf,
    ranks: Option<String>,
) -> PyResult<usize> {
    run_cancellable(py, move |call| {
        let ranks = ranks.map(|ranks| ranks.parse::<RankSelection>());
        let options = RunOptions {
            // nothing is linked, and needs memory
            shard: Shard::NONE,
            ranks: ranks.transpose()?,
            listing: Some(path_without_secrets(folder).join(PHASE_FOLDER)),
            traces_only: true,
            ..RunOptions::default()
        };
        let source = RunSource::Folder(path_without_secrets(source));
        Ok(listed_ranks(source, call.options(options))?.0)
    })
}

/// How many ranks a run has of those that are asked for, and where it is stored which.
pub(crate) fn listed_ranks(source: RunSource, options: RunOptions) -> Result<(usize, OsString)> {
    let run = Run::open(source, options)?;
    let count = run.set().whole_len();
    if count == 0 {
        return Err(RunError::NoRankAsked.into());
    }
    let listing = run.set().listing().context("phases have a folder")?;
    Ok((count, listing.into_os_string()))
}

/// The Chakra files that lie in a folder, in order; none where there is no folder.
#[pyfunction]
pub(crate) fn written_graphs(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<OsString>> {
    run_cancellable(py, move |_| {
        let folder = path_without_secrets(folder);
        if !storage::is_folder(&folder) {
            return Ok(vec![]);
        }
        let entries = storage::list(&folder).with_context(|| folder.display().to_string())?;
        let paths = entries.into_iter().map(|entry| entry.path);
        let mut graphs: Vec<PathBuf> = paths.filter(|path| is_graph_name(path)).collect();
        graphs.sort_unstable();
        Ok(graphs.into_iter().map(PathBuf::into_os_string).collect())
    })
}

/// Removes what the phases of an earlier merge handed to each other in a folder.
#[pyfunction]
pub(crate) fn remove_phases(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    run_cancellable(py, move |_| {
        Ok(remove_phase_files(&path_without_secrets(folder))?)
    })
}
