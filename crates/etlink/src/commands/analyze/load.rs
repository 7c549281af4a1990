//! The traces of a file, a pair or a folder, each linked and told to a function.

use super::chakra;
use super::parquet::TableFiles;
use super::told::{Ranked, Told};
use crate::args::Analyze;
use crate::commands::check::{groups_of, prefix_and_rank};
use crate::table;
use anyhow::{Context, Result, bail};
use etlink_chakra::read::{self, FileKind};
use etlink_kineto::{KeepEvents, KinetoReadOptions};
use etlink_link::ranks::RankSummary;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_run::Progress;
use etlink_run::discover::{RankFiles, RunFiles, discover};
use etlink_run::input;
use etlink_run::job::{self, LinkJob};
use etlink_run::memory::{MemoryBudget, RankMemory};
use etlink_run::output::is_work_folder;
use etlink_run::run::{self, RunSet};
use std::path::{Path, PathBuf};

/// Of what a trace is.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    /// Folder of the run, empty for a file.
    pub(super) run: &'a Path,
    /// As in [`Ranked`].
    pub(super) label: &'a str,
    /// The rank that the file's name tells.
    pub(super) rank: Option<i64>,
    /// Whether it is a written graph.
    pub(super) written: bool,
}

/// Links what was named; `say` gets each trace. Refuses what `files` could not write.
pub(super) fn load<T: Send>(
    args: &Analyze,
    threads: usize,
    files: Option<&TableFiles>,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T> + Sync,
) -> Result<Vec<Told<T>>> {
    let progress = crate::progress::bar();
    let told = if args.path.is_dir() {
        folder(args, threads, files, &progress, say)
    } else {
        file(args, threads, &progress, say).map(|told| vec![told])
    };
    progress.finish();
    told
}

/// One trace, or a pair.
fn file<T>(
    args: &Analyze,
    threads: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Result<Told<T>> {
    let both = args
        .host
        .iter()
        .chain([&args.path])
        .filter(|path| path.as_path() == Path::new("-"))
        .count();
    if both > 1 {
        bail!("only one of --host and the device trace can be standard input");
    }
    MemoryBudget::new(args.memory, threads)
        .check(&[RankMemory::of(args.host.as_deref(), Some(&args.path))])?;
    let (trace, written) = match &args.host {
        None => one(&args.path, args.rank, keep(args), threads, progress)?,
        Some(host) => (
            job::link(
                &job(args, Some(host.clone()), args.path.clone(), threads),
                progress,
            )?
            .0,
            false,
        ),
    };
    let of = Of {
        run: Path::new(""),
        label: &label(&trace, &args.path),
        rank: None,
        written,
    };
    let mut told = Told::new(Path::new(""));
    told.notes.extend(written.then(|| chakra::NOTE.to_owned()));
    told.ranks.push(ranked(
        args,
        &trace,
        of,
        (args.host.as_deref(), &args.path),
        say,
    )?);
    Ok(told)
}

/// The rank, else the file's name.
fn label(trace: &LinkedTrace, path: &Path) -> String {
    let name = || {
        path.file_name().map_or_else(
            || "-".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    };
    trace.report.rank.map_or_else(name, |rank| rank.to_string())
}

/// The graph of a file without a host trace, and whether it is a written one.
fn one(
    path: &Path,
    rank: Option<i64>,
    kept: KeepEvents,
    threads: usize,
    progress: &Progress,
) -> Result<(LinkedTrace, bool)> {
    progress.phase("reading");
    let input = input::open(path, threads, progress)?;
    if matches!(input.kind, FileKind::KinetoTrace | FileKind::Unknown) {
        let (name, device) = (
            input.name.clone(),
            job::read_device_with(
                input,
                KinetoReadOptions {
                    threads,
                    shapes: true,
                    keep: kept,
                },
            )?,
        );
        let options = LinkOptions {
            rank,
            ..LinkOptions::default()
        };
        return Ok((
            etlink_link::link(None, device, options).with_context(|| name)?,
            false,
        ));
    }
    let graph = read::read(input.content).with_context(|| input.name.clone())?;
    let rank = rank.or(prefix_and_rank(path).map(|(_, rank)| rank));
    Ok((
        chakra::linked(&graph, &input.name, rank, &groups_of(path)?)?,
        true,
    ))
}

/// What is said of a trace, of its host trace and its device trace.
fn ranked<T>(
    args: &Analyze,
    trace: &LinkedTrace,
    of: Of<'_>,
    (host, device): (Option<&Path>, &Path),
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Result<Ranked<T>> {
    let report = &trace.report;
    if args.strict && job::is_damaged(report) {
        return Err(job::Refused::new(device, &report.anomalies).into());
    }
    Ok(Ranked {
        label: of.label.to_owned(),
        device_trace: device.display().to_string(),
        host_trace: host.map(|host| host.display().to_string()),
        notes: report
            .notes
            .iter()
            .cloned()
            .chain(table::damage(&report.anomalies))
            .collect(),
        anomalies: report.anomalies.clone(),
        said: say(trace, of)?,
        facts: None,
    })
}

/// All ranks of a folder: of its traces, else of the graphs that `merge` wrote.
fn folder<T: Send>(
    args: &Analyze,
    threads: usize,
    files: Option<&TableFiles>,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T> + Sync,
) -> Result<Vec<Told<T>>> {
    if args.host.is_some() || args.rank.is_some() {
        bail!(
            "--host and --rank are for one trace; in a folder the files' names tell which belong together"
        );
    }
    let written = written(&args.path)?;
    let (mut runs, all) = if written.is_empty() || !discover(&args.path)?.is_empty() {
        traces(args, threads, files, progress, say)?
    } else if files.is_some() {
        bail!(
            "{}: --parquet is for recorded traces: a written graph has no events",
            args.path.display()
        );
    } else {
        written_folder(args, written, threads, progress, say)
    };
    let mut errors = vec![];
    for (run, label, one) in all {
        match one {
            Ok(ranked) => runs[run].ranks.push(ranked),
            Err(error) => {
                runs[run].leave_out(&label, format!("{error:#}"));
                errors.push(error);
            }
        }
    }
    if runs.iter().all(|run| run.ranks.is_empty()) {
        return Err(run::none_left(errors));
    }
    for run in &mut runs {
        run.keep_company(args.force);
        if args.ranks.is_none() {
            run.notes
                .extend(etlink_run::membership::absent_note(&run.absent));
        }
    }
    Ok(runs)
}

/// The runs of a folder, still empty; and of each rank its run, what it is called, and what is said of it.
type Read<T> = (Vec<Told<T>>, Vec<(usize, String, Result<Ranked<T>>)>);

/// The written graphs of a folder, by rank.
fn written(folder: &Path) -> Result<Vec<(i64, PathBuf)>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            is_work_folder(&path)?;
        } else if path.is_file()
            && let Some((_, rank)) = prefix_and_rank(&path)
        {
            found.push((rank, path));
        }
    }
    found.sort();
    Ok(found)
}

