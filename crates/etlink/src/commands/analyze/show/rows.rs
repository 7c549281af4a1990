//! Tables of what ran.

use super::{Analyzed, Shown, ms, of, of_ranks, percent, rate, short, us};
use crate::table::{Column, Grid, mb};
use etlink_analyze::{Collectives, Computed, Copies, Coverage, Kernel, Launches, Memory, MemoryPoint, Metric, QueueLength, Sequence};

pub(super) fn kernels(one: &Analyzed, top: usize) -> Shown {
    let all = &one.total.kernels;
    let columns: &[Column<&Kernel>] = &[
        ("class", |kernel| kernel.class.name().to_owned()),
        ("label", |kernel| kernel.label.clone()),
        ("name", |kernel| short(&kernel.name)),
        ("rows", |kernel| kernel.durations.count.to_string()),
        ("sum", |kernel| us(kernel.durations.sum_ns as f64)),
        ("share", |kernel| percent(kernel.share)),
        ("mean", |kernel| us(kernel.durations.mean_ns())),
        ("min", |kernel| us(kernel.durations.min_ns as f64)),
        ("max", |kernel| us(kernel.durations.max_ns as f64)),
        ("stddev", |kernel| kernel.durations.stddev_ns().map_or("-".into(), us)),
    ];
    (format!("kernels and copies, {}", of(top.min(all.len()), all.len(), "names")), Grid::of(3, columns, all.iter().take(top)))
}

pub(super) fn collectives(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<&Collectives>] = &[
        ("kind", |one| one.kind.clone()),
        ("group", |one| if one.group.is_empty() { "not said".into() } else { one.group.clone() }),
        ("on", |one| if one.on_device { "device" } else { "host" }.to_owned()),
        ("times", |one| one.count.to_string()),
        ("bytes", |one| one.bytes.to_string()),
        ("sum", |one| us(one.sum_ns as f64)),
        ("algorithm", |one| rate(one.algorithm_gb_per_s)),
        ("bus", |one| rate(one.bus_gb_per_s)),
    ];
    let title = "communication (bytes: sum; bandwidths hold the wait for other ranks, see `etlink ranks`)";
    (title.into(), Grid::of(3, columns, one.total.collectives.iter().take(top)))
}

pub(super) fn copies(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<&Copies>] = &[
        ("copies", |copies| copies.kind.clone()),
        ("rows", |copies| copies.rows.to_string()),
        ("bytes", |copies| copies.bytes.to_string()),
        ("time", |copies| us(copies.busy_ns as f64)),
        ("bandwidth", |copies| rate(copies.gb_per_s)),
        ("largest", |copies| rate(copies.max_gb_per_s)),
    ];
    let title = "copies by kind (bandwidth: bytes over the time in which one of the kind runs)";
    (title.into(), Grid::of(1, columns, one.total.copies.iter().take(top)))
}

pub(super) fn launches(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<&Launches>] = &[
        ("call", |launch| launch.name.clone()),
        ("calls", |launch| launch.calls.to_string()),
        ("rows", |launch| launch.rows.to_string()),
        ("short rows", |launch| launch.short_rows.to_string()),
        ("call mean", |launch| us(launch.call_mean_ns)),
        ("call max", |launch| us(launch.call_max_ns as f64)),
        ("delay mean", |launch| us(launch.delay_mean_ns)),
        ("delay max", |launch| us(launch.delay_max_ns as f64)),
    ];
    let title = "launching calls (short rows: shorter than their call; delay: from the call's end to its first row)";
    (title.into(), Grid::of(1, columns, one.total.launches.iter().take(top)))
}

pub(super) fn queues(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<(&str, &QueueLength)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, queue)| queue.device.to_string()),
        ("stream", |(_, queue)| queue.stream.to_string()),
        ("rows", |(_, queue)| queue.rows.to_string()),
        ("mean", |(_, queue)| format!("{:.2}", queue.mean_length)),
        ("largest", |(_, queue)| queue.max_length.to_string()),
        ("full", |(_, queue)| us(queue.full_ns as f64)),
    ];
    let queues = of_ranks(one, |rank| &rank.queues);
    ("rows launched and not started, per stream (full: 1024 or more)".into(), Grid::of(3, columns, queues.take(top)))
}

