//! A phase of a merge distributed over many machines, for programs.

use crate::run_query::RunQuery;
use crate::written_files::open_to_write;
use anyhow::Result;
use etlink_run::merge::phases::{
    JoinReport, PHASE_FOLDER, ShardReport, join_shards, summarize_shard, write_shard,
};
use etlink_run::merge::{AstraSimOptions, MergeOptions};
use etlink_run::phases::Shard;
use etlink_run::run::RunOptions;
use std::path::{Path, PathBuf};

/// A phase, and the part of the ranks that it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePhase {
    /// Links the ranks of a shard, and stores data for the join.
    Summaries(Shard),
    /// Decides which joined data each rank is written with.
    Join,
    /// Writes the ranks of a shard.
    Write(Shard),
}

/// Results of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseResult {
    /// Paths of the written files of the run's ranks.
    pub files: Vec<PathBuf>,
    /// Ranks that failed, each with its reason.
    pub failed: Vec<(String, String)>,
}

/// Runs one phase of a merge into `folder`; with `simulator`, also writes ASTRA-sim's
/// configurations.
///
/// # Errors
/// An earlier phase is missing or was run with other options, or files cannot be written. Failures
/// of single ranks are in the result.
pub fn merge_phase(
    run: &RunQuery,
    folder: &Path,
    phase: MergePhase,
    simulator: bool,
    overwrite: bool,
) -> Result<PhaseResult> {
    let shard = match phase {
        MergePhase::Summaries(shard) | MergePhase::Write(shard) => shard,
        // the join links nothing, and needs no memory for that
        MergePhase::Join => Shard::NONE,
    };
    let options = MergeOptions {
        simulator: simulator.then(AstraSimOptions::default),
        overwrite,
        ..MergeOptions::default()
    };
    let run = RunQuery {
        options: RunOptions {
            listing: Some(folder.join(PHASE_FOLDER)),
            ..run.options.clone()
        },
        ..run.clone()
    };
    let runs = open_to_write(&run, &options, shard)?;
    Ok(match phase {
        MergePhase::Summaries(_) => {
            PhaseResult::of_shard(summarize_shard(&runs, folder, &options)?)
        }
        MergePhase::Join => PhaseResult::of_join(join_shards(&runs, folder, &options)?, simulator),
        MergePhase::Write(_) => PhaseResult::of_shard(write_shard(&runs, folder, &options)?),
    })
}

impl PhaseResult {
    fn of_shard(report: ShardReport) -> PhaseResult {
        let mut result = PhaseResult::default();
        for rank in report.ranks {
            let name = rank.name();
            match (rank.linked, rank.error) {
                (Some(linked), _) if linked.refused => {
                    let reason = "damaged, and strict was given".to_owned();
                    result.failed.push((name, reason));
                }
                // the file does not belong to a rank of the run
                (Some(_), _) if rank.not_joined => {}
                (Some(linked), _) => result.files.extend(linked.output.map(PathBuf::from)),
                (None, error) => result.failed.push((name, error.unwrap_or_default())),
            }
        }
        result
    }

    fn of_join(report: JoinReport, simulator: bool) -> PhaseResult {
        let failed = report.failed.into_iter();
        let mut failed: Vec<(String, String)> =
            failed.map(|rank| (rank.name, rank.message)).collect();
        // a file per rank is useful without the others; a simulation is not
        if simulator {
            let excluded = report.runs.into_iter().flat_map(|run| run.excluded);
            failed.extend(excluded.map(|one| (one.label, one.message)));
        }
        PhaseResult {
            files: vec![],
            failed,
        }
    }
}
