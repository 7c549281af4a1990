//! Tables of the use of time.

use super::super::requests::RequestLatency;
use super::{Analyzed, Shown, of_ranks, ranked_grid};
use crate::table::{Column, Grid, Limit, count, known, mean_time, percent, time};
use etlink_analysis::{
    DeviceTime, IdleCauses, PhaseTotals, StepTime, Utilization, UtilizationWindow, counted_steps,
};
use etlink_formats::metrics::LatencyKind;
use etlink_link::ranks::step_definition;

pub(super) fn utilization_table(one: &Analyzed, _: Limit) -> Shown {
    fn of(part: i64, all: &Utilization) -> String {
        match all.whole_ns() {
            0 => "-".into(),
            whole => percent(part as f64 / whole as f64, 1),
        }
    }
    let columns: &[Column<&Utilization>] = &[
        ("device", |one| number_or_all(one.device)),
        ("of", |one| match one.window {
            UtilizationWindow::Steps => count(one.steps, "step"),
            UtilizationWindow::Process => "recording".to_owned(),
        }),
        ("length", |one| time(one.whole_ns())),
        ("busy", |one| of(one.busy_ns, one)),
        ("computation", |one| of(one.computation_ns, one)),
        ("communication", |one| of(one.exposed_communication_ns, one)),
        ("memory", |one| of(one.exposed_memory_ns, one)),
        ("idle", |one| of(one.idle_ns, one)),
        ("before the recording", |one| time(one.before_recording_ns)),
    ];
    let devices =
        of_ranks(one, |rank| &rank.utilization).chain(of_all(one, &one.total.utilization));
    // a device whose rows are missing has no figures
    let devices = devices.filter(|(_, one)| one.whole_ns() > 0 || one.unknown_ns == 0);
    (
        "device utilization while the program runs (communication, memory: only time in which no \
        column to the left runs)"
            .into(),
        ranked_grid(3, Limit::NONE, columns, devices).expendable([
            "before the recording",
            "memory",
            "length",
        ]),
    )
}

pub(super) fn breakdown_table(one: &Analyzed, _: Limit) -> Shown {
    fn of(part: i64, time: &DeviceTime) -> String {
        // a device with a single row of zero duration has an empty window
        percent(part as f64 / time.whole_ns().max(1) as f64, 1)
    }
    let columns: &[Column<&DeviceTime>] = &[
        ("device", |one| number_or_all(one.device)),
        ("window", |one| time(one.whole_ns())),
        ("computation", |one| of(one.computation_ns, one)),
        ("communication", |one| of(one.exposed_communication_ns, one)),
        ("memory", |one| of(one.exposed_memory_ns, one)),
        ("other", |one| of(one.exposed_other_ns, one)),
        ("idle", |one| of(one.idle_ns, one)),
        ("overlap", |one| {
            known(one.overlap_share, |share| percent(share, 1))
        }),
        ("outside", |one| match one.outside_ns {
            0 => "-".into(),
            ns => time(ns),
        }),
    ];
    let mut title =
        "device time of the steps, or of a recording without steps (communication, memory, other: only \
        time in which no column to the left runs; other: waits; overlap: hidden share of communication"
            .to_owned();
    let ranks = &one.told.ranks;
    let mut all = ranks.iter().flat_map(|rank| &rank.said.breakdown);
    let has_outside = all.any(|device| device.outside_ns > 0);
    // most traces have no such work, and their tables are narrow as they are
    let (columns, expendable) = if has_outside {
        title += "; outside: excluded time with only work of no step";
        (columns, &["outside", "other", "memory"][..])
    } else {
        (&columns[..columns.len() - 1], &["other", "memory"][..])
    };
    let devices = of_ranks(one, |rank| &rank.breakdown).chain(of_all(one, &one.total.breakdown));
    (
        title + ")",
        ranked_grid(2, Limit::NONE, columns, devices).expendable(expendable.iter().copied()),
    )
}

