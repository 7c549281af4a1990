//! Work by which ranks are compared: everything except communication, which waits for other ranks.

use crate::findings::candidate::RankWork;
use crate::findings::detect::names::{StepNames, is_communication_op};
use crate::findings::evidence::work_text;
use crate::findings::ranks::LongerTime;
use crate::findings::view::{RankView, is_idle, plain_name};
use crate::steps::step_times;
use crate::{ClassifiedRows, KernelRules, RowClass};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::RankSteps;
use etlink_link::{LinkedTrace, Node, NodeKind, ThreadWork};
use etlink_model::{NodeIdx, OpIdx, StepIdx};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of sums kept of a rank, the longest: inference has thousands of steps.
const MOST_SUMS: usize = 20_000;

/// Times of a rank's work by step, then by place and name; true: on the device.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct RankStepWork(BTreeMap<StepIdx, BTreeMap<(bool, String), i64>>);

/// Work that takes longer on a rank than usual on the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LongerWork {
    /// Name of the op or kernel.
    pub name: String,
    /// True for work of a device.
    pub on_device: bool,
    /// Time on the rank, ns.
    pub own_ns: i64,
    /// Median time on the other ranks, ns.
    pub usual_ns: i64,
}

impl RankStepWork {
    /// Sums up the work of a trace. O(nodes log steps).
    pub fn of_trace(trace: &LinkedTrace, rules: &KernelRules) -> RankStepWork {
        let rows = ClassifiedRows::new(trace, rules);
        let times = step_times(&rows);
        let (names, threads) = (StepNames::new(&times), ThreadWork::of_trace(trace));
        let mut work = vec![];
        each_work(&rows, &names, &threads, |index, node, name| {
            work.push((index, (node.on_device, name), node.duration.0));
        });
        let steps = RankSteps::new(trace, work.iter().map(|(index, ..)| *index)).by_comm;
        let mut sums: FxHashMap<(StepIdx, (bool, &str)), i64> = FxHashMap::default();
        for ((_, name, ns), step) in work.into_iter().zip(steps) {
            let sum = sums.entry((step, name)).or_default();
            *sum = sum.saturating_add(ns);
        }
        let mut longest: Vec<_> = sums.into_iter().collect();
        longest.sort_unstable_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
        let mut kept = RankStepWork::default();
        for ((step, (on_device, name)), ns) in longest.into_iter().take(MOST_SUMS) {
            let of_step = kept.0.entry(step).or_default();
            of_step.insert((on_device, name.to_owned()), ns);
        }
        kept
    }

    /// Returns the work of a rank that exceeds the other ranks' by the longest time, at least
    /// `least_ns`. `all` has the work of the ranks with that step; [`StepIdx::NONE`] is the work
    /// outside steps.
    pub fn longest_excess(
        all: &[(&RankStepWork, StepIdx)],
        place: usize,
        least_ns: i64,
    ) -> Option<LongerWork> {
        let of_step = |(work, step): &(&RankStepWork, StepIdx)| work.0.get(step).cloned();
        let all: Vec<_> = all
            .iter()
            .map(|one| of_step(one).unwrap_or_default())
            .collect();
        let longer = all.get(place)?.iter().filter_map(|(name, own_ns)| {
            let times = all.iter().map(|of| of.get(name).copied().unwrap_or(0));
            let mut times: Vec<i64> = times.collect();
            times.sort_unstable();
            Some((name, LongerTime::of(&times, *own_ns, least_ns)?))
        });
        let (name, time) = longer.max_by_key(|(_, time)| time.excess_ns())?;
        Some(LongerWork {
            name: name.1.clone(),
            on_device: name.0,
            own_ns: time.own_ns,
            usual_ns: time.usual_ns,
        })
    }
}

impl LongerWork {
    /// Returns the name as text.
    pub fn text(&self) -> String {
        work_text(&self.name)
    }
}

/// For each op: returns true if it is part of a host collective. O(ops).
fn ops_in_collectives(trace: &LinkedTrace) -> Vec<bool> {
    let mut inside: Vec<bool> = Vec::with_capacity(trace.op_parent.len());
    for (op, parent) in trace.op_parent.iter().enumerate() {
        // Ops are in order of their starts, so parents come before their children.
        let by_parent = inside.get(parent.index()).copied().unwrap_or(false);
        let name = || trace.device_name(trace.device.ops.name[op]);
        inside.push(by_parent || is_communication_op(name()));
    }
    inside
}

/// Calls `add` for each node of work, with a name that is the same in all steps.
fn each_work<'t>(
    rows: &ClassifiedRows<'t>,
    step_names: &StepNames<'_>,
    threads: &ThreadWork,
    mut add: impl FnMut(NodeIdx, &Node, &'t str),
) {
    let trace = rows.trace;
    let collectives = ops_in_collectives(trace);
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let communicates = node.kind == NodeKind::Collective
            || trace
                .row_of(&node)
                .is_some_and(|row| rows.class[row.index()] == RowClass::Communication);
        // Part of the host's time in a collective is waiting for other ranks.
        let op = trace.op_of(&node);
        let communicates = communicates || op.is_some_and(|op: OpIdx| collectives[op.index()]);
        let is_none = node.kind.is_delay() || is_idle(trace, threads, &node);
        if !is_none && !communicates && node.duration.0 != 0 {
            add(index, &node, plain_name(step_names, trace.name(&node)));
        }
    }
}

/// Returns the work by name and place, with its nodes.
pub(super) fn work_by_name(view: &RankView<'_>) -> BTreeMap<(bool, String), RankWork> {
    let mut work: FxHashMap<(bool, &str), RankWork> = FxHashMap::default();
    each_work(
        &view.rows,
        &view.step_names,
        &view.thread_work,
        |index, node, name| {
            let entry = work.entry((node.on_device, name)).or_default();
            entry.add_node(index, node.start.0, node.duration.0);
        },
    );
    // Allocate a string per name, not per node.
    let work = work.into_iter();
    work.map(|((on_device, name), work)| ((on_device, name.to_owned()), work))
        .collect()
}
