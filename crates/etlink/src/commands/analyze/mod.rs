//! `etlink analyze`: what the traces say.

mod csv;
mod show;

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::{Analyze, TensorDeps};
use crate::fleet::{self, Fleet};
use crate::memory::{Budget, Need};
use crate::pair::{self, Form, Job};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use etlink_analyze::{Analysis, Options, Rules, Total, analyze, total};
use etlink_link::LinkedTrace;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What the traces of one run say.
#[derive(Serialize)]
struct Analyzed {
    /// Folder of the run, empty for a file.
    run: String,
    /// Each rank.
    ranks: Vec<Ranked>,
    /// Over all ranks.
    total: Total,
    /// Traces that could not be analyzed.
    left_out: Vec<Stray>,
}

#[derive(Serialize)]
struct Ranked {
    /// What the rank is called: its number, or the name of its file.
    label: String,
    /// Its device trace.
    device_trace: String,
    /// Its host trace.
    host_trace: Option<String>,
    #[serde(flatten)]
    analysis: Analysis,
}

#[derive(Serialize)]
struct Stray {
    label: String,
    error: String,
}

pub fn run(args: Analyze) -> Result<Outcome> {
    let rules = rules(&args)?;
    let progress = Progress::new();
    let (notes, analyzed) = if args.path.is_dir() { folder(&args, &rules, &progress)? } else { file(&args, &rules, &progress)? };
    if args.json {
        print_json(&analyzed)?;
    } else if args.csv {
        print(&csv::csv(&analyzed, args.table.as_deref().unwrap_or("breakdown"))?)?;
    } else {
        print(&notes.into_iter().chain(analyzed.iter().map(|one| show::run(one, &args))).collect::<String>())?;
    }
    let bad = analyzed.iter().any(|one| !one.left_out.is_empty());
    Ok(if bad { Outcome::Found } else { Outcome::Done })
}

fn rules(args: &Analyze) -> Result<Rules> {
    let Some(path) = &args.rules else { return Ok(Rules::built_in()?) };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Rules::with(&text).with_context(|| path.display().to_string())
}

/// One trace, or a pair.
fn file(args: &Analyze, rules: &Rules, progress: &Progress) -> Result<(Vec<String>, Vec<Analyzed>)> {
    let both = args.host.iter().chain([&args.path]).filter(|path| path.as_path() == Path::new("-")).count();
    if both > 1 {
        bail!("only one of --host and the device trace can be standard input");
    }
    let threads = threads(args.threads)?;
    Budget::new(args.memory, threads).check(&[Need::of(args.host.as_deref(), Some(&args.path))])?;
    let job = job(args, args.host.clone(), args.path.clone(), threads);
    let (trace, linked) = pair::link(&job, progress)?;
    progress.clear();
    // without a host trace it does not matter what ids would tell
    let notes = linked.report.notes.iter().filter(|_| args.host.is_some()).map(|note| format!("note: {note}\n")).collect();
    let label = trace.report.rank.map_or_else(|| input_name(&args.path), |rank| rank.to_string());
    let ranked = Ranked { label, device_trace: linked.device, host_trace: linked.host, analysis: analysis(args, &trace, rules) };
    Ok((notes, vec![Analyzed::new(String::new(), vec![ranked], vec![])]))
}

fn input_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// All ranks of a folder.
fn folder(args: &Analyze, rules: &Rules, progress: &Progress) -> Result<(Vec<String>, Vec<Analyzed>)> {
    if args.host.is_some() || args.rank.is_some() {
        bail!("--host and --rank are for one trace; in a folder the files' names tell which belong together");
    }
    let fleet = Fleet::find(&args.path, args.memory, threads(args.threads)?)?;
    progress.say("analyzing");
    let all = fleet.each(|at| rank(args, &fleet, at, rules, progress));
    progress.clear();
    let notes = fleet.runs.iter().flat_map(|run| run.notes.iter().map(|note| format!("note: {}: {note}\n", run.folder.display())));
    let mut runs: Vec<(Vec<Ranked>, Vec<Stray>)> = fleet.runs.iter().map(|_| (vec![], vec![])).collect();
    for ((at, (run, _)), found) in fleet.ranks.iter().enumerate().zip(all) {
        match found {
            Ok(ranked) => runs[*run].0.push(ranked),
            Err(error) => runs[*run].1.push(Stray { label: fleet.rank(at).1.label.clone(), error: format!("{error:#}") }),
        }
    }
    let of = |(run, (ranks, left_out)): (&crate::discover::Run, _)| Analyzed::new(run.folder.display().to_string(), ranks, left_out);
    Ok((notes.collect(), fleet.runs.iter().zip(runs).map(of).collect()))
}

fn rank(args: &Analyze, fleet: &Fleet, at: usize, rules: &Rules, progress: &Progress) -> Result<Ranked> {
    let (run, found) = fleet.rank(at);
    let device = found.device.clone().ok_or_else(|| fleet::no_device(run, found))?;
    let (trace, linked) = pair::link(&job(args, found.host.clone(), device, fleet.threads_each), progress)?;
    let mut analysis = analysis(args, &trace, rules);
    analysis.rank = found.rank.or(analysis.rank);
    Ok(Ranked { label: found.label.clone(), device_trace: linked.device, host_trace: linked.host, analysis })
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

fn analysis(args: &Analyze, trace: &LinkedTrace, rules: &Rules) -> Analysis {
    let memory_timeline = args.table.as_deref() == Some("memory_timeline");
    analyze(trace, rules, &Options { sequences_of: args.sequences_of.clone(), memory_timeline })
}

impl Analyzed {
    fn new(run: String, ranks: Vec<Ranked>, left_out: Vec<Stray>) -> Analyzed {
        let total = total(ranks.iter().map(|rank| &rank.analysis));
        Analyzed { run, ranks, total, left_out }
    }
}
