//! The table as PyTorch prints it (`_build_table`), and its rows as CSV.

use crate::op_tables::OpTable;
use crate::table::{CsvTable, Grid, Limit};
use anyhow::Result;
use etlink_analysis::top::{KeyAverage, KeyAverages};
use std::fmt::Write;

/// Formats each row of each rank as a CSV line.
pub(super) fn rows_csv(tables: &[OpTable]) -> Result<String> {
    let head = "file,rank,name,on_device,annotation,count,self_host_ns,host_ns,self_device_ns,\
                device_ns,self_host_bytes,host_bytes,self_device_bytes,device_bytes,shapes,stack,\
                short_name";
    let mut out = CsvTable::new(head.split(','))?;
    for table in tables {
        let rank = table.rank.map_or(String::new(), |rank| rank.to_string());
        for row in &table.top.rows {
            let mut record = serde_json::to_value(row)?;
            record["stack"] = row.stack.join("; ").into();
            record["short_name"] = row.short_name.as_deref().unwrap_or(&row.name).into();
            out.add_record(&[&table.file, &rank], record)?;
        }
    }
    out.finish()
}

/// Appends the table of one rank; `limit` 0 shows all rows.
pub(super) fn push_table(out: &mut String, table: &OpTable, limit: usize, full_names: bool) {
    let top = &table.top;
    let rank = table
        .rank
        .map_or(String::new(), |rank| format!(", rank {rank}"));
    let _ = writeln!(out, "{}{rank}", table.file);
    let columns = shown_columns(top, full_names);
    let mut expendable: Vec<_> = columns.iter().filter(|column| column.1 > 0).collect();
    expendable.sort_by_key(|column| column.1);
    let heads = columns.iter().map(|column| &*column.0);
    // the last columns are the widest, and texts: figures before them stay visible
    let mut lines = Grid::new(1, Limit::rows(limit), heads)
        .text_columns(|head| head == SHAPES || head == STACK)
        .expendable(expendable.into_iter().map(|column| &*column.0));
    for (at, row) in top.rows.iter().enumerate() {
        // format figures only for rows that are shown
        if !lines.has_room() {
            lines.add_hidden(top.rows.len() - at);
            break;
        }
        lines.add(columns.iter().map(|(_, _, cell)| cell(row, top)));
        // further frames go below the first, one per line, as PyTorch prints them
        for frame in row.stack.iter().skip(1) {
            let before = std::iter::repeat_n(String::new(), columns.len() - 1);
            lines.continue_with(before.chain([frame.clone()]));
        }
    }
    let _ = write!(out, "{lines}");
    let _ = writeln!(
        out,
        "Self CPU time total: {}",
        format_time(top.self_host_ns as f64)
    );
    if top.has_device() {
        let _ = writeln!(
            out,
            "Self {} time total: {}",
            top.device,
            format_time(top.self_device_ns as f64)
        );
        out.push_str(&device_sum_note(top));
    }
}

/// Explains which part of the device total is no work, and why the shares add up to more than 100
/// %.
fn device_sum_note(top: &KeyAverages) -> String {
    let rows = top
        .rows
        .iter()
        .filter(|row| row.on_device && !row.annotation);
    let waits = rows.filter(|row| is_wait_row(&row.name));
    let waits_ns = waits.fold(0i64, |sum, row| sum.saturating_add(row.self_device_ns));
    let mut out = String::new();
    if waits_ns > 0 {
        let _ = writeln!(
            out,
            "{} of this are rows that only wait or synchronize, counted as in PyTorch's table",
            format_time(waits_ns as f64)
        );
    }
    let ops = top.rows.iter().filter(|row| !row.on_device);
    if ops.map(|row| row.self_device_ns).any(|ns| ns > 0) {
        let _ = writeln!(
            out,
            "{} % adds up to more than 100 %: a kernel counts in its own row and in its op's row, and \
             a device range includes idle time",
            top.device
        );
    }
    out
}

/// Returns true if a row of this name does no work.
fn is_wait_row(name: &str) -> bool {
    let wait = ["event_wait", "event_record"];
    let sync = [
        "Context Sync",
        "Stream Sync",
        "Event Sync",
        "Stream Wait Event",
    ];
    wait.contains(&name) || sync.iter().any(|sync| name.starts_with(sync))
}

