//! Summary of the page: sums and shares of figures in the tables.

use super::{RankStats, ReportPage, ReportRank, strings};
use etlink_analyze::{Utilization, UtilizationWindow, counted_steps};
use etlink_link::LinkReport;
use etlink_link::ranks::step_definition;
use etlink_model::{GlobalRank, Severity};
use etlink_replay::PathCause;
use serde::Serialize;
use std::collections::BTreeMap;

/// Cause of idle time: the call that launches the next work had not begun.
const HOST_LATE: &str = "host late";
/// Longest name in a card, in characters.
const CARD_NAME: usize = 60;

/// A key figure at the top of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SummaryCard {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) note: String,
}

/// Returns the summary sentence of the page.
pub(super) fn summary_sentence(page: &ReportPage<'_>) -> String {
    let ranks = match page.ranks {
        [_] => "One rank".to_owned(),
        ranks => format!("{} ranks", ranks.len()),
    };
    let mut parts = vec![format!("{ranks}{}", device_phrase(page.ranks))];
    if let Some((median, of)) = step_time(page) {
        parts.push(format!("a step takes {} ({of})", time_text(median)));
    }
    match device_use(page) {
        Some(total) => {
            let of = |ns: i64| percent_text(ns, total.whole_ns());
            let communication = format!(
                ", exposed communication, including waits for other ranks, {}",
                of(total.exposed_communication_ns)
            );
            let communication = if total.exposed_communication_ns > 0 {
                communication
            } else {
                String::new()
            };
            parts.push(format!(
                "devices are busy {} of {} ({} of {}): computation {}{communication}, idle {}",
                of(total.busy_ns),
                whole_phrase(total),
                time_text(total.busy_ns),
                time_text(total.whole_ns()),
                of(total.computation_ns),
                of(total.idle_ns)
            ));
            if total.before_recording_ns > 0 {
                parts.push(format!(
                    "another {} is excluded, in which work from before the recording runs or is \
                    waited for",
                    time_text(total.before_recording_ns)
                ));
            }
        }
        // Without device time, the critical path matters most at first.
        None => parts.extend(on_the_path(page.ranks)),
    }
    let caveat = page.met.map(RankStats::clock_caveat).unwrap_or_default();
    parts.extend(worst_straggler(page).map(|(rank, ns)| {
        format!(
            "the others waited longest for work of rank {rank}, {} in total{caveat}",
            time_text(ns)
        )
    }));
    parts.extend(late_beginner(page).map(|(rank, ns)| {
        format!(
            "they waited {} because {}",
            time_text(ns),
            late_begin_text(page, rank)
        )
    }));
    parts.join("; ") + "."
}

/// Returns the utilization of all devices; `None` without device time.
fn device_use<'p>(page: &ReportPage<'p>) -> Option<&'p Utilization> {
    let total = page.total.utilization.first();
    total.filter(|total| total.whole_ns() > 0)
}

/// Returns the phrase for the whole that shares of device time refer to.
fn whole_phrase(total: &Utilization) -> &'static str {
    match (total.window, total.steps) {
        (UtilizationWindow::Steps, 1) => "the step",
        (UtilizationWindow::Steps, _) => "the steps",
        (UtilizationWindow::Process, _) => "the recording",
    }
}

fn device_phrase(ranks: &[ReportRank]) -> String {
    let rows = ranks
        .iter()
        .any(|rank| rank.link.as_ref().is_none_or(|link| link.device_rows > 0));
    let damaged = link_reports(ranks).any(|link| link.anomalies.any(Severity::Damage));
    let model = ranks
        .first()
        .and_then(|rank| rank.device.as_deref())
        .map(|model| format!(" on {model}"));
    match model {
        // A damaged file may have lost its rows: then "on the CPU" would be a guess.
        model if !rows && damaged => {
            model.unwrap_or_default()
                + ": the readable part of the damaged traces has no device rows"
        }
        Some(model) => model,
        None if rows => String::new(),
        None => " on the CPU: the traces have no device rows".to_owned(),
    }
}

