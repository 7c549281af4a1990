//! `etlink replay`: run a graph; how true is it, what takes long, what if.

mod ranks;
mod table;

use super::{json_document, print, threads};
use crate::Outcome;
use crate::args::{Replay, ToLink};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, NodeNames};
use etlink_chakra::read::{self, FileKind};
use etlink_kineto::KeepEvents;
use etlink_link::{LinkOptions, LinkReport, LinkedTrace};
use etlink_model::{DeviceTrace, HostTrace, Severity};
use etlink_replay::{
    EdgeKind, LabelSource, PathReport, ReplayFigures, ReplayGraph, ReplayRun, ReplaySettings,
    StartExplanation,
};
use etlink_run::Progress;
use etlink_run::input::{self, Input};
use etlink_run::job::{self, ChakraOptions, LinkJob, PerfettoCounts, read_device};
use etlink_run::output::{Target, refuse_input};
use etlink_run::perfetto;
use etlink_run::text::describe_kind;
use serde::Serialize;
use std::path::Path;

/// What is printed.
#[derive(Serialize)]
struct Replayed {
    /// The traces or the file.
    input: String,
    /// What to know first.
    notes: Vec<String>,
    /// One op at a time per thread and stream.
    resources: bool,
    /// Of all ranks, if it is a run of several: how they fared.
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<ranks::AllRanks>,
    /// Of the run without changes.
    figures: ReplayFigures,
    /// Of the run with changes, if any were asked for.
    what_if: Option<WhatIf>,
    /// Of the run with changes, else without.
    critical_path: Option<PathReport>,
    /// Of the run with changes, else without.
    explanation: Option<StartExplanation>,
    /// The trace for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Written>,
}

#[derive(Serialize)]
struct Written {
    output: String,
    bytes: u64,
    #[serde(flatten)]
    shown: PerfettoCounts,
}

impl Written {
    fn new(
        trace: &LinkedTrace,
        graph: &ReplayGraph,
        run: &ReplayRun,
        target: &Target,
    ) -> Result<Written> {
        let (shown, bytes) = perfetto::of_run(trace, graph, run, target)?;
        Ok(Written {
            output: target.path().display().to_string(),
            bytes,
            shown,
        })
    }
}

#[derive(Serialize)]
struct WhatIf {
    scale: Vec<String>,
    drop_edges: Vec<EdgeKind>,
    makespan_ns: i64,
    /// Against the run without changes.
    change_ns: i64,
    change: f64,
    /// By how much the last device op ends later: a thread that only looks on can outlast all work.
    device_end_change_ns: Option<i64>,
    /// By rank, of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<ranks::RankChange>,
}

/// What is run.
enum Source {
    Linked(Box<LinkedTrace>),
    File(Box<read::ChakraGraph>),
}

pub fn run(args: Replay) -> Result<Outcome> {
    if let Some(dir) = args.file.as_deref().filter(|file| file.is_dir()) {
        return ranks::run(&args, dir);
    }
    if args.choice.ranks.is_some() {
        bail!("--ranks chooses ranks of a folder; give the folder of the run");
    }
    let threads = threads(args.reading.resources.threads)?;
    let target = target(&args)?;
    let to_stdout = target.as_ref().is_some_and(Target::is_stdout);
    let progress = crate::progress::bar();
    let source = source(&args, threads, &progress);
    progress.finish();
    let (input, source) = source?;
    let replayed = match source {
        Source::Linked(trace) if args.reading.strict.strict && job::is_damaged(&trace.report) => {
            eprintln!("etlink: {input}: damage was found and --strict given: nothing was replayed");
            return Ok(Outcome::Found);
        }
        Source::File(file) if args.reading.strict.strict && file.damage().is_some() => {
            eprintln!("etlink: {input}: damage was found and --strict given: nothing was replayed");
            return Ok(Outcome::Found);
        }
        Source::Linked(trace) => {
            let graph = etlink_replay::graph_from_trace(&trace).with_context(|| input.clone())?;
            let (mut replayed, runs) = replay(&args, input, notes(&trace.report), &graph, &*trace)?;
            if let Some(target) = &target {
                replayed.written = Some(Written::new(&trace, &graph, &runs.last, target)?);
            }
            replayed
        }
        Source::File(file) => {
            let (graph, notes) = convert::replay_graph(&file).with_context(|| input.clone())?;
            replay(&args, input, notes, &graph, &NodeNames(&file))?.0
        }
    };
    let report = if args.print.json {
        json_document("etlink.replay", &replayed)?
    } else {
        table::replayed(&replayed)
    };
    if to_stdout {
        // the trace has standard output for itself
        eprint!("{report}");
    } else {
        print(&report)?;
    }
    Ok(Outcome::Done)
}

