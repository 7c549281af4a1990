//! Changes between two runs: ops and kernels added, removed, slower or faster.
//!
//! Rows of the [profiler's tables](crate::top) of all ranks of a run are summed and divided by the
//! run's units: its [steps](crate::steps), over all ranks, if every rank of both runs has some,
//! else its ranks. Rows are paired by name, side and, if they were grouped by them, shapes or
//! stack. Annotations that are steps form one row, with their numbers replaced by `*`. A row's time
//! is its own: on the host without its children, on a device its duration. So each change is
//! counted once, where it occurs. `cost_ns` is the time in the second run minus that in the first.
//!
//! The same time is rolled up by class of device rows and by the op that launched them. The host's
//! waits for devices are separate. Step times with their spread, classes, and utilization come from
//! the linked traces of both runs.

mod fail_rule;
mod incomplete_steps;
mod likeness;
mod parts;
mod step_change;
mod tree_change;

pub use fail_rule::{FailRule, FailRuleError};
pub use incomplete_steps::IncompleteStep;
pub use likeness::RunLikeness;
pub use parts::PartChange;
pub use step_change::{ChangeVerdict, StepChange};
pub use tree_change::{TreeChange, tree_changes};

use crate::analysis::RankAnalysis;
use crate::outside_work::OutsideCause;
use crate::short_names::short_names;
use crate::top::{KeyAverage, KeyAverages};
use crate::utilization::{Utilization, sum_utilizations};
use etlink_link::ranks::RunSteps;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::borrow::Cow;

/// Figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSide {
    /// Number of traces.
    pub ranks: u64,
    /// Number of steps of all traces.
    pub steps: u64,
    /// Number of further steps, excluded from divisions: those that the recording truncates
    /// ([`StepExclusion`](etlink_link::ranks::StepExclusion)).
    pub excluded_steps: u64,
    /// Number of steps that all ranks have, used for step times.
    pub common_steps: u64,
    /// Steps that some ranks lack, left out of step times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete_steps: Vec<IncompleteStep>,
    /// Self time of all host rows, per unit, ns.
    pub self_host_ns: i64,
    /// Time of all device rows, per unit, ns.
    pub device_ns: i64,
    /// Device rows that are not compared, by time of launch; totals of the run, not per unit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideSum>,
}

/// Totals of device rows of all ranks that are not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideSum {
    /// Time of launch.
    pub launched: OutsideCause,
    /// Number of rows.
    pub rows: u64,
    /// Sum of their durations, ns.
    pub sum_ns: i64,
}

/// Kind of a row's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The row is only in the second run.
    Added,
    /// The row is only in the first run.
    Removed,
    /// The row takes longer.
    Slower,
    /// The row takes less time.
    Faster,
    /// The row takes as long.
    Same,
}

/// A row of one or both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowChange {
    /// Name of the row.
    pub name: String,
    /// Readable name of a kernel; `None` if equal to `name`: see
    /// [`short_names`](crate::short_names()).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<Box<str>>,
    /// True for device rows; false for host ranges.
    pub on_device: bool,
    /// True for ranges on a device's stream, which take no time of their own.
    #[serde(skip)]
    pub is_annotation: bool,
    /// Kind of change.
    pub kind: ChangeKind,
    /// Events per unit in the first and the second run.
    pub counts: [f64; 2],
    /// Self time per unit, ns.
    pub times_ns: [i64; 2],
    /// Second time minus first, ns.
    pub cost_ns: i64,
    /// Input shapes, if grouped by shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<String>,
    /// Python frames, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// Two runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunDiff {
    /// Unit of the figures: `step` or `rank`.
    pub per: &'static str,
    /// Figures of the first and the second run.
    pub runs: [RunSide; 2],
    /// Comparability of the runs: same work, same device.
    pub likeness: RunLikeness,
    /// Change of the step time; `None` unless both runs have steps that all their ranks have.
    pub step: Option<StepChange>,
    /// Share of each run's steps, or recording, in which a device is busy, including communication
    /// in which it may only wait for other ranks.
    pub utilization: Option<[f64; 2]>,
    /// Share of each run's steps, or recording, in which a device computes or copies.
    pub compute_or_copy: Option<[f64; 2]>,
    /// Device time by class.
    pub classes: Vec<PartChange>,
    /// Share of each run's device time with a known launching op.
    pub op_shares: [f64; 2],
    /// Device time by launching op; empty if either run knows the op of less than half of it.
    pub ops: Vec<PartChange>,
    /// Time in which the host waits for devices, by call.
    pub waiting: Vec<PartChange>,
    /// Changes of rows, by falling absolute cost.
    pub changes: Vec<RowChange>,
}