pub(super) fn coverage(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<(&str, &Coverage)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, of)| of.device.to_string()),
        ("multiprocessors", |(_, of)| of.multiprocessors.to_string()),
        ("kernels", |(_, of)| of.rows.to_string()),
        ("by time", |(_, of)| percent(of.by_time)),
        ("by kernel", |(_, of)| percent(of.by_row)),
        ("under 50 %", |(_, of)| percent(of.low_share)),
        ("over 70 %", |(_, of)| percent(of.high_share)),
    ];
    let devices = of_ranks(one, |rank| &rank.coverage);
    ("multiprocessors that kernels' blocks can fill".into(), Grid::of(2, columns, devices.take(top)))
}

pub(super) fn work(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<(&str, &Computed)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, of)| of.device.to_string()),
        ("kernels", |(_, of)| of.rows.to_string()),
        ("TFLOP", |(_, of)| format!("{:.3}", of.operations as f64 / 1e12)),
        ("TFLOP/s", |(_, of)| format!("{:.3}", of.tflops)),
        ("while these run", |(_, of)| format!("{:.3}", of.busy_tflops)),
        ("they run", |(_, of)| us(of.sum_ns as f64)),
    ];
    let devices = of_ranks(one, |rank| &rank.work);
    ("operations of multiplications, convolutions and attention, by shapes".into(), Grid::of(2, columns, devices.take(top)))
}

pub(super) fn sequences(one: &Analyzed, top: usize) -> Shown {
    let all = &one.total.sequences;
    let columns: &[Column<&Sequence>] = &[
        ("op", |sequence| sequence.op.clone()),
        ("times", |sequence| sequence.count.to_string()),
        ("rows each", |sequence| sequence.rows.to_string()),
        ("device", |sequence| us(sequence.device_ns as f64)),
        ("op time", |sequence| us(sequence.op_ns as f64)),
        ("kernels", |sequence| short(&sequence.names)),
    ];
    (format!("kernel sequences, {}", of(top.min(all.len()), all.len(), "different ones")), Grid::of(1, columns, all.iter().take(top)))
}

pub(super) fn memory(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<(&str, &Memory)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, of)| if of.device < 0 { of.device_type.to_owned() } else { format!("{} {}", of.device_type, of.device) }),
        ("allocations", |(_, of)| of.allocations.to_string()),
        ("frees", |(_, of)| of.frees.to_string()),
        ("before", |(_, of)| signed_mb(of.start_bytes)),
        ("after", |(_, of)| signed_mb(of.end_bytes)),
        ("peak", |(_, of)| signed_mb(of.peak_bytes)),
        ("reserved", |(_, of)| mb(of.peak_reserved_bytes)),
    ];
    ("memory (before and after the recording)".into(), Grid::of(2, columns, of_ranks(one, |rank| &rank.memory).take(top)))
}

fn signed_mb(bytes: i64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

pub(super) fn memory_timeline(one: &Analyzed, top: usize) -> Shown {
    let columns: &[Column<(&str, &MemoryPoint)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, point)| format!("{} {}", point.device_type, point.device)),
        ("time", |(_, point)| ms(point.time_ns)),
        ("bytes", |(_, point)| point.bytes.to_string()),
        ("allocated", |(_, point)| point.allocated_bytes.to_string()),
        ("reserved", |(_, point)| point.reserved_bytes.to_string()),
    ];
    let all = || of_ranks(one, |rank| &rank.memory_timeline);
    (of(top.min(all().count()), all().count(), "allocations and frees"), Grid::of(2, columns, all().take(top)))
}

pub(super) fn metrics(one: &Analyzed, _top: usize) -> Shown {
    let columns: &[Column<&Metric>] =
        &[("metric", |metric| metric.name.clone()), ("value", |metric| format!("{:.6}", metric.value)), ("unit", |metric| metric.unit.to_owned())];
    ("metrics over all ranks, by ccl-bench's names".into(), Grid::of(1, columns, one.total.metrics.iter()))
}
