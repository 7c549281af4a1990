//! Head of the page: one sentence, and tiles of one figure each.

use super::{MemoryChart, ReportPage, ReportRank};
use etlink_analysis::{Utilization, UtilizationWindow, counted_steps};
use etlink_link::LinkReport;
use etlink_link::ranks::{StragglerStats, step_definition, worst_rank};
use etlink_model::Severity;
use serde::Serialize;

/// A figure at the top of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SummaryCard {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// A few words on the figure.
    pub(super) note: String,
}

/// Returns the summary sentence of the page: what ran, how long a step takes, and the largest
/// possible gain.
pub(super) fn summary_sentence(page: &ReportPage<'_>) -> String {
    if let Some(sentence) = snapshot_sentence(page) {
        return sentence;
    }
    let ranks = match page.ranks {
        [_] => "One rank".to_owned(),
        ranks => format!("{} ranks", ranks.len()),
    };
    let mut sentence = format!("{ranks}{}", device_phrase(page.ranks));
    if let Some((mean_ns, _)) = step_time(page) {
        sentence += &format!(": a step takes {}", time_text(mean_ns));
    }
    let largest = page.findings.iter().find(|one| !one.cause.is_empty());
    match (largest, device_use(page)) {
        (Some(largest), total) => {
            if let Some(total) = total.filter(|total| is_mostly_busy(total)) {
                let busy = percent_text(total.busy_ns, total.whole_ns());
                sentence += &format!("; devices are busy {busy} of it");
            }
            let (share, cause) = (100.0 * largest.gain_share, plain_cause(&largest.cause));
            sentence += &format!("; largest loss of time: {cause}, {share:.0} %");
        }
        (None, Some(total)) => {
            sentence += &format!(
                "; devices are busy {} of {}",
                percent_text(total.busy_ns, total.whole_ns()),
                whole_phrase(total)
            );
        }
        (None, None) => {}
    }
    sentence + "."
}

/// Returns true for devices that the host keeps busy: only faster kernels make the run faster.
fn is_mostly_busy(total: &Utilization) -> bool {
    total.busy_ns as f64 >= 0.9 * total.whole_ns() as f64
}

/// Returns the summary sentence of a snapshot of the allocator: the peak, and the stack with most of
/// it. `None` for other pages.
fn snapshot_sentence(page: &ReportPage<'_>) -> Option<String> {
    let [rank] = page.ranks else { return None };
    let charts = rank.memory_charts.iter();
    let (stack, bytes) = charts
        .filter_map(MemoryChart::largest_stack)
        .max_by_key(|one| one.1)?;
    let (_, peak) = peak_memory(page)?;
    let bytes = bytes_text(i64::try_from(bytes).unwrap_or(i64::MAX));
    Some(format!(
        "At most {peak} allocated at once, {bytes} of it at {stack}."
    ))
}

/// Returns the name of a cause as part of a sentence without markup.
fn plain_cause(cause: &str) -> String {
    // A kernel's name without namespaces and template arguments.
    if let Some((kernel, condition)) = cause.split_once("`, if ") {
        let name = kernel.trim_start_matches('`').split(['<', '(']).next();
        let name = name.and_then(|name| name.rsplit("::").next());
        return format!("{}, if {condition}", name.unwrap_or(kernel).trim());
    }
    let plain = cause.replace('`', "");
    if cause.starts_with("Python") {
        return plain;
    }
    let mut letters = plain.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
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
    let links = || ranks.iter().filter_map(|rank| rank.link.as_ref());
    let rows = ranks
        .iter()
        .any(|rank| rank.link.as_ref().is_none_or(|link| link.device_rows > 0));
    let damaged = links().any(|link: &LinkReport| link.anomalies.any(Severity::Damage));
    let model = ranks
        .first()
        .and_then(|rank| rank.device.as_deref())
        .map(|model| format!(" on {model}"));
    match model {
        // A damaged file may have lost its rows: then "on the CPU" would be a guess.
        model if !rows && damaged => {
            model.unwrap_or_default()
                + ", the readable part of the damaged traces has no device rows"
        }
        Some(model) => model,
        None if rows => String::new(),
        None => " without device rows".to_owned(),
    }
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
        return Some((mean_ns, mean_of(steps.counted().count())));
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
        _ => format!("{} of the slowest rank", mean_of(count)),
    };
    Some((mean_ns, of))
}

/// Returns the tiles that the traces have figures for, in the order of a reader's questions.
pub(super) fn summary_cards(page: &ReportPage<'_>) -> Vec<SummaryCard> {
    let cards = [
        step_card(page),
        busy_card(page),
        exposed_card(page),
        straggler_card(page),
        memory_card(page),
    ];
    cards.into_iter().flatten().collect()
}

fn step_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let (mean_ns, mut note) = step_time(page)?;
    let steps = || page.ranks.iter().flat_map(|rank| &rank.analysis.steps);
    if let Some(step) = steps().find_map(|step| step_definition(&step.name)) {
        note += &format!(", {step}");
    }
    match steps().filter(|step| step.excluded.is_some()).count() {
        0 => {}
        left_out => note += &format!(", {left_out} left out"),
    }
    Some(SummaryCard {
        name: "Step time",
        value: time_text(mean_ns),
        note,
    })
}

fn busy_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let total = device_use(page)?;
    Some(SummaryCard {
        name: "Devices busy",
        value: percent_text(total.busy_ns, total.whole_ns()),
        note: format!("of {}", whole_phrase(total)),
    })
}

fn exposed_card(page: &ReportPage<'_>) -> Option<SummaryCard> {
    let total = device_use(page).filter(|total| total.exposed_communication_ns > 0)?;
    Some(SummaryCard {
        name: "Exposed communication",
        value: percent_text(total.exposed_communication_ns, total.whole_ns()),
        note: format!("of {}, with waits for ranks", whole_phrase(total)),
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
    let met = page.met?;
    let late = worst_rank(&met.ranks, StragglerStats::waits_for_it_ns)?;
    let waited = time_text(late.waits_for_it_ns());
    let began_late = if late.began_late_ns > 0 {
        format!(", {} because it began later", time_text(late.began_late_ns))
    } else {
        String::new()
    };
    Some(SummaryCard {
        name: "Straggler",
        value: format!("rank {}", late.rank),
        note: format!(
            "others waited {waited} in total{began_late}{}",
            met.clock_caveat()
        ),
    })
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

fn percent_text(part: i64, whole: i64) -> String {
    // Callers omit a figure if the whole is 0.
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

/// Formats bytes with at least three digits, in powers of 1,000, like the page's script.
fn bytes_text(bytes: i64) -> String {
    scaled_text(bytes, ["B", "kB", "MB", "GB"])
}

/// Formats a time with at least three digits, in a suitable unit.
pub(super) fn time_text(ns: i64) -> String {
    scaled_text(ns, ["ns", "µs", "ms", "s"])
}

/// Formats an amount in one of four units, each a thousand of the one before.
fn scaled_text(amount: i64, units: [&str; 4]) -> String {
    let (unit, size) = match amount.unsigned_abs() {
        0..1_000 => return format!("{amount} {}", units[0]),
        1_000..1_000_000 => (units[1], 1e3),
        1_000_000..1_000_000_000 => (units[2], 1e6),
        _ => (units[3], 1e9),
    };
    let value = amount as f64 / size;
    let digits = if value.abs() >= 100.0 { 1 } else { 2 };
    format!("{value:.digits$} {unit}")
}
