//! Tables of what ran.

use super::{Analyzed, Shown, ms, of, percent, rate, short, us};
use crate::table::{Grid, mb};

pub(super) fn kernels(one: &Analyzed, top: usize) -> Shown {
    let all = &one.total.kernels;
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
    (format!("kernels and copies, {}", of(top.min(all.len()), all.len(), "names")), grid)
}

pub(super) fn collectives(one: &Analyzed, top: usize) -> Shown {
    let all = &one.total.collectives;
    let mut grid = Grid::new(3, ["kind", "group", "on", "times", "bytes", "sum", "algorithm", "bus"]);
    for one in all.iter().take(top) {
        grid.add([
            one.kind.clone(),
            if one.group.is_empty() { "not said".into() } else { one.group.clone() },
            if one.on_device { "device" } else { "host" }.to_owned(),
            one.count.to_string(),
            one.bytes.to_string(),
            us(one.sum_ns as f64),
            rate(one.algorithm_gb_per_s),
            rate(one.bus_gb_per_s),
        ]);
    }
    ("communication (bytes: sum; bandwidths hold the wait for other ranks, see `etlink ranks`)".into(), grid)
}

pub(super) fn copies(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(1, ["copies", "rows", "bytes", "time", "bandwidth", "largest"]);
    for copies in one.total.copies.iter().take(top) {
        grid.add([
            copies.kind.clone(),
            copies.rows.to_string(),
            copies.bytes.to_string(),
            us(copies.busy_ns as f64),
            rate(copies.gb_per_s),
            rate(copies.max_gb_per_s),
        ]);
    }
    ("copies by kind (bandwidth: bytes over the time in which one of the kind runs)".into(), grid)
}

pub(super) fn launches(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(1, ["call", "calls", "rows", "short rows", "call mean", "call max", "delay mean", "delay max"]);
    for launch in one.total.launches.iter().take(top) {
        grid.add([
            launch.name.clone(),
            launch.calls.to_string(),
            launch.rows.to_string(),
            launch.short_rows.to_string(),
            us(launch.call_mean_ns),
            us(launch.call_max_ns as f64),
            us(launch.delay_mean_ns),
            us(launch.delay_max_ns as f64),
        ]);
    }
    ("launching calls (short rows: shorter than their call; delay: from the call's end to its first row)".into(), grid)
}

pub(super) fn queues(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(3, ["rank", "device", "stream", "rows", "mean", "largest", "full"]);
    for (rank, queue) in one.ranks.iter().flat_map(|rank| rank.said.queues.iter().map(move |queue| (rank, queue))).take(top) {
        grid.add([
            rank.label.clone(),
            queue.device.to_string(),
            queue.stream.to_string(),
            queue.rows.to_string(),
            format!("{:.2}", queue.mean_length),
            queue.max_length.to_string(),
            us(queue.full_ns as f64),
        ]);
    }
    ("rows launched and not started, per stream (full: 1024 or more)".into(), grid)
}

pub(super) fn coverage(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(2, ["rank", "device", "multiprocessors", "kernels", "by time", "by kernel", "under 50 %", "over 70 %"]);
    for (rank, of) in one.ranks.iter().flat_map(|rank| rank.said.coverage.iter().map(move |one| (rank, one))).take(top) {
        grid.add([
            rank.label.clone(),
            of.device.to_string(),
            of.multiprocessors.to_string(),
            of.rows.to_string(),
            percent(of.by_time),
            percent(of.by_row),
            percent(of.low_share),
            percent(of.high_share),
        ]);
    }
    ("multiprocessors that kernels' blocks can fill".into(), grid)
}

pub(super) fn sequences(one: &Analyzed, top: usize) -> Shown {
    let all = &one.total.sequences;
    let mut grid = Grid::new(1, ["op", "times", "rows each", "device", "op time", "kernels"]);
    for sequence in all.iter().take(top) {
        grid.add([
            sequence.op.clone(),
            sequence.count.to_string(),
            sequence.rows.to_string(),
            us(sequence.device_ns as f64),
            us(sequence.op_ns as f64),
            short(&sequence.names),
        ]);
    }
    (format!("kernel sequences, {}", of(top.min(all.len()), all.len(), "different ones")), grid)
}

pub(super) fn memory(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(2, ["rank", "device", "allocations", "frees", "before", "after", "peak", "reserved"]);
    let bytes = |bytes: i64| format!("{:.2} MB", bytes as f64 / 1e6);
    for (rank, memory) in one.ranks.iter().flat_map(|rank| rank.said.memory.iter().map(move |memory| (rank, memory))).take(top) {
        grid.add([
            rank.label.clone(),
            if memory.device < 0 { memory.device_type.to_owned() } else { format!("{} {}", memory.device_type, memory.device) },
            memory.allocations.to_string(),
            memory.frees.to_string(),
            bytes(memory.start_bytes),
            bytes(memory.end_bytes),
            bytes(memory.peak_bytes),
            mb(memory.peak_reserved_bytes),
        ]);
    }
    ("memory (before and after the recording)".into(), grid)
}

pub(super) fn memory_timeline(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(2, ["rank", "device", "time", "bytes", "allocated", "reserved"]);
    let all = || one.ranks.iter().flat_map(|rank| rank.said.memory_timeline.iter().map(move |point| (rank, point)));
    for (rank, point) in all().take(top) {
        grid.add([
            rank.label.clone(),
            format!("{} {}", point.device_type, point.device),
            ms(point.time_ns),
            point.bytes.to_string(),
            point.allocated_bytes.to_string(),
            point.reserved_bytes.to_string(),
        ]);
    }
    (of(top.min(all().count()), all().count(), "allocations and frees"), grid)
}

pub(super) fn metrics(one: &Analyzed, _top: usize) -> Shown {
    let mut grid = Grid::new(1, ["metric", "value", "unit"]);
    for metric in &one.total.metrics {
        grid.add([metric.name.clone(), format!("{:.6}", metric.value), metric.unit.to_owned()]);
    }
    ("metrics over all ranks, by ccl-bench's names".into(), grid)
}
