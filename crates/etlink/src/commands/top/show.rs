//! The table as PyTorch prints it (`_build_table`), and its rows for programs.

use super::Table;
use anyhow::Result;
use comfy_table::{CellAlignment, presets::NOTHING};
use etlink_analyze::top::{Row, Top};
use serde::Serialize;
use std::fmt::Write;

/// Longer names are cut, as PyTorch does.
const NAME_LETTERS: usize = 55;
const SHAPES_LETTERS: usize = 80;
/// Of a longer frame the end is shown.
const FRAME_LETTERS: usize = 75;

/// A row of the CSV.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    rank: Option<i64>,
    name: &'a str,
    on_device: bool,
    annotation: bool,
    count: u64,
    self_host_ns: i64,
    host_ns: i64,
    self_device_ns: i64,
    device_ns: i64,
    self_host_bytes: i64,
    host_bytes: i64,
    self_device_bytes: i64,
    device_bytes: i64,
    shapes: &'a str,
    stack: String,
}

/// Each row of each rank as a line.
pub(super) fn csv(tables: &[Table]) -> Result<String> {
    let mut out = csv::Writer::from_writer(vec![]);
    for table in tables {
        for row in &table.top.rows {
            out.serialize(Line {
                file: &table.file,
                rank: table.rank,
                name: &row.name,
                on_device: row.on_device,
                annotation: row.annotation,
                count: row.count,
                self_host_ns: row.self_host_ns,
                host_ns: row.host_ns,
                self_device_ns: row.self_device_ns,
                device_ns: row.device_ns,
                self_host_bytes: row.self_host_bytes,
                host_bytes: row.host_bytes,
                self_device_bytes: row.self_device_bytes,
                device_bytes: row.device_bytes,
                shapes: row.shapes.as_deref().unwrap_or(""),
                stack: row.stack.join("; "),
            })?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

/// The table of one rank; `limit` 0: all rows.
pub(super) fn table(table: &Table, limit: usize) -> String {
    let top = &table.top;
    let mut out = String::new();
    let rank = table.rank.map_or(String::new(), |rank| format!(", rank {rank}"));
    let _ = writeln!(out, "{}{rank}", table.file);
    for note in &table.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let columns = Columns::of(top);
    let mut lines = comfy_table::Table::new();
    lines.load_style(NOTHING);
    lines.set_header(columns.head(top.device));
    let shown = if limit == 0 { top.rows.len() } else { limit.min(top.rows.len()) };
    for row in &top.rows[..shown] {
        lines.add_row(columns.row(row, top));
        for frame in row.stack.iter().skip(1) {
            lines.add_row(columns.below(frame));
        }
    }
    let texts = usize::from(columns.shapes) + usize::from(columns.stack);
    let figures = lines.column_count().saturating_sub(1 + texts);
    lines.column_iter_mut().skip(1).take(figures).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for line in lines.trim_fmt().lines() {
        let _ = writeln!(out, " {}", line.trim_end());
    }
    if shown < top.rows.len() {
        let _ = writeln!(out, "{} more rows; -n 0 shows all", top.rows.len() - shown);
    }
    let _ = writeln!(out, "Self CPU time total: {}", time(top.self_host_ns as f64));
    if columns.device {
        let _ = writeln!(out, "Self {} time total: {}", top.device, time(top.self_device_ns as f64));
    }
    out
}

/// Which columns have anything.
struct Columns {
    device: bool,
    memory: [bool; 2],
    shapes: bool,
    stack: bool,
}

impl Columns {
    fn of(top: &Top) -> Columns {
        Columns {
            device: top.has_device(),
            memory: top.has_memory(),
            shapes: top.rows.iter().any(|row| row.shapes.is_some()),
            stack: top.rows.iter().any(|row| !row.stack.is_empty()),
        }
    }

    fn head(&self, device: &str) -> Vec<String> {
        let mut head: Vec<String> = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"].map(String::from).to_vec();
        if self.device {
            head.extend([format!("Self {device}"), format!("Self {device} %"), format!("{device} total"), format!("{device} time avg")]);
        }
        for (memory, side) in self.memory.into_iter().zip(["CPU", device]) {
            head.extend([format!("{side} Mem"), format!("Self {side} Mem")].into_iter().filter(|_| memory));
        }
        head.push("# of Calls".into());
        head.extend(
            [("Input Shapes", self.shapes), ("Source Location", self.stack)].into_iter().filter(|column| column.1).map(|column| column.0.into()),
        );
        head
    }

    fn row(&self, row: &Row, top: &Top) -> Vec<String> {
        let average = |ns: i64| ns as f64 / row.count.max(1) as f64;
        let total = if row.asynchronous { "0".into() } else { share(row.host_ns, top.self_host_ns) };
        let mut cells = vec![cut(&row.name, NAME_LETTERS), share(row.self_host_ns, top.self_host_ns), time(row.self_host_ns as f64), total];
        cells.extend([time(row.host_ns as f64), time(average(row.host_ns))]);
        if self.device {
            cells.extend([time(row.self_device_ns as f64), share(row.self_device_ns, top.self_device_ns)]);
            cells.extend([time(row.device_ns as f64), time(average(row.device_ns))]);
        }
        let sides = [[row.host_bytes, row.self_host_bytes], [row.device_bytes, row.self_device_bytes]];
        cells.extend(self.memory.into_iter().zip(sides).filter(|(memory, _)| *memory).flat_map(|(_, bytes)| bytes.map(size)));
        cells.push(row.count.to_string());
        if self.shapes {
            cells.push(row.shapes.as_deref().unwrap_or("[]").chars().take(SHAPES_LETTERS).collect());
        }
        if self.stack {
            cells.push(row.stack.first().map_or(String::new(), |frame| tail(frame)));
        }
        cells
    }

    /// A further frame of a stack.
    fn below(&self, frame: &str) -> Vec<String> {
        let mut cells = vec![String::new(); self.head("").len()];
        if let Some(last) = cells.last_mut() {
            *last = tail(frame);
        }
        cells
    }
}

fn cut(name: &str, letters: usize) -> String {
    if name.chars().count() < letters - 3 {
        return name.to_owned();
    }
    name.chars().take(letters - 3).chain("...".chars()).collect()
}

/// `trim_path`.
fn tail(frame: &str) -> String {
    let letters = frame.chars().count();
    if letters <= FRAME_LETTERS { frame.to_owned() } else { "...".chars().chain(frame.chars().skip(letters - FRAME_LETTERS + 3)).collect() }
}

/// `_format_time`.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.3}s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.3}ms", ns / 1e6),
        ns => format!("{:.3}us", ns / 1e3),
    }
}

/// `_format_time_share`.
fn share(ns: i64, all: i64) -> String {
    if all == 0 { "NaN".into() } else { format!("{:.2}%", ns as f64 * 100.0 / all as f64) }
}

/// `_format_memory`.
fn size(bytes: i64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let unit = units.into_iter().find(|(bits, _)| bytes.unsigned_abs() >= 1 << bits);
    unit.map_or_else(|| format!("{bytes} B"), |(bits, name)| format!("{:.2} {name}", bytes as f64 / f64::from(1u32 << bits)))
}