/// Returns the largest cause on the critical paths, for runs without devices.
fn on_the_path(ranks: &[ReportRank]) -> Option<String> {
    let mut sums = path_causes(ranks);
    // Times of a damaged trace may overflow 64 bits.
    let whole = sums
        .iter()
        .fold(0i64, |whole, (_, ns)| whole.saturating_add(*ns));
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    if whole <= 0 {
        return None;
    }
    let (cause, ns) = sums.first()?;
    Some(format!(
        "the critical path is {} {}",
        percent_text(*ns, whole),
        cause.name().replace('_', " ")
    ))
}

fn path_causes(ranks: &[ReportRank]) -> Vec<(PathCause, i64)> {
    let mut sums: Vec<(PathCause, i64)> = vec![];
    for (cause, time) in ranks
        .iter()
        .filter_map(|rank| rank.critical_path.as_ref())
        .flat_map(|path| &path.causes)
    {
        match sums.iter_mut().find(|(of, _)| of == cause) {
            Some((_, ns)) => *ns = ns.saturating_add(time.ns.0),
            None => sums.push((*cause, time.ns.0)),
        }
    }
    sums
}

/// Returns the mean length of a step and its description: of the run if ranks are compared, else of
/// the rank with the longest steps.
fn step_time(page: &ReportPage<'_>) -> Option<(i64, String)> {
    let mean_of = |count: usize| match count {
        1 => "1 step".to_owned(),
        count => format!("mean of {count} steps"),
    };
    let steps = page.met.map(|met| &met.steps);
    if let Some((steps, mean_ns)) = steps.and_then(|steps| Some((steps, steps.mean_ns()?))) {
        let which = mean_of(steps.counted().count());
        let of = format!("{which}, from the last rank's begin to the last rank's end");
        return Some((mean_ns, of));
    }
    let means = page.ranks.iter().filter_map(|rank| {
        let lengths = counted_steps(&rank.analysis.steps).map(|step| step.length_ns);
        let count = lengths.clone().count();
        let total = lengths.reduce(i64::saturating_add)?;
        Some((total / i64::try_from(count).ok()?, count))
    });
    let (mean_ns, count) = means.max()?;
    let of = match page.ranks.len() {
        1 => mean_of(count),
        ranks => format!("{}, the longest of {ranks} ranks", mean_of(count)),
    };
    Some((mean_ns, of))
}

fn worst_straggler(page: &ReportPage<'_>) -> Option<(GlobalRank, i64)> {
    let late = page
        .met?
        .ranks
        .iter()
        // `max_by_key` takes the last of equals; this names the lowest rank among them.
        .max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)))?;
    (late.caused_ns > 0).then_some((late.rank, late.caused_ns))
}

/// Returns the rank whose late begin made the others wait longest, if that exceeds a twentieth of
/// all waiting.
fn late_beginner(page: &ReportPage<'_>) -> Option<(GlobalRank, i64)> {
    let ranks = &page.met?.ranks;
    let late = ranks
        .iter()
        .max_by_key(|rank| (rank.began_late_ns, std::cmp::Reverse(rank.rank)))?;
    let waited = ranks
        .iter()
        .fold(0i64, |sum, rank| sum.saturating_add(rank.waited_ns));
    (late.began_late_ns > waited / 20).then_some((late.rank, late.began_late_ns))
}

/// Names what began later: a recording that begins in the middle of a step looks like a late step.
fn late_begin_text(page: &ReportPage<'_>, rank: GlobalRank) -> String {
    let is_step = page
        .met
        .is_some_and(|met| met.began_steps_later.contains(&rank));
    if is_step {
        format!("rank {rank} began its step later")
    } else {
        format!("the step or the recording of rank {rank} began later")
    }
}

