//! Tables of PyTorch's profiler from recorded traces, for `top` and `diff`.

use crate::commands::print_run_files;
use crate::cut_traces::cut_line;
use crate::notes;
use crate::rank_error::rank_error;
use anyhow::{Context, Result};
use etlink_analysis::top::{
    CallTree, KeyAverages, Options, TopGroup, TopOrder, TreeOptions, call_tree, key_averages,
};
use etlink_analysis::{
    CountedWork, KernelRules, OpCalls, Options as AnalysisOptions, PeakTable, RankAnalysis,
    analyze, counted_steps,
};
use etlink_link::ranks::{RankSteps, RankSummary, RunSteps, StepSpan};
use etlink_link::{LinkReport, LinkedTrace};
use etlink_model::{
    Anomalies, DeviceTrace, Diagnostic, DiagnosticCode, GlobalRank, HostIdx, KeepEvents, Severity,
    command_only, diagnostic,
};
use etlink_run::discover::ManifestEntry;
use etlink_run::job::{self, LinkJob};
use etlink_run::membership::{self, Excluded};
use etlink_run::memory::RankOperation;
use etlink_run::run::{self, RankEntry, RankResult, RunOptions, RunSet, RunSource};
use etlink_run::{JoinedRun, Overhead, RunError, overhead_note};
use serde::Serialize;
use std::path::Path;

/// The table of one rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpTable {
    /// Path of the trace.
    pub file: String,
    /// Rank of the trace, if known.
    pub rank: Option<i64>,
    /// Notes about the trace.
    pub diagnostics: Vec<Diagnostic>,
    /// Defects of the trace.
    pub anomalies: Anomalies,
    #[serde(flatten)]
    /// Rows of the table.
    pub top: KeyAverages,
    /// Analysis of the trace, if [`OpTableConfig::rules`] request it.
    #[serde(skip)]
    pub analysis: Option<RankAnalysis>,
    /// Calls of ops, if requested.
    #[serde(skip)]
    pub calls: Option<OpCalls>,
    /// Data for joining the rank with others, if rules request it and the rank is certain.
    #[serde(skip)]
    summary: Option<RankSummary>,
    /// Steps, if the trace is analyzed.
    #[serde(skip)]
    steps: Vec<StepSpan>,
    /// Call tree, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<CallTree>,
}

/// The tables of a run's ranks.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunTables {
    /// Tables per rank.
    pub tables: Vec<OpTable>,
    /// Notes about the folders.
    pub diagnostics: Vec<Diagnostic>,
    /// Traces without a table.
    pub excluded: Vec<Excluded>,
    /// Steps of the run, if the traces are analyzed.
    #[serde(skip)]
    pub steps: RunSteps,
}

/// Source and form of the tables.
#[derive(Clone)]
pub struct OpTableConfig<'a> {
    /// A trace, or a folder with the traces of ranks.
    pub source: RunSource,
    pub options: RunOptions,
    /// Sort order; by default the device's own time, or the host's if there is no device.
    pub order: Option<TopOrder>,
    pub group: TopGroup,
    pub python: bool,
    /// True to add the call tree.
    pub tree: bool,
    pub each_module: bool,
    /// Rules for kernels, if the traces are to be analyzed as one run, too.
    pub rules: Option<&'a KernelRules>,
    /// True to also collect the calls of ops; needs rules.
    pub calls: bool,
}

impl OpTableConfig<'_> {
    /// Makes the configuration of tables with a row per name.
    pub fn by_name(source: RunSource, options: RunOptions) -> Self {
        OpTableConfig {
            source,
            options,
            order: None,
            group: TopGroup::Name,
            python: false,
            tree: false,
            each_module: false,
            rules: None,
            calls: false,
        }
    }
}

/// Reads the tables. Also returns the errors of traces without a table.
pub fn read_tables(config: &OpTableConfig<'_>) -> Result<RunTables> {
    let progress = config.options.progress.clone();
    let options = RunOptions {
        // a written graph has slices of ops, but the profiler's table counts whole ops
        traces_only: true,
        overhead: Some(Overhead::Keep),
        work: match config.rules {
            Some(_) => RankOperation::Analyze,
            None => RankOperation::Top,
        },
        ..config.options.clone()
    };
    let runs = RunSet::open(config.source.clone(), options)?;
    if config.rules.is_some() {
        // several runs have no common step time
        runs.only_run()?;
    }
    progress.phase("reading");
    let all = runs.map_ranks(|rank| table_of_rank(config, rank).transpose());
    progress.finish();
    print_run_files(&runs);
    let mut results = vec![];
    for (index, made) in all.into_iter().enumerate() {
        let Some(made) = made else {
            results.push(None);
            continue;
        };
        let result = made.map(|mut table| RankResult {
            label: runs.entry(index).label().to_owned(),
            summary: table.summary.take(),
            diagnostics: vec![],
            value: table,
        });
        results.push(Some(result.map_err(rank_error)));
    }
    let (mut tables, mut noted) = (vec![], vec![]);
    let mut summaries = vec![];
    let (mut excluded, mut failed) = (vec![], vec![]);
    // a trace of an unknown rank is still analyzed
    for results in runs.collect_runs(results, false)? {
        let mut notes = runs.run_diagnostics(&results);
        let members = results.members.ranks.iter();
        let cut = members.filter(|rank| rank.value.anomalies.is_cut());
        let cut: Vec<&str> = cut.map(|rank| rank.label.as_str()).collect();
        // without an analysis, each table has this note itself
        if config.rules.is_some() {
            let cut_line = cut_line(&cut, runs.source.is_one_rank());
            let cut = cut_line.lines();
            notes.extend(cut.map(|line| diagnostic!(TraceTruncated, "{line}")));
        }
        let name = if runs.runs.len() == 1 {
            String::new()
        } else {
            runs.run_name(results.run)
        };
        noted.push((name, notes));
        excluded.extend(results.excluded());
        failed.extend(results.failed.into_iter().map(|(_, error)| error));
        let ranks = results.members.ranks.into_iter();
        for rank in ranks {
            summaries.push(rank.summary);
            tables.push(rank.value);
        }
    }
    if tables.is_empty() {
        return Err(membership::nothing_taken(failed, &excluded).into());
    }
    let noted = noted.iter().map(|(name, notes)| (&name[..], notes.clone()));
    Ok(RunTables {
        steps: run_steps(summaries, &tables),
        tables,
        diagnostics: notes::name_runs(noted),
        excluded,
    })
}

