//! Tables of where time goes.

use super::{Analyzed, Shown, ms, of, of_ranks, percent, us};
use crate::table::{Column, Grid};
use etlink_analyze::{DeviceTime, Idle, Step};

pub(super) fn breakdown(one: &Analyzed, _top: usize) -> Shown {
    fn of(part: i64, time: &DeviceTime) -> String {
        percent(part as f64 / time.window_ns.max(1) as f64)
    }
    let columns: &[Column<(&str, &DeviceTime)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, time)| number_or_all(time.device)),
        ("window", |(_, time)| ms(time.window_ns)),
        ("computation", |(_, time)| of(time.computation_ns, time)),
        ("communication", |(_, time)| of(time.exposed_communication_ns, time)),
        ("memory", |(_, time)| of(time.exposed_memory_ns, time)),
        ("other", |(_, time)| of(time.exposed_other_ns, time)),
        ("idle", |(_, time)| of(time.idle_ns, time)),
        ("overlap", |(_, time)| time.overlap_share.map_or("-".into(), percent)),
    ];
    let devices = of_ranks(one, |rank| &rank.breakdown).chain(of_all(one, &one.total.breakdown));
    let title =
        "device time (communication, memory, other: where nothing to the left of them runs; other: waits, no work; overlap: of communication)";
    (title.into(), Grid::of(2, columns, devices))
}

pub(super) fn steps(one: &Analyzed, top: usize) -> Shown {
    fn of_device(part: i64, step: &Step) -> String {
        if step.rows > 0 { percent(part as f64 / step.device_window_ns.max(1) as f64) } else { "-".into() }
    }
    let columns: &[Column<(&str, &Step)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("step", |(_, step)| step.name.clone()),
        ("host", |(_, step)| ms(step.duration_ns)),
        ("device", |(_, step)| if step.rows > 0 { ms(step.device_window_ns) } else { "-".into() }),
        ("computation", |(_, step)| of_device(step.computation_ns, step)),
        ("communication", |(_, step)| of_device(step.exposed_communication_ns, step)),
        ("memory", |(_, step)| of_device(step.exposed_memory_ns, step)),
        ("idle", |(_, step)| of_device(step.idle_ns, step)),
        ("rows", |(_, step)| step.rows.to_string()),
    ];
    let all = || of_ranks(one, |rank| &rank.steps);
    let mean = |of: fn(&Step) -> i64| all().map(|(_, step)| of(step) as f64).sum::<f64>() / all().count().max(1) as f64 / 1e6;
    let means = format!("mean {:.3} ms on the host, {:.3} ms on the device", mean(|step| step.duration_ns), mean(|step| step.device_window_ns));
    let title = format!("{}, {means} (device: rows launched in the step)", of(top.min(all().count()), all().count(), "steps"));
    (title, Grid::of(2, columns, all().take(top)))
}

pub(super) fn idle(one: &Analyzed, _top: usize) -> Shown {
    let devices = of_ranks(one, |rank| &rank.idle).chain(of_all(one, &one.total.idle));
    ("idle devices (no stream works), by what the next row waited for".into(), gaps(devices))
}

pub(super) fn stream_idle(one: &Analyzed, top: usize) -> Shown {
    let streams = || of_ranks(one, |rank| &rank.stream_idle);
    let of = of(top.min(streams().count()), streams().count(), "streams");
    (format!("gaps of {of}, by what the next row waited for"), gaps(streams().take(top)))
}

fn gaps<'a>(all: impl Iterator<Item = (&'a str, &'a Idle)>) -> Grid {
    fn of(part: i64, idle: &Idle) -> String {
        percent(part as f64 / idle.idle_ns.max(1) as f64)
    }
    let columns: &[Column<(&str, &Idle)>] = &[
        ("rank", |(rank, _)| (*rank).to_owned()),
        ("device", |(_, idle)| number_or_all(idle.device)),
        ("stream", |(_, idle)| number_or_all(idle.stream)),
        ("busy", |(_, idle)| ms(idle.busy_ns)),
        ("gaps", |(_, idle)| idle.gaps.to_string()),
        ("idle", |(_, idle)| ms(idle.idle_ns)),
        ("host late", |(_, idle)| of(idle.host_late_ns, idle)),
        ("event wait", |(_, idle)| of(idle.event_wait_ns, idle)),
        ("launch", |(_, idle)| of(idle.launch_ns, idle)),
        ("between rows", |(_, idle)| of(idle.between_ns, idle)),
        ("unexplained", |(_, idle)| of(idle.unexplained_ns, idle)),
        ("longest", |(_, idle)| us(idle.longest_ns as f64)),
    ];
    Grid::of(3, columns, all)
}

/// The line of all ranks, if there are several.
fn of_all<'a, T>(one: &Analyzed, total: &'a [T]) -> impl Iterator<Item = (&'a str, &'a T)> {
    total.iter().filter(|_| one.told.ranks.len() > 1).map(|sum| ("all", sum))
}

fn number_or_all(number: Option<i64>) -> String {
    number.map_or("all".into(), |number| number.to_string())
}
