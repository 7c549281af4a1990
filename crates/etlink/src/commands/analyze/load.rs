//! The traces of a file, a pair or a folder, each linked and told to a function.

use super::chakra;
use crate::args::Analyze;
use crate::commands::check::prefix_and_rank;
use crate::discover::{Found, Run};
use crate::fleet::{self, Fleet};
use crate::input;
use crate::memory::{Budget, Need};
use crate::pair::{self, Job};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use etlink_chakra::read::{self, FileKind};
use etlink_link::ranks::Facts;
use etlink_link::{LinkOptions, LinkedTrace};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One run: what was said of each of its ranks.
#[derive(Serialize)]
pub(super) struct Told<T> {
    /// Folder of the run, empty for a file.
    pub(super) run: String,
    /// Each rank.
    pub(super) ranks: Vec<Ranked<T>>,
    /// Traces that could not be linked.
    pub(super) left_out: Vec<Stray>,
}

#[derive(Serialize)]
pub(super) struct Ranked<T> {
    /// What the rank is called: its number, or the name of its file.
    pub(super) label: String,
    /// Its device trace.
    pub(super) device_trace: String,
    /// Its host trace.
    pub(super) host_trace: Option<String>,
    #[serde(flatten)]
    pub(super) said: T,
    /// What it did with the others.
    #[serde(skip)]
    pub(super) facts: Option<Facts>,
}

#[derive(Serialize)]
pub(super) struct Stray {
    pub(super) label: String,
    pub(super) error: String,
}

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

/// Notes for people, and the runs.
pub(super) type Loaded<T> = (Vec<String>, Vec<Told<T>>);

/// Links what was named; `say` gets each trace.
pub(super) fn load<T: Send>(args: &Analyze, threads: usize, say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T> + Sync) -> Result<Loaded<T>> {
    let progress = Progress::new();
    let told = if args.path.is_dir() { folder(args, threads, &progress, say) } else { file(args, threads, &progress, say) };
    progress.clear();
    told
}

/// One trace, or a pair.
fn file<T>(args: &Analyze, threads: usize, progress: &Progress, say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>) -> Result<Loaded<T>> {
    let both = args.host.iter().chain([&args.path]).filter(|path| path.as_path() == Path::new("-")).count();
    if both > 1 {
        bail!("only one of --host and the device trace can be standard input");
    }
    Budget::new(args.memory, threads).check(&[Need::of(args.host.as_deref(), Some(&args.path))])?;
    if args.host.is_none() {
        return alone(&args.path, args.rank, threads, progress, say);
    }
    let (trace, linked) = pair::link(&job(args, args.host.clone(), args.path.clone(), threads), progress)?;
    let notes = linked.report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let label = label(&trace, &args.path);
    let said = say(&trace, Of { run: Path::new(""), label: &label, rank: None, written: false })?;
    let ranked = Ranked { label, device_trace: linked.device, host_trace: linked.host, said, facts: None };
    Ok((notes, vec![Told { run: String::new(), ranks: vec![ranked], left_out: vec![] }]))
}

/// A device trace, or a written graph.
fn alone<T>(
    path: &Path,
    rank: Option<i64>,
    threads: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Result<Loaded<T>> {
    let (trace, written) = one(path, rank, threads, progress)?;
    let (label, device_trace) = (label(&trace, path), path.display().to_string());
    let said = say(&trace, Of { run: Path::new(""), label: &label, rank: None, written })?;
    let ranked = Ranked { label, device_trace, host_trace: None, said, facts: None };
    let notes = written.then(|| chakra::NOTE.to_owned());
    Ok((notes.into_iter().collect(), vec![Told { run: String::new(), ranks: vec![ranked], left_out: vec![] }]))
}

/// The rank, else the file's name.
fn label(trace: &LinkedTrace, path: &Path) -> String {
    let name = || path.file_name().map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned());
    trace.report.rank.map_or_else(name, |rank| rank.to_string())
}