/// Head of the column of shapes, a text.
const SHAPES: &str = "Input Shapes";
/// Head of the last column, a text.
const STACK: &str = "Source Location";

/// Formats a row's cell; figures of the whole table are the base of shares.
type TopCell = fn(&KeyAverage, &KeyAverages) -> String;

/// A column: its head, its place among those that a narrow output leaves out (0 if it stays), and
/// its cells.
type TopColumn = (String, u8, TopCell);

/// Returns the columns that have any content.
// Means go first, then shares next to their times, then memory: the table is mainly about times.
fn shown_columns(top: &KeyAverages, full_names: bool) -> Vec<TopColumn> {
    let name: TopCell = if full_names {
        |row, _| row.name.clone()
    } else {
        |row, _| row.short_name.as_deref().unwrap_or(&row.name).to_owned()
    };
    let mut all: Vec<TopColumn> = vec![
        ("Name".into(), 0, name),
        ("Self CPU %".into(), 4, |row, top| {
            format_time_share(row.self_host_ns, top.self_host_ns)
        }),
        ("Self CPU".into(), 0, |row, _| {
            format_time(row.self_host_ns as f64)
        }),
        ("CPU total %".into(), 1, |row, top| match row.asynchronous {
            // `_build_table`: "CPU total %, 0 for async events"
            true => "0".into(),
            false => format_time_share(row.host_ns, top.self_host_ns),
        }),
        ("CPU total".into(), 0, |row, _| {
            format_time(row.host_ns as f64)
        }),
        ("CPU time avg".into(), 2, |row, _| {
            format_mean(row.host_ns, row.count)
        }),
    ];
    let device = &top.device;
    if top.has_device() {
        let columns: [TopColumn; 4] = [
            (format!("Self {device}"), 0, |row, _| {
                format_time(row.self_device_ns as f64)
            }),
            (format!("Self {device} %"), 7, |row, top| {
                format_time_share(row.self_device_ns, top.self_device_ns)
            }),
            (format!("{device} total"), 0, |row, _| {
                format_time(row.device_ns as f64)
            }),
            (format!("{device} time avg"), 3, |row, _| {
                format_mean(row.device_ns, row.count)
            }),
        ];
        all.extend(columns);
    }
    let memory: [[TopColumn; 2]; 2] = [
        [
            ("CPU Mem".into(), 8, |row, _| format_memory(row.host_bytes)),
            ("Self CPU Mem".into(), 5, |row, _| {
                format_memory(row.self_host_bytes)
            }),
        ],
        [
            (format!("{device} Mem"), 9, |row, _| {
                format_memory(row.device_bytes)
            }),
            (format!("Self {device} Mem"), 6, |row, _| {
                format_memory(row.self_device_bytes)
            }),
        ],
    ];
    for (of_side, _) in memory
        .into_iter()
        .zip(top.has_memory())
        .filter(|side| side.1)
    {
        all.extend(of_side);
    }
    all.push(("# of Calls".into(), 0, |row, _| row.count.to_string()));
    if top.rows.iter().any(|row| row.shapes.is_some()) {
        all.push((SHAPES.into(), 0, |row, _| {
            row.shapes.clone().unwrap_or_else(|| "[]".into())
        }));
    }
    if top.rows.iter().any(|row| !row.stack.is_empty()) {
        all.push((STACK.into(), 0, |row, _| {
            row.stack.first().cloned().unwrap_or_default()
        }));
    }
    all
}

/// Formats a time like PyTorch's `_format_time`.
fn format_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.3}s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.3}ms", ns / 1e6),
        ns => format!("{:.3}us", ns / 1e3),
    }
}

fn format_mean(ns: i64, count: u64) -> String {
    format_time(ns as f64 / count.max(1) as f64)
}

/// Formats a share like PyTorch's `_format_time_share`.
fn format_time_share(ns: i64, all: i64) -> String {
    if all == 0 {
        // as PyTorch prints a share of nothing
        "NaN".into()
    } else {
        format!("{:.2}%", ns as f64 * 100.0 / all as f64)
    }
}

/// Formats a size like PyTorch's `_format_memory`.
fn format_memory(bytes: i64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let unit = units
        .into_iter()
        .find(|(bits, _)| bytes.unsigned_abs() >= 1 << bits);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(bits, name)| format!("{:.2} {name}", bytes as f64 / f64::from(1u32 << bits)),
    )
}