/// Where the trace for Perfetto goes.
fn target(args: &Replay) -> Result<Option<Target>> {
    let Some(output) = &args.output else {
        return Ok(None);
    };
    let ToLink { host, device, .. } = &args.link;
    let target = Target::perfetto(output, args.overwrite.overwrite)?;
    refuse_input(output, args.file.iter().chain(host).chain(device))?;
    Ok(Some(target))
}

/// What the linker says first, and all damage.
fn notes(report: &LinkReport) -> Vec<String> {
    let damage = report
        .anomalies
        .iter()
        .filter(|(kind, _)| kind.severity() == Severity::Damage);
    report
        .notes
        .iter()
        .cloned()
        .chain(damage.map(|(kind, anomaly)| format!("{} {}", anomaly.count, kind.describe())))
        .collect()
}

/// Reads, and links what is not a graph yet. Also its name.
fn source(args: &Replay, threads: usize, progress: &Progress) -> Result<(String, Source)> {
    let ToLink {
        host,
        device,
        rank,
        tensor_deps,
    } = &args.link;
    let Some(file) = &args.file else {
        if host.as_deref() == Some(Path::new("-")) && device.as_deref() == Some(Path::new("-")) {
            bail!("--host and --device cannot both be standard input");
        }
        let device = device.clone().unwrap_or_default();
        let (rank, form, tensor_deps) = (*rank, ChakraOptions::default(), (*tensor_deps).into());
        let job = LinkJob {
            host: host.clone(),
            device,
            capture: None,
            rank,
            target: None,
            form,
            tensor_deps,
            keep: KeepEvents::Graph,
            threads,
            strict: args.reading.strict.strict,
            allow_mismatch: args.reading.mismatch.allow_mismatch,
        };
        progress.phase("reading");
        let (host, device) = job::read_both(&job, progress)?;
        let input = job::inputs(&job);
        return Ok((input.clone(), link(args, &input, host, device, progress)?));
    };
    progress.phase("reading");
    let opened = input::open(file, threads, progress)?;
    let name = opened.name.clone();
    let source = match opened.kind {
        FileKind::KinetoTrace => link(
            args,
            &name,
            None,
            read_device(opened, threads, true)?,
            progress,
        )?,
        _ if args.output.is_some() => bail!(
            "{name} is no Kineto trace, which a trace for Perfetto is made from; replay the traces, or leave -o out"
        ),
        _ => written(opened, file)?,
    };
    Ok((name, source))
}

fn link(
    args: &Replay,
    name: &str,
    host: Option<HostTrace>,
    device: DeviceTrace,
    progress: &Progress,
) -> Result<Source> {
    progress.phase("linking");
    let trace = etlink_link::link(
        host,
        device,
        LinkOptions {
            allow_mismatch: args.reading.mismatch.allow_mismatch,
            rank: args.link.rank,
            tensor_deps: args.link.tensor_deps.into(),
        },
    );
    Ok(Source::Linked(Box::new(
        trace.with_context(|| name.to_owned())?,
    )))
}