/// Returns the cards that the traces have figures for. Program figures come first, in the order of
/// a reader's questions; the fidelity of the figures comes last.
pub(super) fn summary_cards(page: &ReportPage<'_>) -> Vec<SummaryCard> {
    let cards = [
        step_card(page),
        busy_card(page),
        idle_card(page),
        exposed_card(page),
        memory_card(page),
        straggler_card(page),
        computation_card(page),
        overlap_card(page),
        replay_card(page),
        launch_card(page),
    ];
    cards.into_iter().flatten().collect()
}

fn step_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let (mean_ns, mut note) = step_time(page)?;
    let ranks = page.ranks.iter();
    let mut steps = ranks.flat_map(|rank| &rank.analysis.steps);
    if let Some(step) = steps.find_map(|step| step_definition(&step.name)) {
        note += &format!("; a step is {step}");
    }
    note += &left_out_text(page);
    Some(SummaryCard {
        name: "Step time",
        value: time_text(mean_ns),
        note,
    })
}

/// Describes the steps excluded from medians, with the cause; empty if none are.
fn left_out_text(page: &ReportPage<'_>) -> String {
    let ranks = page.ranks.iter();
    let steps = ranks.flat_map(|rank| &rank.analysis.steps);
    let mut left_out = steps.filter_map(|step| Some((step, step.excluded?)));
    let Some((first, cause)) = left_out.next() else {
        return String::new();
    };
    let others = match left_out.count() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    format!(
        "; left out: {}{others}, which {}",
        first.name,
        cause.phrase()
    )
}

fn busy_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let total = device_use(page)?;
    let of = |ns: i64| percent_text(ns, total.whole_ns());
    let whole = total.whole_ns();
    Some(SummaryCard {
        name: "Devices busy",
        value: of(total.busy_ns),
        note: format!(
            "of {}: {} of {}; idle {}",
            whole_phrase(total),
            time_text(total.busy_ns),
            time_text(whole),
            of(total.idle_ns)
        ),
    })
}

fn idle_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let (cause, ns, idle) = largest_idle_cause(page)?;
    let mut note = format!("{} of the idle time", percent_text(ns, idle));
    if cause == HOST_LATE
        && let Some((host, host_ns)) = longest_host(page)
    {
        let host = strings::shorten_text(host, CARD_NAME);
        note += &format!(", the largest part in {host} ({})", time_text(host_ns));
    }
    Some(SummaryCard {
        name: "Idle because",
        value: cause.to_owned(),
        note,
    })
}

fn exposed_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let total = device_use(page).filter(|total| total.exposed_communication_ns > 0)?;
    Some(SummaryCard {
        name: "Exposed communication",
        value: percent_text(total.exposed_communication_ns, total.whole_ns()),
        note: format!(
            "of {}: {} without concurrent computation, including waits for other ranks",
            whole_phrase(total),
            time_text(total.exposed_communication_ns)
        ),
    })
}

fn memory_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let (device, value) = peak_memory(page)?;
    Some(SummaryCard {
        name: "Peak memory",
        value,
        note: format!("allocated, {device}"),
    })
}

fn straggler_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let (rank, ns) = worst_straggler(page)?;
    let caveat = page.met.map(RankStats::clock_caveat).unwrap_or_default();
    Some(SummaryCard {
        name: "Straggler",
        value: format!("rank {rank}"),
        note: format!(
            "the others waited {} in total for its work{caveat}",
            time_text(ns)
        ),
    })
}

fn computation_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let total = device_use(page)?;
    Some(SummaryCard {
        name: "Computation",
        value: percent_text(total.computation_ns, total.whole_ns()),
        note: format!("of {}", whole_phrase(total)),
    })
}

fn overlap_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let times = page.total.breakdown.first();
    let times = times.filter(|times| times.communication_ns > 0)?;
    Some(SummaryCard {
        name: "Overlap",
        value: percent_text(times.overlap_ns, times.communication_ns),
        note: "of communication overlaps with computation".to_owned(),
    })
}

