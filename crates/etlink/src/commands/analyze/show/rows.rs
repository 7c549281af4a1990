//! Tables of kernels, ops, copies, and other work.

use super::{Analyzed, Shown, ShownNames, bandwidth_text, of_ranks, ranked_grid};
use crate::table::{Column, Grid, Limit, count, known, mb, mean_time, percent, scaled, time};
use etlink_analysis::{
    CollectiveTotals, ComputeRate, CopyTotals, HostOpTotals, KernelCounter, KernelSequence,
    KernelTotals, LaunchTotals, MemoryPoint, MemoryUse, OutsideWork, QueueDepth, RunMetric,
    SmCoverage, UtilizationWindow, short_names,
};
use etlink_link::ranks::StragglerStats;

pub(super) fn kernel_table(one: &Analyzed, limit: Limit) -> Shown {
    let all = &one.total.kernels;
    let full = one.full_names;
    let all_named = all.iter().map(|kernel| {
        if full {
            (kernel, &*kernel.name)
        } else {
            (kernel, kernel.short_name())
        }
    });
    let columns: &[Column<(&KernelTotals, &str)>] = &[
        ("class", |(kernel, _)| kernel.class.name().to_owned()),
        ("label", |(kernel, _)| kernel.label.clone()),
        ("rows", |(kernel, _)| kernel.durations.count.to_string()),
        ("sum", |(kernel, _)| time(kernel.durations.sum_ns)),
        ("share", |(kernel, _)| {
            known(kernel.share, |share| percent(share, 1))
        }),
        ("mean", |(kernel, _)| mean_time(kernel.durations.mean_ns())),
        ("min", |(kernel, _)| time(kernel.durations.min_ns)),
        ("max", |(kernel, _)| time(kernel.durations.max_ns)),
        ("stddev", |(kernel, _)| {
            // a kernel that ran once has no deviation
            known(kernel.durations.stddev_ns(), mean_time)
        }),
        ("op", |(kernel, _)| op_text(kernel)),
        ("name", |(_, name)| (*name).to_owned()),
    ];
    (
        format!(
            "kernels and copies, {} (op: with the most time)",
            count(all.len() as u64, "name")
        ),
        Grid::from_records(2, limit, columns, all_named)
            .last_texts(2)
            .expendable(["stddev", "min", "max", "class", "mean", "op", "rows"])
            .decisive(["sum"]),
    )
}

pub(super) fn outside_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&OutsideWork>] = &[
        ("device", |of| of.device.to_string()),
        ("rows", |of| of.rows.to_string()),
        ("sum", |of| time(of.sum_ns)),
        ("launched", |of| of.launched.phrase().to_owned()),
    ];
    let devices = of_ranks(one, |rank| &rank.outside);
    (
        "kernels and copies outside all steps (not part of device time, kernels and copies above \
        and below)"
            .into(),
        ranked_grid(2, limit, columns, devices).last_texts(1),
    )
}

pub(super) fn host_op_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&HostOpTotals>] = &[
        ("count", |op| op.count.to_string()),
        ("self time", |op| time(op.self_ns)),
        ("share", |op| percent(op.share, 1)),
        ("total time", |op| time(op.total_ns)),
        ("op", |op| op.name.clone()),
    ];
    let title = "host ops by self time over the recording, as there is no device work (`etlink top --tree` \
        shows the call tree)";
    (
        title.into(),
        Grid::from_records(0, limit, columns, one.total.host_ops.iter())
            .last_texts(1)
            .expendable(["total time"])
            .decisive(["self time"]),
    )
}

/// Names the op that owns a kernel, and counts the other ops that launch the kernel.
fn op_text(kernel: &KernelTotals) -> String {
    match (kernel.op(), kernel.other_ops()) {
        (None, _) => "-".to_owned(),
        (Some(op), 0) => op.to_owned(),
        (Some(op), others) => format!("{op} + {}", count(others as u64, "other")),
    }
}

