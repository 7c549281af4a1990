//! `etlink diff`: compares two runs.

pub(super) mod several;

use super::{print_report, print_text};
use crate::Outcome;
use crate::args::DiffArgs;
use crate::envelope::{JsonReport, json_text};
use crate::kernel_rules::read_rules;
use crate::notes;
use crate::op_tables::{self, OpTableConfig, RunTables};
use crate::run_diff::{self, percent_change};
use crate::run_query::RunQuery;
use crate::table::{Column, CsvTable, Grid, Limit, count, enum_name, percent, signed_time, time};
use crate::workbook::WorkbookTarget;
use anyhow::{Result, bail};
use etlink_analysis::KernelRules;
use etlink_analysis::diff::{self, ChangeKind, PartChange, RowChange};
use etlink_model::Diagnostic;
use etlink_run::RunSource;
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct DiffReport<'a> {
    before: &'a Path,
    after: &'a Path,
    diagnostics: Vec<Diagnostic>,
    /// Traces excluded from either run.
    excluded: Vec<Excluded>,
    /// Rules of `--fail-if` that hold.
    failed: Vec<String>,
    #[serde(flatten)]
    diff: diff::RunDiff,
}

impl JsonReport for DiffReport<'_> {
    const SCHEMA: &'static str = "etlink.diff";
}

pub fn run(args: DiffArgs) -> Result<Outcome> {
    let paths = [&args.before, &args.after].into_iter().chain(&args.more);
    if paths
        .filter(|path| path.as_path() == Path::new("-"))
        .count()
        > 1
    {
        bail!("only one of the runs can be standard input");
    }
    if !args.more.is_empty() {
        return several::run(&args);
    }
    let workbook = WorkbookTarget::new(&args.workbook, &args.overwrite)?;
    let options = args.tables.run_options()?;
    let rules = read_rules(args.rules.as_deref())?.rules;
    let tables = |path: &Path| {
        op_tables::read_tables(&OpTableConfig {
            group: args.tables.top_group(),
            rules: Some(&rules),
            ..OpTableConfig::by_name(RunSource::from_path(path), options.clone())
        })
    };
    let compared = DiffDocument::new(tables(&args.before)?, tables(&args.after)?);
    // before the reports: a wrong name must not look like a passed check
    let mut failed = vec![];
    for rule in &args.fail_if {
        if rule.holds(&compared.diff)? {
            failed.push(rule.to_string());
        }
    }
    let compared = DiffReport {
        before: &args.before,
        after: &args.after,
        diagnostics: compared.diagnostics,
        excluded: compared.excluded,
        failed,
        diff: compared.diff,
    };
    if let Some(workbook) = workbook {
        workbook.write(&compared)?;
    }
    if args.tables.print.json {
        print_text(&json_text(&compared)?)?;
    } else if args.tables.print.csv {
        notes::print(&compared.diagnostics);
        print_text(&changes_csv(&compared.diff.changes)?)?;
    } else {
        notes::print(&compared.diagnostics);
        print_report(&change_table(
            &compared,
            args.tables.rows.rows,
            args.tables.names.full_names,
        ))?;
    }
    for rule in &compared.failed {
        // a result, not a note: -q must not hide why the command fails
        notes::print_message(format_args!("--fail-if {rule}: the rule holds"));
    }
    Ok(Outcome::done_if(
        compared.excluded.is_empty() && compared.failed.is_empty(),
    ))
}

/// Comparison of two runs.
#[derive(Serialize)]
pub struct DiffDocument {
    /// Notes about the traces of both runs.
    diagnostics: Vec<Diagnostic>,
    /// Traces excluded from either run.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    diff: diff::RunDiff,
}

impl DiffDocument {
    /// Reads two runs and compares them.
    ///
    /// # Errors
    /// No rank of one of the runs could be read.
    pub fn read(before: &RunQuery, after: &RunQuery) -> Result<DiffDocument> {
        let rules = KernelRules::built_in()?;
        let [before, after] = [before, after].map(|run| {
            op_tables::read_tables(&OpTableConfig {
                rules: Some(&rules),
                ..OpTableConfig::by_name(run.source.clone(), run.options.clone())
            })
        });
        Ok(DiffDocument::new(before?, after?))
    }

    fn new(before: RunTables, after: RunTables) -> DiffDocument {
        let diff = run_diff::diff_tables(&before, &after);
        DiffDocument {
            diagnostics: all_notes([&before, &after], &diff),
            excluded: [before.excluded, after.excluded].concat(),
            diff,
        }
    }

