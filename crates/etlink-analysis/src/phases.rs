//! Inference steps by phase: times of prefill, decode and mixed batches.
//!
//! ```text
//! period        from a step's start to the next one's, whatever its phase; for the last, its length
//! tokens_per_s  tokens / sum of the periods of the steps whose tokens are known
//! device times  sums over the steps; overlapping time of two steps counts in both
//! ```
//! A trace whose steps have no phase gives no records. Steps without a phase are `other`.

use crate::duration_stats::{DurationStats, median_ns};
use crate::steps::StepTime;
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::collections::BTreeMap;

/// Totals of the steps of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseTotals {
    /// `prefill`, `decode`, `mixed`, the word of the user's pattern, or `other`.
    pub phase: String,
    /// Statistics of the steps' lengths.
    #[serde(flatten)]
    pub durations: DurationStats,
    /// Median length, ns; for an even number, the mean of the two in the middle.
    pub median_ns: i64,
    /// Sum of the steps' periods, ns.
    pub period_ns: i64,
    /// Mean number of requests, over the steps that state it.
    pub batch: Option<f64>,
    /// Number of tokens, over the steps that state it.
    pub tokens: Option<u64>,
    /// Tokens per second of the steps' periods, over the steps that state their tokens.
    pub tokens_per_s: Option<f64>,
    /// Sum of the device windows of the steps, ns.
    pub device_window_ns: i64,
    /// Sum of the steps' computation, ns.
    pub computation_ns: i64,
    /// Sum of the steps' communication without concurrent computation, ns.
    pub exposed_communication_ns: i64,
    /// Sum of the times in which none of the steps' rows runs, ns.
    pub idle_ns: i64,
}

/// Steps of one phase, each with its period in ns.
type PhaseSteps<'s> = Vec<(&'s StepTime, i64)>;

/// Totals the phases by falling time. Each list holds the steps of a rank, sorted by time. O(steps
/// · log steps).
pub(crate) fn phase_totals<'s>(ranks: impl Iterator<Item = &'s [StepTime]>) -> Vec<PhaseTotals> {
    let mut phases: BTreeMap<&str, PhaseSteps<'_>> = BTreeMap::new();
    for steps in ranks {
        // training steps have no phases: a single line "other" would say nothing
        if steps.iter().all(|step| step.phase.is_none()) {
            continue;
        }
        for (at, step) in steps.iter().enumerate() {
            let period = match steps.get(at + 1) {
                Some(next) => next.start_ns.saturating_sub(step.start_ns),
                None => step.length_ns,
            };
            let phase = step.phase.as_deref().unwrap_or("other");
            phases.entry(phase).or_default().push((step, period));
        }
    }
    let mut totals: Vec<PhaseTotals> = phases
        .into_iter()
        .map(|(phase, steps)| phase_total(phase, &steps))
        .collect();
    totals.sort_by_key(|total| std::cmp::Reverse(total.durations.sum_ns));
    totals
}

fn phase_total(phase: &str, steps: &PhaseSteps<'_>) -> PhaseTotals {
    let mut durations = DurationStats::default();
    let mut lengths = vec![];
    for (step, _) in steps.iter().filter(|(step, _)| step.excluded.is_none()) {
        durations.add(step.length_ns);
        lengths.push(step.length_ns);
    }
    let sum = |of: fn(&StepTime) -> i64| {
        let times = steps.iter().map(|(step, _)| of(step));
        times.fold(0, i64::saturating_add)
    };
    let batches: Vec<u64> = steps.iter().filter_map(|(step, _)| step.batch).collect();
    let counted: Vec<(u64, i64)> = steps
        .iter()
        .filter_map(|(step, period)| Some((step.tokens?, *period)))
        .collect();
    let tokens = counted
        .iter()
        .fold(0u64, |sum, (tokens, _)| sum.saturating_add(*tokens));
    let counted_periods = counted.iter().map(|(_, period)| *period);
    let counted_ns = counted_periods.fold(0, i64::saturating_add);
    let periods = steps.iter().map(|(_, period)| *period);
    PhaseTotals {
        phase: phase.to_owned(),
        durations,
        median_ns: median_ns(&mut lengths),
        period_ns: periods.fold(0, i64::saturating_add),
        // annotation names may state any number: integer sums could overflow
        batch: (!batches.is_empty())
            .then(|| batches.iter().map(|batch| *batch as f64).sum::<f64>() / batches.len() as f64),
        tokens: (!counted.is_empty()).then_some(tokens),
        tokens_per_s: (tokens > 0 && counted_ns > 0)
            .then(|| tokens as f64 / counted_ns as f64 * 1e9),
        device_window_ns: sum(|step| step.device_window_ns),
        computation_ns: sum(|step| step.computation_ns),
        exposed_communication_ns: sum(|step| step.exposed_communication_ns),
        idle_ns: sum(|step| step.idle_ns),
    }
}
