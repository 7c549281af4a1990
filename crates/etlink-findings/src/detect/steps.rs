//! Steps that are unlike the others.

use crate::candidate::{CauseCandidate, CauseEvidence};
use crate::detect::names::plain_name;
use crate::kind::CauseKind;
use crate::text::median_ns;
use crate::view::RankView;
use etlink_analyze::RowClass;
use etlink_link::NodeKind;
use etlink_model::NodeIdx;
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// With fewer steps nothing tells which of them is the odd one.
const LEAST_STEPS: usize = 3;

/// A first step that is longer than this many others is odd.
const ODD_FACTOR: f64 = 1.3;

/// What takes longer than this many times as long in the first step is part of the reason.
const LONGER: f64 = 1.5;

/// Work of one name, per step.
struct StepWork {
    times: Vec<i64>,
    /// Nodes of the first step.
    first: Vec<NodeIdx>,
}

/// What the first step does longer than the others.
pub(crate) fn first_step(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let steps = &view.analysis.steps;
    let Some((first, others)) = steps.split_first() else {
        return vec![];
    };
    let mut lengths: Vec<i64> = others.iter().map(|step| step.duration_ns).collect();
    // A median: one more odd step does not hide the first.
    let usual = median_ns(&mut lengths);
    let is_odd = first.duration_ns as f64 > ODD_FACTOR * usual as f64;
    if steps.len() < LEAST_STEPS || !is_odd {
        return vec![];
    }
    let mut edits = GraphEdits::default();
    let mut worst: Option<(i64, &str)> = None;
    let mut excess_ns = 0;
    for ((_, name), mut work) in work_by_step(view, steps.len()) {
        let first_ns = work.times[0];
        let usual = median_ns(&mut work.times[1..]);
        let excess = first_ns.saturating_sub(usual);
        // What all steps do alike is no warm-up, however long it is.
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
        within: None,
        python: None,
    };
    vec![view.candidate(CauseKind::FirstStep, name, edits, evidence)]
}

/// The time of each name in each step: of the host by when it ran, of devices by their launches.
fn work_by_step<'t>(view: &RankView<'t>, count: usize) -> BTreeMap<(bool, &'t str), StepWork> {
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
        let Some(time) = time.filter(|_| !waits) else {
            continue;
        };
        let Some(step) = begins
            .partition_point(|begin| *begin <= time)
            .checked_sub(1)
        else {
            continue;
        };
        let name = plain_name(trace.name(&node));
        let work = all
            .entry((node.on_device, name))
            .or_insert_with(|| StepWork {
                times: vec![0; count],
                first: vec![],
            });
        work.times[step] = work.times[step].saturating_add(node.duration.0);
        if step == 0 {
            work.first.push(index);
        }
    }
    all
}