/// Returns the steps of a run of ranks with these summaries; without those, the clocks are taken to
/// agree.
fn run_steps(summaries: Vec<Option<RankSummary>>, tables: &[OpTable]) -> RunSteps {
    let joined: Option<Vec<RankSummary>> = summaries.into_iter().collect();
    if let Some(summaries) = joined.filter(|joined| joined.len() > 1) {
        let joined = JoinedRun::new(summaries, true);
        return RunSteps::of_ranks(&joined.summaries, &joined.clocks);
    }
    let ranks: Vec<&[StepSpan]> = tables.iter().map(|table| &table.steps[..]).collect();
    RunSteps::new(&ranks, &[])
}

/// Reads the table of a rank; `None` if it was not requested.
fn table_of_rank(config: &OpTableConfig<'_>, entry: RankEntry<'_>) -> Result<Option<OpTable>> {
    let files = entry.files();
    let Some(device) = &files.device else {
        if entry.is_wanted(None) {
            return Err(run::no_device(files).into());
        }
        return Ok(None);
    };
    // check before each rank, so that cancellation does not wait for all ranks
    entry
        .set
        .options
        .cancellation
        .check()
        .map_err(RunError::from)?;
    let made = loop {
        if let Some(made) = trace_table(config, files.host.as_deref(), device, entry)? {
            break made;
        }
    };
    let rank = files.rank.or(made.rank);
    Ok(entry
        .is_wanted(rank.map(GlobalRank))
        .then_some(OpTable { rank, ..made }))
}

