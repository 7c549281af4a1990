//! The page in a few words: sums and shares of figures that the tables have.

use super::{RankStats, ReportPage, ReportRank};
use etlink_link::LinkReport;
use etlink_model::{GlobalRank, Severity};
use etlink_replay::PathCause;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure to begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SummaryCard {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) note: String,
}

/// The whole in a sentence.
pub(super) fn summary_sentence(page: &ReportPage<'_>) -> String {
    let ranks = match page.ranks {
        [_] => "One rank".to_owned(),
        ranks => format!("{} ranks", ranks.len()),
    };
    let mut parts = vec![format!("{ranks}{}", device_phrase(page.ranks))];
    if let Some((median, of)) = step_time(page.ranks) {
        parts.push(format!("a step takes {} ({of})", time_text(median)));
    }
    match page
        .total
        .breakdown
        .first()
        .filter(|total| total.window_ns > 0)
    {
        Some(total) => {
            let of = |ns: i64| percent_text(ns, total.window_ns);
            let communication = format!(
                ", communicate without overlap {}",
                of(total.exposed_communication_ns)
            );
            let communication = if total.communication_ns > 0 {
                communication
            } else {
                String::new()
            };
            let waits = if total.exposed_other_ns > 0 {
                format!(", only wait {}", of(total.exposed_other_ns))
            } else {
                String::new()
            };
            parts.push(format!(
                "devices compute {} of the time{communication}{waits}, stand idle {}",
                of(total.computation_ns),
                of(total.idle_ns)
            ));
        }
        // Without device time the critical path is what a first look is about.
        None => parts.extend(on_the_path(page.ranks)),
    }
    let caveat = page.met.map(RankStats::clock_caveat).unwrap_or_default();
    parts.extend(worst_straggler(page).map(|(rank, ns)| {
        format!(
            "the others waited longest for rank {rank}, {} in all{caveat}",
            time_text(ns)
        )
    }));
    parts.join("; ") + "."
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
            model.unwrap_or_default() + ": what could be read of damaged traces has no device rows"
        }
        Some(model) => model,
        None if rows => String::new(),
        None => " on the CPU: the traces have no device rows".to_owned(),
    }
}

/// What most of the critical paths' time goes to, without devices.
fn on_the_path(ranks: &[ReportRank]) -> Option<String> {
    let mut sums = path_causes(ranks);
    // Times of a damaged trace may add up to more than 64 bits hold.
    let whole = sums
        .iter()
        .fold(0i64, |whole, (_, ns)| whole.saturating_add(*ns));
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let (cause, ns) = sums.first().filter(|_| whole > 0)?;
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
            Some((_, ns)) => *ns = ns.saturating_add(time.ns),
            None => sums.push((*cause, time.ns)),
        }
    }
    sums
}

/// A step takes as long as on the rank on which it is longest. Median of the steps, and what of; of
/// an even number the lower one.
fn step_time(ranks: &[ReportRank]) -> Option<(i64, String)> {
    let ranks: Vec<&ReportRank> = ranks
        .iter()
        .filter(|rank| !rank.analysis.steps.is_empty())
        .collect();
    let mut longest: BTreeMap<(&str, usize), i64> = BTreeMap::new();
    for (at, step) in ranks
        .iter()
        .flat_map(|rank| rank.analysis.steps.iter().enumerate())
    {
        // of one rank two steps of a name are two
        let key = (step.name.as_str(), if ranks.len() == 1 { at } else { 0 });
        longest
            .entry(key)
            .and_modify(|ns| *ns = step.duration_ns.max(*ns))
            .or_insert(step.duration_ns);
    }
    let mut steps: Vec<i64> = longest.into_values().collect();
    steps.sort_unstable();
    let median = steps.get(steps.len().checked_sub(1)? / 2)?;
    let of = match (steps.len(), ranks.len()) {
        (1, 1) => "the only one".to_owned(),
        (count, 1) => format!("median of {count} steps"),
        (1, ranks) => format!("1 step on {ranks} ranks, the longest of them"),
        (count, ranks) => format!("median of {count} steps, of each the longest of {ranks} ranks"),
    };
    Some((*median, of))
}

fn worst_straggler(page: &ReportPage<'_>) -> Option<(GlobalRank, i64)> {
    let late = page
        .met?
        .ranks
        .iter()
        // `max_by_key` takes the last of equals; of these the lowest rank is named.
        .max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)))?;
    (late.caused_ns > 0).then_some((late.rank, late.caused_ns))
}

/// The figures to begin with; those that the traces have.
pub(super) fn summary_cards(page: &ReportPage<'_>) -> Vec<SummaryCard> {
    let mut cards = vec![];
    let mut card = |name, value, note: String| cards.push(SummaryCard { name, value, note });
    if let Some((median, of)) = step_time(page.ranks) {
        card("Step time", time_text(median), of);
    }
    if let Some(total) = page
        .total
        .breakdown
        .first()
        .filter(|total| total.window_ns > 0)
    {
        let of = |ns: i64| percent_text(ns, total.window_ns);
        card(
            "Computation",
            of(total.computation_ns),
            "of device time".to_owned(),
        );
        if total.communication_ns > 0 {
            card(
                "Communication",
                of(total.exposed_communication_ns),
                "of device time, exposed: no overlap with computation".to_owned(),
            );
        }
        if total.exposed_other_ns > 0 {
            card(
                "Waits",
                of(total.exposed_other_ns),
                "of device time: rows that stand for no work".to_owned(),
            );
        }
        card("Idle", of(total.idle_ns), "of device time".to_owned());
        if total.communication_ns > 0 {
            card(
                "Overlap",
                percent_text(total.overlap_ns, total.communication_ns),
                "of communication overlaps with computation".to_owned(),
            );
        }
    }
    if let Some((rank, ns)) = worst_straggler(page) {
        card(
            "Straggler",
            format!("rank {rank}"),
            format!(
                "the others waited {} for it, summed{}",
                time_text(ns),
                page.met.map(RankStats::clock_caveat).unwrap_or_default()
            ),
        );
    }
    if let Some(error) = page
        .ranks
        .iter()
        .filter_map(|rank| rank.figures.as_ref()?.replay_error)
        // The worst rank stands for all: a mean would hide the one whose replay is off.
        .max_by(f64::total_cmp)
    {
        card(
            "Replay error",
            format!("{:.2} %", error * 100.0),
            "of the makespan, worst rank".to_owned(),
        );
    }
    let (launched, rows) = link_reports(page.ranks).fold((0, 0), |(launched, rows), link| {
        (launched + link.launched, rows + link.device_rows)
    });
    if rows > 0 {
        card(
            "Launches found",
            percent_text(launched as i64, rows as i64),
            format!("of {rows} device rows"),
        );
    }
    cards
}

fn link_reports(ranks: &[ReportRank]) -> impl Iterator<Item = &LinkReport> {
    ranks.iter().filter_map(|rank| rank.link.as_ref())
}

fn percent_text(part: i64, whole: i64) -> String {
    // Callers leave a figure out where the whole is 0.
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

/// Three digits or more, with the unit that fits.
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
