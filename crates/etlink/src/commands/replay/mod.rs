//! `etlink replay`: runs a graph, and reports accuracy, long nodes, and the effect of changes.

mod aliases;
mod all_ranks;
mod config;
mod document;
mod questions;
mod ranks;
mod rules;
mod steps;
mod table;
pub(super) mod validation;

pub use document::{ReplayDocument, ReplayQuery};

use super::print_text;
use crate::args::ReplayArgs;
use crate::envelope::{JsonReport, RunReports, json_text};
use crate::table::{fold_lines, plain_lines};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use config::{AskedQuestion, ReplayConfig};
use etlink_chakra::convert::{self, NodeNames};
use etlink_chakra::read::ChakraGraph;
use etlink_link::{LinkReport, LinkedTrace};
use etlink_model::{AnomalyKind, Diagnostic, NodeIdx, TimeNs, UnixNs};
use etlink_replay::{
    AnswerRange, CrossStepFigures, EdgeKind, LabelSource, PathReport, ReplayFigures, ReplayGraph,
    ReplayRun, ReplaySettings, StartExplanation, TrustFigures, work_makespan,
};
use etlink_run::job::PerfettoCounts;
use etlink_run::output::Target;
use etlink_run::run::report_diagnostics;
use etlink_run::{Progress, RankContent, Run, WrittenRank, perfetto};
use rules::{refuse_unused, unused_rules};
use serde::Serialize;
use steps::{MeanStep, RankStep, RankSteps, RunOfSteps};

/// Results of a replay, as printed.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Replayed {
    /// Names of the traces or the file.
    input: String,
    /// Origin of the times: that of the first rank's trace.
    #[serde(skip)]
    base_ns: UnixNs,
    /// Notes printed before the results.
    diagnostics: Vec<Diagnostic>,
    /// True if each thread and stream runs one op at a time.
    resources: bool,
    /// Results over all ranks of a run; `None` for a single trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<all_ranks::AllRanks>,
    /// Figures of the run without changes; `None` if no rank of it could be used.
    figures: Option<ReplayFigures>,
    /// Reliability of the run without changes.
    trust: Option<TrustFigures>,
    /// Number of waits that the traces state but their times contradict; they are not edges.
    dropped_waits: Option<u64>,
    /// Errors of predicting one step from another; `None` if there are fewer than three steps with
    /// the same work.
    cross_step: Option<CrossStepFigures>,
    /// Lengths of the steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<RankStep>,
    /// Mean length of the steps that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<MeanStep>,
    /// Results of other readers of a written graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    stock_replay: Option<StockReplay>,
    /// Results of the run with changes; `None` if none were requested.
    what_if: Option<WhatIfReport>,
    /// Critical path of the run with changes, or else of the unchanged run.
    critical_path: Option<PathReport>,
    /// Explanation from the run with changes, or else from the unchanged run.
    explanation: Option<StartExplanation>,
    /// The trace for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Written>,
}

impl JsonReport for RunReports<Replayed> {
    const SCHEMA: &'static str = "etlink.replay";
}

/// Replay of a written graph as a reader of `duration_micros` sees it, without our latencies.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct StockReplay {
    /// Time from the first start to the last end of work.
    makespan_ns: i64,
    /// Measured time from the first start to the last end of work.
    measured_ns: i64,
    /// Difference between the two, as a share of the measured time.
    error: f64,
}

