//! `etlink replay`: run a graph; how true is it, what takes long, what if.

mod all_ranks;
mod ranks;
mod table;

use super::{json_document, print_text};
use crate::args::{ReplayArgs, TracePairArgs};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::convert::{self, NodeNames};
use etlink_link::{LinkReport, LinkedTrace};
use etlink_model::{Severity, TimeNs};
use etlink_replay::{
    EdgeKind, LabelSource, PathReport, ReplayFigures, ReplayGraph, ReplayRun, ReplaySettings,
    StartExplanation,
};
use etlink_run::job::PerfettoCounts;
use etlink_run::output::{Target, refuse_input};
use etlink_run::text::describe_kind;
use etlink_run::{
    Progress, RankContent, RankTraces, Run, RunOptions, RunSource, WrittenRank, perfetto,
};
use serde::Serialize;

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
    together: Option<all_ranks::AllRanks>,
    /// Of the run without changes; `None` where no rank of it could be taken.
    figures: Option<ReplayFigures>,
    /// Of the run with changes, if any were asked for.
    what_if: Option<WhatIfReport>,
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
struct WhatIfReport {
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
    ranks: Vec<all_ranks::RankChange>,
}

pub fn run(args: ReplayArgs) -> Result<Outcome> {
    if let Some(dir) = args.file.as_deref().filter(|file| file.is_dir()) {
        return ranks::run(&args, dir);
    }
    // first: what cannot be written is refused before gigabytes are read
    let target = perfetto_target(&args)?;
    let to_stdout = target.as_ref().is_some_and(Target::is_stdout);
    let progress = crate::progress::progress_bar();
    let loaded = load_content(&args, &progress);
    progress.finish();
    let (input, content) = loaded?;
    let replayed = match content {
        RankContent::Linked(linked) if linked.report.refused => {
            eprintln!("etlink: {input}: damage was found and --strict given: nothing was replayed");
            return Ok(Outcome::Found);
        }
        RankContent::Written(written) if is_refused(&args, &written) => {
            eprintln!("etlink: {input}: damage was found and --strict given: nothing was replayed");
            return Ok(Outcome::Found);
        }
        RankContent::Linked(linked) => {
            notes::print_details(&input, &linked.details());
            let trace = &linked.trace;
            let graph = etlink_replay::graph_from_trace(trace).with_context(|| input.clone())?;
            let (mut replayed, runs) =
                replay_graph(&args, input, trace_notes(&trace.report), &graph, trace)?;
            if let Some(target) = &target {
                replayed.written = Some(Written::new(trace, &graph, &runs.last, target)?);
            }
            replayed
        }
        RankContent::Written(written) => {
            let file = &written.graph;
            let (graph, notes) = convert::replay_graph(file).with_context(|| input.clone())?;
            replay_graph(&args, input, notes, &graph, &NodeNames(file))?.0
        }
    };
    let report = if args.print.json {
        json_document("etlink.replay", &replayed)?
    } else {
        table::replay_text(&replayed)
    };
    if to_stdout {
        // the trace has standard output for itself
        eprint!("{report}");
    } else {
        print_text(&report)?;
    }
    Ok(Outcome::Done)
}

/// Where the trace for Perfetto goes.
fn perfetto_target(args: &ReplayArgs) -> Result<Option<Target>> {
    let Some(output) = &args.output else {
        return Ok(None);
    };
    let TracePairArgs { host, device, .. } = &args.link;
    let target = Target::perfetto(output, args.overwrite.overwrite)?;
    refuse_input(output, args.file.iter().chain(host).chain(device))?;
    Ok(Some(target))
}

/// What the linker says first, and all damage.
fn trace_notes(report: &LinkReport) -> Vec<String> {
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

/// Reads what was named, and links traces. Also its name.
fn load_content(args: &ReplayArgs, progress: &Progress) -> Result<(String, RankContent)> {
    let TracePairArgs {
        host,
        device,
        rank,
        tensor_deps,
    } = &args.link;
    let source = match &args.file {
        Some(file) => RunSource::File(file.clone()),
        None => RunSource::Rank(RankTraces {
            host: host.clone(),
            // clap wants one of the two, so it is there
            device: device.clone().unwrap_or_default(),
            capture: None,
        }),
    };
    let options = RunOptions {
        rank: *rank,
        tensor_deps: (*tensor_deps).into(),
        progress: progress.clone(),
        ..args.reading.run_options(Some(&args.choice))?
    };
    let run = Run::open(source, options)?;
    let content = run.only_rank()?.load()?;
    if let RankContent::Written(written) = &content {
        expect_graph(args, written)?;
    }
    Ok((run.set().source_name(), content))
}

/// Refuses a written graph that has nothing to run.
fn expect_graph(args: &ReplayArgs, written: &WrittenRank) -> Result<()> {
    let name = &written.name;
    if args.output.is_some() {
        bail!(
            "{name} is no Kineto trace, which a trace for Perfetto is made from; replay the \
            traces, or leave -o out"
        );
    }
    // a tree has no edges: everything would start at once
    let kind = written.graph.format;
    if kind.is_tree() {
        bail!(
            "{name} is {}: the op tree, not a graph of what waits for what; replay the traces \
            that it was made from, or the .et of them",
            describe_kind(kind)
        );
    }
    Ok(())
}

/// Whether a written graph is damaged, and damaged ones were to be refused.
fn is_refused(args: &ReplayArgs, written: &WrittenRank) -> bool {
    args.reading.strict.strict && written.graph.damage().is_some()
}

/// The runs of a graph.
struct Runs {
    /// Without changes, if the last is with changes.
    plain: Option<ReplayRun>,
    /// What the path is of.
    last: ReplayRun,
}

fn replay_graph(
    args: &ReplayArgs,
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
    // a misspelled name would be taken for a change that has no effect
    let idle = asked
        .scale
        .iter()
        .filter(|scale| !scale.is_used(graph, labels));
    notes.extend(
        idle.map(|scale| format!("--scale {scale} changes nothing: no node has that name or rank")),
    );
    // also where only a what-if was asked for: its figures are against this run
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
    // of millions of nodes a second run that is the same would only take memory
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
        figures: Some(figures),
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

/// When the last device op ends.
fn device_end(graph: &ReplayGraph, run: &ReplayRun) -> Option<TimeNs> {
    graph
        .indices()
        .filter(|node| graph.is_device_op(*node))
        .map(|node| run.end(node))
        .max()
}

fn what_if(
    graph: &ReplayGraph,
    settings: &ReplaySettings,
    plain: &ReplayRun,
    run: &ReplayRun,
) -> WhatIfReport {
    let makespan_ns = run.makespan().0;
    let before = plain.makespan().0;
    let change_ns = makespan_ns - before;
    WhatIfReport {
        scale: settings.scales.iter().map(ToString::to_string).collect(),
        drop_edges: settings.drop_edges.clone(),
        makespan_ns,
        change_ns,
        // a graph whose nodes have no durations takes no time at all
        change: change_ns as f64 / before.max(1) as f64,
        device_end_change_ns: device_end(graph, run)
            .zip(device_end(graph, plain))
            .map(|(now, before)| now.since(before)),
        ranks: vec![],
    }
}
