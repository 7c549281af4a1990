//! The analyses for people: a sentence, then tables.

pub(super) mod compat;
mod rows;
mod times;

use super::Analyzed;
use crate::args::AnalyzeArgs;
use crate::table::{Grid, Limit, count, percent, scaled, time};
use etlink_analyze::RankAnalysis;
use std::fmt::Write;

/// What a table is called above its lines, and the lines.
type Shown = (String, Grid);

pub(super) fn run_text(one: &Analyzed, args: &AnalyzeArgs) -> String {
    one.told.print_notes();
    let mut out = String::new();
    if !one.told.run.is_empty() {
        let _ = writeln!(
            out,
            "{}: {}",
            one.told.run,
            count(one.told.ranks.len() as u64, "rank")
        );
    }
    if one.told.ranks.is_empty() {
        return out + "nothing to analyze: all traces are left out\n";
    }
    out += &busy_sentence(one);
    if let Some(last) = one
        .stragglers
        .iter()
        // nobody is named where nobody came last
        .filter(|rank| rank.last > 0)
        .max_by_key(|rank| rank.caused_ns)
    {
        let _ = writeln!(
            out,
            "{}rank {} holds the others up most: it comes last to {} of {}, and they wait {} for \
            it, summed over ranks",
            if one.told.absent.is_empty() && args.choice.ranks.is_none() {
                ""
            } else {
                "among the ranks here, "
            },
            last.rank,
            last.last,
            count(last.collectives, "collective"),
            time(last.caused_ns)
        );
    }
    let limit = Limit {
        lines: args.rows.rows.unwrap_or(10),
        option: "--rows",
    };
    for (_, table) in TABLES.iter().filter(|(name, _)| {
        args.table
            .as_deref()
            .map_or(!ONLY_ASKED.contains(name), |only| only == *name)
    }) {
        let (title, grid) = table(one, limit);
        if !grid.is_empty() {
            let _ = write!(out, "{title}\n{grid}");
        // it was asked for by name: no output at all would look like a failure
        } else if args.table.is_some() {
            let _ = writeln!(out, "{title}\n  nothing");
        }
    }
    out
}

/// Long ones, for `--table`.
const ONLY_ASKED: [&str; 4] = ["stream_idle", "memory_timeline", "metrics", "stragglers"];

type Show = fn(&Analyzed, Limit) -> Shown;
const TABLES: &[(&str, Show)] = &[
    ("breakdown", times::breakdown_table),
    ("steps", times::step_table),
    ("kernels", rows::kernel_table),
    ("idle", times::idle_table),
    ("stream_idle", times::stream_idle_table),
    ("collectives", rows::collective_table),
    ("copies", rows::copy_table),
    ("launches", rows::launch_table),
    ("queues", rows::queue_table),
    ("coverage", rows::coverage_table),
    ("work", rows::work_table),
    ("sequences", rows::sequence_table),
    ("memory", rows::memory_table),
    ("memory_timeline", rows::memory_timeline_table),
    ("metrics", rows::metric_table),
    ("stragglers", rows::straggler_table),
];

/// Where the time went, in words.
fn busy_sentence(one: &Analyzed) -> String {
    let sum = one.total.breakdown.iter().find(|sum| sum.window_ns > 0);
    let Some(sum) = sum else {
        return "no device work in the trace\n".to_owned();
    };
    let whole = sum.window_ns;
    let (busy, window) = (share_of(sum.busy_ns(), whole), time(whole));
    let mut out = match one
        .told
        .ranks
        .iter()
        .map(|rank| rank.said.breakdown.len())
        .sum::<usize>()
    {
        0 | 1 => format!("the device is busy {busy} of {window}"),
        devices => {
            format!("{devices} devices are busy {busy} of {window}, the sum of their windows")
        }
    };
    let _ = write!(out, ": computation {}", share_of(sum.computation_ns, whole));
    for (name, ns) in [
        ("exposed communication", sum.exposed_communication_ns),
        ("exposed copies", sum.exposed_memory_ns),
        ("waits and other rows without work", sum.exposed_other_ns),
        ("idle", sum.idle_ns),
    ] {
        if ns > 0 {
            let _ = write!(out, ", {name} {}", share_of(ns, whole));
        }
    }
    if let Some(share) = sum.overlap_share {
        let _ = write!(
            out,
            "; {} of communication overlaps with computation",
            percent(share, 1)
        );
    }
    out + "\n"
}

/// A part of a time in percent.
fn share_of(part: i64, whole: i64) -> String {
    percent(part as f64 / whole as f64, 1)
}

/// The records of each rank, with what it is called.
fn of_ranks<'a, T: 'a>(
    one: &'a Analyzed,
    table: fn(&RankAnalysis) -> &Vec<T>,
) -> impl Iterator<Item = (&'a str, &'a T)> {
    one.told.ranks.iter().flat_map(move |rank| {
        table(&rank.said)
            .iter()
            .map(|record| (rank.label.as_str(), record))
    })
}

fn bandwidth_text(gb_per_s: Option<f64>) -> String {
    gb_per_s.map_or("-".into(), |rate| scaled(rate * 1e9, "B/s"))
}