impl StockReplay {
    /// Makes the replay; `None` for a file without measured times.
    fn new(file: &ChakraGraph, graph: &ReplayGraph, plain: &ReplayRun) -> Option<StockReplay> {
        if !graph.measured {
            return None;
        }
        let stock = convert::stock_graph(file).ok()?;
        let settings = ReplaySettings::default();
        let run = etlink_replay::run_graph(&stock, &NodeNames(file), &settings);
        let makespan_ns = work_makespan(&stock, &run).0;
        let measured_ns = work_makespan(graph, plain).0;
        let off = (makespan_ns - measured_ns).abs();
        Some(StockReplay {
            makespan_ns,
            measured_ns,
            error: off as f64 / measured_ns.max(1) as f64,
        })
    }
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct WhatIfReport {
    scale: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<AskedQuestion>,
    drop_edges: Vec<EdgeKind>,
    /// Time from the first start to the last end of work; threads that only watch do not count.
    makespan_ns: i64,
    /// The same time without changes.
    unchanged_ns: i64,
    /// Increase of `makespan_ns` over `unchanged_ns`.
    change_ns: i64,
    change: f64,
    /// Bounds of the true change, and the assumptions behind them.
    range: AnswerRange,
    /// Delay of the end of the last device op, after which the host may continue.
    device_end_change_ns: Option<i64>,
    /// Changes by rank, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<all_ranks::RankChange>,
}

pub fn run(args: ReplayArgs) -> Result<Outcome> {
    if let [before, after] = &args.validate[..] {
        return validation::validate_traces(&args, before, after);
    }
    let progress = crate::progress::progress_bar();
    let config = ReplayConfig::from_args(args, &progress)?;
    if config.is_folder() {
        ranks::replay_folder(config, &progress)
    } else {
        replay_file(config, &progress)
    }
}

/// Replays one trace, a pair, or a written graph, and prints the results.
fn replay_file(config: ReplayConfig, progress: &Progress) -> Result<Outcome> {
    let (json, target) = (config.json, config.target.clone());
    let name = config.source.name();
    let Some(replayed) = replay_rank(config, progress)? else {
        notes::print_message(format_args!(
            "{name}: not replayed, because it is damaged and --strict is set"
        ));
        return Ok(Outcome::Found);
    };
    let report = if json {
        json_text(&RunReports {
            runs: vec![replayed],
        })?
    } else {
        table::print_notes(std::slice::from_ref(&replayed));
        fold_lines(&table::replay_text(&replayed)).into_owned()
    };
    if target.as_ref().is_some_and(Target::is_stdout) {
        // standard output is reserved for the trace
        notes::print_on_stderr(&plain_lines(&report));
    } else {
        print_text(&report)?;
    }
    Ok(Outcome::Done)
}

/// Replays one trace, a pair, or a written graph; `None` if it is damaged and damage is rejected.
fn replay_rank(config: ReplayConfig, progress: &Progress) -> Result<Option<Replayed>> {
    let run = Run::open(config.source.clone(), config.options.clone());
    let loaded = run
        .map_err(Into::into)
        .and_then(|run| load_content(&config, &run));
    progress.finish();
    let (input, content) = loaded?;
    match content {
        RankContent::Linked(linked) if linked.report.refused => Ok(None),
        RankContent::Written(written) if is_refused(&config, &written) => Ok(None),
        content => replay_content(config, input, content).map(Some),
    }
}

/// Replays the loaded content.
fn replay_content(config: ReplayConfig, input: String, content: RankContent) -> Result<Replayed> {
    Ok(match content {
        RankContent::Linked(linked) => {
            notes::print_details(&input, &linked.details());
            let trace = &linked.trace;
            let graph = etlink_replay::graph_from_trace(trace).with_context(|| input.clone())?;
            let config = config.resolve_names(&graph, trace, &input)?;
            let (config, answer_notes) = config.ask_trace(trace, &graph, &input)?;
            refuse_unused(&[unused_rules(&config, &graph, trace)], &input)?;
            let mut notes = report_diagnostics(&trace.report);
            notes.extend(answer_notes);
            let rank = RankSteps {
                rank: None,
                bounds: &etlink_replay::step_bounds(trace, &graph),
                first_node: NodeIdx(0),
            };
            let steps = RunOfSteps {
                ranks: vec![rank],
                clocks: &[],
            };
            let mut config = config;
            config.settings.overhead_doubt = etlink_replay::overhead_doubt(trace, &graph);
            let (mut replayed, runs) = replay_graph(&config, input, notes, &graph, (trace, &steps));
            let overhead = trace.report.overhead.as_ref();
            replayed.figures = replayed.figures.map(|of| of.name_recorded(overhead));
            let partners = CROSS_STEP_PARTNERS;
            replayed.cross_step = etlink_replay::cross_step_figures(trace, &graph, partners);
            replayed.dropped_waits = Some(dropped_waits(&trace.report));
            replayed.base_ns = trace.device.header.base_ns;
            if let Some(target) = &config.target {
                replayed.written = Some(Written::new(trace, &graph, &runs.last, target)?);
            }
            replayed
        }
        RankContent::Written(written) => {
            config.refuse_questions(&input)?;
            let (written, lacks) = written.into_replayable()?;
            let file = &written.graph;
            let (graph, mut notes) = convert::replay_graph(file).with_context(|| input.clone())?;
            notes.extend(lacks);
            let config = config.resolve_names(&graph, &NodeNames(file), &input)?;
            refuse_unused(&[unused_rules(&config, &graph, &NodeNames(file))], &input)?;
            let steps = RunOfSteps {
                ranks: vec![],
                clocks: &[],
            };
            let names = NodeNames(file);
            let (mut replayed, runs) =
                replay_graph(&config, input, notes, &graph, (&names, &steps));
            replayed.base_ns = UnixNs(file.base_time_ns().unwrap_or(0));
            replayed.stock_replay = StockReplay::new(file, &graph, runs.unchanged());
            replayed
        }
    })
}

/// Number of other steps that each step is predicted from: costs as much as that many replays.
const CROSS_STEP_PARTNERS: usize = 3;

fn dropped_waits(report: &LinkReport) -> u64 {
    let mut anomalies = report.anomalies.iter();
    let dropped = anomalies.find(|(kind, _)| *kind == AnomalyKind::WaitContradicted);
    dropped.map_or(0, |(_, anomaly)| anomaly.count)
}

/// Reads a graph or links traces. Also returns the name of the source.
fn load_content(config: &ReplayConfig, run: &Run) -> Result<(String, RankContent)> {
    let content = run.only_rank()?.load()?;
    if let RankContent::Written(written) = &content
        && config.target.is_some()
    {
        bail!(
            "{} is not a Kineto trace, which -o needs to write a trace for Perfetto; replay the \
            traces, or omit -o",
            written.name
        );
    }
    Ok((run.set().source_name(), content))
}

/// Returns true if a written graph is damaged and damaged ones are rejected.
fn is_refused(config: &ReplayConfig, written: &WrittenRank) -> bool {
    config.options.strict && written.graph.damage().is_some()
}

/// The runs of a graph.
struct Runs {
    /// Run without changes, if `last` has changes.
    plain: Option<ReplayRun>,
    /// Run that the critical path is taken from.
    last: ReplayRun,
}

impl Runs {
    /// Returns the run without changes.
    fn unchanged(&self) -> &ReplayRun {
        self.plain.as_ref().unwrap_or(&self.last)
    }
}

fn replay_graph(
    config: &ReplayConfig,
    input: String,
    diagnostics: Vec<Diagnostic>,
    graph: &ReplayGraph,
    (labels, of_steps): (&dyn LabelSource, &RunOfSteps<'_>),
) -> (Replayed, Runs) {
    let settings = &config.settings;
    let wanted = config.explain.as_deref();
    let explained = wanted.and_then(|wanted| etlink_replay::find_node(graph, labels, wanted));
    // needed even if only a what-if was requested: its figures are relative to this run
    let plain = etlink_replay::run_graph(
        graph,
        labels,
        &ReplaySettings {
            resources: settings.resources,
            ..ReplaySettings::default()
        },
    );
    let figures = etlink_replay::replay_figures(graph, labels, &plain);
    let trust = etlink_replay::trust_figures(graph, labels, &plain);
    // for millions of nodes, a second identical run would waste memory
    let runs = if config.has_changes() {
        Runs {
            last: etlink_replay::run_graph(graph, labels, settings),
            plain: Some(plain),
        }
    } else {
        Runs {
            plain: None,
            last: plain,
        }
    };
    let run = &runs.last;
    let path = config
        .critical_path
        .then(|| etlink_replay::critical_path(graph, run));
    let (steps, step) = of_steps.replayed(&runs);
    let replayed = Replayed {
        input,
        diagnostics,
        resources: settings.resources,
        figures: Some(figures),
        trust: Some(trust),
        steps,
        step,
        what_if: runs
            .plain
            .as_ref()
            .map(|plain| what_if(config, graph, (labels, of_steps), (plain, run))),
        critical_path: path.map(|path| PathReport::new(graph, labels, run, &path)),
        explanation: explained.map(|node| {
            etlink_replay::explain_start(graph, labels, run, &settings.drop_edges, node)
        }),
        ..Replayed::default()
    };
    (replayed, runs)
}

/// Returns the end of the last device op.
fn device_end(graph: &ReplayGraph, run: &ReplayRun) -> Option<TimeNs> {
    graph
        .indices()
        .filter(|node| graph.is_device_op(*node))
        .map(|node| run.end(node))
        .max()
}

fn what_if(
    config: &ReplayConfig,
    graph: &ReplayGraph,
    (labels, of_steps): (&dyn LabelSource, &RunOfSteps<'_>),
    (plain, run): (&ReplayRun, &ReplayRun),
) -> WhatIfReport {
    let settings = &config.settings;
    let makespan_ns = work_makespan(graph, run).0;
    let before = work_makespan(graph, plain).0;
    let change_ns = makespan_ns - before;
    WhatIfReport {
        scale: settings.scales.iter().map(ToString::to_string).collect(),
        drop_edges: settings.drop_edges.clone(),
        questions: config.asked.clone(),
        range: etlink_replay::answer_range(graph, labels, settings, (plain, run), &|run| {
            of_steps.mean(plain, run)
        }),
        makespan_ns,
        unchanged_ns: before,
        change_ns,
        // a graph whose nodes have no durations takes no time at all
        change: change_ns as f64 / before.max(1) as f64,
        device_end_change_ns: device_end(graph, run)
            .zip(device_end(graph, plain))
            .map(|(now, before)| now.since(before)),
        ranks: vec![],
    }
}
