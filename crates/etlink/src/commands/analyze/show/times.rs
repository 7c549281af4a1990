//! Tables of where time goes.

use super::{Analyzed, Shown, ms, of, percent, us};
use crate::commands::analyze::load::Ranked;
use crate::table::Grid;
use etlink_analyze::{Analysis, DeviceTime, Idle, Step};

pub(super) fn breakdown(one: &Analyzed, _top: usize) -> Shown {
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
        rank.said.breakdown.iter().for_each(|time| grid.add(line(&rank.label, time)));
    }
    if one.ranks.len() > 1 {
        one.total.breakdown.iter().for_each(|time| grid.add(line("all", time)));
    }
    ("device time (communication, memory, other: where nothing to the left of them runs; overlap: of communication)".into(), grid)
}

pub(super) fn steps(one: &Analyzed, top: usize) -> Shown {
    let mut grid = Grid::new(2, ["rank", "step", "host", "device", "computation", "communication", "memory", "idle", "rows"]);
    let all = || one.ranks.iter().flat_map(|rank| rank.said.steps.iter().map(move |step| (rank, step)));
    for (rank, step) in all().take(top) {
        let ran = step.rows > 0;
        let of = |part: i64| if ran { percent(part as f64 / step.device_window_ns.max(1) as f64) } else { "-".into() };
        grid.add([
            rank.label.clone(),
            step.name.clone(),
            ms(step.duration_ns),
            if ran { ms(step.device_window_ns) } else { "-".into() },
            of(step.computation_ns),
            of(step.exposed_communication_ns),
            of(step.exposed_memory_ns),
            of(step.idle_ns),
            step.rows.to_string(),
        ]);
    }
    let mean = |of: fn(&Step) -> i64| all().map(|(_, step)| of(step) as f64).sum::<f64>() / all().count().max(1) as f64 / 1e6;
    let means = format!("mean {:.3} ms on the host, {:.3} ms on the device", mean(|step| step.duration_ns), mean(|step| step.device_window_ns));
    (format!("{}, {means} (device: rows launched in the step)", of(top.min(all().count()), all().count(), "steps")), grid)
}

pub(super) fn idle(one: &Analyzed, _top: usize) -> Shown {
    let mut lines: Vec<(&str, &Idle)> = lines(one, |rank| &rank.said.idle);
    if one.ranks.len() > 1 {
        lines.extend(one.total.idle.iter().map(|idle| ("all", idle)));
    }
    ("idle devices (no stream runs), by what the next row waited for".into(), grid(&lines))
}

pub(super) fn stream_idle(one: &Analyzed, top: usize) -> Shown {
    let mut lines = lines(one, |rank| &rank.said.stream_idle);
    let all = lines.len();
    lines.truncate(top);
    (format!("gaps of {}, by what the next row waited for", of(lines.len(), all, "streams")), grid(&lines))
}

fn lines(one: &Analyzed, of: fn(&Ranked<Analysis>) -> &Vec<Idle>) -> Vec<(&str, &Idle)> {
    one.ranks.iter().flat_map(|rank| of(rank).iter().map(move |idle| (rank.label.as_str(), idle))).collect()
}

fn grid(lines: &[(&str, &Idle)]) -> Grid {
    let mut grid = Grid::new(
        3,
        ["rank", "device", "stream", "busy", "gaps", "idle", "host late", "event wait", "launch", "between rows", "unexplained", "longest"],
    );
    for (rank, idle) in lines {
        let of = |part: i64| percent(part as f64 / idle.idle_ns.max(1) as f64);
        grid.add([
            (*rank).to_owned(),
            idle.device.map_or("all".into(), |device| device.to_string()),
            idle.stream.map_or("all".into(), |stream| stream.to_string()),
            ms(idle.busy_ns),
            idle.gaps.to_string(),
            ms(idle.idle_ns),
            of(idle.host_late_ns),
            of(idle.event_wait_ns),
            of(idle.launch_ns),
            of(idle.between_ns),
            of(idle.unexplained_ns),
            us(idle.longest_ns as f64),
        ]);
    }
    grid
}
