//! `etlink diff`: what changed between two runs.

use super::{json_document, print_report, print_text, start_threads};
use crate::Outcome;
use crate::args::DiffArgs;
use crate::notes;
use crate::op_tables::{self, RunTables, Wanted};
use crate::table::{Grid, Limit, count, csv_text, enum_name, same_notes, signed_time, time};
use anyhow::{Context, Result, bail};
use etlink_analyze::diff::{self, ChangeKind, RowChange};
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

#[derive(Serialize)]
struct DiffReport<'a> {
    before: &'a Path,
    after: &'a Path,
    notes: Vec<String>,
    /// Traces of either run that are not compared.
    excluded: Vec<Excluded>,
    #[serde(flatten)]
    diff: diff::RunDiff,
}

pub fn run(args: DiffArgs) -> Result<Outcome> {
    if [&args.before, &args.after]
        .iter()
        .all(|path| path.as_path() == Path::new("-"))
    {
        bail!("only one of the two runs can be standard input");
    }
    let threads = start_threads(args.tables.reading.resources.threads)?;
    let RunTables {
        tables: before,
        mut excluded,
    } = run_tables(&args, &args.before, threads)?;
    let after = run_tables(&args, &args.after, threads)?;
    excluded.extend(after.excluded);
    let after = after.tables;
    let [first, second] =
        [&before, &after].map(|tables| tables.iter().map(|table| &table.top).collect::<Vec<_>>());
    let notes = before.iter().chain(&after).flat_map(|table| {
        table
            .notes
            .iter()
            .map(|note| (table.file.clone(), note.as_str()))
    });
    let notes = same_notes(notes);
    let diff = diff::diff_runs(&first, &second);
    let compared = DiffReport {
        before: &args.before,
        after: &args.after,
        notes,
        excluded,
        diff,
    };
    if args.tables.print.json {
        print_text(&json_document("etlink.diff", &compared)?)?;
    } else if args.tables.print.csv {
        notes::print_all(&compared.notes);
        print_text(&changes_csv(&compared.diff.changes)?)?;
    } else {
        notes::print_all(&compared.notes);
        print_report(&change_table(
            &compared,
            args.tables.rows.rows,
            args.tables.names.full_names,
        ))?;
    }
    Ok(if compared.excluded.is_empty() {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// The profiler's tables of a run's ranks.
fn run_tables(args: &DiffArgs, path: &Path, threads: usize) -> Result<RunTables> {
    let wanted = Wanted {
        trace: path,
        host: None,
        by: None,
        python: false,
        tree: false,
        each_module: false,
        tables: &args.tables,
    };
    op_tables::read_tables(wanted, threads)
}

fn changes_csv(changes: &[RowChange]) -> Result<String> {
    let mut out = csv::Writer::from_writer(vec![]);
    out.write_record([
        "name",
        "on_device",
        "change",
        "count_before",
        "count_after",
        "before_ns",
        "after_ns",
        "cost_ns",
        "shapes",
        "stack",
    ])?;
    // also rows that stayed the same: programs choose for themselves
    for change in changes {
        let [count_before, count_after] = change.counts.map(|count| count.to_string());
        let [before, after] = change.times_ns.map(|ns| ns.to_string());
        let kind = enum_name(change.kind);
        let (shapes, stack) = (
            change.shapes.clone().unwrap_or_default(),
            change.stack.join("; "),
        );
        let on_device = change.on_device.to_string();
        out.write_record([
            &*csv_text(&change.name),
            &on_device,
            &kind,
            &count_before,
            &count_after,
            &before,
            &after,
            &change.cost_ns.to_string(),
            &csv_text(&shapes),
            &csv_text(&stack),
        ])?;
    }
    String::from_utf8(out.into_inner()?).context("names are text")
}

fn change_table(compared: &DiffReport<'_>, limit: usize, full_names: bool) -> String {
    let mut out = runs_head(compared);
    let changed: Vec<&RowChange> = compared
        .diff
        .changes
        .iter()
        // of thousands of rows most stay as they were; JSON and CSV have them
        .filter(|change| change.kind != ChangeKind::Same)
        .collect();
    let limit = Limit {
        lines: limit,
        option: "--rows",
    };
    let mut lines = Grid::new(
        2,
        limit,
        [
            "on",
            "change",
            "count before",
            "count after",
            "time before",
            "time after",
            "cost",
            "name",
        ],
    )
    .last_texts(1)
    .expendable(["count before", "count after", "change"]);
    for change in &changed {
        let [old, new] = change.counts.map(|count| {
            // counts are per step and rank: few of them are whole
            if count.fract() == 0.0 {
                count.to_string()
            } else {
                format!("{count:.2}")
            }
        });
        let [before, after] = change.times_ns.map(time);
        let side = if change.on_device { "device" } else { "host" };
        lines.add([
            side.to_owned(),
            enum_name(change.kind),
            old,
            new,
            before,
            after,
            signed_time(change.cost_ns),
            row_name(change, full_names),
        ]);
    }
    out += &if changed.is_empty() {
        "nothing changed\n".to_owned()
    } else {
        lines.to_string()
    };
    out
}

/// The runs and their sums.
fn runs_head(compared: &DiffReport<'_>) -> String {
    let mut out = String::new();
    let [before, after] = &compared.diff.runs;
    for (name, path, side) in [
        ("before", compared.before, before),
        ("after", compared.after, after),
    ] {
        let _ = writeln!(
            out,
            "{name}: {}, {}, {}",
            path.display(),
            count(side.ranks, "rank"),
            count(side.steps, "step")
        );
    }
    let host = time_change(before.self_host_ns, after.self_host_ns);
    let device = time_change(before.device_ns, after.device_ns);
    let _ = writeln!(
        out,
        "per {}: own time of the host's ops {host}; device time {device}",
        compared.diff.per
    );
    out
}

/// A time before and after.
fn time_change(old: i64, new: i64) -> String {
    let change = percent_change(old, new);
    format!("{} -> {} ({change})", time(old), time(new))
}

/// A name, with what makes it a row of its own.
fn row_name(change: &RowChange, full_names: bool) -> String {
    let short = change.short_name.as_deref().filter(|_| !full_names);
    let name = short.unwrap_or(&change.name);
    let own = change
        .shapes
        .as_deref()
        // the frame that called it; the whole stack would push all figures off the screen
        .or(change.stack.first().map(String::as_str))
        .unwrap_or("");
    if own.is_empty() {
        name.to_owned()
    } else {
        format!("{name} {own}")
    }
}

fn percent_change(old: i64, new: i64) -> String {
    match (old, new) {
        (0, 0) => "as before".to_owned(),
        // there is no percentage of nothing
        (0, _) => "from nothing".to_owned(),
        _ => format!("{:+.1} %", (new as f64 - old as f64) * 100.0 / old as f64),
    }
}
