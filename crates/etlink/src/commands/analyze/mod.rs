//! `etlink analyze`: prints an analysis of traces.

mod card;
mod chakra;
mod csv;
mod document;
mod hta;
mod json;
pub(super) mod learn;
mod load;
pub(super) mod ops;
#[cfg_attr(not(feature = "parquet"), path = "without_parquet.rs")]
mod parquet;
pub(super) mod repro;
mod requests;
mod results;
mod show;
pub(super) mod snapshot;

pub use document::{AnalyzeDocument, AnalyzeQuery};
pub use hta::{HtaDocument, HtaQuery};
pub use ops::OpsDocument;

use super::{is_memory_snapshot, print_report, print_text};
use crate::Outcome;
use crate::args::{AnalyzeArgs, Compat};
use crate::envelope::{JsonReport, RunReports};
use crate::kernel_rules::{ReadRules, read_rules};
use crate::run_findings::{FoundRank, findings_of_run, retained_bytes};
use crate::workbook::WorkbookTarget;
use anyhow::{Result, bail};
use card::CardTarget;
use chakra::RankForm;
use etlink_analysis::findings::RunFindings;
use etlink_analysis::hta::{HtaOptions, HtaRunTables, HtaTables};
use etlink_analysis::{
    HardwarePeaks, Options, RankAnalysis, RunTotals, analyze, leave_out_start_skew, peak_metrics,
    run_totals,
};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RunSteps, StragglerStats};
use etlink_run::joined::{JoinedRun, clock_notes};
use etlink_run::rank_results::RankJob;
use load::{AnalyzeConfig, load_at_once, load_runs};
use parquet::TableFiles;
use requests::{RequestLatency, card_metrics, request_latencies};
pub(super) use results::AnalyzedRun;
use results::AnalyzedTrace;
use serde::Serialize;

/// Analysis of one run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Analyzed {
    #[serde(flatten)]
    told: AnalyzedRun<RankAnalysis>,
    /// Totals over all ranks.
    total: RunTotals,
    /// Ranks that arrived late at collectives of all ranks; empty for a single rank.
    stragglers: Vec<StragglerStats>,
    /// Request latencies measured by a benchmark, next to the trace's phases.
    requests: Vec<RequestLatency>,
    /// True to print full kernel names.
    #[serde(skip)]
    full_names: bool,
    /// Steps of the run.
    #[serde(skip)]
    run_steps: RunSteps,
    /// Largest possible gains of the run; `None` for written graphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<RunFindings>,
}

impl JsonReport for RunReports<Analyzed> {
    const SCHEMA: &'static str = "etlink.analyze";
}

/// Tables of a run rather than of each rank.
pub(super) const OF_ALL_RANKS: [&str; 3] = ["metrics", "stragglers", "requests"];

pub fn run(args: AnalyzeArgs) -> Result<Outcome> {
    match run_traces(&args) {
        Err(error) if is_memory_snapshot(&error) => snapshot::run(&args),
        result => result,
    }
}

fn run_traces(args: &AnalyzeArgs) -> Result<Outcome> {
    let tables = check_args(args)?;
    if args.prepare.shard.is_some() && (!args.compat.is_empty() || args.parquet.is_some()) {
        bail!("--prepare does not work with --compat or --parquet");
    }
    if !args.compat.is_empty() {
        return as_hta(args, &tables);
    }
    let rules = read_rules(args.trace.rules.as_deref())?;
    let options = Options {
        sequences_of: args.sequences_of.clone(),
        memory_timeline: args.table.as_deref() == Some("memory_timeline"),
    };
    // before the traces are read, so that existing files are refused early
    let files = TableFiles::new(args)?;
    let card = CardTarget::new(args.workload_card.as_ref(), args.overwrite.overwrite)?;
    let workbook = WorkbookTarget::new(&args.workbook, &args.overwrite)?;
    let config = AnalyzeConfig::from_args(args)?;
    let told = analyze_runs(config, (&rules, &options), files.as_ref())?;
    // before printing: the reader of the output may go away early
    let replaced = files.map_or(Ok(()), |files| files.replace_tables(&told));
    let peaks = HardwarePeaks {
        tflops: args.peak_tflops,
        link_gb_per_s: args.peak_link,
    };
    let mut analyzed = vec![];
    for told in told {
        analyzed.push(Analyzed {
            full_names: args.names.full_names,
            ..Analyzed::new(told, peaks)
        });
    }
    if let Some(card) = card {
        write_card(&card, &analyzed)?;
    }
    let outcome = exit_outcome(args, analyzed.iter().map(|one| &one.told));
    let report = RunReports { runs: analyzed };
    if let Some(workbook) = workbook {
        workbook.write(&report)?;
    }
    let analyzed = &report.runs;
    if args.print.json {
        json::print_tables(&report, &tables, args.table.as_deref())?;
    } else if args.print.csv {
        print_text(&csv::of_analyzed(
            analyzed,
            args.table.as_deref().unwrap_or("breakdown"),
        )?)?;
    } else {
        AnalyzedRun::print_notes(analyzed.iter().map(|one| &one.told));
        print_report(
            &analyzed
                .iter()
                .map(|one| show::run_text(one, args))
                .collect::<String>(),
        )?;
    }
    replaced.map(|()| outcome)
}