    /// Names of the tables.
    pub const TABLES: [&str; 4] = ["changes", "classes", "ops", "waiting"];

    /// Returns one of the tables.
    ///
    /// # Errors
    /// There is no table of this name.
    #[cfg(feature = "parquet")]
    pub fn table(&self, name: &str) -> Result<arrow_array::RecordBatch> {
        let diff = &self.diff;
        match name {
            "changes" => pair_table(&diff.changes),
            "classes" => pair_table(&diff.classes),
            "ops" => pair_table(&diff.ops),
            "waiting" => pair_table(&diff.waiting),
            _ => {
                let names = DiffDocument::TABLES.join(", ");
                bail!("there is no table {name}; tables of two runs: {names}")
            }
        }
    }

    /// Returns a sentence on each of the largest changes.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = run_diff::diff_sentences(&self.diff);
        sentences.push(run_diff::sums_sentence(&self.diff));
        sentences.extend(run_diff::outside_sentences(&self.diff));
        sentences.extend(self.diagnostics.iter().map(ToString::to_string));
        sentences
    }

    /// Returns the JSON that `--json` prints, without the names of the runs.
    ///
    /// # Errors
    /// Never fails because of the content.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// Makes a table in which each run's figure has a column.
#[cfg(feature = "parquet")]
fn pair_table<T: Serialize>(rows: &[T]) -> Result<arrow_array::RecordBatch> {
    let mut records = vec![];
    for row in rows {
        let record = serde_json::from_value(serde_json::to_value(row)?)?;
        records.push(run_diff::split_pairs(record));
    }
    crate::record_tables::records_table(None, &records)
}

/// Returns notes about the folders, the traces, and the steps behind step times.
fn all_notes(runs: [&RunTables; 2], diff: &diff::RunDiff) -> Vec<Diagnostic> {
    let tables = runs.into_iter().flat_map(|run| &run.tables);
    let of_traces = tables.flat_map(|table| table.diagnostics.iter().cloned());
    let of_folders = notes::name_sides(runs.map(|run| run.diagnostics.clone()));
    let of_traces = Diagnostic::merge(of_traces);
    [of_folders, of_traces, run_diff::step_notes(diff)].concat()
}

fn changes_csv(changes: &[RowChange]) -> Result<String> {
    let head = "name,on_device,change,count_before,count_after,before_ns,after_ns,cost_ns,shapes,\
                stack,short_name";
    let mut out = CsvTable::new(head.split(','))?;
    // include unchanged rows: programs select for themselves
    for change in changes {
        out.add((
            (&change.name, change.on_device, enum_name(change.kind)),
            change.counts.map(|count| count.to_string()),
            (change.times_ns, change.cost_ns, &change.shapes),
            (change.stack.join("; "), change.short_name()),
        ))?;
    }
    out.finish()
}

fn change_table(compared: &DiffReport<'_>, limit: usize, full_names: bool) -> String {
    let diff = &compared.diff;
    let limit = Limit::rows(limit);
    let per = diff.per;
    let parts = |parts: &[PartChange], title: &str| {
        part_table(diff, parts, &format!("{title}, per {per}"), limit)
    };
    let mut out = runs_head(compared);
    out += &parts(&diff.classes, "device time by class");
    out += &ops_sentence(diff);
    out += &parts(&diff.ops, "device time by launching op");
    out += &parts(&diff.waiting, "host waits for devices");
    // self time, without the ops and calls inside, so that the rows add up to the sum above
    for (title, on_device) in [
        ("device rows", true),
        ("self time of host ops and calls", false),
    ] {
        // time that the host waits is listed above, apart from its work
        let rows = diff.changes.iter();
        let rows = rows.filter(|row| row.on_device == on_device && !row.is_wait());
        let rows: Vec<&RowChange> = rows.filter(|row| row.kind != ChangeKind::Same).collect();
        out += &row_table(
            diff,
            &rows,
            &format!("{title}, per {per}"),
            limit,
            full_names,
        );
    }
    if diff.changes.iter().all(|row| row.kind == ChangeKind::Same) {
        out += "nothing changed\n";
    }
    out
}

/// Explains why ops are not compared; empty if they are.
fn ops_sentence(diff: &diff::RunDiff) -> String {
    let [before, after] = diff.op_shares;
    if !diff.ops.is_empty() || before.min(after) >= 1.0 {
        return String::new();
    }
    format!(
        "device time by op is not compared: the launching op is known for {} of it before, {} after\n",
        percent(before, 1),
        percent(after, 1)
    )
}

