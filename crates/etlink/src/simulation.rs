//! Reads a simulation and the recording from which its graphs were made.

use anyhow::Result;
use etlink_link::TensorEdges;
use etlink_run::run::JoinedMembers;
use etlink_run::simulated::{SimulationFiles, SimulationResult};
use etlink_run::{Run, RunOptions, RunSource};
use std::path::Path;

/// A simulation, with notes on the recording next to it.
pub(crate) struct ReadSimulation {
    pub(crate) result: SimulationResult,
    /// Notes on the traces of the recording, including excluded ones.
    pub(crate) recording_notes: Vec<String>,
}

/// Reads a simulation and the recording, the latter with its options; `timeline` keeps all nodes.
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
