//! Detects steps that differ from the others.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::kind::CauseKind;
use crate::findings::view::{RankView, plain_name};
use crate::median_ns;
use crate::{RowClass, counted_steps};
use etlink_link::NodeKind;
use etlink_model::NodeIdx;
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// Fewest steps among which one can be called odd.
const LEAST_STEPS: usize = 3;

/// Minimum ratio of the first step to the usual one at which it is odd.
const ODD_FACTOR: f64 = 1.3;

/// Minimum ratio of work in the first step to the usual work at which it is part of the reason.
const LONGER: f64 = 1.5;

/// Work of one name, per step.
#[derive(Default)]
struct StepWork {
    /// Steps and times, in ns. A step may occur more than once; steps without such work are
    /// missing.
    // A slot per step would take names x steps of memory.
    times: Vec<(usize, i64)>,
    /// Nodes of the first step.
    first: Vec<NodeIdx>,
}

impl StepWork {
    fn add(&mut self, step: usize, ns: i64) {
        match self.times.last_mut() {
            Some((last, sum)) if *last == step => *sum = sum.saturating_add(ns),
            _ => self.times.push((step, ns)),
        }
    }

    /// Returns the time in the first step, and the median of all others.
    fn first_and_usual(&mut self, steps: usize) -> (i64, i64) {
        self.times.sort_unstable_by_key(|(step, _)| *step);
        self.times.dedup_by(|(step, ns), (before, sum)| {
            let is_same = step == before;
            if is_same {
                *sum = sum.saturating_add(*ns);
            }
            is_same
        });
        let times = self.times.iter();
        let mut others: Vec<i64> = times
            .filter(|(step, _)| *step > 0)
            .map(|one| one.1)
            .collect();
        let first = self.times.first().filter(|(step, _)| *step == 0);
        let first = first.map_or(0, |(_, ns)| *ns);
        // The missing steps count as 0, the smallest time, which shifts the median down.
        let count = steps.saturating_sub(1);
        let without = count.saturating_sub(others.len());
        others.sort_unstable();
        let at = |place: usize| {
            let place = place.checked_sub(without);
            place
                .and_then(|place| others.get(place))
                .copied()
                .unwrap_or(0)
        };
        let upper = at(count / 2);
        let usual = match count % 2 {
            0 => i64::midpoint(at((count / 2).saturating_sub(1)), upper),
            _ => upper,
        };
        (first, usual)
    }
}

/// Finds work that takes longer in the first step than in the others.
pub(crate) fn first_step(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let steps = &view.analysis.steps;
    let Some((first, others)) = steps.split_first() else {
        return vec![];
    };
    // Steps truncated by the recording do not show the usual length.
    let mut lengths: Vec<i64> = counted_steps(others).map(|step| step.duration_ns).collect();
    // A median, so that one more odd step does not hide the first.
    let usual = median_ns(&mut lengths);
    let is_odd = first.duration_ns as f64 > ODD_FACTOR * usual as f64;
    if lengths.len() + 1 < LEAST_STEPS || first.excluded.is_some() || !is_odd {
        return vec![];
    }
    let mut edits = GraphEdits::default();
    let mut worst: Option<(i64, &str)> = None;
    let mut excess_ns = 0;
    for ((_, name), mut work) in work_by_step(view) {
        // Work that the first step lacks cannot make it longer.
        if work.first.is_empty() {
            continue;
        }
        let (first_ns, usual) = work.first_and_usual(steps.len());
        let excess = first_ns.saturating_sub(usual);
        // Work common to all steps is no warm-up, however long it is.
        if (first_ns as f64) <= LONGER * usual as f64 || excess <= 0 {
            continue;
        }
        excess_ns = excess.saturating_add(excess_ns);
        if worst.is_none_or(|(most, _)| excess > most) {
            worst = Some((excess, name));
        }
        let factor = usual as f64 / first_ns as f64;
        for node in work.first {
            edits.scaled.push((node, factor));
            // Work that no other step has does not wait there, either.
            if usual == 0 {
                view.free_node(node, &mut edits);
            }
        }
    }
    let Some((_, name)) = worst else {
        return vec![];
    };
    let evidence = CauseEvidence {
        count: steps.len() as u64,
        time_ns: excess_ns,
        typical_ns: first.duration_ns,
        compared: Some(usual as f64),
        start_ns: Some(first.start_ns),
        end_ns: Some(first.start_ns.saturating_add(first.duration_ns)),
        ..CauseEvidence::default()
    };
    vec![view.candidate(CauseKind::FirstStep, name, edits, evidence)]
}

/// Returns the time of each name in each step: host work by its time, device work by its launch.
fn work_by_step<'t>(view: &RankView<'t>) -> BTreeMap<(bool, &'t str), StepWork> {
    let trace = view.trace;
    let begins: Vec<i64> = view
        .analysis
        .steps
        .iter()
        .map(|step| step.start_ns)
        .collect();
    let mut all: BTreeMap<(bool, &str), StepWork> = BTreeMap::new();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let row = trace.row_of(&node);
        let waits = node.kind.is_delay()
            || node.kind == NodeKind::Collective
            || row.is_some_and(|row| view.rows.class[row.index()] == RowClass::Communication);
        let call = row.and_then(|row| trace.row_call[row.index()].get());
        let time = match (node.on_device, call) {
            (false, _) => Some(node.start.0),
            (true, call) => call.map(|call| trace.device.calls.start[call.index()].0),
        };
        // A wait for input is no warm-up.
        let is_input = |op| view.is_input_op(op);
        if waits || view.op_and_parents(trace.op_of(&node)).any(is_input) {
            continue;
        }
        let Some(time) = time else {
            continue;
        };
        let Some(step) = begins
            .partition_point(|begin| *begin <= time)
            .checked_sub(1)
        else {
            continue;
        };
        let name = plain_name(&view.step_names, trace.name(&node));
        let work = all.entry((node.on_device, name)).or_default();
        work.add(step, node.duration.0);
        if step == 0 {
            work.first.push(index);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_name_count_as_none_of_its_time() {
        for (steps, times) in [
            (3, vec![(0, 9)]),
            (3, vec![(0, 9), (2, 5)]),
            (5, vec![(0, 4), (3, 7), (1, 2), (0, 5), (3, 1)]),
            (4, vec![(0, 4), (1, 6), (2, 5), (3, 7)]),
            (4, vec![(1, 6), (2, 5), (3, 7)]),
        ] {
            let mut dense = vec![0; steps];
            let mut work = StepWork::default();
            for (step, ns) in times {
                dense[step] += ns;
                work.add(step, ns);
            }
            let expected = (dense[0], median_ns(&mut dense[1..]));
            assert_eq!(work.first_and_usual(steps), expected, "{dense:?}");
        }
    }
}