/// Writes the card of the only run.
fn write_card(card: &CardTarget, runs: &[Analyzed]) -> Result<()> {
    let [run] = runs else {
        bail!(
            "{} would cover {} runs; pass the folder of one run",
            card.path().display(),
            runs.len()
        );
    };
    card.write(run)
}

/// Analyzes the ranks of runs.
fn analyze_runs(
    config: AnalyzeConfig,
    (ReadRules { rules, text }, options): (&ReadRules, &Options),
    files: Option<&TableFiles>,
) -> Result<Vec<AnalyzedRun<RankAnalysis>>> {
    let wants_findings = config.wants_findings;
    let computes_findings = config.computes_findings;
    let settings = vec![
        ("--rules", text.clone()),
        ("--sequences-of", format!("{:?}", options.sequences_of)),
        (
            "--table memory_timeline",
            options.memory_timeline.to_string(),
        ),
        ("findings", computes_findings.to_string()),
    ];
    let work = RankJob {
        command: "analyze",
        // each rank's tables are written while its trace is in memory
        settings: if files.is_none() {
            Some(settings)
        } else {
            None
        },
    };
    let say = |trace: LinkedTrace, of: AnalyzedTrace<'_>| {
        let trace = &trace;
        let analysis = analyze(trace, rules, options);
        let found = if computes_findings && !of.written {
            let graph = etlink_replay::graph_from_trace(trace)?;
            Some(FoundRank::new(trace, graph, rules, &analysis))
        } else {
            None
        };
        // discovery has settled whether to trust the file name or the trace
        let rank = of.rank.or(analysis.rank);
        if let Some(files) = files {
            files.write_tables(trace, &AnalyzedTrace { rank, ..of })?;
        }
        Ok((RankAnalysis { rank, ..analysis }, found))
    };
    let mut runs = load_runs(config, &work, files, say, |entry, ranked| {
        retained_bytes(entry, ranked.said.memory_bytes(), ranked.found.as_ref())
    })?;
    if !wants_findings {
        let ranks = runs.iter_mut().flat_map(|run| &mut run.ranks);
        ranks.for_each(|rank| rank.found = None);
    }
    Ok(runs)
}

/// Checks the arguments. Returns the names of the available tables.
fn check_args(args: &AnalyzeArgs) -> Result<Vec<&'static str>> {
    let as_hta = !args.compat.is_empty();
    if as_hta && !args.compat.contains(&Compat::Hta) {
        bail!("include-last-step and nanoseconds need hta, as in --compat hta,include-last-step");
    }
    let tables = if as_hta {
        [
            etlink_analysis::hta::RANK_TABLES,
            &etlink_analysis::hta::RUN_TABLES,
        ]
        .concat()
    } else {
        [etlink_analysis::TABLES, &OF_ALL_RANKS].concat()
    };
    if let Some(table) = args
        .table
        .as_deref()
        .filter(|table| !tables.contains(table))
    {
        bail!(
            "no table {table} {} --compat hta; tables: {}",
            if as_hta { "with" } else { "without" },
            tables.join(", ")
        );
    }
    // an empty table would suggest that the trace has no sequences
    if args.table.as_deref() == Some("sequences") && args.sequences_of.is_none() {
        bail!("--table sequences needs --sequences-of OP");
    }
    Ok(tables)
}

/// HTA's analysis of one run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AsHta {
    #[serde(flatten)]
    told: AnalyzedRun<HtaTables>,
    /// Tables over all ranks.
    total: HtaRunTables,
}

