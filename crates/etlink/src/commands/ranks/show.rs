//! The comparison for people and for tables.

use super::RanksReport;
use crate::notes;
use crate::table::{Grid, Limit, count, csv_text, signed_time, time};
use anyhow::Result;
use etlink_link::ranks::{CollectiveSkew, RankClock, StragglerStats};
use etlink_run::joined::clock_notes;
use etlink_run::membership::absent_note;
use std::collections::BTreeMap;

/// Those of a line of CSV; the first is the run's folder.
const COLUMNS: [&str; 15] = [
    "run",
    "kind",
    "ranks",
    "group",
    "number",
    "bytes",
    "start_ns",
    "last",
    "skew_ns",
    "alone_ns",
    "waited_ns",
    "step",
    "transfer_ns",
    "algorithm_bandwidth",
    "bus_bandwidth",
];

/// Each collective and message, a line each.
pub(super) fn skews_csv(all: &[RanksReport]) -> Result<String> {
    let mut out = csv::Writer::from_writer(vec![]);
    out.write_record(COLUMNS)?;
    for one in all {
        for skew in &one.collectives {
            out.serialize((
                (
                    csv_text(&one.run),
                    csv_text(&skew.kind),
                    csv_text(&skew.ranks),
                    skew.group,
                    skew.number,
                    skew.bytes,
                ),
                (
                    skew.start_ns,
                    skew.last,
                    skew.skew_ns,
                    skew.alone_ns,
                    skew.waited_ns,
                    skew.step.as_deref().map(csv_text),
                ),
                (
                    skew.transfer_ns,
                    skew.algorithm_bandwidth,
                    skew.bus_bandwidth,
                ),
            ))?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

/// Who was late, what the transfers of each kind and group were like, and the worst ones.
pub(super) fn report_table(one: &RanksReport, top: usize) -> String {
    let run = if one.run.is_empty() {
        String::new()
    } else {
        format!("{}: ", one.run)
    };
    let met = match one.collectives.len() {
        1 => "1 matched collective or message".to_owned(),
        several => format!("{several} matched collectives and messages"),
    };
    let mut out = format!("{run}{}, {met}\n", count(one.ranks.len() as u64, "rank"));
    print_notes(one);
    if one.collectives.is_empty() {
        return out;
    }
    out += &by_step(one);
    out += &by_rank(one);
    out += &by_kind(one);
    out += &largest_skews(one, top);
    out
}

/// What people should know first.
pub(super) fn print_notes(one: &RanksReport) {
    notes::print_all(&one.notes);
    for excluded in &one.excluded {
        notes::print_note(&excluded.note());
    }
    if let Some(text) = absent_note(&one.absent) {
        notes::print_note(&text);
    }
    for problem in &one.problems {
        let first = problem
            .examples
            .first()
            .map_or(String::new(), |first| format!(" (first: {})", first.what));
        let (count, what) = (problem.count, problem.kind.describe());
        notes::print_note(&format!("{count} {what}{first}"));
    }
    if !one.collectives.is_empty() {
        notes::print_all(&clock_notes(&one.clocks));
    }
}

/// For whom the others waited, per step and in all.
fn by_step(one: &RanksReport) -> String {
    let mut table = Grid::new(
        2,
        Limit::NONE,
        [
            "step",
            "collectives",
            "longest",
            "all wait",
            "most for",
            "which is",
            "comes last",
        ],
    );
    for step in &one.steps {
        // what is communicated before the first step, as when a model is spread over the ranks
        let name = step.step.as_deref().unwrap_or(if one.steps.len() > 1 {
            "(no step)"
        } else {
            "(all)"
        });
        let longest = if step.longest_ns > 0 {
            time(step.longest_ns)
        } else {
            "-".into()
        };
        table.add(straggler_cells(
            name,
            step.collectives,
            longest,
            step.waited_ns,
            step.stragglers.first(),
        ));
    }
    if one.steps.len() > 1 {
        let waited = one
            .ranks
            .iter()
            .fold(0i64, |sum, rank| sum.saturating_add(rank.waited_ns));
        let late = one
            .ranks
            .iter()
            .filter(|rank| rank.caused_ns > 0)
            // of equals the lowest number, so that every run names the same
            .max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)));
        table.add(straggler_cells(
            "(all)",
            one.collectives.len() as u64,
            "-".into(),
            waited,
            late,
        ));
    }
    format!("stragglers (a rank that comes last causes what the others wait)\n{table}")
}

fn straggler_cells(
    name: &str,
    joints: u64,
    longest: String,
    waited_ns: i64,
    late: Option<&StragglerStats>,
) -> [String; 7] {
    let late = late.map_or(["-".into(), "-".into(), "-".into()], |late| {
        let share = 100.0 * late.caused_ns as f64 / waited_ns as f64;
        [
            format!("rank {}", late.rank),
            format!("{share:.1} %"),
            late.last.to_string(),
        ]
    });
    let [rank, share, last] = late;
    [
        name.to_owned(),
        joints.to_string(),
        longest,
        time(waited_ns),
        rank,
        share,
        last,
    ]
}

