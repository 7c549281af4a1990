//! Files written from a run for other programs: graphs for simulators, a trace for Perfetto.

use crate::run_query::RunQuery;
use crate::table::count;
use anyhow::{Context, Result, bail};
use etlink_model::KeepEvents;
use etlink_run::job::{LinkJob, RankContext};
use etlink_run::merge::{AstraSimOptions, MergeOptions, MergeReport, MergedRank, merge};
use etlink_run::output::{OutputFormat, Target};
use etlink_run::run::{RunOptions, RunSet, RunSource};
use etlink_run::shard::Shard;
use etlink_run::workloads::WorkloadReport;
use etlink_run::{Run, RunError};
use std::path::{Path, PathBuf};

/// Writes a Chakra file per rank into `folder`, as `etlink merge` does; with `simulator`, also
/// writes ASTRA-sim's configurations. Returns the files of the joined ranks only.
///
/// # Errors
/// No rank could be linked, or files exist that must not be replaced.
pub fn write_chakra(
    run: &RunQuery,
    folder: &Path,
    simulator: bool,
    overwrite: bool,
) -> Result<Vec<PathBuf>> {
    let options = MergeOptions {
        simulator: simulator.then(AstraSimOptions::default),
        overwrite,
        ..MergeOptions::default()
    };
    let runs = open_to_write(run, &options)?;
    let report = merge(&runs, folder, &options)?;
    check_complete(&report, &options)?;
    let of_run = report.ranks.into_iter().filter(|rank| !rank.not_joined);
    let linked = of_run.filter_map(|rank| rank.linked);
    Ok(linked
        .filter_map(|linked| linked.output.map(PathBuf::from))
        .collect())
}

/// Writes a trace of all ranks for ui.perfetto.dev: `x.pftrace` or `x.trace.json`, compressed if
/// `.gz` is appended.
///
/// # Errors
/// A rank could not be linked, the name has another ending, or the file exists and must not be
/// replaced.
pub fn write_timeline(run: &RunQuery, path: &Path, overwrite: bool) -> Result<()> {
    let target = Target::perfetto(path, overwrite)?;
    let options = MergeOptions {
        format: target.format,
        overwrite,
        ..MergeOptions::default()
    };
    let runs = open_to_write(run, &options)?;
    if runs.len() == 1 {
        let rank = runs.entry(0);
        let job = LinkJob {
            target: Some(target),
            ..rank.job()?
        };
        let linked = rank.run_job(&job, RankContext::default())?;
        if linked.refused {
            bail!(
                "{}: nothing was written: the trace is damaged, and strict was given",
                runs.source_name()
            );
        }
        return Ok(());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} is not a file name", path.display()))?;
    let options = MergeOptions {
        timeline_name: Some(name.to_owned()),
        ..options
    };
    debug_assert_ne!(options.format, OutputFormat::Chakra, "a trace for Perfetto");
    // a bare name is in the current folder
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let report = merge(&runs, folder.unwrap_or(Path::new(".")), &options)?;
    check_complete(&report, &options)
}

/// Files of a shard's ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardFiles {
    /// Paths of the written files of the run's ranks.
    pub files: Vec<PathBuf>,
    /// Ranks that failed, each with its reason.
    pub failed: Vec<(String, String)>,
}

/// Like [`write_chakra`], for the ranks of a shard. If the query only prepares ranks, nothing is
/// written, and the error says so.
///
/// # Errors
/// Files cannot be written, or exist and must not be replaced. Failures of single ranks are in the
/// result.
pub fn write_shard(
    run: &RunQuery,
    folder: &Path,
    shard: Shard,
    simulator: bool,
    overwrite: bool,
) -> Result<ShardFiles> {
    let options = MergeOptions {
        simulator: simulator.then(AstraSimOptions::default),
        overwrite,
        shard,
        ..MergeOptions::default()
    };
    let runs = open_to_write(run, &options)?;
    let report = merge(&runs, folder, &options)?;
    if let Some(incomplete) = report.incomplete {
        return Err(incomplete.into());
    }
    let mut result = ShardFiles::default();
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
    // a file per rank is useful without the others; a simulation is not
    if simulator {
        let excluded = report.runs.into_iter().flat_map(|run| run.excluded);
        let excluded = excluded.map(|one| (one.label, one.message));
        result.failed.extend(excluded);
    }
    Ok(result)
}

/// Opens the ranks of a run so that outputs are not put into a subfolder.
fn open_to_write(run: &RunQuery, options: &MergeOptions) -> Result<RunSet> {
    let mut source = run.source.clone();
    // an export of all events leaves nothing out
    let keep = if options.is_timeline() {
        KeepEvents::Everything
    } else {
        KeepEvents::Graph
    };
    let options = run.options.clone();
    let opened = Run::open(source.clone(), options.clone())?;
    let within = &opened.files().folder;
    if let RunSource::Folder(folder) = &source
        && !within.as_os_str().is_empty()
    {
        // outputs mirror the traces' folders: a run in a subfolder would be written into one of
        // that name
        source = RunSource::Folder(folder.join(within));
    }
    let options = RunOptions {
        keep,
        // graphs written earlier have no events for a join
        traces_only: true,
        ..options
    };
    Ok(RunSet::open(source, options)?)
}

/// Fails if anything is missing: a program that continued with half of the files would not notice.
fn check_complete(report: &MergeReport, options: &MergeOptions) -> Result<()> {
    let failed = report.ranks.iter().find_map(|rank| {
        let error = rank.error.as_ref()?;
        Some(format!("rank {}: {error}", rank.label))
    });
    if let Some(incomplete) = &report.incomplete {
        bail!("{incomplete}");
    }
    // a file per rank is useful without the others; a simulation or one timeline is not
    let needs_all = options.simulator.is_some() || options.is_timeline();
    let mut excluded = report.runs.iter().flat_map(|run| &run.excluded);
    if needs_all
        && failed.is_none()
        && let Some(excluded) = excluded.next()
    {
        bail!(excluded.diagnostic().to_string());
    }
    match failed {
        Some(failed) => bail!("{failed}"),
        None if report.ranks.iter().any(MergedRank::is_bad) => {
            bail!("not all ranks could be written")
        }
        None if report.ranks.iter().all(|rank| rank.linked.is_none()) => {
            Err(RunError::NoRankAsked.into())
        }
        None => Ok(()),
    }
}

/// Describes a generated or scaled run in a line.
pub fn describe_workload(report: &WorkloadReport) -> String {
    format!(
        "{}: {}, {}, {}, {} bytes; checked\n",
        report.folder.join(&report.name).display(),
        count(report.ranks, "rank"),
        count(report.nodes, "node"),
        count(report.groups, "group"),
        report.bytes
    )
}
