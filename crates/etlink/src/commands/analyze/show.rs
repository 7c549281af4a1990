//! The analyses for people: a sentence, then tables.

use super::Analyzed;
use crate::args::Analyze;
use crate::table::Grid;
use etlink_analyze::{DeviceTime, Kernel};
use std::fmt::Write;

pub(super) fn run(one: &Analyzed, args: &Analyze) -> String {
    let mut out = String::new();
    for stray in &one.left_out {
        let _ = writeln!(out, "note: {} is left out: {}", stray.label, stray.error);
    }
    if !one.run.is_empty() {
        let _ = writeln!(out, "{}: {} ranks", one.run, one.ranks.len());
    }
    out += &sentence(&one.total.breakdown);
    let tables: [(&str, &dyn Fn() -> String); 2] = [("breakdown", &|| breakdown(one)), ("kernels", &|| kernels(&one.total.kernels, args.top))];
    let wanted = |name: &str| args.table.as_deref().is_none_or(|only| only == name);
    tables.iter().filter(|(name, _)| wanted(name)).for_each(|(_, table)| out += &table());
    out
}

/// Where the time went, in words.
fn sentence(sum: &[DeviceTime]) -> String {
    let Some(sum) = sum.iter().find(|sum| sum.window_ns > 0) else { return "no device work in the trace\n".to_owned() };
    let of = |part: i64| percent(part as f64 / sum.window_ns as f64);
    let busy = of(sum.window_ns - sum.idle_ns);
    let mut out = format!("devices are busy {busy} of {}: computation {}", ms(sum.window_ns), of(sum.computation_ns));
    for (name, ns) in [
        ("exposed communication", sum.exposed_communication_ns),
        ("exposed copies", sum.exposed_memory_ns),
        ("other", sum.exposed_other_ns),
        ("idle", sum.idle_ns),
    ] {
        if ns > 0 {
            let _ = write!(out, ", {name} {}", of(ns));
        }
    }
    if let Some(share) = sum.overlap_share {
        let _ = write!(out, "; {} of communication runs beside computation", percent(share));
    }
    out + "\n"
}

fn breakdown(one: &Analyzed) -> String {
    let mut grid = Grid::new(2, ["rank", "device", "window", "computation", "communication", "memory", "other", "idle", "overlap"]);
    let of = |part: i64, time: &DeviceTime| percent(part as f64 / time.window_ns.max(1) as f64);
    let line = |rank: &str, time: &DeviceTime| {
        [
            rank.to_owned(),
            time.device.map_or("all".into(), |device| device.to_string()),
            ms(time.window_ns),
            of(time.computation_ns, time),
            of(time.exposed_communication_ns, time),
            of(time.exposed_memory_ns, time),
            of(time.exposed_other_ns, time),
            of(time.idle_ns, time),
            time.overlap_share.map_or("-".into(), percent),
        ]
    };
    for rank in &one.ranks {
        rank.analysis.breakdown.iter().for_each(|time| grid.add(line(&rank.label, time)));
    }
    if one.ranks.len() > 1 {
        one.total.breakdown.iter().for_each(|time| grid.add(line("all", time)));
    }
    titled("device time (communication, memory, other: where nothing to the left of them runs; overlap: of communication)", &grid)
}

fn kernels(all: &[Kernel], top: usize) -> String {
    let mut grid = Grid::new(3, ["class", "label", "name", "rows", "sum", "share", "mean", "min", "max", "stddev"]);
    for kernel in all.iter().take(top) {
        let times = &kernel.durations;
        grid.add([
            kernel.class.name().to_owned(),
            kernel.label.clone(),
            short(&kernel.name),
            times.count.to_string(),
            us(times.sum_ns as f64),
            percent(kernel.share),
            us(times.mean_ns()),
            us(times.min_ns as f64),
            us(times.max_ns as f64),
            times.stddev_ns().map_or("-".into(), us),
        ]);
    }
    titled(&format!("kernels and copies, {} of {} names", all.len().min(top), all.len()), &grid)
}

fn titled(title: &str, grid: &Grid) -> String {
    if grid.is_empty() { String::new() } else { format!("{title}\n{grid}") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn ms(ns: i64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn us(ns: f64) -> String {
    format!("{:.3} us", ns / 1e3)
}

/// Template arguments take screens.
fn short(name: &str) -> String {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