/// Minimum share of device time with a known op for comparing ops.
const LEAST_OP_SHARE: f64 = 0.5;

/// Count and time of a row in both runs.
type Both = [(u64, i64); 2];

/// Key that identifies a row in both runs.
#[derive(PartialEq, Eq, Hash)]
struct ChangeKey<'t> {
    name: Cow<'t, str>,
    on_device: bool,
    annotation: bool,
    shapes: Option<&'t str>,
    stack: &'t [String],
}

/// Compares two runs by the tables and analyses of their ranks, and their steps over all ranks.
/// O(rows log rows).
pub fn compare_runs(
    tops: [&[&KeyAverages]; 2],
    ranks: [&[&RankAnalysis]; 2],
    run_steps: [&RunSteps; 2],
) -> RunDiff {
    let excluded = ranks.map(|ranks| {
        let steps = ranks.iter().flat_map(|rank| &rank.steps);
        steps.filter(|step| step.excluded.is_some()).count() as u64
    });
    let (_, units) = run_units(tops, excluded);
    let sums = ranks.map(|ranks| {
        let all = ranks.iter().flat_map(|rank| &rank.utilization);
        sum_utilizations(all).into_iter().next()
    });
    let shares = |share: fn(&Utilization) -> Option<f64>| {
        let [first, second] = sums.each_ref().map(|sum| sum.as_ref().and_then(share));
        Some([first?, second?])
    };
    let mut diff = diff_tables(tops, excluded);
    let step = StepChange::from_ranks(ranks, run_steps);
    for ((run, ranks), steps) in diff.runs.iter_mut().zip(ranks).zip(run_steps) {
        run.outside = outside_sums(ranks);
        run.common_steps = steps.counted().count() as u64;
        run.incomplete_steps = incomplete_steps::incomplete_steps(steps, ranks);
    }
    let (op_shares, ops) = parts::graph_op_changes(ranks, units);
    let ops_are_told = op_shares.iter().all(|share| *share >= LEAST_OP_SHARE);
    RunDiff {
        op_shares,
        ops: if ops_are_told { ops } else { vec![] },
        likeness: RunLikeness::from_runs(tops, ranks, &diff.changes),
        step,
        utilization: shares(|sum| sum.busy_share),
        compute_or_copy: shares(Utilization::compute_or_copy_share),
        classes: parts::class_changes(ranks, units),
        ..diff
    }
}

/// Sums the outside work of all ranks, by time of launch.
fn outside_sums(ranks: &[&RankAnalysis]) -> Vec<OutsideSum> {
    let mut sums = OutsideCause::ALL.map(|launched| OutsideSum {
        launched,
        rows: 0,
        sum_ns: 0,
    });
    for outside in ranks.iter().flat_map(|rank| &rank.outside) {
        let sum = &mut sums[outside.launched as usize];
        sum.rows += outside.rows;
        sum.sum_ns = sum.sum_ns.saturating_add(outside.sum_ns);
    }
    let mut sums = Vec::from(sums);
    sums.retain(|sum| sum.rows > 0);
    sums
}

/// Returns true if figures are per step, and the divisor of each run. `excluded` counts the steps
/// of each run that are left out of the divisor.
fn run_units(sides: [&[&KeyAverages]; 2], excluded: [u64; 2]) -> (bool, [u64; 2]) {
    // Steps are used only if all ranks have some: else the two runs would be divided by different
    // units.
    let per_step = sides
        .iter()
        .all(|tops| tops.iter().all(|top| top.steps > 0));
    let units = [0, 1].map(|side| {
        let tops = sides[side];
        let steps = tops.iter().map(|top| top.steps).sum::<u64>();
        let steps = steps.saturating_sub(excluded[side]);
        if per_step { steps } else { tops.len() as u64 }.max(1)
    });
    (per_step, units)
}

/// Compares the tables of two runs, one per rank. O(rows log rows).
pub fn diff_runs(first: &[&KeyAverages], second: &[&KeyAverages]) -> RunDiff {
    diff_tables([first, second], [0, 0])
}