fn by_rank(one: &RanksReport) -> String {
    let mut table = Grid::new(
        2,
        Limit::NONE,
        [
            "rank",
            "takes part",
            "comes last",
            "others wait",
            "waits",
            "clock",
            "within",
            "drift",
            "within",
            "by",
        ],
    );
    for (at, rank) in one.ranks.iter().enumerate() {
        let clock = one
            .clocks
            .get(at)
            // an offset of 0 that nothing supports would look as if it had been measured
            .filter(|clock| clock.support > 0 || clock.by_machine);
        let [drift, drift_within] = drift_cells(clock);
        table.add([
            rank.rank.to_string(),
            rank.collectives.to_string(),
            rank.last.to_string(),
            time(rank.caused_ns),
            time(rank.waited_ns),
            clock.map_or("-".into(), |clock| signed_time(clock.offset_ns)),
            clock
                .and_then(|clock| clock.uncertainty_ns.filter(|_| !clock.contradicted))
                .map_or("-".into(), time),
            drift,
            drift_within,
            clock.map_or("-".into(), |clock| {
                if clock.by_machine {
                    "machine".into()
                } else {
                    clock.support.to_string()
                }
            }),
        ]);
    }
    table.to_string()
}

/// Parts per billion as parts per million.
fn ppm(ppb: i64) -> f64 {
    ppb as f64 / 1e3
}

/// A drift and its uncertainty; in brackets what is not applied.
fn drift_cells(clock: Option<&RankClock>) -> [String; 2] {
    let Some(drift) = clock.and_then(|clock| clock.drift) else {
        return ["-".into(), "-".into()];
    };
    let said = format!("{:+.3} ppm", ppm(drift.ppb));
    [
        if drift.applied {
            said
        } else {
            format!("({said})")
        },
        format!("{:.3} ppm", ppm(drift.uncertainty_ppb)),
    ]
}

fn by_kind(one: &RanksReport) -> String {
    let mut kinds: BTreeMap<(u32, &str, &str), Vec<&CollectiveSkew>> = BTreeMap::new();
    one.collectives.iter().for_each(|skew| {
        kinds
            .entry((skew.group, &skew.kind, &skew.ranks))
            .or_default()
            .push(skew)
    });
    let mut table = Grid::new(
        2,
        Limit::NONE,
        [
            "kind",
            "between",
            "times",
            "bytes",
            "skew",
            "transfer",
            "algorithm",
            "bus",
        ],
    );
    for ((_, kind, ranks), skews) in kinds {
        let sum = |of: fn(&CollectiveSkew) -> i64| {
            skews
                .iter()
                .map(|skew| of(skew))
                .fold(0, i64::saturating_add)
        };
        // a mean over those alone whose traces say when the transfer ended
        let timed = skews
            .iter()
            .filter(|skew| skew.transfer_ns.is_some())
            .count() as f64;
        let mean = |of: fn(&CollectiveSkew) -> Option<f64>| {
            let all: Vec<f64> = skews.iter().filter_map(|skew| of(skew)).collect();
            if all.is_empty() {
                "-".to_owned()
            } else {
                format!(
                    "{:.2} GB/s",
                    all.iter().sum::<f64>() / all.len() as f64 / 1e9
                )
            }
        };
        let transfer = sum(|skew| skew.transfer_ns.unwrap_or(0)) as f64 / timed;
        table.add([
            kind.to_owned(),
            ranks.to_owned(),
            skews.len().to_string(),
            skews
                .iter()
                .map(|skew| skew.bytes)
                .fold(0, u64::saturating_add)
                .to_string(),
            time(sum(|skew| skew.skew_ns) / skews.len().max(1) as i64),
            if timed > 0.0 {
                time(transfer as i64)
            } else {
                "-".into()
            },
            mean(|skew| skew.algorithm_bandwidth),
            mean(|skew| skew.bus_bandwidth),
        ]);
    }
    format!("means per kind (bytes: sum)\n{table}")
}

fn largest_skews(one: &RanksReport, top: usize) -> String {
    let mut order: Vec<&CollectiveSkew> = one.collectives.iter().collect();
    // a stable sort: of equals the earlier collective comes first
    order.sort_by_key(|skew| std::cmp::Reverse(skew.skew_ns));
    let mut table = Grid::new(
        2,
        Limit {
            lines: top,
            option: "--rows",
        },
        [
            "kind", "between", "number", "bytes", "skew", "last", "alone", "transfer",
        ],
    );
    for skew in order {
        table.add([
            skew.kind.clone(),
            skew.ranks.clone(),
            skew.number.to_string(),
            skew.bytes.to_string(),
            time(skew.skew_ns),
            format!("rank {}", skew.last),
            time(skew.alone_ns),
            skew.transfer_ns.map_or("-".into(), time),
        ]);
    }
    format!("largest skew\n{table}")
}