/// A graph that was written.
fn written(input: Input, path: &Path) -> Result<Source> {
    let Input {
        name,
        kind,
        content,
        ..
    } = input;
    match kind {
        FileKind::ChakraEt | FileKind::ChakraJson => {
            let graph = read::read(content).with_context(|| name.clone())?;
            if graph.is_empty() {
                bail!("{name} has no nodes to run; see `etlink check`");
            }
            Ok(Source::File(Box::new(graph)))
        }
        FileKind::HostTrace => bail!(
            "{name} is {}, which has no times; give it as --host with its device trace as --device",
            describe_kind(kind)
        ),
        FileKind::EtPlus => bail!(
            "{name} is {}: the op tree, not a graph of what waits for what; replay the traces that it was made from, or the .et of them",
            describe_kind(kind)
        ),
        FileKind::KinetoTrace | FileKind::Unknown
            if path.extension().is_some_and(|ending| ending == "et") =>
        {
            bail!("{name} is no Chakra trace: it does not begin like one; see `etlink check`")
        }
        FileKind::KinetoTrace | FileKind::Unknown => {
            bail!(
                "{name} is {}; a Chakra trace (.et) or a Kineto trace was expected",
                describe_kind(kind)
            )
        }
    }
}

/// The runs of a graph.
struct Runs {
    /// Without changes, if the last is with changes.
    plain: Option<ReplayRun>,
    /// What the path is of.
    last: ReplayRun,
}

fn replay(
    args: &Replay,
    input: String,
    mut notes: Vec<String>,
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
) -> Result<(Replayed, Runs)> {
    let asked = &args.what_if;
    let explained = match &args.explain {
        Some(wanted) => Some(
            etlink_replay::find_node(graph, labels, wanted)
                .with_context(|| format!("{input}: no node has the number or name {wanted:?}"))?,
        ),
        None => None,
    };
    let idle = asked
        .scale
        .iter()
        .filter(|scale| !scale.is_used(graph, labels));
    notes.extend(
        idle.map(|scale| format!("--scale {scale} changes nothing: no node has that name or rank")),
    );
    let plain = etlink_replay::run_graph(
        graph,
        labels,
        &ReplaySettings {
            resources: asked.resources,
            ..ReplaySettings::default()
        },
    );
    let figures = etlink_replay::replay_figures(graph, labels, &plain);
    let settings = ReplaySettings {
        scales: asked.scale.clone(),
        drop_edges: asked.drop_edges.clone(),
        resources: asked.resources,
    };
    let changed = !(settings.scales.is_empty() && settings.drop_edges.is_empty());
    let runs = match changed {
        true => Runs {
            last: etlink_replay::run_graph(graph, labels, &settings),
            plain: Some(plain),
        },
        false => Runs {
            plain: None,
            last: plain,
        },
    };
    let run = &runs.last;
    let path = args
        .critical_path
        .then(|| etlink_replay::critical_path(graph, run));
    let replayed = Replayed {
        input,
        notes,
        resources: asked.resources,
        together: None,
        figures,
        what_if: runs
            .plain
            .as_ref()
            .map(|plain| what_if(graph, &settings, plain, run)),
        critical_path: path.map(|path| PathReport::new(graph, labels, run, &path)),
        explanation: explained.map(|node| {
            etlink_replay::explain_start(graph, labels, run, &settings.drop_edges, node)
        }),
        written: None,
    };
    Ok((replayed, runs))
}

fn what_if(
    graph: &ReplayGraph,
    settings: &ReplaySettings,
    plain: &ReplayRun,
    run: &ReplayRun,
) -> WhatIf {
    let makespan_ns = run.makespan().0;
    let before = plain.makespan().0;
    let change_ns = makespan_ns - before;
    let device_end = |run: &ReplayRun| {
        (0..graph.len())
            .filter(|node| graph.is_device_op(*node))
            .map(|node| run.end(node))
            .max()
    };
    WhatIf {
        scale: settings.scales.iter().map(ToString::to_string).collect(),
        drop_edges: settings.drop_edges.clone(),
        makespan_ns,
        change_ns,
        change: change_ns as f64 / before.max(1) as f64,
        device_end_change_ns: device_end(run)
            .zip(device_end(plain))
            .map(|(now, before)| now.since(before)),
        ranks: vec![],
    }
}