pub(super) fn step_table(one: &Analyzed, limit: Limit) -> Shown {
    fn of_device(part: i64, step: &StepTime) -> String {
        // no share is known if some rows are missing
        let is_known = step.rows > 0 && step.unknown_ns == 0;
        let share = is_known.then(|| part as f64 / step.device_window_ns.max(1) as f64);
        known(share, |share| percent(share, 1))
    }
    let columns: &[Column<&StepTime>] = &[
        ("step", |step| step.name.clone()),
        ("length", |step| time(step.length_ns)),
        ("host", |step| time(step.duration_ns)),
        ("device", |step| {
            known((step.rows > 0).then_some(step.device_window_ns), time)
        }),
        ("computation", |step| of_device(step.computation_ns, step)),
        ("communication", |step| {
            of_device(step.exposed_communication_ns, step)
        }),
        ("memory", |step| of_device(step.exposed_memory_ns, step)),
        ("idle", |step| of_device(step.idle_ns, step)),
        ("rows", |step| step.rows.to_string()),
    ];
    let grid = ranked_grid(2, limit, columns, of_ranks(one, |rank| &rank.steps));
    (step_title(one), grid.expendable(["rows", "memory", "host"]))
}

/// Returns the number of steps and their mean lengths.
pub(super) fn step_title(one: &Analyzed) -> String {
    let all = || of_ranks(one, |rank| &rank.steps).filter(|(_, step)| step.excluded.is_none());
    let mean = |of: fn(&StepTime) -> i64| {
        mean_time(all().map(|(_, step)| of(step) as f64).sum::<f64>() / all().count().max(1) as f64)
    };
    let length = match one.run_steps.mean_ns() {
        Some(ns) if one.told.ranks.len() > 1 => {
            format!(
                "mean {} from the last rank's begin to the last rank's end",
                time(ns)
            )
        }
        _ => format!("mean {}", mean(|step| step.length_ns)),
    };
    let host = mean(|step| step.duration_ns);
    // The run's length above is not the mean of its ranks' lengths.
    let of = if one.told.ranks.len() > 1 {
        "on a rank, mean "
    } else {
        ""
    };
    let mut title = format!("{}, {length}; {of}{host} on the host", how_many(one));
    if all().any(|(_, step)| step.between_ops_ns > 0) {
        let between = mean(|step| step.between_ops_ns);
        title += &format!(" ({between} of it outside ops and calls)");
    }
    if all().any(|(_, step)| step.rows > 0) {
        let device = mean(|step| step.device_window_ns);
        title += &format!("; {device} from first to last device row");
    }
    title + &left_out_text(one)
}

pub(super) fn phase_table(one: &Analyzed, limit: Limit) -> Shown {
    fn of_device(part: i64, phase: &PhaseTotals) -> String {
        match phase.device_window_ns {
            ..=0 => "-".into(),
            whole => percent(part as f64 / whole as f64, 1),
        }
    }
    fn mean_or_none(value: Option<f64>) -> String {
        known(value, |value| format!("{value:.1}"))
    }
    let columns: &[Column<&PhaseTotals>] = &[
        ("phase", |phase| phase.phase.clone()),
        ("steps", |phase| phase.durations.count.to_string()),
        ("batch", |phase| mean_or_none(phase.batch)),
        ("tokens", |phase| {
            known(phase.tokens, |tokens| tokens.to_string())
        }),
        ("median", |phase| time(phase.median_ns)),
        ("max", |phase| time(phase.durations.max_ns)),
        ("sum", |phase| time(phase.durations.sum_ns)),
        ("tokens/s", |phase| mean_or_none(phase.tokens_per_s)),
        ("computation", |phase| {
            of_device(phase.computation_ns, phase)
        }),
        ("communication", |phase| {
            of_device(phase.exposed_communication_ns, phase)
        }),
        ("idle", |phase| of_device(phase.idle_ns, phase)),
    ];
    (
        "steps by phase (batch: mean; tokens/s: between starts of steps; for the last step, over its \
        length)"
            .into(),
        ranked_grid(2, limit, columns, of_ranks(one, |rank| &rank.phases)),
    )
}

pub(super) fn request_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&RequestLatency>] = &[
        ("latency", |of| {
            match of.latency {
                LatencyKind::Ttft => "first token",
                LatencyKind::Tpot => "per token",
                LatencyKind::Itl => "between outputs",
                LatencyKind::E2el => "whole request",
                LatencyKind::Batch => "whole batch",
            }
            .to_owned()
        }),
        ("count", |of| of.requests.to_string()),
        ("mean", |of| known(of.mean_ns, time)),
        ("median", |of| known(of.median_ns, time)),
        ("p99", |of| known(of.p99_ns, time)),
        ("steps", |of| match of.trace_phase {
            "" => "-".to_owned(),
            phase => format!("{} {phase}", of.trace_steps),
        }),
        ("step mean", |of| known(of.trace_mean_ns, time)),
        ("file", |of| of.file.clone()),
    ];
    (
        "request latencies, measured by a benchmark at the client (steps: matching steps of all \
        ranks)"
            .into(),
        Grid::from_records(1, limit, columns, one.requests.iter()).expendable(["file", "median"]),
    )
}

