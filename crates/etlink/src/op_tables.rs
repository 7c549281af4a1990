//! Tables of PyTorch's profiler from recorded traces, for `top` and `diff`.

use crate::args;
use crate::rank_error::rank_error;
use crate::table;
use anyhow::{Context, Result};
use etlink_analyze::top::{
    CallTree, KeyAverages, Options, TopGroup, TopOrder, TreeOptions, call_tree, key_averages,
};
use etlink_analyze::{CountedWork, KernelRules, Options as AnalysisOptions, RankAnalysis, analyze};
use etlink_link::ranks::RankSteps;
use etlink_link::{LinkReport, LinkedTrace};
use etlink_model::{Anomalies, DeviceTrace, GlobalRank, HostIdx};
use etlink_run::discover::ManifestEntry;
use etlink_run::input;
use etlink_run::job::{self, LinkJob};
use etlink_run::membership::Excluded;
use etlink_run::run::{self, RankEntry, RunOptions, RunSet, RunSource};
use etlink_run::{Progress, RunError};
use serde::Serialize;
use std::path::Path;

/// The table of one rank.
#[derive(Serialize)]
pub struct OpTable {
    /// The trace.
    pub file: String,
    /// Its rank, if it is known.
    pub rank: Option<i64>,
    /// What is to be known of it.
    pub notes: Vec<String>,
    /// What was wrong in it.
    pub anomalies: Anomalies,
    #[serde(flatten)]
    /// The table itself.
    pub top: KeyAverages,
    /// Where [`Wanted::rules`] ask for it.
    #[serde(skip)]
    pub analysis: Option<RankAnalysis>,
    /// What called what, where that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<CallTree>,
}

/// The tables of a run's ranks.
#[derive(Serialize)]
pub struct RunTables {
    /// One for each rank.
    pub tables: Vec<OpTable>,
    /// Traces of which no table could be made.
    pub excluded: Vec<Excluded>,
}

/// What tables are made of.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// A trace, or a folder with those of ranks.
    pub trace: &'a Path,
    pub host: Option<&'a Path>,
    pub by: Option<args::TopBy>,
    pub python: bool,
    /// Also what called what.
    pub tree: bool,
    pub each_module: bool,
    pub tables: &'a args::TableArgs,
    /// Rules for kernels, where the trace is to be analysed too.
    pub rules: Option<&'a KernelRules>,
}

/// The tables that could be made; the errors of the other traces are printed.
pub fn read_tables(wanted: Wanted<'_>, threads: usize) -> Result<RunTables> {
    let progress = crate::progress::progress_bar();
    let options = RunOptions {
        threads,
        memory: wanted
            .tables
            .reading
            .resources
            .memory
            .map(|memory| memory.as_u64()),
        ranks: wanted.tables.choice.ranks.clone(),
        // a written graph has slices of ops; the profiler's table counts whole ops
        traces_only: true,
        progress: progress.clone(),
        ..RunOptions::default()
    };
    let source = RunSource::from_path_and_host(wanted.trace, wanted.host)?;
    let runs = RunSet::open(source, options)?;
    progress.phase("reading");
    let all = runs.map_ranks(|rank| table_of_rank(wanted, rank).transpose());
    progress.finish();
    let (mut tables, mut errors) = (vec![], vec![]);
    // a trace that cannot be read does not hide the tables of the others
    for (index, table) in all.into_iter().enumerate() {
        match table {
            None => {}
            Some(Err(error)) => errors.push((index, error)),
            Some(Ok(table)) => tables.push(table),
        }
    }
    if tables.is_empty() {
        let errors = errors.into_iter().map(|(_, error)| rank_error(error));
        return Err(RunError::no_trace_taken(errors.collect()).into());
    }
    let mut excluded = vec![];
    for (index, error) in errors {
        eprintln!("etlink: {error:#}");
        let label = runs.entry(index).label();
        excluded.push(Excluded::from_error(label, &rank_error(error)));
    }
    Ok(RunTables { tables, excluded })
}

/// None of a rank that was not asked for.
fn table_of_rank(wanted: Wanted<'_>, entry: RankEntry<'_>) -> Result<Option<OpTable>> {
    let files = entry.files();
    let Some(device) = &files.device else {
        if entry.is_wanted(None) {
            return Err(run::no_device(files).into());
        }
        return Ok(None);
    };
    let made = trace_table(
        wanted,
        files.host.as_deref(),
        device,
        entry.set.threads_each,
        &entry.set.options.progress,
    )?;
    let rank = files.rank.or(made.rank);
    Ok(entry
        .is_wanted(rank.map(GlobalRank))
        .then_some(OpTable { rank, ..made }))
}