/// Formats the parts that changed by more than the steps vary.
fn part_table(diff: &diff::RunDiff, parts: &[PartChange], title: &str, limit: Limit) -> String {
    let columns: &[Column<&PartChange>] = &[
        ("time before", |part| time(part.times_ns[0])),
        ("time after", |part| time(part.times_ns[1])),
        ("cost", |part| signed_time(part.cost_ns)),
        ("change", |part| {
            let [before, after] = part.times_ns;
            percent_change(before, after)
        }),
        ("name", |part| {
            let class = part.class.map_or("", |class| class.name());
            format!("{class} {}", part.name).trim_start().to_owned()
        }),
    ];
    let changed = parts.iter().filter(|part| part.cost_ns != 0);
    let (listed, varied): (Vec<&PartChange>, Vec<&PartChange>) =
        changed.partition(|part| !diff.is_within_spread(part.times_ns));
    let grid = Grid::from_records(0, limit, columns, listed.into_iter()).last_texts(1);
    titled_table(title, &grid, varied.len())
}

fn row_table(
    diff: &diff::RunDiff,
    rows: &[&RowChange],
    title: &str,
    limit: Limit,
    full_names: bool,
) -> String {
    fn count_text(count: f64) -> String {
        // counts are per step and rank, so few of them are integers
        if count.fract() == 0.0 {
            count.to_string()
        } else {
            format!("{count:.2}")
        }
    }
    let columns: &[Column<(&RowChange, bool)>] = &[
        ("count before", |(row, _)| count_text(row.counts[0])),
        ("count after", |(row, _)| count_text(row.counts[1])),
        ("time before", |(row, _)| time(row.times_ns[0])),
        ("time after", |(row, _)| time(row.times_ns[1])),
        ("cost", |(row, _)| signed_time(row.cost_ns)),
        ("change", |(row, _)| enum_name(row.kind)),
        ("name", |(row, full_names)| row_name(row, *full_names)),
    ];
    let (listed, varied): (Vec<&RowChange>, Vec<&RowChange>) =
        rows.iter().copied().partition(|row| {
            let is_in_both = matches!(row.kind, ChangeKind::Slower | ChangeKind::Faster);
            !(is_in_both && diff.is_within_spread(row.times_ns))
        });
    let listed = listed.into_iter().map(|row| (row, full_names));
    let grid = Grid::from_records(0, limit, columns, listed)
        .last_texts(2)
        .expendable(["count before", "count after", "change"])
        .decisive(["cost"]);
    titled_table(title, &grid, varied.len())
}

/// Formats a table with its title; empty if nothing changed.
fn titled_table(title: &str, grid: &Grid, varied: usize) -> String {
    let varied = match varied {
        0 => String::new(),
        varied => {
            let rows = count(varied as u64, "row");
            format!("  {rows} changed within the spread of steps\n")
        }
    };
    match (grid.is_empty(), varied.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("{title}\n{varied}"),
        _ => grid.titled(title) + &varied,
    }
}

/// Formats the runs and their totals.
fn runs_head(compared: &DiffReport<'_>) -> String {
    let mut out = String::new();
    let diff = &compared.diff;
    for sentence in run_diff::diff_sentences(diff) {
        let _ = writeln!(out, "{sentence}");
    }
    let [before, after] = &compared.diff.runs;
    for (name, path, side) in [
        ("before", compared.before, before),
        ("after", compared.after, after),
    ] {
        let left_out = match side.excluded_steps {
            0 => String::new(),
            steps => format!(
                " (left out: {} truncated or without device rows)",
                count(steps, "step")
            ),
        };
        let _ = writeln!(
            out,
            "{name}: {}, {}, {}{left_out}",
            path.display(),
            count(side.ranks, "rank"),
            count(side.steps, "step") + if side.ranks > 1 { " of all ranks" } else { "" }
        );
    }
    let _ = writeln!(out, "{}", run_diff::sums_sentence(diff));
    for sentence in run_diff::outside_sentences(diff) {
        let _ = writeln!(out, "{sentence}");
    }
    out
}

/// Returns the name of a row, with the shapes or the frame that distinguish it.
fn row_name(change: &RowChange, full_names: bool) -> String {
    let short = if !full_names {
        change.short_name.as_deref()
    } else {
        None
    };
    let name = short.unwrap_or(&change.name);
    let own = change
        .shapes
        .as_deref()
        // only the calling frame; the whole stack would push all figures off the screen
        .or(change.stack.first().map(String::as_str))
        .unwrap_or("");
    if own.is_empty() {
        name.to_owned()
    } else {
        format!("{name} {own}")
    }
}