/// Names steps that are left out of the means, and why; empty if there are none.
fn left_out_text(one: &Analyzed) -> String {
    let steps = of_ranks(one, |rank| &rank.steps);
    let mut left_out = steps.filter_map(|(_, step)| Some((step, step.excluded?)));
    let Some((first, cause)) = left_out.next() else {
        return String::new();
    };
    let others = match left_out.count() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    format!(
        "; left out of the mean: {} ({}){others}, which {}",
        first.name,
        time(first.length_ns),
        cause.phrase()
    )
}

/// Returns the number of steps and ranks.
fn how_many(one: &Analyzed) -> String {
    let each: Vec<usize> = one
        .told
        .ranks
        .iter()
        .map(|rank| counted_steps(&rank.said.steps).count())
        // ranks without step annotations do not count
        .filter(|steps| *steps > 0)
        .collect();
    let many = match each[..] {
        [only] => steps_text(only),
        [first, ..] if each.iter().all(|steps| *steps == first) => {
            format!("{} on each of {} ranks", steps_text(first), each.len())
        }
        _ => format!("{} on {} ranks", steps_text(each.iter().sum()), each.len()),
    };
    let mut steps = of_ranks(one, |rank| &rank.steps);
    match steps.find_map(|(_, step)| step_definition(&step.name)) {
        Some(definition) => format!("{many} ({definition})"),
        None => many,
    }
}

fn steps_text(steps: usize) -> String {
    count(steps as u64, "step")
}

pub(super) fn idle_table(one: &Analyzed, _: Limit) -> Shown {
    let devices = of_ranks(one, |rank| &rank.idle).chain(of_all(one, &one.total.idle));
    (
        "device idle time (no stream active), by what the next row waited for".into(),
        gap_grid(Limit::NONE, devices),
    )
}

pub(super) fn stream_idle_table(one: &Analyzed, limit: Limit) -> Shown {
    let streams = of_ranks(one, |rank| &rank.stream_idle);
    (
        "stream gaps, by what the next row waited for".into(),
        gap_grid(limit, streams),
    )
}

fn gap_grid<'a>(limit: Limit, all: impl Iterator<Item = (&'a str, &'a IdleCauses)>) -> Grid {
    fn of(part: i64, idle: &IdleCauses) -> String {
        percent(part as f64 / idle.idle_ns.max(1) as f64, 1)
    }
    let columns: &[Column<&IdleCauses>] = &[
        ("device", |idle| number_or_all(idle.device)),
        ("stream", |idle| number_or_all(idle.stream)),
        ("busy", |idle| time(idle.busy_ns)),
        ("gaps", |idle| idle.gaps.to_string()),
        ("idle", |idle| time(idle.idle_ns)),
        ("host late", |idle| of(idle.host_late_ns, idle)),
        ("event wait", |idle| of(idle.event_wait_ns, idle)),
        ("launch call", |idle| of(idle.launch_call_ns, idle)),
        ("launch", |idle| of(idle.launch_ns, idle)),
        ("between rows", |idle| of(idle.between_ns, idle)),
        ("unexplained", |idle| of(idle.unexplained_ns, idle)),
        ("longest", |idle| time(idle.longest_ns)),
    ];
    ranked_grid(3, limit, columns, all)
        .expendable([
            "unexplained",
            "between rows",
            "busy",
            "launch",
            "event wait",
            "launch call",
        ])
        .decisive(["idle"])
}

/// Returns the line of all ranks, if there are several.
fn of_all<'a, T>(one: &Analyzed, total: &'a [T]) -> impl Iterator<Item = (&'a str, &'a T)> {
    let total = if one.told.ranks.len() > 1 { total } else { &[] };
    total.iter().map(|sum| ("all", sum))
}

fn number_or_all(number: Option<i64>) -> String {
    number.map_or("all".into(), |number| number.to_string())
}
