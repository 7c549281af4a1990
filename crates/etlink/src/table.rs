//! Text output for people: tables, and the link report.

mod aligned;
mod csv_text;
mod grid;
mod text;
mod width;

pub use csv_text::CsvTable;
pub use etlink_run::text::{count, rank, time};
pub use grid::{Column, Grid, Limit};
pub use text::{
    cut, known, mb, mean_time, percent, percent_of, plain, plain_lines, scaled, signed_time,
};
pub use width::fold_lines;

use aligned::{AlignedColumn, CellSide, cell_width, push_line};
use etlink_model::Severity;
use etlink_run::job::{JobReport, PerfettoCounts};
use serde::Serialize;
use std::fmt::Write;
use width::{fold_words, output_width};

/// Formats the link report of one rank.
pub fn link_report(linked: &JobReport) -> String {
    let mut out = String::new();
    let report = &linked.report;
    let mut rows = FactRows::default();
    rows.add(
        "rank",
        report
            .rank
            .map_or("not said".into(), |rank| rank.to_string()),
        report
            .world_size
            .map_or(String::new(), |size| format!("of {size}")),
    );
    if let Some(host) = &linked.host {
        rows.add(
            "host trace",
            mb(linked.bytes.host),
            format!(
                "{host}, schema {}",
                report.host_schema.as_deref().unwrap_or("not said")
            ),
        );
    }
    rows.add(
        "device trace",
        mb(linked.bytes.device),
        linked.device.clone(),
    );
    let length = report.window.end_ns.saturating_sub(report.window.start_ns) as f64 / 1e6;
    rows.add(
        "time window",
        format!("{length:.3} ms"),
        format!("from {} ns", report.window.start_ns),
    );
    // without a host trace there was nothing to match, and 0 % would look like an error
    if linked.host.is_some() {
        add_matches(linked, &mut rows);
    }
    rows.add(
        "device rows",
        report.device_rows,
        format!(
            "{} launched, {} owned by an op",
            report.launched, report.owned_by_op
        ),
    );
    for (reason, count) in &report.no_launch {
        rows.add("  no launch", *count, enum_name(reason));
    }
    add_graphs(linked, &mut rows);
    report
        .nodes
        .iter()
        .for_each(|(kind, count)| rows.add("nodes", *count, enum_name(kind)));
    report
        .edges
        .iter()
        .for_each(|(kind, count)| rows.add("edges", *count, enum_name(kind)));
    add_written(linked, &mut rows);
    let seconds = &linked.seconds;
    let all = seconds.read + seconds.link + seconds.write;
    rows.add(
        "seconds",
        format!("{all:.3}"),
        format!(
            "read {:.3}, link {:.3}, write {:.3}",
            seconds.read, seconds.link, seconds.write
        ),
    );
    out += &rows.to_string();
    out += &anomaly_rows(linked);
    out
}

/// Adds rows for kernels of graph launches and for the names taken from captures.
fn add_graphs(linked: &JobReport, rows: &mut FactRows) {
    let report = &linked.report;
    if report.graph_rows > 0 {
        rows.add(
            "  in graphs",
            report.graph_rows,
            format!("of {} graph launches", report.graph_launches),
        );
    }
    let Some(found) = &report.capture else { return };
    rows.add(
        "captures",
        found.captures,
        format!(
            "launches: {}, {}",
            found.launches,
            linked.captures.join(", ")
        ),
    );
    for (count, what) in [
        (
            found.unnamed,
            "captures left out: their launches do not name their kernels",
        ),
        (found.unfinished, "captures left out: incomplete"),
        (
            found.complete,
            "graph launches with all kernels of a capture",
        ),
        (
            found.partial,
            "graph launches with most kernels of a capture",
        ),
        (found.unknown, "graph launches without a capture here"),
        (found.ambiguous, "kernels with several possible ops"),
        (found.not_found, "kernels that are in no capture"),
        (found.without_op, "kernels that no op launched"),
    ] {
        // zeros would hide the informative lines
        if count > 0 {
            rows.add("", count, what);
        }
    }
    rows.add(
        "  carried",
        found.carried,
        "kernels of graph launches were assigned their captured op",
    );
}

fn add_written(linked: &JobReport, rows: &mut FactRows) {
    if let Some(written) = &linked.written {
        for (reason, count) in &written.demoted {
            rows.add(
                "  as compute",
                *count,
                format!("communication, {}", enum_name(reason)),
            );
        }
        rows.add(
            "written",
            mb(linked.bytes.output),
            format!(
                "{}, {}, {}",
                count(written.nodes, "node"),
                count(written.deps, "dep"),
                linked.output.as_deref().unwrap_or("")
            ),
        );
    }
    if let Some(shown) = &linked.shown {
        rows.add(
            "written",
            mb(linked.bytes.output),
            perfetto_text(shown, linked.output.as_deref().unwrap_or("")),
        );
    }
    // mention this, since the user may look for a file that was never requested
    if linked.output.is_none() && !linked.refused {
        rows.add("written", "nothing", "give -o FILE");
    }
}

