//! Idle time of devices: a sentence on the cause, host activity, and the longest gaps.

use super::{Analyzed, Shown, ShownNames, of_ranks, ranked_grid};
use crate::table::{Column, Grid, Limit, percent, percent_of, time};
use etlink_analysis::{GapCause, HostIdle, IdleGap};
use std::collections::BTreeMap;

/// Label for host activity that the trace does not show.
const NOTHING: &str = "unrecorded activity";

/// Names the largest cause of idle time, and the host's activity if the host is the cause.
pub(super) fn idle_sentence(one: &Analyzed) -> String {
    let idle = one.total.idle.first();
    let Some(idle) = idle.filter(|idle| idle.idle_ns > 0) else {
        return String::new();
    };
    let causes = [
        (GapCause::HostLate, idle.host_late_ns),
        (GapCause::EventWait, idle.event_wait_ns),
        (GapCause::LaunchCall, idle.launch_call_ns),
        (GapCause::Launch, idle.launch_ns),
        (GapCause::Between, idle.between_ns),
        (GapCause::Unexplained, idle.unexplained_ns),
    ];
    let largest = causes.into_iter().rev().max_by_key(|(_, ns)| *ns);
    let (cause, ns) = largest.unwrap_or_default();
    let mut out = format!(
        "{} of idle time, {} of it ({}) {}",
        time(idle.idle_ns),
        percent_of(ns, idle.idle_ns),
        time(ns),
        cause_phrase(cause)
    );
    if cause == GapCause::HostLate
        && let Some((host, host_ns)) = longest_host(one)
    {
        out += &format!(", the largest part in {host} ({})", time(host_ns));
    }
    if cause == GapCause::LaunchCall
        && let Some((call, call_ns)) = longest_launch_call(one)
    {
        out += &format!(", the longest in {call} ({})", time(call_ns));
    }
    out + "\n"
}

fn cause_phrase(cause: GapCause) -> &'static str {
    match cause {
        GapCause::HostLate => "because the host had not launched the next row",
        GapCause::EventWait => "because the next row waited for another stream",
        GapCause::LaunchCall => {
            "because launch calls blocked (loading a module, waiting, or on a full queue)"
        }
        GapCause::Launch => "between a late launch and the start of its row",
        GapCause::Between => "although the next row was launched",
        GapCause::Unexplained => "without a cause in the trace",
    }
}

/// Returns the host activity during which devices wait longest, summed over all ranks.
fn longest_host(one: &Analyzed) -> Option<(&str, i64)> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, host) in of_ranks(one, |rank| &rank.host_idle) {
        let sum = sums.entry(host_name(host.host.as_deref())).or_default();
        *sum = sum.saturating_add(host.idle_ns);
    }
    sums.into_iter().max_by_key(|(_, ns)| *ns)
}

/// Returns the call that blocks longest while a device is idle.
fn longest_launch_call(one: &Analyzed) -> Option<(&str, i64)> {
    let gaps = of_ranks(one, |rank| &rank.gaps);
    let blocked = gaps.filter(|(_, gap)| gap.cause == GapCause::LaunchCall);
    let (_, gap) = blocked.max_by_key(|(_, gap)| gap.cause_ns)?;
    Some((gap.host.as_deref()?, gap.cause_ns))
}

fn host_name(host: Option<&str>) -> &str {
    host.unwrap_or(NOTHING)
}

fn cause_name(cause: GapCause) -> &'static str {
    match cause {
        GapCause::HostLate => "host late",
        GapCause::EventWait => "event wait",
        GapCause::LaunchCall => "launch call",
        GapCause::Launch => "launch",
        GapCause::Between => "between rows",
        GapCause::Unexplained => "unexplained",
    }
}

pub(super) fn host_idle_table(one: &Analyzed, limit: Limit) -> Shown {
    let columns: &[Column<&HostIdle>] = &[
        ("device", |host| host.device.to_string()),
        ("gaps", |host| host.gaps.to_string()),
        ("idle", |host| time(host.idle_ns)),
        ("share", |host| percent(host.share, 1)),
        ("host", |host| host_name(host.host.as_deref()).to_owned()),
    ];
    (
        "idle time before late launches, by activity of the launching thread or of the thread that \
        gave it work (innermost op, annotation or runtime call)"
            .into(),
        ranked_grid(2, limit, columns, of_ranks(one, |rank| &rank.host_idle))
            .last_texts(1)
            .expendable(["gaps"])
            .decisive(["idle"]),
    )
}

pub(super) fn gap_table(one: &Analyzed, limit: Limit) -> Shown {
    let names = ShownNames::new(one);
    let gaps = of_ranks(one, |rank| &rank.gaps).map(|(rank, gap)| {
        let around = [&gap.row_before, &gap.row_after];
        (rank, gap, around.map(|name| names.shown(name)))
    });
    let columns: &[Column<(&str, &IdleGap, [&str; 2])>] = &[
        ("rank", |(rank, ..)| (*rank).to_owned()),
        ("device", |(_, gap, _)| gap.device.to_string()),
        ("start", |(_, gap, _)| gap.start_ns.to_string()),
        ("length", |(_, gap, _)| time(gap.length_ns)),
        ("of it", |(_, gap, _)| time(gap.cause_ns)),
        ("cause", |(_, gap, _)| cause_name(gap.cause).to_owned()),
        ("host", |(_, gap, _)| match &gap.host {
            Some(host) => format!("{host} {}", time(gap.host_ns)),
            None => "-".to_owned(),
        }),
        ("row before", |(.., around)| around[0].to_owned()),
        ("row after", |(.., around)| around[1].to_owned()),
    ];
    (
        "longest device gaps (of it: due to the cause; start: ns since the origin of the trace)"
            .into(),
        Grid::from_records(2, limit, columns, gaps)
            .last_texts(4)
            .expendable(["of it", "start", "row before"])
            .decisive(["length"]),
    )
}
