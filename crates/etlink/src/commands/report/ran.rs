//! One rank, from its traces or from a written graph.

use super::file_name;
use super::steps::DrawnSteps;
use crate::run_findings::FoundRank;
use anyhow::{Context, Result, bail};
use etlink_analysis::{KernelRules, Options, RankAnalysis, analyze};
use etlink_chakra::convert::{self, NodeNames};
use etlink_chakra::read;
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, DiagnosticCode, Failure, Severity, diagnostic};
use etlink_replay::{
    LabelSource, PathReport, PathStepReport, ReplayGraph, ReplayRun, ReplaySettings,
};
use etlink_report::page::{
    self, MEMORY_POINTS, PATH_STEPS, PackedTimeline, RankPlace, RankTrees, ReportRank, TracedRank,
    WrittenGraph, memory_charts,
};
use etlink_run::graphs::groups_of;
use etlink_run::input::display_name;
use etlink_run::run::{RankContent, WrittenRank};
use std::path::Path;

/// Maximum number of points in a memory chart.
const POINTS: usize = 4_000;
/// Maximum number of steps drawn per rank.
const STEPS: usize = 100;
/// Maximum number of events scanned for all steps of a rank: about a second.
const PASSES: usize = 20_000_000;

/// A rank's graph and its run.
pub(super) struct Ran {
    /// Source of the graph: the device trace, or the written graph.
    file: String,
    host: Option<String>,
    graph: ReplayGraph,
    run: ReplayRun,
    pub(super) of: RanSource,
}

pub(super) enum RanSource {
    Traces(Box<LinkedTrace>),
    Written {
        file: Box<read::ChakraGraph>,
        /// Device rows of the graph and ops of a tree, if any.
        trace: Option<Box<LinkedTrace>>,
    },
}

impl Ran {
    /// Runs the graph of linked traces, or a written graph as it is. A merged trace is a tree: runs
    /// its nodes.
    pub(super) fn from_content(content: RankContent) -> Result<Ran> {
        match content {
            RankContent::Linked(linked) => {
                let file = display_name(Path::new(&linked.report.device));
                Ran::from_linked(linked.trace, file, linked.report.host)
            }
            RankContent::Written(written) => Ran::from_written(*written),
        }
    }

    fn from_written(written: WrittenRank) -> Result<Ran> {
        let WrittenRank {
            name,
            path,
            rank,
            graph: file,
            ..
        } = written;
        if file.is_empty() {
            let problem = format!("{name}: no nodes");
            bail!(Failure::new(problem).advise("see `etlink check`"));
        }
        // a tree shows who called whom, not who waits for whom
        let graph = if file.format.is_tree() {
            convert::tree_graph(&file)?
        } else {
            convert::replay_graph(&file)
                .with_context(|| name.clone())?
                .0
        };
        let run = etlink_replay::run_graph(&graph, &NodeNames(&file), &ReplaySettings::default());
        let trace = convert::linked_trace(&file, rank, &groups_of(&path)?)?.map(Box::new);
        Ok(Ran {
            file: name,
            host: None,
            graph,
            run,
            of: RanSource::Written {
                file: Box::new(file),
                trace,
            },
        })
    }

    fn from_linked(trace: LinkedTrace, file: String, host: Option<String>) -> Result<Ran> {
        let graph = etlink_replay::graph_from_trace(&trace).with_context(|| file.clone())?;
        let run = etlink_replay::run_graph(&graph, &trace, &ReplaySettings::default());
        Ok(Ran {
            file,
            host,
            graph,
            run,
            of: RanSource::Traces(Box::new(trace)),
        })
    }

    /// Returns the rank according to the trace.
    pub(super) fn rank_number(&self) -> Option<i64> {
        match &self.of {
            RanSource::Traces(trace) => Some(trace.report.rank?.0),
            RanSource::Written { file, trace, .. } => {
                let of_rows = trace.as_ref().and_then(|trace| trace.report.rank);
                of_rows.map(|rank| rank.0).or(file.metadata_int("rank"))
            }
        }
    }

    /// Returns the damage of the traces, or of the written graph, and what recording changed.
    pub(super) fn damage(&self) -> Vec<Diagnostic> {
        match &self.of {
            RanSource::Traces(trace) => {
                let report = &trace.report;
                let damage = report.anomalies.diagnostics(Severity::Damage);
                let of_all = report.diagnostics.iter().filter(|said| {
                    said.severity == Severity::Damage
                        || said.code == DiagnosticCode::RecordingOverhead
                });
                damage.chain(of_all.cloned()).collect()
            }
            RanSource::Written { file, .. } => {
                let damage = file.damage().into_iter();
                damage
                    .map(|damage| diagnostic!(GraphRepaired, "{damage}"))
                    .collect()
            }
        }
    }

