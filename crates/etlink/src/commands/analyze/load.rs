//! The traces of a file, a pair or a folder, each linked and told to a function.

use crate::args::{Analyze, TensorDeps};
use crate::discover::{Found, Run};
use crate::fleet::{self, Fleet};
use crate::memory::{Budget, Need};
use crate::pair::{self, Form, Job};
use crate::progress::Progress;
use anyhow::{Result, bail};
use etlink_link::LinkedTrace;
use etlink_link::ranks::Facts;
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

/// Notes for people, and the runs.
pub(super) type Loaded<T> = (Vec<String>, Vec<Told<T>>);

/// Links what was named; `say` gets each trace, and its rank where the file's name tells it.
pub(super) fn load<T: Send>(args: &Analyze, threads: usize, say: impl Fn(&LinkedTrace, Option<i64>) -> Result<T> + Sync) -> Result<Loaded<T>> {
    let progress = Progress::new();
    let told = if args.path.is_dir() { folder(args, threads, &progress, say) } else { file(args, threads, &progress, say) };
    progress.clear();
    told
}

/// One trace, or a pair.
fn file<T>(args: &Analyze, threads: usize, progress: &Progress, say: impl Fn(&LinkedTrace, Option<i64>) -> Result<T>) -> Result<Loaded<T>> {
    let both = args.host.iter().chain([&args.path]).filter(|path| path.as_path() == Path::new("-")).count();
    if both > 1 {
        bail!("only one of --host and the device trace can be standard input");
    }
    Budget::new(args.memory, threads).check(&[Need::of(args.host.as_deref(), Some(&args.path))])?;
    let (trace, linked) = pair::link(&job(args, args.host.clone(), args.path.clone(), threads), progress)?;
    // without a host trace it does not matter what ids would tell
    let notes = linked.report.notes.iter().filter(|_| args.host.is_some()).map(|note| format!("note: {note}\n")).collect();
    let name = args.path.file_name().map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned());
    let label = trace.report.rank.map_or(name, |rank| rank.to_string());
    let ranked = Ranked { label, device_trace: linked.device, host_trace: linked.host, said: say(&trace, None)?, facts: None };
    Ok((notes, vec![Told { run: String::new(), ranks: vec![ranked], left_out: vec![] }]))
}

/// All ranks of a folder.
fn folder<T: Send>(
    args: &Analyze,
    threads: usize,
    progress: &Progress,
    say: impl Fn(&LinkedTrace, Option<i64>) -> Result<T> + Sync,
) -> Result<Loaded<T>> {
    if args.host.is_some() || args.rank.is_some() {
        bail!("--host and --rank are for one trace; in a folder the files' names tell which belong together");
    }
    let fleet = Fleet::find(&args.path, args.memory, threads)?;
    progress.say("analyzing");
    let all = fleet.each(|at| rank(args, &fleet, at, progress, &say));
    let notes = fleet.runs.iter().flat_map(|run| run.notes.iter().map(|note| format!("note: {}: {note}\n", run.folder.display())));
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

fn rank<T>(args: &Analyze, fleet: &Fleet, at: usize, progress: &Progress, say: impl Fn(&LinkedTrace, Option<i64>) -> Result<T>) -> Result<Ranked<T>> {
    let (run, found): (&Run, &Found) = fleet.rank(at);
    let device = found.device.clone().ok_or_else(|| fleet::no_device(run, found))?;
    let (trace, linked) = pair::link(&job(args, found.host.clone(), device, fleet.threads_each), progress)?;
    let facts = fleet::facts(&trace, found, fleet.is_alone(at));
    Ok(Ranked { label: found.label.clone(), device_trace: linked.device, host_trace: linked.host, said: say(&trace, found.rank)?, facts })
}

fn job(args: &Analyze, host: Option<PathBuf>, device: PathBuf, threads: usize) -> Job {
    Job {
        host,
        device,
        capture: None,
        rank: args.rank,
        target: None,
        form: Form::default(),
        tensor_deps: TensorDeps::None.into(),
        threads,
        strict: false,
        force: args.force,
    }
}