/// Like [`diff_runs`], for runs with steps excluded from the divisor.
fn diff_tables(sides: [&[&KeyAverages]; 2], excluded: [u64; 2]) -> RunDiff {
    let steps = sides.map(|tops| tops.iter().map(|top| top.steps).sum::<u64>());
    let (per_step, units) = run_units(sides, excluded);
    let mut rows: IndexMap<ChangeKey<'_>, Both, FxBuildHasher> = IndexMap::default();
    for (side, tops) in sides.into_iter().enumerate() {
        for (top, row) in tops
            .iter()
            .flat_map(|top| top.rows.iter().map(move |row| (top, row)))
        {
            let both = rows.entry(change_key(top, row)).or_default();
            both[side].0 += row.count;
            // Self times add up to the whole, so a change shows in one row and not in all rows
            // around it.
            both[side].1 = both[side].1.saturating_add(own_time(row));
        }
    }
    let mut changes: Vec<RowChange> = rows
        .into_iter()
        .map(|(key, both)| row_change(&key, both, units))
        .collect();
    // ties stay in the order of their first events
    changes.sort_by_key(|change| std::cmp::Reverse(change.cost_ns.unsigned_abs()));
    let mut kernels: Vec<&mut RowChange> = changes.iter_mut().collect();
    kernels.retain(|change| change.on_device && !change.is_annotation);
    let shorts = short_names(kernels.iter().map(|change| change.name.as_str()));
    for (change, short) in kernels.into_iter().zip(shorts) {
        change.short_name = short;
    }
    let runs = [0, 1].map(|side| {
        let sum = |part: fn(&KeyAverages) -> i64| {
            time_per_unit(
                sides[side]
                    .iter()
                    .map(|top| part(top))
                    .fold(0, i64::saturating_add),
                units[side],
            )
        };
        let [self_host_ns, device_ns] =
            [sum(|top| top.self_host_ns), sum(|top| top.self_device_ns)];
        RunSide {
            ranks: sides[side].len() as u64,
            steps: steps[side].saturating_sub(excluded[side]),
            excluded_steps: excluded[side],
            common_steps: 0,
            incomplete_steps: vec![],
            self_host_ns,
            device_ns,
            outside: vec![],
        }
    });
    let op_shares = sides.map(op_share);
    let is_told = op_shares.iter().all(|share| *share >= LEAST_OP_SHARE);
    RunDiff {
        op_shares,
        per: if per_step { "step" } else { "rank" },
        runs,
        likeness: RunLikeness::from_runs(sides, [&[], &[]], &changes),
        step: None,
        utilization: None,
        compute_or_copy: None,
        classes: vec![],
        // an op whose rows a trace does not identify would look removed
        ops: if is_told {
            parts::op_changes(sides, units)
        } else {
            vec![]
        },
        waiting: parts::waiting_changes(sides, units),
        changes,
    }
}

impl RunSide {
    /// Note on the steps used for step times; `None` if all ranks have the same steps.
    pub fn common_steps_note(&self) -> Option<String> {
        if self.incomplete_steps.is_empty() {
            return None;
        }
        let lacking = incomplete_steps::lacking_texts(&self.incomplete_steps).join("; ");
        Some(match self.common_steps {
            0 => format!("step times are not compared, because no step is on all ranks: {lacking}"),
            1 => format!("step times use the only step on all ranks: {lacking}"),
            steps => format!("step times use the {steps} steps on all ranks: {lacking}"),
        })
    }
}

impl RunDiff {
    /// Divisors of each run's figures.
    pub fn units(&self) -> [u64; 2] {
        let runs = self.runs.each_ref();
        runs.map(|run| {
            if self.per == "step" {
                run.steps
            } else {
                run.ranks
            }
            .max(1)
        })
    }

    /// True if a part changed by no more, relative to its time, than steps vary.
    pub fn is_within_spread(&self, times_ns: [i64; 2]) -> bool {
        let share = self.step.as_ref().and_then(StepChange::spread_share);
        let longer = times_ns[0].max(times_ns[1]) as f64;
        let cost = times_ns[0].abs_diff(times_ns[1]) as f64;
        share.is_some_and(|share| cost <= share * longer)
    }
}

impl RowChange {
    /// Readable name of the row.
    pub fn short_name(&self) -> &str {
        self.short_name.as_deref().unwrap_or(&self.name)
    }

