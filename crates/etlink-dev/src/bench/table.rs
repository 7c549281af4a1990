//! Formats medians as tables.

use super::inputs::BenchInput;
use super::measure::ProcessUsage;
use super::tools::BenchTool;
use std::fmt::Write;

/// Returns the median; the lower of two middle values.
pub fn median_of(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Describes the machine in one line.
pub fn machine_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    // A busy machine explains odd figures, so the table states the load.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!(
        "{cores} cores, {}; load average {load} before",
        model.map_or("unknown processor", |(_, model)| model)
    )
}

/// Formats the figures of one input.
pub fn result_table(
    input: &BenchInput,
    tools: &[BenchTool],
    usages: &[Vec<ProcessUsage>],
) -> String {
    let mut out = String::new();
    let megabytes = input.bytes as f64 / 1e6;
    let _ = writeln!(out, "\n{}, {megabytes:.1} MB unpacked", input.name);
    let _ = writeln!(
        out,
        "| tool | wall s | CPU s | MB/s | peak MB | wall / gzip | peak / unpacked \
         | CPU / etlink's |"
    );
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|");
    // `tools_for` returns gzip first and etlink second.
    let gzip = usages
        .first()
        .map_or(f64::NAN, |usages| median_wall(usages));
    let own = usages.get(1).map_or(f64::NAN, |usages| median_cpu(usages));
    for (tool, usages) in tools.iter().zip(usages) {
        if let Some(why) = usages.iter().find_map(|usage| usage.failed.as_deref()) {
            let _ = writeln!(out, "| {} | failed: {why} |", tool.name);
            continue;
        }
        let (wall, cpu) = (median_wall(usages), median_cpu(usages));
        let peak = median_of(usages.iter().map(|usage| usage.peak_bytes as f64));
        let _ = writeln!(
            out,
            "| {} | {wall:.3} | {cpu:.3} | {:.0} | {:.1} | {:.2} | {:.2} | {:.1} |",
            tool.name,
            megabytes / wall,
            peak / 1e6,
            wall / gzip,
            peak / input.bytes as f64,
            cpu / own,
        );
    }
    if let Some(phases) = usages.get(1).and_then(|usages| phase_table(usages)) {
        let _ = writeln!(out, "{phases}");
    }
    out
}

fn median_wall(usages: &[ProcessUsage]) -> f64 {
    median_of(usages.iter().map(|usage| usage.wall))
}

fn median_cpu(usages: &[ProcessUsage]) -> f64 {
    median_of(usages.iter().map(|usage| usage.cpu))
}

/// Formats etlink's time per phase, from its own report; `None` without a report.
fn phase_table(usages: &[ProcessUsage]) -> Option<String> {
    let reports: Vec<serde_json::Value> = usages
        .iter()
        .filter_map(|usage| serde_json::from_str(&usage.output).ok())
        .collect();
    let seconds = |phase: &str| {
        median_of(
            reports
                .iter()
                .filter_map(|report| report["seconds"][phase].as_f64()),
        )
    };
    let written = reports.first()?["bytes"]["output"].as_f64()? / 1e6;
    Some(format!(
        "read {:.3} s, link {:.3} s, write {:.3} s ({written:.1} MB)",
        seconds("read"),
        seconds("link"),
        seconds("write")
    ))
}