/// The graph of a file without a host trace, and whether it is a written one.
fn one(path: &Path, rank: Option<i64>, threads: usize, progress: &Progress) -> Result<(LinkedTrace, bool)> {
    progress.say("reading");
    let input = input::open(path, threads, progress)?;
    if matches!(input.kind, FileKind::KinetoTrace | FileKind::Unknown) {
        let (name, device) = (input.name.clone(), pair::read_device(input, threads, true)?);
        let options = LinkOptions { rank, ..LinkOptions::default() };
        return Ok((etlink_link::link(None, device, options).with_context(|| name)?, false));
    }
    let graph = read::read(input.content).with_context(|| input.name.clone())?;
    let rank = rank.or(prefix_and_rank(path).map(|(_, rank)| rank));
    Ok((chakra::linked(&graph, &input.name, rank)?, true))
}

/// The written graphs of a folder, if it has them and nothing else: a folder that `merge` wrote.
fn written(folder: &Path) -> Result<Option<Vec<(i64, PathBuf)>>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "et")
            && let Some((_, rank)) = prefix_and_rank(&path)
        {
            found.push((rank, path));
        }
    }
    found.sort();
    Ok((!found.is_empty()).then_some(found))
}

fn written_folder<T: Send>(
    files: Vec<(i64, PathBuf)>,
    threads: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>,
) -> Loaded<T> {
    let mut told = Told { run: String::new(), ranks: vec![], left_out: vec![] };
    for (rank, path) in files {
        let of = Of { run: Path::new(""), label: &rank.to_string(), rank: Some(rank), written: true };
        let said = one(&path, Some(rank), threads, progress).and_then(|(trace, _)| Ok((say(&trace, of)?, Facts::of(&trace, rank))));
        match said {
            Ok((said, facts)) => {
                told.ranks.push(Ranked {
                    label: rank.to_string(),
                    device_trace: path.display().to_string(),
                    host_trace: None,
                    said,
                    facts: Some(facts),
                });
            }
            Err(error) => told.left_out.push(Stray { label: rank.to_string(), error: format!("{error:#}") }),
        }
    }
    (vec![chakra::NOTE.to_owned()], vec![told])
}

/// All ranks of a folder.
fn folder<T: Send>(args: &Analyze, threads: usize, progress: &Progress, say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T> + Sync) -> Result<Loaded<T>> {
    if args.host.is_some() || args.rank.is_some() {
        bail!("--host and --rank are for one trace; in a folder the files' names tell which belong together");
    }
    if let Some(files) = written(&args.path)? {
        return Ok(written_folder(files, threads, progress, say));
    }
    let fleet = Fleet::find(&args.path, args.memory, threads)?;
    progress.say("analyzing");
    let all = fleet.each(|at| rank(args, &fleet, at, progress, &say));
    let notes = fleet.runs.iter().flat_map(Run::named_notes).map(|note| format!("note: {note}\n"));
    let told = |run: &Run| Told { run: run.folder.display().to_string(), ranks: vec![], left_out: vec![] };
    let mut runs: Vec<Told<T>> = fleet.runs.iter().map(told).collect();
    for ((at, (run, _)), found) in fleet.ranks.iter().enumerate().zip(all) {
        match found {
            Ok(ranked) => runs[*run].ranks.push(ranked),
            Err(error) => runs[*run].left_out.push(Stray { label: fleet.rank(at).1.label.clone(), error: format!("{error:#}") }),
        }
    }
    Ok((notes.collect(), runs))
}

fn rank<T>(args: &Analyze, fleet: &Fleet, at: usize, progress: &Progress, say: impl Fn(&LinkedTrace, Of<'_>) -> Result<T>) -> Result<Ranked<T>> {
    let (run, found): (&Run, &Found) = fleet.rank(at);
    let device = found.device.clone().ok_or_else(|| fleet::no_device(run, found))?;
    let (trace, linked) = pair::link(&job(args, found.host.clone(), device, fleet.threads_each), progress)?;
    let facts = fleet::facts(&trace, found, fleet.is_alone(at));
    let said = say(&trace, Of { run: &run.folder, label: &found.label, rank: found.rank, written: false })?;
    Ok(Ranked { label: found.label.clone(), device_trace: linked.device, host_trace: linked.host, said, facts })
}

fn job(args: &Analyze, host: Option<PathBuf>, device: PathBuf, threads: usize) -> Job {
    Job { rank: args.rank, force: args.force, ..Job::reading(host, device, threads) }
}
