//! A simulation and the recording that its graphs were made of, as commands read them.

use anyhow::Result;
use etlink_link::TensorEdges;
use etlink_run::simulated::{SimulationFiles, SimulationResult};
use etlink_run::{JoinedRun, Run, RunOptions, RunSource};
use std::path::Path;

/// Reads a simulation and the recording, which is read as the options say; with `timeline` all nodes
/// are kept.
pub(crate) fn read_simulation(
    files: SimulationFiles,
    against: Option<(&Path, RunOptions)>,
    timeline: bool,
) -> Result<SimulationResult> {
    let Some((against, options)) = against else {
        return Ok(files.read(None, timeline)?);
    };
    let joined = join_recording(against, options)?;
    Ok(files.read(Some((against, &joined)), timeline)?)
}

/// Links the ranks of a recording and joins them.
fn join_recording(against: &Path, options: RunOptions) -> Result<JoinedRun> {
    let progress = crate::progress::progress_bar();
    let options = RunOptions {
        // When ranks communicate does not depend on edges between threads.
        tensor_deps: TensorEdges::None,
        traces_only: true,
        progress: progress.clone(),
        ..options
    };
    let run = Run::open(RunSource::from_path(against), options)?;
    progress.phase("linking");
    let joined = run.join();
    progress.finish();
    Ok(joined?)
}
