//! A simulation and the recording that its graphs were made of, as commands read them.

use anyhow::Result;
use etlink_link::TensorEdges;
use etlink_run::run::JoinedMembers;
use etlink_run::simulated::{SimulationFiles, SimulationResult};
use etlink_run::{Run, RunOptions, RunSource};
use std::path::Path;

/// A simulation, and what is to be known of the recording beside it.
pub(crate) struct ReadSimulation {
    pub(crate) result: SimulationResult,
    /// Notes on the traces of the recording, also on those that are left out.
    pub(crate) recording_notes: Vec<String>,
}

/// Reads a simulation and the recording, which is read as the options say; with `timeline` all nodes
/// are kept.
pub(crate) fn read_simulation(
    files: SimulationFiles,
    against: Option<(&Path, RunOptions)>,
    timeline: bool,
) -> Result<ReadSimulation> {
    let Some((against, options)) = against else {
        return Ok(ReadSimulation {
            result: files.read(None, timeline)?,
            recording_notes: vec![],
        });
    };
    let JoinedMembers {
        joined,
        notes: recording_notes,
        excluded,
    } = join_recording(against, options)?;
    let result = files.read(Some((against, &joined)), timeline)?;
    Ok(ReadSimulation {
        result: SimulationResult { excluded, ..result },
        recording_notes,
    })
}

/// Links the ranks of a recording and joins them.
fn join_recording(against: &Path, options: RunOptions) -> Result<JoinedMembers> {
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
    let joined = run.join_members();
    progress.finish();
    Ok(joined?)
}
