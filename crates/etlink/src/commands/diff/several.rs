//! `etlink diff A B C …`: step times and ops of several runs side by side.

use crate::Outcome;
use crate::args::{DiffArgs, TopGrouping};
use crate::commands::{print_report, print_text};
use crate::envelope::{JsonReport, json_text};
use crate::kernel_rules::read_rules;
use crate::notes;
use crate::op_tables::{self, OpTableConfig, RunTables};
use crate::run_diff::percent_change;
use crate::table::{CsvTable, Grid, Limit, count, known, mean_time, percent, time};
use crate::workbook::WorkbookTarget;
use anyhow::{Result, bail};
use etlink_analysis::{OpCalls, RunOp, compare_ops};
use etlink_model::Diagnostic;
use etlink_run::RunSource;
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::path::PathBuf;

/// Step times and ops of several runs.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(in crate::commands) struct SeveralRuns {
    /// The runs, in the order of the command line.
    sides: Vec<ComparedRun>,
    /// Notes about the files.
    diagnostics: Vec<Diagnostic>,
    /// Traces excluded from a run.
    excluded: Vec<Excluded>,
    /// Device time of ops in each run that has them.
    ops: Vec<RunOp>,
}

/// One of the runs.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ComparedRun {
    /// Path of the run.
    path: String,
    /// Number of traces.
    ranks: u64,
    /// Number of steps that all ranks have.
    steps: u64,
    /// Mean length of a step, ns; null without steps.
    step_ns: Option<i64>,
    /// Device time of ops per step and rank, ns.
    device_ns: f64,
}

impl JsonReport for SeveralRuns {
    const SCHEMA: &'static str = "etlink.diff-runs";
}

/// Compares the runs.
///
/// # Errors
/// A run cannot be read, or an option compares two runs alone.
pub(super) fn run(args: &DiffArgs) -> Result<Outcome> {
    if !args.fail_if.is_empty() {
        bail!("--fail-if compares two runs; leave out the others");
    }
    if args.tables.group != TopGrouping::Name {
        bail!("--group is for two runs: ops of several are compared by shapes");
    }
    let workbook = WorkbookTarget::new(&args.workbook, &args.overwrite)?;
    let options = args.tables.run_options()?;
    let rules = read_rules(args.rules.as_deref())?.rules;
    let paths = [&args.before, &args.after].into_iter().chain(&args.more);
    let paths: Vec<&PathBuf> = paths.collect();
    let mut runs = vec![];
    for path in &paths {
        runs.push(op_tables::read_tables(&OpTableConfig {
            rules: Some(&rules),
            calls: true,
            ..OpTableConfig::by_name(RunSource::from_path(path), options.clone())
        })?);
    }
    let calls: Vec<Vec<&OpCalls>> = runs.iter().map(run_calls).collect();
    let ops = compare_ops(&calls);
    let sides = paths
        .iter()
        .zip(&runs)
        .enumerate()
        .map(|(at, (path, run))| {
            let of_run = ops.iter().filter(|op| op.run == at);
            ComparedRun {
                path: path.display().to_string(),
                ranks: run.tables.len() as u64,
                steps: run.steps.counted().count() as u64,
                step_ns: run.steps.mean_ns(),
                device_ns: of_run.fold(0.0, |sum, op| sum + op.ns),
            }
        });
    let report = SeveralRuns {
        sides: sides.collect(),
        diagnostics: notes::name_runs(
            paths
                .iter()
                .zip(&runs)
                .map(|(path, run)| (path.to_str().unwrap_or(""), run.diagnostics.clone())),
        ),
        excluded: runs.iter().flat_map(|run| run.excluded.clone()).collect(),
        ops,
    };
    if report.ops.is_empty() {
        notes::print_message(format_args!(
            "no run has work on a device, by which ops are compared"
        ));
    }
    if let Some(workbook) = workbook {
        workbook.write(&report)?;
    }
    if args.tables.print.json {
        print_text(&json_text(&report)?)?;
    } else {
        notes::print(&report.diagnostics);
        if args.tables.print.csv {
            print_text(&ops_csv(&report)?)?;
        } else {
            print_report(&runs_text(&report, args.tables.rows.rows))?;
        }
    }
    Ok(Outcome::done_if(report.excluded.is_empty()))
}

fn run_calls(run: &RunTables) -> Vec<&OpCalls> {
    let ranks = run.tables.iter();
    ranks.filter_map(|rank| rank.calls.as_ref()).collect()
}

fn ops_csv(report: &SeveralRuns) -> Result<String> {
    let mut out = CsvTable::new(["run", "op", "shapes", "calls", "ns", "roof_share"])?;
    for op in &report.ops {
        let path = &report.sides[op.run].path;
        out.add_record(&[path], op)?;
    }
    out.finish()
}

fn runs_text(report: &SeveralRuns, top: usize) -> String {
    let limit = Limit::rows(top);
    let names: Vec<String> = (0..report.sides.len()).map(run_letter).collect();
    let heads = ["", "run", "ranks", "steps", "step", "change", "device time"];
    let mut runs =
        Grid::new(0, Limit::NONE, heads).text_columns(|head| ["", "run"].contains(&head));
    let first = report.sides[0].step_ns;
    for (name, side) in names.iter().zip(&report.sides) {
        let change = first.zip(side.step_ns);
        runs.add([
            name.clone(),
            side.path.clone(),
            side.ranks.to_string(),
            side.steps.to_string(),
            known(side.step_ns, time),
            known(change, |(first, own)| percent_change(first, own)),
            mean_time(side.device_ns),
        ]);
    }
    let heads = names.iter().map(|name| format!("time {name}"));
    let heads = heads.chain(names.iter().map(|name| format!("calls {name}")));
    let heads = heads.chain(names.iter().map(|name| format!("of roof {name}")));
    let heads: Vec<String> = heads.chain(["op".into(), "shapes".into()]).collect();
    let calls: Vec<String> = names.iter().map(|name| format!("calls {name}")).collect();
    let mut ops = Grid::new(0, limit, heads)
        .last_texts(2)
        .expendable(calls.iter().map(String::as_str));
    let rows: Vec<&[RunOp]> = report
        .ops
        .chunk_by(|a, b| (&a.op, &a.shapes) == (&b.op, &b.shapes) && a.run < b.run)
        .collect();
    for row in &rows {
        let cells = |of: fn(&RunOp) -> String| {
            (0..names.len()).map(move |run| {
                let own = row.iter().find(|op| op.run == run);
                known(own, of)
            })
        };
        let times = cells(|op| mean_time(op.ns));
        let calls = cells(|op| format!("{:.1}", op.calls));
        let roofs = cells(|op| known(op.roof_share, |share| percent(share, 0)));
        let texts = [row[0].op.clone(), row[0].shapes.clone()];
        ops.add(times.chain(calls).chain(roofs).chain(texts));
    }
    let title = format!(
        "device time of {} by shapes, per step and rank; an op that not all runs have counts as the nearest op around \
         it that they have",
        count(rows.len() as u64, "op")
    );
    runs.titled("runs (change: of the step, from the first)") + &ops.titled(&title)
}

/// Returns the name of a run in the table: A, B, …, Z, R27, ….
fn run_letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => format!("R{}", at + 1),
    }
}