pub(super) fn collective_table(one: &Analyzed, limit: Limit) -> Shown {
    let all = &one.total.collectives;
    let is_partial = all.iter().any(|one| one.without_size > 0);
    let mut columns: Vec<Column<&CollectiveTotals>> = vec![
        ("kind", |one| one.kind.clone()),
        ("group", |one| {
            if one.group.is_empty() {
                "unknown".into()
            } else {
                one.group.clone()
            }
        }),
        ("on", |one| {
            if one.on_device { "device" } else { "host" }.to_owned()
        }),
        ("times", |one| one.count.to_string()),
        ("without size", |one| one.without_size.to_string()),
        ("bytes", |one| known(one.bytes, |bytes| bytes.to_string())),
        ("sum", |one| time(one.sum_ns)),
        ("start skew", |one| time(one.start_skew_ns)),
        ("algorithm", |one| bandwidth_text(one.algorithm_gb_per_s)),
        ("bus", |one| bandwidth_text(one.bus_gb_per_s)),
    ];
    let mut expendable = vec!["on", "without size", "algorithm", "times"];
    if !is_partial {
        columns.retain(|(head, _)| *head != "without size");
        expendable.retain(|head| *head != "without size");
    }
    let has_skew = all.iter().any(|one| one.start_skew > 0);
    columns.retain(|(head, _)| has_skew || *head != "start skew");
    let summed = match one.told.ranks.len() {
        0 | 1 => "sum",
        _ => "sum over all ranks",
    };
    // A single file has no other ranks to compare with.
    let see = if one.told.run.is_empty() {
        ""
    } else {
        ", see `etlink ranks`"
    };
    let with_size = if is_partial {
        " of collectives with a size"
    } else {
        ""
    };
    let skew = if has_skew {
        "; start skew: waits for ranks whose recordings began later, which are in no bandwidth"
    } else {
        ""
    };
    let title = format!(
        "communication (bytes: {summed}{with_size}; bandwidths: over all time, including waits for \
         other ranks{see}{skew})"
    );
    (
        title,
        Grid::from_records(3, limit, &columns, all.iter())
            .expendable(expendable)
            .decisive(["sum"]),
    )
}

pub(super) fn copy_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&CopyTotals>] = &[
        ("copies", |copies| copies.kind.clone()),
        ("rows", |copies| copies.rows.to_string()),
        ("without size", |copies| {
            copies.rows_without_size.to_string()
        }),
        ("bytes", |copies| copies.bytes.to_string()),
        ("time", |copies| time(copies.busy_ns)),
        ("bandwidth", |copies| bandwidth_text(copies.gb_per_s)),
        ("largest", |copies| bandwidth_text(copies.max_gb_per_s)),
    ];
    let title = "copies by kind (bandwidth: bytes over the time in which copies with a size run)";
    (
        title.into(),
        Grid::from_records(1, limit, columns, one.total.copies.iter())
            .expendable(["without size", "largest"])
            .decisive(["bytes"]),
    )
}

pub(super) fn launch_table(one: &Analyzed, limit: Limit) -> Shown {
    let title = "launch calls (short rows: shorter in total than their call; delay: from the \
        call's end to its first row)";
    (
        title.into(),
        launch_grid(&one.total.launches, "call", limit),
    )
}

pub(super) fn op_launch_table(one: &Analyzed, limit: Limit) -> Shown {
    let title = "launch calls by enclosing op or annotation (short rows: shorter in total than \
        their call; delay: from the call's end to its first row)";
    let grid = launch_grid(&one.total.op_launches, "op", limit);
    (title.into(), grid)
}

fn launch_grid(launches: &[LaunchTotals], name: &'static str, limit: Limit) -> Grid {
    let columns: &[Column<&LaunchTotals>] = &[
        ("calls", |launch| launch.calls.to_string()),
        ("rows", |launch| launch.rows.to_string()),
        ("short rows", |launch| launch.short_rows.to_string()),
        ("call mean", |launch| mean_time(launch.call_mean_ns)),
        ("call max", |launch| time(launch.call_max_ns)),
        ("delay mean", |launch| mean_time(launch.delay_mean_ns)),
        ("delay max", |launch| time(launch.delay_max_ns)),
        (name, |launch| launch.name.clone()),
    ];
    Grid::from_records(0, limit, columns, launches.iter())
        .last_texts(1)
        .expendable(["call max", "delay max", "short rows"])
        .decisive(["calls"])
}

