//! `etlink ops`: ops by name and arguments.

mod show;

use super::load::{AnalyzeConfig, load_at_once};
use super::results::{AnalyzedRun, AnalyzedTrace};
use super::{csv, print_report, print_text};
use crate::Outcome;
use crate::args::{OneTraceArgs, OpOrder, OpsArgs, RankArgs, ReadingArgs, StepArgs};
use crate::envelope::{JsonReport, RunReports, print_json_report};
use crate::kernel_rules::{file_text, read_rules};
use crate::run_query::RunQuery;
use crate::workbook::WorkbookTarget;
use anyhow::{Context, Result};
use etlink_analysis::{KernelRules, PeakTable, RankOps, rank_ops};
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, KeepEvents};
use etlink_run::{Overhead, RunError, RunOptions, RunSource};
use std::path::Path;

impl JsonReport for RunReports<AnalyzedRun<RankOps>> {
    const SCHEMA: &'static str = "etlink.ops";
}

pub fn run(args: &OpsArgs) -> Result<Outcome> {
    args.reading.refuse_overhead()?;
    let workbook = WorkbookTarget::new(&args.workbook, &args.overwrite)?;
    let rules = read_rules(args.trace.rules.as_deref())?.rules;
    let peaks = read_peaks(args.peaks.as_deref())?;
    let options = ops_options(&args.trace, &args.steps, &args.reading, &args.choice)?;
    let (traces, metrics) = (args.trace.traces(), &args.trace.metrics);
    let source = RunSource::from_path_and_files(&args.path, traces, metrics)?;
    let mut runs = read_ops(source, options, &rules, &peaks)?;
    if args.by == OpOrder::Lost {
        let ranks = runs.iter_mut().flat_map(|run| &mut run.ranks);
        ranks.for_each(|rank| rank.said.sort_by_lost());
    }
    let report = RunReports { runs };
    if let Some(workbook) = workbook {
        workbook.write(&report)?;
    }
    let runs = &report.runs;
    let is_complete = runs.iter().all(|run| run.excluded.is_empty());
    if args.print.json {
        print_json_report(&report)?;
    } else {
        AnalyzedRun::print_notes(runs.iter());
        if args.print.csv {
            print_text(&csv::of_ops(runs)?)?;
        } else {
            let texts = runs.iter().map(|run| show::run_text(run, args));
            print_report(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    Ok(Outcome::done_if(is_complete))
}

/// Options of reading the ops of a trace or a run.
pub(super) fn ops_options(
    trace: &OneTraceArgs,
    steps: &StepArgs,
    reading: &ReadingArgs,
    choice: &RankArgs,
) -> Result<RunOptions> {
    Ok(RunOptions {
        rank: trace.rank,
        steps_by: steps.steps_by.clone(),
        progress: crate::progress::progress_bar(),
        ..reading.run_options(Some(choice))?
    })
}

/// Reads a file with peak rates, if one is named.
fn read_peaks(path: Option<&Path>) -> Result<PeakTable> {
    let Some(path) = path else {
        return Ok(PeakTable::default());
    };
    let text = file_text(path)?;
    PeakTable::from_text(&text).with_context(|| path.display().to_string())
}

pub(super) fn read_ops(
    source: RunSource,
    options: RunOptions,
    rules: &KernelRules,
    peaks: &PeakTable,
) -> Result<Vec<AnalyzedRun<RankOps>>> {
    let options = RunOptions {
        overhead: Some(Overhead::Keep),
        ..options
    };
    // frames of Python tell the lines of ops
    let config = AnalyzeConfig::from_source(source, options).keeping(KeepEvents::Auxiliary);
    let say = |trace: LinkedTrace, of: AnalyzedTrace<'_>| {
        let ops = rank_ops(&trace, rules, peaks);
        let rank = of.rank.or(ops.rank);
        Ok((RankOps { rank, ..ops }, None))
    };
    load_at_once(config, say, RankOps::memory_bytes)
}

/// Ops of a run's ranks.
pub struct OpsDocument(AnalyzedRun<RankOps>);

impl OpsDocument {
    /// Reads a run.
    ///
    /// # Errors
    /// No rank of the run could be read.
    pub fn read(run: &RunQuery) -> Result<OpsDocument> {
        let rules = read_rules(None)?.rules;
        let (source, options) = (run.source.clone(), run.options.clone());
        let mut runs = read_ops(source, options, &rules, &PeakTable::default())?;
        // the query opens exactly one run
        Ok(OpsDocument(runs.pop().ok_or(RunError::NoRankAsked)?))
    }

    /// Returns the ops of all ranks.
    ///
    /// # Errors
    /// Never fails because of the content.
    #[cfg(feature = "parquet")]
    pub fn table(&self) -> Result<arrow_array::RecordBatch> {
        use etlink_analysis::{OpTotals, records};

        let ranks = self.0.ranks.iter().map(|rank| &rank.said);
        let ranks = ranks.map(|rank| (rank.rank, Some(records(&rank.ops))));
        crate::record_tables::ranked_table(Some(records(&[OpTotals::default()])), ranks)
    }

    /// Returns notes about the files, including those that are left out.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.0.notes_of()
    }
}