fn replay_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let errors = page.ranks.iter().filter_map(|rank| rank.figures.as_ref());
    // The worst rank represents all: a mean would hide a rank whose replay is off.
    let error = errors
        .filter_map(|figures| figures.replay_error)
        .max_by(f64::total_cmp)?;
    Some(SummaryCard {
        name: "Replay error",
        value: format!("{:.2} %", error * 100.0),
        note: "of the makespan, worst rank".to_owned(),
    })
}

fn launch_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let links = link_reports(page.ranks);
    let (launched, rows) = links.fold((0, 0), |(launched, rows), link| {
        (launched + link.launched, rows + link.device_rows)
    });
    (rows > 0).then(|| SummaryCard {
        name: "Launches found",
        value: percent_text(launched as i64, rows as i64),
        note: format!("of {rows} device rows"),
    })
}

/// Returns the host activity that devices wait for longest over all ranks, with the time in ns;
/// `None` if the trace shows no host activity.
fn longest_host<'p>(page: &ReportPage<'p>) -> Option<(&'p str, i64)> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for host in page.ranks.iter().flat_map(|rank| &rank.analysis.host_idle) {
        if let Some(name) = &host.host {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(host.idle_ns);
        }
    }
    // `max_by_key` takes the last of equals; here the name that sorts first wins.
    sums.into_iter().rev().max_by_key(|(_, ns)| *ns)
}

/// Returns the largest cause of idle time, its time, and all idle time, in ns.
fn largest_idle_cause(page: &ReportPage<'_>) -> Option<(&'static str, i64, i64)> {
    let idle = page.total.idle.first().filter(|idle| idle.idle_ns > 0)?;
    let causes = [
        (HOST_LATE, idle.host_late_ns),
        ("event wait", idle.event_wait_ns),
        ("launch call", idle.launch_call_ns),
        ("launch", idle.launch_ns),
        ("between rows", idle.between_ns),
        ("unexplained", idle.unexplained_ns),
    ];
    let largest = causes.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some((largest.0, largest.1, idle.idle_ns))
}

/// Returns the device with the highest allocated memory, and that memory.
fn peak_memory(page: &ReportPage<'_>) -> Option<(String, String)> {
    let ranks = page.ranks.iter();
    let all = ranks.flat_map(|rank| {
        rank.analysis
            .memory
            .iter()
            .map(move |memory| (rank, memory))
    });
    // the CPU's allocator counts from the start of the recording, so it has no peak of the program
    let devices = all.filter(|(_, memory)| memory.device >= 0 && memory.peak_bytes > 0);
    let (rank, memory) = devices.max_by_key(|(_, memory)| memory.peak_bytes)?;
    let of_rank = match page.ranks.len() {
        1 => String::new(),
        _ => format!(" of rank {}", rank.label),
    };
    let device = format!("{} {}{of_rank}", memory.device_type, memory.device);
    Some((device, bytes_text(memory.peak_bytes)))
}

fn link_reports(ranks: &[ReportRank]) -> impl Iterator<Item = &LinkReport> {
    ranks.iter().filter_map(|rank| rank.link.as_ref())
}

fn percent_text(part: i64, whole: i64) -> String {
    // Callers omit a figure if the whole is 0.
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

/// Formats bytes with at least three digits, in powers of 1,000, like the page's script.
fn bytes_text(bytes: i64) -> String {
    let (unit, size) = match bytes.unsigned_abs() {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    let value = bytes as f64 / size;
    let digits = if value.abs() >= 100.0 { 1 } else { 2 };
    format!("{value:.digits$} {unit}")
}

/// Formats a time with at least three digits, in a suitable unit.
pub(super) fn time_text(ns: i64) -> String {
    let (unit, size) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("µs", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = ns as f64 / size;
    let digits = if value.abs() >= 100.0 { 1 } else { 2 };
    format!("{value:.digits$} {unit}")
}