pub(super) fn queue_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&QueueDepth>] = &[
        ("device", |queue| queue.device.to_string()),
        ("stream", |queue| queue.stream.to_string()),
        ("rows", |queue| queue.rows.to_string()),
        ("mean depth", |queue| format!("{:.2}", queue.mean_length)),
        ("max depth", |queue| queue.max_length.to_string()),
        ("queue full", |queue| match queue.limit {
            Some(limit) => format!("{} at {limit}", time(queue.full_ns)),
            None => "-".to_owned(),
        }),
    ];
    let queues = of_ranks(one, |rank| &rank.queues);
    (
        "queue depth per stream: rows launched and not yet started (queue full: time that launches \
        blocked, and at which depth)"
            .into(),
        ranked_grid(3, limit, columns, queues).expendable(["mean depth"]),
    )
}

pub(super) fn coverage_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&SmCoverage>] = &[
        ("device", |of| of.device.to_string()),
        ("SMs", |of| of.multiprocessors.to_string()),
        ("kernels", |of| of.rows.to_string()),
        ("of kernel time", |of| percent(of.time_share, 1)),
        ("by time", |of| percent(of.by_time, 1)),
        ("by kernel", |of| percent(of.by_row, 1)),
        ("under 50 %", |of| percent(of.low_share, 1)),
        ("over 70 %", |of| percent(of.high_share, 1)),
    ];
    let devices = of_ranks(one, |rank| &rank.coverage);
    (
        "SM coverage: share of SMs that a kernel's blocks can fill (only kernels with a grid)"
            .into(),
        ranked_grid(2, limit, columns, devices).expendable(["by kernel", "SMs"]),
    )
}

pub(super) fn counter_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<(&str, &KernelCounter, String)>] = &[
        ("rank", |(rank, ..)| (*rank).to_owned()),
        ("kernels", |(_, of, _)| of.kernels.to_string()),
        ("mean", |(_, of, _)| metric_text(of.mean)),
        ("min", |(_, of, _)| metric_text(of.min)),
        ("max", |(_, of, _)| metric_text(of.max)),
        ("unit", |(_, of, _)| of.unit.clone()),
        ("metric", |(_, of, _)| of.metric.clone()),
        ("kernel", |(.., name)| name.clone()),
    ];
    let all: Vec<(&str, &KernelCounter)> = of_ranks(one, |rank| &rank.counters).collect();
    let shorts = short_names(all.iter().map(|(_, of)| of.name.as_str()));
    let counters = all.into_iter().zip(shorts).map(|((rank, of), short)| {
        let short = if !one.full_names { short } else { None };
        let name = short.map_or_else(|| of.name.clone(), String::from);
        (rank, of, name)
    });
    (
        "kernel metrics, measured separately from the trace, one kernel at a time".into(),
        Grid::from_records(1, limit, columns, counters)
            .last_texts(3)
            .expendable(["min", "max"]),
    )
}

/// Formats a value of any unit: integers as they are, others with three decimals.
fn metric_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

pub(super) fn work_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&ComputeRate>] = &[
        ("device", |of| of.device.to_string()),
        ("kernels", |of| of.rows.to_string()),
        ("operations", |of| scaled(of.operations as f64, "FLOP")),
        ("over", |of| over_text(of.window, of.steps, of.window_ns)),
        ("rate", |of| scaled(of.tflops * 1e12, "FLOP/s")),
        ("while running", |of| {
            scaled(of.busy_tflops * 1e12, "FLOP/s")
        }),
        ("kernel time", |of| time(of.sum_ns)),
    ];
    let devices = of_ranks(one, |rank| &rank.work);
    (
        "operations of matrix multiplications, convolutions and attention, from shapes or measured (rate: \
        over the steps or the recording)"
            .into(),
        ranked_grid(2, limit, columns, devices).expendable(["kernels", "kernel time"]),
    )
}

/// Names the period of a rate or a share.
pub(super) fn over_text(window: UtilizationWindow, steps: u64, ns: i64) -> String {
    let which = match window {
        UtilizationWindow::Steps => count(steps, "step"),
        UtilizationWindow::Process => "recording".to_owned(),
    };
    format!("{which}, {}", time(ns))
}