    /// True if the host stands still in this row until a device is done.
    pub fn is_wait(&self) -> bool {
        !self.on_device && parts::is_wait(&self.name)
    }
}

/// Share of device time with a known launching op; 1 without device time.
fn op_share(tops: &[&KeyAverages]) -> f64 {
    let rows = tops.iter().flat_map(|top| &top.rows);
    let of_ops = rows.filter(|row| !row.on_device);
    let known: f64 = of_ops.map(|row| row.self_device_ns as f64).sum();
    let whole: f64 = tops.iter().map(|top| top.self_device_ns as f64).sum();
    if whole > 0.0 { known / whole } else { 1.0 }
}

/// Returns the name of a row, equal for all steps.
fn comparable_name<'t>(top: &KeyAverages, row: &'t KeyAverage) -> Cow<'t, str> {
    let rest = match row.name.strip_prefix(&top.step_name) {
        Some(rest) if row.annotation && !top.step_name.is_empty() => rest,
        _ => "",
    };
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return Cow::Borrowed(&row.name);
    }
    let mut name = String::with_capacity(row.name.len());
    for c in row.name.chars() {
        match c {
            // A number of any length becomes one star: `ProfilerStep#9` and `ProfilerStep#10` are
            // one row.
            '0'..='9' if name.ends_with('*') => {}
            '0'..='9' => name.push('*'),
            c => name.push(c),
        }
    }
    Cow::Owned(name)
}

fn change_key<'t>(top: &KeyAverages, row: &'t KeyAverage) -> ChangeKey<'t> {
    ChangeKey {
        name: comparable_name(top, row),
        on_device: row.on_device,
        annotation: row.annotation,
        shapes: row.shapes.as_deref(),
        stack: &row.stack,
    }
}

/// Self time of a row, ns. 0 for user annotations on a device, whose rows are counted themselves.
fn own_time(row: &KeyAverage) -> i64 {
    match (row.on_device, row.annotation) {
        (true, true) => 0,
        (true, false) => row.self_device_ns,
        (false, _) => row.self_host_ns,
    }
}

fn row_change(key: &ChangeKey<'_>, both: Both, units: [u64; 2]) -> RowChange {
    let times_ns = [0, 1].map(|side| time_per_unit(both[side].1, units[side]));
    let cost_ns = times_ns[1].saturating_sub(times_ns[0]);
    let kind = match (both[0].0, both[1].0, cost_ns) {
        // The count decides, not the time, since rows may have no duration.
        (0, ..) => ChangeKind::Added,
        (_, 0, _) => ChangeKind::Removed,
        (.., 0) => ChangeKind::Same,
        (.., cost) if cost > 0 => ChangeKind::Slower,
        _ => ChangeKind::Faster,
    };
    RowChange {
        name: key.name.clone().into_owned(),
        short_name: None,
        on_device: key.on_device,
        is_annotation: key.annotation,
        kind,
        counts: [0, 1].map(|side| both[side].0 as f64 / units[side] as f64),
        times_ns,
        cost_ns,
        shapes: key.shapes.map(str::to_owned),
        stack: key.stack.to_vec(),
    }
}