fn written_folder<T: Send>(
    args: &Analyze,
    files: Vec<(i64, PathBuf)>,
    threads: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Read<T> {
    let rank = |rank: i64, path: &Path| {
        let of = Of {
            run: Path::new(""),
            label: &rank.to_string(),
            rank: Some(rank),
            written: true,
        };
        let (trace, _) = one(path, Some(rank), KeepEvents::Graph, threads, progress)?;
        let ranked = ranked(args, &trace, of, (None, path), &say)?;
        Ok(Ranked {
            facts: Some(RankSummary::from_trace(&trace, rank)),
            ..ranked
        })
    };
    let mut told = Told::new(Path::new(""));
    told.notes.push(chakra::NOTE.to_owned());
    let asked = files
        .into_iter()
        .filter(|(number, _)| run::is_asked(args.ranks.as_ref(), Some(*number)));
    (
        vec![told],
        asked
            .map(|(number, path)| (0, number.to_string(), rank(number, &path)))
            .collect(),
    )
}

fn traces<T: Send>(
    args: &Analyze,
    threads: usize,
    files: Option<&TableFiles>,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T> + Sync,
) -> Result<Read<T>> {
    let fleet = RunSet::find(&args.path, args.memory, threads)?;
    if let Some(files) = files {
        for run in &fleet.runs {
            let labels = run.ranks.iter().map(|found| found.label.as_str());
            files.check(&run.folder, labels)?;
        }
    }
    progress.phase("analyzing");
    let all = fleet.each(|at| rank(args, &fleet, at, progress, &say));
    let told = |run: &RunFiles| Told {
        notes: run.notes.clone(),
        ..Told::new(&run.folder)
    };
    let label = |at: usize| fleet.rank(at).1.label.clone();
    let all = all
        .into_iter()
        .enumerate()
        .filter_map(|(at, ranked)| Some((fleet.ranks[at].0, label(at), ranked?)))
        .collect();
    Ok((fleet.runs.iter().map(told).collect(), all))
}

/// None of a rank that was not asked for.
fn rank<T>(
    args: &Analyze,
    fleet: &RunSet,
    at: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Option<Result<Ranked<T>>> {
    let (run, found): (&RunFiles, &RankFiles) = fleet.rank(at);
    let is_asked = |rank: Option<i64>| run::is_asked(args.ranks.as_ref(), rank);
    let Some(device) = &found.device else {
        return is_asked(found.rank).then(|| Err(run::no_device(run, found)));
    };
    if found.rank.is_some() && !is_asked(found.rank) {
        return None;
    }
    let of_trace = || -> Result<Option<Ranked<T>>> {
        let (trace, _) = job::link(
            &job(args, found.host.clone(), device.clone(), fleet.threads_each),
            progress,
        )?;
        if !is_asked(found.rank.or(trace.report.rank)) {
            return Ok(None);
        }
        let of = Of {
            run: &run.folder,
            label: &found.label,
            rank: found.rank,
            written: false,
        };
        let ranked = ranked(args, &trace, of, (found.host.as_deref(), device), say)?;
        Ok(Some(Ranked {
            facts: run::rank_summary(&trace, found, fleet.is_alone(at)),
            ..ranked
        }))
    };
    of_trace().transpose()
}

fn job(args: &Analyze, host: Option<PathBuf>, device: PathBuf, threads: usize) -> LinkJob {
    LinkJob {
        rank: args.rank,
        force: args.force,
        keep: keep(args),
        ..LinkJob::reading(host, device, threads)
    }
}

/// HTA also counts what no graph needs.
fn keep(args: &Analyze) -> KeepEvents {
    if args.compat.is_empty() {
        KeepEvents::Memory
    } else {
        KeepEvents::Auxiliary
    }
}