    /// Describes the data that a written graph lacks.
    pub(super) fn leaves_out(&self) -> Option<Diagnostic> {
        let RanSource::Written { file, trace, .. } = &self.of else {
            return None;
        };
        let (kind, nothing_of) = if file.format.is_tree() {
            (
                "a merged trace (ET+) is a tree of ops, not a dependency graph",
                "critical path, fidelity, linking, launches, causes of idle time, memory",
            )
        } else {
            (
                "host times of a written graph are times of slices",
                "steps, linking, copy sizes, grids, allocations, barriers and start times of Gloo",
            )
        };
        let has_rows = trace
            .as_ref()
            .is_some_and(|trace| !trace.device.rows.is_empty());
        let devices = match (has_rows, file.unsaid()) {
            (_, Some(unsaid)) => format!("; {unsaid}"),
            (true, None) => String::new(),
            (false, None) => "; it has no device nodes".to_owned(),
        };
        let times = if self.graph.measured {
            ""
        } else {
            "; some nodes have no start times: the timeline shows a replay of the graph"
        };
        Some(diagnostic!(
            GraphLacks,
            "{kind}; not reported: {nothing_of}{devices}{times}"
        ))
    }

    /// Computes the figures of the rank. `named`: the rank according to the file name; `ranks`:
    /// number of ranks that share the page.
    pub(super) fn report_rank(
        &self,
        label: &str,
        named: Option<i64>,
        rules: &KernelRules,
        ranks: usize,
    ) -> ReportRank {
        let (trace, labels): (_, &dyn LabelSource) = match &self.of {
            RanSource::Traces(trace) => (Some(trace), &**trace),
            RanSource::Written { file, trace, .. } => (trace.as_ref(), &NodeNames(file)),
        };
        let options = Options {
            memory_timeline: true,
            ..Options::default()
        };
        let mut analysis = trace.map_or_else(RankAnalysis::default, |trace| {
            analyze(trace, rules, &options)
        });
        analysis.rank = named.or(self.rank_number());
        if trace.is_some_and(|trace| {
            matches!(self.of, RanSource::Written { .. }) && trace.device.calls.is_empty()
        }) {
            // without calls, nothing shows what a device waited for
            (analysis.idle, analysis.stream_idle, analysis.queues) = (vec![], vec![], vec![]);
        }
        let points = std::mem::take(&mut analysis.memory_timeline);
        // without edges, everything starts at once, so a path and an accuracy would be meaningless
        let is_graph = self.graph.edges() > 0 || matches!(self.of, RanSource::Traces(_));
        let path = || {
            PathReport::new(
                &self.graph,
                labels,
                &self.run,
                &etlink_replay::critical_path(&self.graph, &self.run),
            )
        };
        ReportRank {
            label: label.to_owned(),
            device_trace: file_name(Path::new(&self.file)),
            host_trace: self.host.as_deref().map(|host| file_name(Path::new(host))),
            device: trace.and_then(|trace| {
                trace
                    .device
                    .header
                    .devices
                    .iter()
                    .find(|model| !model.is_empty())
                    .cloned()
            }),
            // all ranks share the room of one page, but fewer than 60 points draw no curve
            memory_charts: memory_charts(&points, (MEMORY_POINTS / ranks.max(1)).clamp(60, POINTS)),
            analysis,
            link: if let RanSource::Traces(trace) = &self.of {
                Some(trace.report.clone())
            } else {
                None
            },
            figures: is_graph.then(|| {
                let figures = etlink_replay::replay_figures(&self.graph, labels, &self.run);
                figures.name_recorded(trace.and_then(|trace| trace.report.overhead.as_ref()))
            }),
            critical_path: is_graph.then(|| {
                let path = path();
                // The path can have as many steps as there are nodes.
                let most = (PATH_STEPS / ranks.max(1)).clamp(5, 100);
                PathReport {
                    steps: longest_steps(path.steps, most),
                    ..path
                }
            }),
            trees: match &self.of {
                RanSource::Traces(trace) => RankTrees::from_trace(&trace.device, ranks),
                // The nodes of a written graph are slices of ops: counts of calls would be wrong.
                RanSource::Written { .. } => RankTrees::default(),
            },
        }
    }

    /// Returns the rank's data for the findings of its run; `None` for a written graph, which has
    /// no events.
    pub(super) fn found_rank(
        &self,
        analysis: &RankAnalysis,
        rules: &KernelRules,
    ) -> Option<FoundRank> {
        let RanSource::Traces(trace) = &self.of else {
            return None;
        };
        Some(FoundRank::new(trace, self.graph.clone(), rules, analysis))
    }

