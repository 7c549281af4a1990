//! Files that are written of a run for other programs: graphs for simulators, a trace for Perfetto.

use crate::run_query::RunQuery;
use crate::table::count;
use anyhow::{Context, Result, bail};
use etlink_model::KeepEvents;
use etlink_run::job::{LinkJob, RankContext};
use etlink_run::merge::{AstraSimOptions, MergeOptions, MergeReport, MergedRank, merge};
use etlink_run::output::{OutputFormat, Target};
use etlink_run::phases::Shard;
use etlink_run::run::{RunOptions, RunSet, RunSource};
use etlink_run::workloads::WorkloadReport;
use etlink_run::{Run, RunError};
use std::path::{Path, PathBuf};

/// Writes a Chakra file for each rank into `folder`, as `etlink merge` does; with `simulator` also
/// what ASTRA-sim needs to run them. Returns the files of the ranks of the run: not those of ranks
/// that were not joined with the others.
///
/// # Errors
/// No rank could be linked, or files are there that must not be replaced.
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
    let runs = open_to_write(run, &options, Shard::WHOLE)?;
    let report = merge(&runs, folder, &options)?;
    check_complete(&report, &options)?;
    let of_run = report.ranks.into_iter().filter(|rank| !rank.not_joined);
    let linked = of_run.filter_map(|rank| rank.linked);
    Ok(linked
        .filter_map(|linked| linked.output.map(PathBuf::from))
        .collect())
}

/// Writes a trace of all ranks for ui.perfetto.dev: `x.pftrace`, `x.trace.json`, with `.gz` packed.
///
/// # Errors
/// A rank could not be linked, the name ends otherwise, or the file is there and must not be
/// replaced.
pub fn write_timeline(run: &RunQuery, path: &Path, overwrite: bool) -> Result<()> {
    let target = Target::perfetto(path, overwrite)?;
    let options = MergeOptions {
        format: target.format,
        overwrite,
        ..MergeOptions::default()
    };
    let runs = open_to_write(run, &options, Shard::WHOLE)?;
    if runs.len() == 1 {
        let rank = runs.entry(0);
        let job = LinkJob {
            target: Some(target),
            ..rank.job()?
        };
        let linked = rank.run_job(&job, RankContext::default())?;
        if linked.refused {
            bail!(
                "{}: damaged, and strict was given: nothing was written",
                runs.source_name()
            );
        }
        return Ok(());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} is no name of a file", path.display()))?;
    let options = MergeOptions {
        timeline_name: Some(name.to_owned()),
        ..options
    };
    debug_assert_ne!(options.format, OutputFormat::Chakra, "a trace for Perfetto");
    // a bare name is beside the program
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let report = merge(&runs, folder.unwrap_or(Path::new(".")), &options)?;
    check_complete(&report, &options)
}

/// The ranks of a shard of a run, whose outputs lie in no subfolder.
pub(crate) fn open_to_write(
    run: &RunQuery,
    options: &MergeOptions,
    shard: Shard,
) -> Result<RunSet> {
    let mut source = run.source.clone();
    // an export of all events leaves nothing out
    let keep = if options.is_timeline() {
        KeepEvents::Everything
    } else {
        KeepEvents::Graph
    };
    let options = RunOptions {
        shard,
        ..run.options.clone()
    };
    let opened = Run::open(source.clone(), options.clone())?;
    let within = &opened.files().folder;
    let is_in_subfolder = !within.as_os_str().is_empty();
    if let RunSource::Folder(folder) = &source
        && is_in_subfolder
    {
        // outputs lie as the traces do: a run in a subfolder would be written into one of its name
        source = RunSource::Folder(folder.join(within));
    }
    let options = RunOptions {
        keep,
        // there is one, and it is of the folder above
        listing: if !is_in_subfolder {
            options.listing
        } else {
            None
        },
        // graphs that were written before have no events to be joined by
        traces_only: true,
        ..options
    };
    Ok(RunSet::open(source, options)?)
}

/// A program that goes on with half of the files would not notice.
fn check_complete(report: &MergeReport, options: &MergeOptions) -> Result<()> {
    let failed = report.ranks.iter().find_map(|rank| {
        let error = rank.error.as_ref()?;
        Some(format!("rank {}: {error}", rank.label))
    });
    if let Some(incomplete) = &report.incomplete {
        bail!("{incomplete}");
    }
    // a file for each rank is of use without the others; a simulation or one timeline is not
    let needs_all = options.simulator.is_some() || options.is_timeline();
    let mut excluded = report.runs.iter().flat_map(|run| &run.excluded);
    if needs_all
        && failed.is_none()
        && let Some(excluded) = excluded.next()
    {
        bail!(excluded.note());
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

/// What a run that was made is, in a line.
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
