//! `etlink analyze` of a snapshot of PyTorch's allocator: the peak by allocation stack.

use crate::args::AnalyzeArgs;
use crate::commands::{print_report, print_text};
use crate::envelope::{FileReports, JsonReport, print_json_report};
use crate::table::{CsvTable, Grid, Limit, count, mb, percent, time};
use crate::{Outcome, notes};
use anyhow::{Result, bail};
use etlink_formats::memory_snapshot::{DeviceMemory, device_memories};
use etlink_model::{Diagnostic, diagnostic};
use etlink_run::{Progress, read_memory_snapshot};
use serde::Serialize;
use std::fmt::Write;

/// Memory of one snapshot.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct SnapshotReport {
    /// Path of the snapshot.
    file: String,
    /// Notes about the file.
    diagnostics: Vec<Diagnostic>,
    /// Memory of each device.
    devices: Vec<DeviceMemory>,
}

impl JsonReport for FileReports<SnapshotReport> {
    const SCHEMA: &'static str = "etlink.memory";
}

/// Analyzes the snapshot at the path of `args`.
pub(super) fn run(args: &AnalyzeArgs) -> Result<Outcome> {
    let wants_traces = args.table.is_some()
        || !args.compat.is_empty()
        || args.parquet.is_some()
        || args.workbook.output.is_some()
        || args.workload_card.is_some();
    if wants_traces {
        bail!(
            "{} is a snapshot of PyTorch's allocator; only --json, --csv and -n apply to it",
            args.path.display()
        );
    }
    let snapshot = read_memory_snapshot(&args.path, &Progress::hidden())?;
    let mut report = SnapshotReport {
        file: args.path.display().to_string(),
        diagnostics: vec![],
        devices: device_memories(&snapshot),
    };
    if snapshot.is_cut {
        report.diagnostics.push(diagnostic!(
            TraceTruncated,
            "the snapshot is truncated: events and blocks after its end are missing"
        ));
    }
    if args.print.json {
        let files = vec![report];
        print_json_report(&FileReports { files })?;
        return Ok(Outcome::Done);
    }
    notes::print(&report.diagnostics);
    if args.print.csv {
        print_text(&stacks_csv(&report.devices)?)?;
    } else {
        let devices = report.devices.iter();
        let text: String = devices.map(|device| device_text(device, args)).collect();
        print_report(&text)?;
    }
    Ok(Outcome::Done)
}

fn device_text(device: &DeviceMemory, args: &AnalyzeArgs) -> String {
    let mut out = String::new();
    let peak = &device.peak;
    let events = device.allocations + device.frees;
    if events == 0 {
        let _ = writeln!(
            out,
            "device {}: no events are recorded, so that only the state at the end is known",
            device.device
        );
    } else {
        let _ = writeln!(
            out,
            "device {}: at most {} allocated, {} after the first of {} in {}; {} reserved then",
            device.device,
            mb(peak.allocated_bytes),
            time(peak.time_ns),
            count(events, "event"),
            time(device.span_ns),
            mb(peak.reserved_bytes),
        );
    }
    let now = &device.reserved;
    let _ = writeln!(
        out,
        "reserved at the end: {} in {}: {} allocated ({} of it rounding), {} fragmented (free next to \
         allocated blocks), {} cached (empty_cache would return it); largest free block {}",
        mb(now.reserved_bytes),
        count(now.segments, "segment"),
        mb(now.allocated_bytes),
        mb(now.rounding_bytes),
        mb(now.fragmented_bytes),
        mb(now.cached_bytes),
        mb(now.largest_free_bytes),
    );
    for failed in &device.failed {
        let _ = writeln!(
            out,
            "out of memory after {}: {} requested, {} free on the device, at {}",
            time(failed.time_ns),
            mb(failed.bytes),
            mb(failed.free_bytes),
            failed
                .frames
                .first()
                .map_or("an unknown place", String::as_str)
        );
    }
    let limit = Limit {
        lines: if args.all { 0 } else { args.rows.rows },
        option: "-n",
    };
    let head = [
        "at the peak",
        "share",
        "blocks",
        "at the end",
        "allocations",
        "stack",
    ];
    let mut grid = Grid::new(0, limit, head).last_texts(1);
    for stack in &device.stacks {
        grid.add([
            mb(stack.peak_bytes),
            percent(
                stack.peak_bytes as f64 / peak.allocated_bytes.max(1) as f64,
                1,
            ),
            stack.peak_blocks.to_string(),
            mb(stack.end_bytes),
            stack.allocations.to_string(),
            stack.text(),
        ]);
    }
    let grid = grid.expendable(["allocations", "blocks"]);
    out + "memory by allocation stack (frames outside PyTorch, innermost first)\n"
        + &grid.to_string()
}

fn stacks_csv(devices: &[DeviceMemory]) -> Result<String> {
    let mut csv = CsvTable::new([
        "device",
        "peak_bytes",
        "peak_blocks",
        "end_bytes",
        "allocated_bytes",
        "allocations",
        "stack",
    ])?;
    for device in devices {
        for stack in &device.stacks {
            csv.add((
                device.device,
                stack.peak_bytes,
                stack.peak_blocks,
                stack.end_bytes,
                stack.allocated_bytes,
                stack.allocations,
                stack.text(),
            ))?;
        }
    }
    csv.finish()
}