fn trace_table(
    wanted: Wanted<'_>,
    host: Option<&Path>,
    device: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<OpTable> {
    let group = match wanted.tables.group {
        args::TopGrouping::Name => TopGroup::Name,
        args::TopGrouping::Shape => TopGroup::Shape,
        args::TopGrouping::Stack => TopGroup::Stack(usize::from(wanted.tables.frames)),
    };
    // not linked: PyTorch makes this table of the profiler's events alone
    let mut trace = job::read_for_figures(input::open(device, threads, progress)?, threads)?;
    // a trace of nothing but Python frames still has rows under --python
    if trace.window().is_none() && trace.auxiliary.kind.is_empty() {
        return Err(etlink_link::Error::empty_device(&trace))
            .with_context(|| device.display().to_string());
    }
    let pattern = wanted.tables.steps.steps_by.as_ref();
    let step_note = match pattern {
        Some(pattern) => pattern.mark_steps(&mut trace),
        None => RankSteps::excluded_note(&trace),
    };
    let (file, rank, mut notes) = (
        device.display().to_string(),
        trace.header.rank.map(|rank| rank.0),
        missing_notes(&trace, group, host.is_some()),
    );
    notes.extend(step_note);
    let tree = wanted.tree.then(|| {
        let order = if trace.rows.is_empty() {
            TopOrder::Host
        } else {
            TopOrder::Device
        };
        let options = TreeOptions {
            python: wanted.python,
            each_module: wanted.each_module,
            order: wanted.by.map_or(order, top_order),
        };
        call_tree(&trace, options)
    });
    let options = Options {
        group,
        python: wanted.python,
        shapes: None,
        counted: None,
    };
    // the host trace is read for shapes alone: only where they are wanted and missing
    let mut analysis = None;
    let (mut top, report) = match host.filter(|_| group == TopGroup::Shape && !has_shapes(&trace)) {
        None => {
            let report = LinkReport {
                anomalies: trace.anomalies.clone(),
                ..LinkReport::default()
            };
            let top = match wanted.rules {
                None => key_averages(&trace, options),
                Some(rules) => {
                    let job = LinkJob::reading(None, device.to_owned(), threads);
                    let linked = job::link_read(&job, trace, progress)?;
                    analysis = Some(analyze(&linked, rules, &AnalysisOptions::default()));
                    key_averages(&linked.device, compared_options(options, &linked))
                }
            };
            (top, report)
        }
        Some(host) => {
            let job = LinkJob {
                allow_mismatch: wanted.tables.reading.mismatch.allow_mismatch,
                manifest: ManifestEntry::of_trace(device),
                ..LinkJob::reading(Some(host.to_owned()), device.to_owned(), threads)
            };
            let is_compared = wanted.rules.is_some();
            let (top, linked) = pair_table(&job, trace, options, is_compared, progress)?;
            let analyzed = |rules| analyze(&linked, rules, &AnalysisOptions::default());
            analysis = wanted.rules.map(analyzed);
            (top, linked.report)
        }
    };
    if wanted.tables.reading.strict.strict && job::is_damaged(&report) {
        return Err(RunError::refused_trace(device, &report.anomalies).into());
    }
    notes.extend(
        report
            .notes
            .into_iter()
            .chain(table::damage(&report.anomalies)),
    );
    notes.extend(negative_note(&top));
    // of a trace without a device all device times are 0: no order at all
    top.sort(wanted.by.map_or(
        if top.has_device() {
            TopOrder::SelfDevice
        } else {
            TopOrder::SelfHost
        },
        top_order,
    ));
    Ok(OpTable {
        file,
        rank,
        notes,
        anomalies: report.anomalies,
        top,
        analysis,
        tree,
    })
}

/// Runs are compared by their steps: what was launched before them is of neither.
fn compared_options<'t>(options: Options<'t>, trace: &'t LinkedTrace) -> Options<'t> {
    Options {
        counted: Some(CountedWork::new(trace)),
        ..options
    }
}

/// Input shapes are those of the host trace's nodes.
fn pair_table(
    job: &LinkJob,
    device: DeviceTrace,
    options: Options<'_>,
    is_compared: bool,
    progress: &Progress,
) -> Result<(KeyAverages, LinkedTrace)> {
    let trace = job::link_read(job, device, progress)?;
    let shapes = |op: usize| match (&trace.host, trace.op_host[op]) {
        (Some(host), node) if node != HostIdx::NONE => {
            host.names.get(host.nodes.inputs[node.index()].shapes)
        }
        _ => "",
    };
    let options = Options {
        shapes: Some(&shapes),
        ..options
    };
    let options = match is_compared {
        true => compared_options(options, &trace),
        false => options,
    };
    let top = key_averages(&trace.device, options);
    Ok((top, trace))
}

fn has_shapes(trace: &DeviceTrace) -> bool {
    trace
        .ops
        .shapes
        .iter()
        .any(|shapes| !trace.names.get(*shapes).is_empty())
}

/// Why own times are below nothing.
fn negative_note(top: &KeyAverages) -> Option<String> {
    let rows = top.rows.iter().filter(|row| row.self_host_ns < 0).count();
    let why =
        "what it takes for their children overlaps (calls that no op made count as of one thread)";
    (rows > 0)
        .then(|| format!("rows whose own time is negative, as in PyTorch's table: {rows}; {why}"))
}

/// Why a group has less than was asked for.
fn missing_notes(trace: &DeviceTrace, group: TopGroup, has_host: bool) -> Vec<String> {
    // the profiler writes Python frames only where with_stack is set
    let stacks = trace
        .auxiliary
        .kind
        .contains(&etlink_model::AuxiliaryKind::Python);
    match group {
        TopGroup::Stack(_) if !stacks => {
            vec!["the trace was recorded without stacks (with_stack)".to_owned()]
        }
        TopGroup::Shape if !has_shapes(trace) && !has_host => {
            vec![
                "the trace was recorded without shapes (record_shapes); --host gives those of \
                the host trace"
                    .to_owned(),
            ]
        }
        _ => vec![],
    }
}

fn top_order(by: args::TopBy) -> TopOrder {
    match by {
        args::TopBy::SelfDevice => TopOrder::SelfDevice,
        args::TopBy::Device => TopOrder::Device,
        args::TopBy::SelfHost => TopOrder::SelfHost,
        args::TopBy::Host => TopOrder::Host,
        args::TopBy::Count => TopOrder::Count,
    }
}