pub(super) fn sequence_table(one: &Analyzed, limit: Limit) -> Shown {
    let all = &one.total.sequences;
    let names = ShownNames::new(one);
    let columns: &[Column<(&KernelSequence, String)>] = &[
        ("times", |(sequence, _)| sequence.count.to_string()),
        ("rows each", |(sequence, _)| sequence.rows.to_string()),
        ("device", |(sequence, _)| time(sequence.device_ns)),
        ("op time", |(sequence, _)| time(sequence.op_ns)),
        ("op", |(sequence, _)| sequence.op.clone()),
        ("kernels", |(_, kernels)| kernels.clone()),
    ];
    let records = all.iter().map(|sequence| {
        let kernels = sequence.names.split(" | ").map(|name| names.shown(name));
        (sequence, kernels.collect::<Vec<_>>().join(" | "))
    });
    (
        format!("kernel sequences, {} different", all.len()),
        Grid::from_records(0, limit, columns, records)
            .last_texts(2)
            .expendable(["op time", "rows each"]),
    )
}

pub(super) fn memory_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&MemoryUse>] = &[
        ("device", |of| {
            // the host's memory: Kineto gives it the device -1
            if of.device < 0 {
                of.device_type.to_owned()
            } else {
                format!("{} {}", of.device_type, of.device)
            }
        }),
        ("allocations", |of| of.allocations.to_string()),
        ("frees", |of| of.frees.to_string()),
        ("before", |of| mb(of.start_bytes)),
        ("after", |of| mb(of.end_bytes)),
        ("peak", |of| mb(of.peak_bytes)),
        ("reserved", |of| mb(of.peak_reserved_bytes)),
    ];
    (
        "memory (before and after the recording)".into(),
        ranked_grid(2, limit, columns, of_ranks(one, |rank| &rank.memory))
            .expendable(["frees", "allocations"]),
    )
}

pub(super) fn memory_timeline_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<(&str, (i64, &MemoryPoint))>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, (_, point))| {
            format!("{} {}", point.device_type, point.device)
        }),
        ("after", |(_, (first, point))| {
            time(point.time_ns.saturating_sub(*first))
        }),
        ("bytes", |(_, (_, point))| point.bytes.to_string()),
        ("allocated", |(_, (_, point))| {
            point.allocated_bytes.to_string()
        }),
        ("reserved", |(_, (_, point))| {
            point.reserved_bytes.to_string()
        }),
    ];
    let all = one.told.ranks.iter().flat_map(|rank| {
        let points = &rank.said.memory_timeline;
        // each trace has its own time origin: only differences can be compared
        let first = points.first().map_or(0, |point| point.time_ns);
        points
            .iter()
            .map(move |point| (&*rank.label, (first, point)))
    });
    (
        "allocations and frees (after: time since the rank's first, which JSON and CSV have)"
            .into(),
        Grid::from_records(2, limit, columns, all),
    )
}

pub(super) fn metric_table(one: &Analyzed, _: Limit) -> Shown {
    let columns: &[Column<&RunMetric>] = &[
        ("metric", |metric| metric.name.clone()),
        ("value", |metric| format!("{:.6}", metric.value)),
        ("unit", |metric| metric.unit.to_owned()),
    ];
    (
        "metrics over all ranks, with ccl-bench's names (avg_step_time: on the host, without the first \
         and last step; memory_bound_fraction, compute_bound_fraction: kernels that cover under 50 % \
         or over 70 % of the SMs)"
            .into(),
        // a handful, which are looked up by name: show all
        Grid::from_records(1, Limit::NONE, columns, one.total.metrics.iter()),
    )
}

pub(super) fn straggler_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&StragglerStats>] = &[
        ("rank", |late| late.rank.to_string()),
        ("takes part", |late| late.collectives.to_string()),
        ("comes last", |late| late.last.to_string()),
        ("waits", |late| time(late.waited_ns)),
        ("others wait", |late| time(late.caused_ns)),
        ("began later", |late| time(late.began_late_ns)),
    ];
    (
        "stragglers (others wait: for the rank's work; began later: for its late start)".into(),
        Grid::from_records(1, limit, columns, one.stragglers.iter()),
    )
}
