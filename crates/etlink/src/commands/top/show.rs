//! The table as PyTorch prints it (`_build_table`), and its rows as CSV.

use crate::op_tables::OpTable;
use crate::table::{CsvTable, Grid, Limit};
use anyhow::Result;
use etlink_analyze::top::{KeyAverage, KeyAverages};
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
    let columns = Columns::from_table(top, full_names);
    // the last columns are the widest, and texts: figures before them stay visible
    let texts = usize::from(columns.shapes) + usize::from(columns.stack);
    let mut lines = Grid::new(1, Limit::rows(limit), columns.head_cells(top.device))
        .last_texts(texts)
        .expendable(columns.expendable_heads(top.device));
    for (at, row) in top.rows.iter().enumerate() {
        // format figures only for rows that are shown
        if !lines.has_room() {
            lines.add_hidden(top.rows.len() - at);
            break;
        }
        lines.add(columns.row_cells(row, top));
        // further frames go below the first, one per line, as PyTorch prints them
        for frame in row.stack.iter().skip(1) {
            lines.continue_with(columns.frame_cells(frame));
        }
    }
    let _ = write!(out, "{lines}");
    let _ = writeln!(
        out,
        "Self CPU time total: {}",
        format_time(top.self_host_ns as f64)
    );
    if columns.device {
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

/// Columns that have any content.
struct Columns {
    device: bool,
    memory: [bool; 2],
    shapes: bool,
    stack: bool,
    /// True to show full kernel names.
    full_names: bool,
}

impl Columns {
    fn from_table(top: &KeyAverages, full_names: bool) -> Columns {
        Columns {
            full_names,
            device: top.has_device(),
            memory: top.has_memory(),
            shapes: top.rows.iter().any(|row| row.shapes.is_some()),
            stack: top.rows.iter().any(|row| !row.stack.is_empty()),
        }
    }

    fn head_cells(&self, device: &str) -> Vec<String> {
        let mut head: Vec<String> = [
            "Name",
            "Self CPU %",
            "Self CPU",
            "CPU total %",
            "CPU total",
            "CPU time avg",
        ]
        .map(String::from)
        .to_vec();
        if self.device {
            head.extend([
                format!("Self {device}"),
                format!("Self {device} %"),
                format!("{device} total"),
                format!("{device} time avg"),
            ]);
        }
        for (memory, side) in self.memory.into_iter().zip(["CPU", device]) {
            if memory {
                head.extend([format!("{side} Mem"), format!("Self {side} Mem")]);
            }
        }
        head.push("# of Calls".into());
        head.extend(
            [
                ("Input Shapes", self.shapes),
                ("Source Location", self.stack),
            ]
            .into_iter()
            .filter(|column| column.1)
            .map(|column| column.0.into()),
        );
        head
    }

    /// Returns the heads of columns that a narrow output leaves out: means, shares next to their
    /// times, memory.
    fn expendable_heads(&self, device: &str) -> Vec<String> {
        let mut all = vec!["CPU total %".to_owned(), "CPU time avg".to_owned()];
        if self.device {
            all.push(format!("{device} time avg"));
        }
        all.push("Self CPU %".to_owned());
        for (memory, side) in self.memory.into_iter().zip(["CPU", device]) {
            if memory {
                all.push(format!("Self {side} Mem"));
            }
        }
        if self.device {
            all.push(format!("Self {device} %"));
        }
        // the table is mainly about times: names and counts are worth more than memory
        for (memory, side) in self.memory.into_iter().zip(["CPU", device]) {
            if memory {
                all.push(format!("{side} Mem"));
            }
        }
        all
    }

    fn shown_name<'r>(&self, row: &'r KeyAverage) -> &'r str {
        let short = if !self.full_names {
            row.short_name.as_deref()
        } else {
            None
        };
        short.unwrap_or(&row.name)
    }

    fn row_cells(&self, row: &KeyAverage, top: &KeyAverages) -> Vec<String> {
        let average = |ns: i64| ns as f64 / row.count.max(1) as f64;
        // `_build_table`: "CPU total %, 0 for async events"
        let total = if row.asynchronous {
            "0".into()
        } else {
            format_time_share(row.host_ns, top.self_host_ns)
        };
        let mut cells = vec![
            self.shown_name(row).to_owned(),
            format_time_share(row.self_host_ns, top.self_host_ns),
            format_time(row.self_host_ns as f64),
            total,
        ];
        cells.extend([
            format_time(row.host_ns as f64),
            format_time(average(row.host_ns)),
        ]);
        if self.device {
            cells.extend([
                format_time(row.self_device_ns as f64),
                format_time_share(row.self_device_ns, top.self_device_ns),
            ]);
            cells.extend([
                format_time(row.device_ns as f64),
                format_time(average(row.device_ns)),
            ]);
        }
        let sides = [
            [row.host_bytes, row.self_host_bytes],
            [row.device_bytes, row.self_device_bytes],
        ];
        cells.extend(
            self.memory
                .into_iter()
                .zip(sides)
                .filter(|(memory, _)| *memory)
                .flat_map(|(_, bytes)| bytes.map(format_memory)),
        );
        cells.push(row.count.to_string());
        if self.shapes {
            cells.push(row.shapes.clone().unwrap_or_else(|| "[]".into()));
        }
        if self.stack {
            cells.push(row.stack.first().cloned().unwrap_or_default());
        }
        cells
    }

    /// Returns the cells for a further frame of a stack.
    fn frame_cells(&self, frame: &str) -> Vec<String> {
        let mut cells = vec![String::new(); self.head_cells("").len()];
        if let Some(last) = cells.last_mut() {
            frame.clone_into(last);
        }
        cells
    }
}

/// Formats a time like PyTorch's `_format_time`.
fn format_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.3}s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.3}ms", ns / 1e6),
        ns => format!("{:.3}us", ns / 1e3),
    }
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
