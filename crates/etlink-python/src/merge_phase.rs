//! A phase of a merge, for clusters: `etlink.ray` runs each as a task.

use crate::errors::advised_exception;
use crate::worker::run_cancellable;
use etlink::documents::{MergePhase, RunQuery, merge_phase as run_phase};
use etlink_run::merge::phases::Shard;
use etlink_run::{RunOptions, RunSource};
use etlink_torch::RankSelection;
use pyo3::prelude::*;
use std::path::PathBuf;

/// The files of ranks that were written, and the ranks that failed, each with its reason.
type FilesAndFailures = (Vec<PathBuf>, Vec<(String, String)>);

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
            let problem = format!("there is no phase {phase}");
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
            source: RunSource::Folder(source),
            options: call.options(options),
        };
        let result = run_phase(&run, &folder, phase, simulator, overwrite)?;
        Ok((result.files, result.failed))
    })
}