impl JsonReport for RunReports<AsHta> {
    const SCHEMA: &'static str = "etlink.hta";
}

/// Prints HTA's tables.
fn as_hta(args: &AnalyzeArgs, tables: &[&str]) -> Result<Outcome> {
    let settings = HtaOptions {
        include_last: args.compat.contains(&Compat::IncludeLastStep),
        nanoseconds: args.compat.contains(&Compat::Nanoseconds),
        rank: None,
    };
    let say = |trace: LinkedTrace, of: AnalyzedTrace<'_>| {
        let settings = HtaOptions {
            rank: of.rank,
            ..settings
        };
        Ok((etlink_analysis::hta::hta_tables(trace, settings), None))
    };
    let config = AnalyzeConfig::from_args(args)?;
    let mut told = load_at_once(config, say, HtaTables::memory_bytes)?;
    for run in &mut told {
        etlink_analysis::hta::align_series(run.ranks.iter_mut().map(|rank| &mut rank.said));
    }
    let told: Vec<AsHta> = told
        .into_iter()
        .map(|told| AsHta {
            total: etlink_analysis::hta::run_tables(told.ranks.iter().map(|rank| &rank.said)),
            told,
        })
        .collect();
    let outcome = exit_outcome(args, told.iter().map(|one| &one.told));
    if args.print.json {
        let report = RunReports { runs: told };
        json::print_tables(&report, tables, args.table.as_deref())?;
    } else if args.print.csv {
        print_text(&csv::of_hta(
            &told,
            args.table.as_deref().unwrap_or("temporal_breakdown"),
        )?)?;
    } else {
        print_report(&show::compat::compat_tables(&told, args)?)?;
    }
    Ok(outcome)
}

fn exit_outcome<'a, T: 'a>(
    args: &AnalyzeArgs,
    told: impl Iterator<Item = &'a AnalyzedRun<T>> + Clone,
) -> Outcome {
    if args.print.csv {
        // CSV has no place for notes; JSON contains them, and text prints them above its tables
        AnalyzedRun::print_notes(told.clone());
    }
    if told.into_iter().any(|run| !run.excluded.is_empty()) {
        Outcome::Found
    } else {
        Outcome::Done
    }
}

impl Analyzed {
    fn new(mut told: AnalyzedRun<RankAnalysis>, peaks: HardwarePeaks) -> Analyzed {
        // take the summaries: the join owns them, and they are not printed
        let ranks = told.ranks.iter_mut();
        let summaries = ranks.filter_map(|rank| rank.summary.as_mut().map(std::mem::take));
        let joined = JoinedRun::new(summaries.collect(), true);
        let ranks = told.ranks.iter_mut();
        let ranks = ranks.filter(|rank| rank.summary.is_some());
        let analyses = ranks.map(|rank| &mut rank.said);
        leave_out_start_skew(analyses, &joined.summaries, &joined.start_skew_waits());
        let found = told.ranks.iter_mut().map(|rank| rank.found.take());
        let found: Vec<Option<FoundRank>> = found.collect();
        let mut total = run_totals(told.ranks.iter().map(|rank| &rank.said));
        total.metrics.extend(peak_metrics(&total.metrics, peaks));
        total.metrics.extend(card_metrics(&told.measured, &total));
        let requests = request_latencies(&told.measured, &total);
        let labels = told.ranks.iter().map(|rank| rank.label.clone());
        let labels: Vec<String> = labels.collect();
        let findings = findings_of_run(&joined, &labels, found, &mut told.diagnostics);
        let is_joined = joined.summaries.len() > 1;
        let stragglers = if is_joined {
            joined.straggler_stats()
        } else {
            vec![]
        };
        let run_steps = RunSteps::of_ranks(&joined.summaries, &joined.clocks);
        told.diagnostics.extend(joined.match_notes());
        told.diagnostics.extend(joined.start_skew_note());
        // an uncertain clock matters only if a rank arrived late by it
        if stragglers.iter().any(|rank| rank.last > 0) {
            let mut forms = told.ranks.iter().map(|rank| rank.form);
            let is_written = forms.any(|form| form != RankForm::Traces);
            told.diagnostics
                .extend(clock_notes(&joined.clocks, is_written));
        }
        Analyzed {
            total,
            stragglers,
            requests,
            run_steps,
            findings,
            told,
            full_names: false,
        }
    }
}
