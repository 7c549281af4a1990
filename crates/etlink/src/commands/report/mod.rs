//! `etlink report`: one page about a trace or a run.
//!
//! Every rank is linked once for its figures. Which step is drawn is known only when all are: the ranks that are drawn
//! are linked once more, unless there is but one.

mod folder;
mod steps;

use super::link::refuse_input;
use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::{Report, TensorDeps};
use crate::memory::{Budget, Need};
use crate::output::Target;
use crate::pair::{self, Job, Linked};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use etlink_analyze::{Options, Rules, analyze, total};
use etlink_link::LinkedTrace;
use etlink_replay::{Graph, PathReport, Run, Settings};
use etlink_report::page::{self, Met, Page, RANGES, Rank, Timeline};
use serde::Serialize;
use std::path::{Path, PathBuf};
use steps::Steps;

/// What was written.
#[derive(Serialize)]
struct Written {
    output: String,
    bytes: u64,
    ranks: usize,
    /// The step that is drawn, if there are steps.
    step: Option<String>,
    timelines: usize,
    ranges: usize,
    /// Traces that are not in the page, and other things to know.
    notes: Vec<String>,
}

/// What the page is made of.
struct Content {
    title: String,
    ranks: Vec<Rank>,
    met: Option<Met>,
    timelines: Vec<Timeline>,
    step: Option<String>,
    notes: Vec<String>,
    /// Traces are missing.
    incomplete: bool,
}

/// A linked trace and its run.
struct Ran {
    trace: LinkedTrace,
    linked: Linked,
    graph: Graph,
    run: Run,
}

pub fn run(args: Report) -> Result<Outcome> {
    let target = Target::page(&args.output, args.force)?;
    refuse_input(&args.output, args.host.iter().chain([&args.path]))?;
    let rules = super::analyze::rules(args.rules.as_deref())?;
    let progress = Progress::new();
    let content = if args.path.is_dir() { folder::content(&args, &rules, &progress) } else { file(&args, &rules, &progress) };
    progress.clear();
    let content = content?;
    let total = total(content.ranks.iter().map(|rank| &rank.analysis));
    let Content { title, ranks, met, timelines, notes, .. } = &content;
    let bytes = page::html(&Page { title, ranks, total: &total, met: met.as_ref(), timelines, notes })?;
    let ((), bytes) = target.write(|out| out.write_all(&bytes))?;
    tell(&args, content, bytes)
}

fn tell(args: &Report, content: Content, bytes: u64) -> Result<Outcome> {
    let written = Written {
        output: args.output.display().to_string(),
        bytes,
        ranks: content.ranks.len(),
        step: content.step,
        timelines: content.timelines.len(),
        ranges: content.timelines.iter().map(Timeline::drawn).sum(),
        notes: content.notes,
    };
    if args.output == Path::new("-") {
        // the page has standard output for itself
    } else if args.json {
        print_json(&written)?;
    } else {
        let notes: String = written.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let step = written.step.map_or("no step".to_owned(), |step| format!("step {step}"));
        let (output, size, ranks, ranges) = (&written.output, ByteSize(bytes).display().si(), written.ranks, written.ranges);
        print(&format!("{notes}{output}: {size}, {ranks} rank(s), {step} with {ranges} ranges of {} rank(s)\n", written.timelines))?;
    }
    Ok(if content.incomplete { Outcome::Found } else { Outcome::Done })
}

/// One trace, or a pair.
fn file(args: &Report, rules: &Rules, progress: &Progress) -> Result<Content> {
    let both = args.host.iter().chain([&args.path]).filter(|path| path.as_path() == Path::new("-")).count();
    if both > 1 {
        bail!("only one of --host and the device trace can be standard input");
    }
    if !args.timelines.is_empty() {
        bail!("--timelines is for a folder; of one trace the timeline is always drawn");
    }
    let threads = threads(args.threads)?;
    Budget::new(args.memory, threads).check(&[Need::of(args.host.as_deref(), Some(&args.path))])?;
    let ran = ran(&job(args, args.host.clone(), args.path.clone(), threads), progress)?;
    let label = ran.trace.report.rank.map_or_else(|| file_name(&args.path), |rank| rank.to_string());
    let ranks = vec![rank(&ran, &label, None, rules)];
    let steps = Steps::choose(args.step.as_deref(), &[&ranks[0]])?;
    let timelines = vec![draw(&ran, &ranks[0], &steps, RANGES, rules)];
    let step = steps.name();
    Ok(Content { title: file_name(&args.path), ranks, met: None, timelines, step, notes: vec![], incomplete: false })
}

fn job(args: &Report, host: Option<PathBuf>, device: PathBuf, threads: usize) -> Job {
    Job { rank: args.rank, tensor_deps: TensorDeps::default().into(), force: args.force, ..Job::reading(host, device, threads) }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| Some(path.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned())).unwrap_or_else(|| "-".to_owned())
}

/// Links a rank and runs its graph.
fn ran(job: &Job, progress: &Progress) -> Result<Ran> {
    let (trace, linked) = pair::link(job, progress)?;
    let graph = etlink_replay::graph_of(&trace).with_context(|| linked.device.clone())?;
    let run = etlink_replay::run(&graph, &trace, &Settings::default());
    Ok(Ran { trace, linked, graph, run })
}

/// The figures of a rank; `named`: the rank that its file's name says.
fn rank(ran: &Ran, label: &str, named: Option<i64>, rules: &Rules) -> Rank {
    let Ran { trace, linked, graph, run } = ran;
    let mut analysis = analyze(trace, rules, &Options::default());
    analysis.rank = named.or(analysis.rank);
    let path = PathReport::new(graph, trace, run, &etlink_replay::critical_path(graph, run));
    Rank {
        label: label.to_owned(),
        device_trace: file_name(Path::new(&linked.device)),
        host_trace: linked.host.as_deref().map(|host| file_name(Path::new(host))),
        device: trace.device.header.devices.iter().find(|model| !model.is_empty()).cloned(),
        analysis,
        link: trace.report.clone(),
        figures: etlink_replay::figures(graph, trace, run),
        critical_path: PathReport { steps: vec![], ..path },
    }
}

fn draw(ran: &Ran, rank: &Rank, steps: &Steps, most: usize, rules: &Rules) -> Timeline {
    let rows = etlink_analyze::Rows::new(&ran.trace, rules);
    let window = steps.window(&ran.trace, &rank.analysis, most);
    page::timeline(&rows, &ran.graph, &ran.run, window, most).labelled(&rank.label)
}