/// Reads the table of a trace; `None` if memory was short while other ranks ran: now this rank is
/// alone.
fn trace_table(
    config: &OpTableConfig<'_>,
    host: Option<&Path>,
    device: &Path,
    entry: RankEntry<'_>,
) -> Result<Option<OpTable>> {
    let set = entry.set;
    let (group, threads) = (config.group, set.threads_each);
    // not linked: PyTorch makes this table from the profiler's events alone
    let job = LinkJob {
        steps_by: set.options.steps_by.clone(),
        slice: entry.slice(),
        allow_mismatch: set.options.allow_mismatch,
        manifest: if set.source.is_one_rank() {
            ManifestEntry::of_trace(device)
        } else {
            entry.files().manifest.clone()
        },
        cache: set.options.cache.clone(),
        keep: KeepEvents::Auxiliary,
        work: set.options.work,
        ..LinkJob::reading(None, device.to_owned(), threads)
    };
    let read = job::read_for_figures(entry.open_file()?, &job, &entry.watched_progress());
    let (trace, step_notes) =
        read.map_err(|error| entry.memory_refusal(&error).unwrap_or(error))?;
    // a trace of only Python frames still has rows under --python
    if trace.window().is_none() && trace.auxiliary.kind.is_empty() {
        return Err(etlink_link::Error::empty_device(&trace))
            .with_context(|| device.display().to_string());
    }
    let (file, rank, mut notes) = (
        device.display().to_string(),
        trace.header.rank.map(|rank| rank.0),
        missing_notes(&trace, group, host.is_some()),
    );
    notes.extend(step_notes);
    let tree = config.tree.then(|| {
        let order = if trace.rows.is_empty() {
            TopOrder::Host
        } else {
            TopOrder::Device
        };
        let options = TreeOptions {
            python: config.python,
            each_module: config.each_module,
            order: config.order.unwrap_or(order),
        };
        call_tree(&trace, options)
    });
    let options = Options {
        group,
        python: config.python,
        shapes: None,
        counted: None,
    };
    let lacks_shapes = group == TopGroup::Shape && !has_shapes(&trace);
    // runs are compared by the traces that belong to them, which a host trace shows for its device
    // trace
    let host = if lacks_shapes || config.rules.is_some() {
        host
    } else {
        None
    };
    let job = LinkJob {
        host: host.map(Path::to_owned),
        ..job
    };
    let (mut analysis, mut summary, mut calls) = (None, None, None);
    let mut steps = vec![];
    let (mut top, report) = if host.is_none() && config.rules.is_none() {
        let report = LinkReport {
            anomalies: trace.anomalies.clone(),
            ..LinkReport::default()
        };
        // a trace that was named alone is not compared with other ranks
        if !set.source.is_one_rank() {
            summary = entry.summary_of_device(&trace, &report);
        }
        (key_averages(&trace, options), report)
    } else {
        let of_device = trace.anomalies.clone();
        let linked = match entry.link_read(&job, trace) {
            Ok(linked) => linked,
            Err(None) => return Ok(None),
            Err(Some(error)) => return Err(error.into()),
        };
        if let Some(rules) = config.rules {
            let said = analyze(&linked, rules, &AnalysisOptions::default());
            if config.calls {
                let steps = counted_steps(&said.steps).count();
                calls = Some(OpCalls::new(&linked, rules, &PeakTable::default(), steps));
            }
            analysis = Some(said);
            steps = RankSteps::of_trace(&linked);
        }
        if !set.source.is_one_rank() {
            summary = entry.summary(&linked);
        }
        let top = linked_table(&linked, &options, lacks_shapes, config.rules.is_some());
        let mut report = linked.report;
        if host.is_none() || !lacks_shapes {
            // no figure comes from the host trace
            report.anomalies = of_device;
            let are_two_runs = DiagnosticCode::TwoRuns.is_in(&report.diagnostics);
            if host.is_none() || !are_two_runs && !set.options.allow_mismatch {
                report.diagnostics.clear();
                // compared times are as recorded
                let overhead = report.overhead.as_ref();
                let overhead = overhead.filter(|overhead| !overhead.is_removed);
                report.diagnostics.extend(overhead.map(overhead_note));
            }
        }
        (top, report)
    };
    if set.options.strict && job::is_damaged(&report) {
        return Err(RunError::refused_trace(device, &report.anomalies).into());
    }
    let damage = report.anomalies.diagnostics(Severity::Damage);
    notes.extend(report.diagnostics.into_iter().chain(damage));
    notes.extend(negative_note(&top));
    let notes = notes.into_iter().map(|one| one.of_file(&file)).collect();
    // without a device, all device times are 0 and give no order
    top.sort(config.order.unwrap_or(if top.has_device() {
        TopOrder::SelfDevice
    } else {
        TopOrder::SelfHost
    }));
    Ok(Some(OpTable {
        file,
        rank,
        diagnostics: notes,
        anomalies: report.anomalies,
        top,
        analysis,
        calls,
        summary,
        steps,
        tree,
    }))
}

/// Makes the table of a linked trace. If the device trace lacks input shapes, they come from the
/// nodes of the host trace.
fn linked_table(
    trace: &LinkedTrace,
    options: &Options<'_>,
    lacks_shapes: bool,
    is_compared: bool,
) -> KeyAverages {
    let shapes = |op: usize| match (&trace.host, trace.op_host[op]) {
        (Some(host), node) if node != HostIdx::NONE => {
            host.names.get(host.nodes.inputs[node.index()].shapes)
        }
        _ => "",
    };
    let options = Options {
        group: options.group,
        python: options.python,
        shapes: if lacks_shapes && trace.host.is_some() {
            Some(&shapes)
        } else {
            None
        },
        // runs are compared by their steps: work launched before them does not count
        counted: is_compared.then(|| CountedWork::new(trace)),
    };
    key_averages(&trace.device, options)
}

fn has_shapes(trace: &DeviceTrace) -> bool {
    trace
        .ops
        .shapes
        .iter()
        .any(|shapes| !trace.names.get(*shapes).is_empty())
}

/// Explains negative own times.
fn negative_note(top: &KeyAverages) -> Option<Diagnostic> {
    let rows = top.rows.iter().filter(|row| row.self_host_ns < 0).count();
    let why = "their children overlap (calls outside ops count as one thread)";
    (rows > 0).then(|| {
        diagnostic!(
            TimesUncertain,
            "rows with negative self time, as in PyTorch's table: {rows}; {why}"
        )
    })
}

/// Explains why a requested group lacks data.
fn missing_notes(trace: &DeviceTrace, group: TopGroup, has_host: bool) -> Vec<Diagnostic> {
    // the profiler writes Python frames only if with_stack is set
    let stacks = trace
        .auxiliary
        .kind
        .contains(&etlink_model::AuxiliaryKind::Python);
    match group {
        TopGroup::Stack(_) if !stacks => {
            vec![diagnostic!(
                DataMissing,
                "the trace was recorded without stacks (with_stack)"
            )]
        }
        TopGroup::Shape if !has_shapes(trace) && !has_host => {
            let lacks = diagnostic!(
                DataMissing,
                "the trace was recorded without shapes (record_shapes)"
            );
            let remedy = command_only("--host adds those of the host trace".to_owned());
            vec![lacks.advise(remedy)]
        }
        _ => vec![],
    }
}
