//! Comparison of two runs, for `diff` and for the page of `report`.

use crate::notes;
use crate::op_tables::RunTables;
use crate::table::{count, percent, time};
use etlink_analysis::RankAnalysis;
use etlink_analysis::diff::{ChangeVerdict, RunDiff, StepChange, compare_runs};
use etlink_analysis::top::KeyAverages;
use etlink_model::{Diagnostic, diagnostic};
use serde_json::{Map, Value};

/// Compares runs whose tables were made with rules.
pub fn diff_tables(before: &RunTables, after: &RunTables) -> RunDiff {
    let runs = [before, after];
    let steps = runs.map(|run| &run.steps);
    let [first, second]: [Vec<&KeyAverages>; 2] =
        runs.map(|run| run.tables.iter().map(|table| &table.top).collect());
    let [first_said, second_said]: [Vec<&RankAnalysis>; 2] = runs.map(|run| {
        let said = run.tables.iter();
        said.filter_map(|table| table.analysis.as_ref()).collect()
    });
    compare_runs([&first, &second], [&first_said, &second_said], steps)
}

/// Returns sentences on differences between the runs' setups, step time, and utilization.
pub fn diff_sentences(diff: &RunDiff) -> Vec<String> {
    let mut out = unlike_sentences(diff);
    if let Some(step) = &diff.step {
        out.push(step_sentence(step));
    }
    out.extend(busy_sentence(diff));
    out
}

/// Returns a note per run whose ranks lack steps, on the steps behind its step times.
pub fn step_notes(diff: &RunDiff) -> Vec<Diagnostic> {
    let notes = diff.runs.each_ref().map(|run| {
        let note = run.common_steps_note();
        Vec::from_iter(note.map(|note| diagnostic!(StepsDiffer, "{note}")))
    });
    notes::name_sides(notes)
}

/// Describes the utilization of devices, without communication if there is any.
fn busy_sentence(diff: &RunDiff) -> Option<String> {
    let (busy, own) = diff.utilization.zip(diff.compute_or_copy)?;
    if busy == own {
        return Some(format!("devices are busy {}", share_change(busy)));
    }
    // A trace alone does not show which part of a collective is waiting.
    Some(format!(
        "devices compute or copy {} of the time; with communication, which may be waiting for \
        other ranks, they are busy {}",
        share_change(own),
        share_change(busy)
    ))
}

/// Formats a share before and after, and the change in percentage points.
fn share_change(shares: [f64; 2]) -> String {
    let [first, second] = shares.map(|share| percent(share, 1));
    let points = 100.0 * (shares[1] - shares[0]);
    format!("{first} -> {second} ({points:+.1} points)")
}

/// Returns sentences on differences that make the comparison unfair; empty if the runs are alike.
fn unlike_sentences(diff: &RunDiff) -> Vec<String> {
    let likeness = &diff.likeness;
    let mut out = vec![];
    if likeness.has_other_devices() {
        let [before, after] = likeness.devices.each_ref().map(|names| names.join(", "));
        let mut text = format!("devices differ ({before} -> {after}): compare classes and ops");
        if let Some(share) = likeness.shared_kernels {
            text += &format!(
                "; kernels in both runs take {} of device time",
                percent(share, 0)
            );
        }
        out.push(text);
    }
    if let Some([before, after]) = likeness.other_batches() {
        out.push(format!(
            "batches differ ({before:.1} -> {after:.1} on average): steps do not do the same work"
        ));
    }
    if likeness.has_other_work() {
        let [before, after] = likeness.host_events.map(|count| format!("{count:.0}"));
        out.push(format!(
            "host ops and calls per {} differ ({before} -> {after}): the work may not be the same",
            diff.per
        ));
    }
    out
}

/// Describes the totals of the host and of devices.
pub fn sums_sentence(diff: &RunDiff) -> String {
    let [before, after] = &diff.runs;
    let host = time_change(before.self_host_ns, after.self_host_ns);
    let device = time_change(before.device_ns, after.device_ns);
    let mut text = format!(
        "per {}: host time in ops, calls and annotations {host}",
        diff.per
    );
    // A recording with Python frames does not count their own time as annotations. The sum is then
    // less than the step by this time.
    if let Some(step) = diff
        .step
        .as_ref()
        .filter(|step| step.between_ops_ns != [0, 0])
    {
        let [before, after] = step.between_ops_ns;
        text += &format!(
            "; {} per step without any op or call",
            time_change(before, after)
        );
    }
    text + &format!("; device time {device}")
}

/// Returns a sentence per run on its work that is not compared.
pub fn outside_sentences(diff: &RunDiff) -> Vec<String> {
    let mut out = vec![];
    for (name, run) in ["before", "after"].iter().zip(&diff.runs) {
        let sums = run.outside.iter().map(|sum| {
            let rows = count(sum.rows, "device row");
            let when = sum.launched.phrase();
            format!("{rows} launched {when}, {}", time(sum.sum_ns))
        });
        let sums: Vec<String> = sums.collect();
        if !sums.is_empty() {
            out.push(format!("{name}, not compared: {}", sums.join("; ")));
        }
    }
    out
}

/// Describes the step times, and says if they differ by more than the steps vary.
fn step_sentence(step: &StepChange) -> String {
    let [before, after] = step.times_ns;
    let verdict = match step.verdict {
        ChangeVerdict::Unchanged => return format!("mean step {}, unchanged", time(after)),
        ChangeVerdict::Real => "real",
        ChangeVerdict::WithinSpread => "may be chance",
        ChangeVerdict::SpreadUnknown => "spread unknown with a single step",
    };
    let vary = match step.spread_shares() {
        [Some(before), Some(after)] => format!(
            "steps vary by {} before, {} after: ",
            percent(before, 1),
            percent(after, 1)
        ),
        _ => String::new(),
    };
    format!("mean step {}; {vary}{verdict}", time_change(before, after))
}

/// Formats a time before and after.
fn time_change(old: i64, new: i64) -> String {
    let change = percent_change(old, new);
    format!("{} -> {} ({change})", time(old), time(new))
}

/// Formats a change in percent of the earlier value.
pub fn percent_change(old: i64, new: i64) -> String {
    match (old, new) {
        (old, new) if old == new => "unchanged".to_owned(),
        // there is no percentage of zero
        (0, _) => "from 0".to_owned(),
        _ => format!("{:+.1} %", (new as f64 - old as f64) * 100.0 / old as f64),
    }
}

/// Fields of a comparison's rows that have a figure of each run.
const PAIRS: [&str; 2] = ["counts", "times_ns"];

/// Gives each run's figure a field of its own, such as `before_times_ns` and `after_times_ns`.
pub fn split_pairs(record: Map<String, Value>) -> Map<String, Value> {
    let mut split = Map::new();
    for (name, value) in record {
        match value {
            Value::Array(pair) if pair.len() == 2 && PAIRS.contains(&&*name) => {
                let sides = ["before", "after"].map(|side| format!("{side}_{name}"));
                split.extend(sides.into_iter().zip(pair));
            }
            value => drop(split.insert(name, value)),
        }
    }
    split
}