/// Summarizes the content of a trace for Perfetto.
pub fn perfetto_text(shown: &PerfettoCounts, path: &str) -> String {
    format!(
        "{} slices, {} arrows, {} steps of the critical path, {path}",
        shown.slices, shown.arrows, shown.critical_path
    )
}

fn add_matches(linked: &JobReport, rows: &mut FactRows) {
    let report = &linked.report;
    let matched: u64 = report.matched.values().sum();
    // a trace may have no ops at all, only calls and kernels
    let share = 100.0 * matched as f64 / report.cpu_ops.max(1) as f64;
    rows.add(
        "matched ops",
        matched,
        format!(
            "{share:.2} % of {} ops and annotations in the device trace; {} in the host trace",
            report.cpu_ops, report.host_ops
        ),
    );
    report
        .matched
        .iter()
        .for_each(|(rule, count)| rows.add("  by rule", *count, enum_name(rule)));
    let unmatched = &report.unmatched;
    for (count, reason) in [
        (
            unmatched.host_outside_window,
            "host ops outside the device trace's window",
        ),
        (
            unmatched.host_not_in_device,
            "host ops inside it that the device trace lacks",
        ),
        (
            unmatched.device_not_in_host,
            "device trace ops that the host trace lacks",
        ),
        (
            unmatched.same_id_other_name,
            "ids with different names in the two traces",
        ),
    ] {
        if count > 0 {
            rows.add("  unmatched", count, reason);
        }
    }
}

fn anomaly_rows(linked: &JobReport) -> String {
    let mut rows = FactRows::default();
    for (kind, anomaly) in linked.report.anomalies.iter() {
        let grade = if kind.severity() == Severity::Damage {
            "damage"
        } else {
            "info"
        };
        let first = anomaly
            .first
            .as_ref()
            .map_or(String::new(), |first| format!(" (first: {first})"));
        rows.add(grade, anomaly.count, format!("{}{first}", kind.describe()));
    }
    if rows.is_empty() {
        String::new()
    } else {
        format!("anomalies\n{rows}")
    }
}

/// Lines of a name, a figure, and a remark.
#[derive(Default)]
pub struct FactRows {
    rows: Vec<[String; 3]>,
}

impl FactRows {
    /// Adds a line.
    pub fn add(&mut self, name: &str, figure: impl ToString, remark: impl ToString) {
        self.rows.push(
            [name.to_owned(), figure.to_string(), remark.to_string()]
                // names and paths come from outside and are printed to a terminal
                .map(|cell| plain(&cell).into_owned()),
        );
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the lines. A remark that does not fit continues below its first line.
    fn write_lines(&self, width: Option<usize>, out: &mut impl Write) -> std::fmt::Result {
        let sides = [CellSide::Left, CellSide::Right, CellSide::Left];
        let mut columns = sides.map(AlignedColumn::new);
        for row in &self.rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.fit(cell);
            }
        }
        // width before a remark: a blank, and one on either side of each cell
        let widest = |cell: usize| {
            self.rows
                .iter()
                .map(move |row| cell_width(&row[cell]))
                .max()
        };
        let names = widest(0).unwrap_or(0).max(1) + widest(1).unwrap_or(0).max(1);
        let before = match width {
            // remarks have no room next to very wide figures, and go below them
            Some(width) if names + 6 + NARROW_REMARK > width => BELOW_FIGURES,
            _ => names + 6,
        };
        for row in &self.rows {
            let mut line = String::from(" ");
            let pieces = match width {
                Some(width) if names + 6 + cell_width(&row[2]) > width => {
                    let mut pieces = fold_words(&row[2], width.saturating_sub(before));
                    if before == BELOW_FIGURES {
                        pieces.insert(0, String::new());
                    }
                    pieces
                }
                _ => vec![row[2].clone()],
            };
            let mut pieces = pieces.iter().map(String::as_str);
            let first = [
                row[0].as_str(),
                row[1].as_str(),
                pieces.next().unwrap_or(""),
            ];
            push_line(&mut line, &columns, first.into_iter());
            writeln!(out, "{line}")?;
            for piece in pieces {
                writeln!(out, "{:before$}{piece}", "")?;
            }
        }
        Ok(())
    }
}

/// Minimum width of a remark next to figures.
const NARROW_REMARK: usize = 24;
/// Indentation of remarks below figures.
const BELOW_FIGURES: usize = 6;

impl std::fmt::Display for FactRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write_lines(output_width(), f)
    }
}

/// Returns the name of an enum's value as in its JSON, with spaces.
pub fn enum_name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        // through serde, so that the names are defined only once
        Ok(serde_json::Value::String(name)) => name.replace('_', " "),
        _ => String::new(),
    }
}