/// Divides a time, rounding to the nearest ns.
fn time_per_unit(ns: i64, units: u64) -> i64 {
    // 128 bits, as adding half a unit may exceed the largest time.
    (ns as i128 + i128::from(units) / 2)
        .div_euclid(i128::from(units))
        .try_into()
        .unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, on_device: bool, count: u64, ns: i64) -> KeyAverage {
        let (self_host_ns, self_device_ns) = if on_device { (0, ns) } else { (ns, 0) };
        KeyAverage {
            name: name.into(),
            on_device,
            count,
            self_host_ns,
            self_device_ns,
            annotation: name.contains("_context_") || name == "ProfilerStep*",
            ..KeyAverage::default()
        }
    }

    fn run(rows: Vec<KeyAverage>) -> KeyAverages {
        let sum = |of: fn(&KeyAverage) -> i64| rows.iter().map(of).sum();
        let steps = rows
            .iter()
            .filter(|row| row.annotation && !row.on_device)
            .map(|row| row.count)
            .sum();
        let (self_host_ns, self_device_ns) =
            (sum(|row| row.self_host_ns), sum(|row| row.self_device_ns));
        KeyAverages {
            device: "CUDA",
            self_host_ns,
            self_device_ns,
            steps,
            step_name: "execute_context_".into(),
            device_names: vec![],
            rows,
        }
    }

    #[test]
    fn per_step_by_what_it_costs() {
        let before = run(vec![
            row("ProfilerStep*", false, 2, 0),
            row("aten::mm", false, 4, 2_000),
            row("gemm", true, 4, 8_000),
            row("old", true, 2, 600),
        ]);
        let after = run(vec![
            row("ProfilerStep*", false, 4, 0),
            row("aten::mm", false, 8, 4_000),
            row("gemm", true, 8, 12_000),
            row("new", true, 4, 8_000),
        ]);
        let diff = diff_runs(&[&before], &[&after]);
        let told: Vec<_> = diff
            .changes
            .iter()
            .map(|change| {
                (
                    change.name.as_str(),
                    change.kind,
                    change.counts,
                    change.times_ns,
                    change.cost_ns,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("new", ChangeKind::Added, [0.0, 1.0], [0, 2_000], 2_000),
                (
                    "gemm",
                    ChangeKind::Faster,
                    [2.0, 2.0],
                    [4_000, 3_000],
                    -1_000
                ),
                ("old", ChangeKind::Removed, [1.0, 0.0], [300, 0], -300),
                ("ProfilerStep*", ChangeKind::Same, [1.0, 1.0], [0, 0], 0),
                ("aten::mm", ChangeKind::Same, [2.0, 2.0], [1_000, 1_000], 0),
            ]
        );
        assert_eq!(
            (diff.per, diff.runs[0].device_ns, diff.runs[1].device_ns),
            ("step", 4_300, 5_000)
        );
        let cost: i64 = diff
            .changes
            .iter()
            .filter(|change| change.on_device)
            .map(|change| change.cost_ns)
            .sum();
        assert_eq!(cost, diff.runs[1].device_ns - diff.runs[0].device_ns);
    }

    #[test]
    fn numbered_steps_are_one_row() {
        let of = |from: u64, steps: u64| {
            let step = |number: u64| {
                row(
                    &format!("execute_context_{number}(8)_generation_{}(0)", number + 9),
                    false,
                    1,
                    90,
                )
            };
            run((from..from + steps)
                .map(step)
                .chain([row("gemm", true, steps, 50 * steps as i64)])
                .collect())
        };
        let diff = diff_runs(&[&of(0, 5)], &[&of(7, 10)]);
        let told: Vec<_> = diff
            .changes
            .iter()
            .map(|change| {
                (
                    change.name.as_str(),
                    change.kind,
                    change.counts,
                    change.times_ns,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (
                    "execute_context_*(*)_generation_*(*)",
                    ChangeKind::Same,
                    [1.0, 1.0],
                    [90, 90]
                ),
                ("gemm", ChangeKind::Same, [1.0, 1.0], [50, 50])
            ]
        );
        assert_eq!(
            (diff.per, diff.runs[0].steps, diff.runs[1].steps),
            ("step", 5, 10)
        );
    }

    #[test]
    fn per_rank_where_some_ranks_have_no_steps() {
        let stepped = run(vec![
            row("ProfilerStep*", false, 2, 0),
            row("gemm", true, 2, 100),
        ]);
        let other = run(vec![row("gemm", true, 2, 100)]);
        let diff = diff_runs(&[&stepped, &other], &[&stepped, &stepped]);
        let gemm = diff
            .changes
            .iter()
            .find(|change| change.name == "gemm")
            .expect("that row");
        assert_eq!(
            (diff.per, gemm.kind, gemm.times_ns),
            ("rank", ChangeKind::Same, [100, 100])
        );
    }

    #[test]
    fn per_rank_where_steps_are_not_known() {
        let rank = run(vec![row("aten::mm", false, 1, 100)]);
        let stepped = run(vec![
            row("ProfilerStep*", false, 1, 0),
            row("aten::mm", false, 1, 130),
        ]);
        let diff = diff_runs(&[&rank, &rank], &[&stepped]);
        assert_eq!(
            (
                diff.per,
                diff.runs[0].ranks,
                diff.changes[0].kind,
                diff.changes[0].cost_ns
            ),
            ("rank", 2, ChangeKind::Slower, 30)
        );
    }
}
