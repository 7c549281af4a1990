//! Reads a simulation and the recording from which its graphs were made.

use anyhow::Result;
use etlink_link::TensorEdges;
use etlink_model::Diagnostic;
use etlink_run::run::JoinedMembers;
use etlink_run::simulated::{SimulationFiles, SimulationResult};
use etlink_run::{Run, RunOptions, RunSource};
use std::path::Path;

/// Reads a simulation and the recording, the latter with its options; `timeline` keeps all nodes.
/// Also returns notes on the traces of the recording, including excluded ones.
pub(crate) fn read_simulation(
    files: SimulationFiles,
    against: Option<(&Path, RunOptions)>,
    timeline: bool,
) -> Result<(SimulationResult, Vec<Diagnostic>)> {
    let Some((against, options)) = against else {
        return Ok((files.read(None, timeline)?, vec![]));
    };
    let recording = join_recording(against, options)?;
    let mut result = files.read(Some((against, &recording.joined)), timeline)?;
    result.excluded = recording.excluded;
    Ok((result, recording.diagnostics))
}

/// Links the ranks of a recording and joins them.
fn join_recording(against: &Path, options: RunOptions) -> Result<JoinedMembers> {
    let progress = crate::progress::progress_bar();
    let options = RunOptions {
        // Communication times do not depend on edges between threads.
        tensor_deps: TensorEdges::None,
        traces_only: true,
        progress: progress.clone(),
        ..options
    };
    let run = Run::open(RunSource::from_path(against), options)?;
    progress.phase("linking");
    let joined = run.join_members();
    progress.finish();
    Ok(joined?)
}