    /// Returns the maximum number of steps to draw. Each step takes a pass over the trace, so few
    /// are drawn for a large trace. One of its steps takes much of the page's room anyway.
    fn most_steps(&self) -> usize {
        let events = match &self.of {
            RanSource::Traces(trace) => {
                let device = &trace.device;
                device.ops.len() + device.calls.len() + device.rows.len()
            }
            RanSource::Written { .. } => self.graph.len(),
        };
        (PASSES / events.max(1)).clamp(4, STEPS)
    }

    /// Draws the first `count` steps, or all there is without steps, within the ranges and bytes of
    /// `room`. `member` returns the rank's place among the others in a step.
    pub(super) fn draw_steps<'m>(
        &self,
        rank: &ReportRank,
        steps: &DrawnSteps,
        count: usize,
        room: (usize, usize),
        rules: &KernelRules,
        member: impl Fn(usize) -> Option<RankPlace<'m>>,
    ) -> std::io::Result<Vec<PackedTimeline>> {
        let Ran { graph, run, .. } = self;
        let (ranges, bytes) = room;
        let count = count.min(self.most_steps());
        let path = match &self.of {
            // A graph without edges does not show what took long.
            RanSource::Written { .. } if graph.edges() == 0 => vec![],
            _ => etlink_replay::critical_path(graph, run),
        };
        match &self.of {
            RanSource::Traces(trace) => {
                let device = &trace.device;
                let rows = etlink_analysis::ClassifiedRows::new(trace, rules);
                let of = TracedRank {
                    rows: &rows,
                    graph,
                    run,
                    path: &path,
                };
                let whole = device.window().unwrap_or_default();
                // Starts are collected only if there is no step: a large trace has millions.
                let starts = || {
                    let on_host = device.ops.start.iter().chain(&device.calls.start);
                    on_host.chain(&device.rows.start).copied().collect()
                };
                PackedTimeline::steps(ranges, bytes, count, |at, most| {
                    let window = steps.drawn_window(at, &rank.analysis, most, whole, starts);
                    let timeline = page::trace_timeline(of, window, most, member(at).as_ref());
                    timeline.labelled(&rank.label)
                })
            }
            RanSource::Written { file, .. } => {
                let about = |node: usize| describe_node(file, node);
                let of = WrittenGraph {
                    graph,
                    run,
                    path: &path,
                    labels: &NodeNames(file),
                    rules,
                    about: &about,
                    base_ns: file.base_time_ns().unwrap_or(0),
                };
                let first = of.spans().map(|span| span.0).min();
                let last = of.spans().map(|span| span.1).max();
                let whole = first.zip(last).unwrap_or_default();
                let starts = || of.spans().map(|span| span.0).collect();
                PackedTimeline::steps(ranges, bytes, count, |at, most| {
                    let window = steps.drawn_window(at, &rank.analysis, most, whole, starts);
                    let timeline = page::graph_timeline(of, window, most, member(at).as_ref());
                    timeline.labelled(&rank.label)
                })
            }
        }
    }

    /// Returns a written graph whose nodes all have start times, in its file form and as run.
    pub(super) fn measured_graph(&self) -> Option<(&read::ChakraGraph, &ReplayGraph)> {
        match &self.of {
            RanSource::Written { file, .. } if self.graph.measured => Some((file, &self.graph)),
            _ => None,
        }
    }
}

/// Returns the steps that take longest, including the wait before them, in order of time.
fn longest_steps(mut steps: Vec<PathStepReport>, most: usize) -> Vec<PathStepReport> {
    let taken = |step: &PathStepReport| step.duration_ns.0.saturating_add(step.latency_ns.0);
    steps.sort_by_key(|step| std::cmp::Reverse(taken(step)));
    steps.truncate(most);
    steps.sort_by_key(|step| step.start_ns);
    steps
}

/// Describes a node by the attributes in its file.
fn describe_node(file: &read::ChakraGraph, node: usize) -> String {
    let comm = file.comm_of(node);
    let mut lines = vec![format!("node: {}", file.id[node])];
    lines.extend(comm.size.map(|size| format!("bytes: {size}")));
    lines.extend(
        comm.group
            .map(|group| format!("process group: {}", file.names.get(group))),
    );
    lines.extend(comm.src.map(|src| format!("from rank: {src}")));
    lines.extend(comm.dst.map(|dst| format!("to rank: {dst}")));
    lines.join("\n")
}
