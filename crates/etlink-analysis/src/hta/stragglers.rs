//! Computes `get_potential_stragglers`: the ranks that start a long communication last.
//!
//! Considers kernels `ncclKernel…` that last at least 1 % of a mean step, and keeps the last of
//! each rank, stream, step and name. Selects the stream and name whose durations differ most across
//! ranks, and there the ranks that start last.

use super::rows::HtaTrace;
use etlink_model::NameId;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A rank that may delay the others; the likeliest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PotentialStraggler {
    /// Number of the rank.
    pub straggler: i64,
}

/// Evidence from the trace of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StragglerEvidence {
    rank: i64,
    /// First start and last end of each step's events.
    steps: BTreeMap<u64, (i64, i64)>,
    kernels: Vec<StragglerKernel>,
}

/// A communication kernel of a step.
#[derive(Clone, Debug, PartialEq)]
struct StragglerKernel {
    stream: i64,
    step: u64,
    name: String,
    start: i64,
    end: i64,
}

/// Kernels of one name by step and rank.
type KernelsByStep<'a> = BTreeMap<u64, BTreeMap<i64, &'a StragglerKernel>>;

/// Returns the last step, by start, that has begun and not ended.
fn step_at(loaded: &HtaTrace, time: i64) -> Option<u64> {
    let begun = loaded.steps.partition_point(|step| step.start <= time);
    let open = loaded.steps[..begun]
        .iter()
        .rev()
        .take_while(|step| time < step.latest);
    open.filter(|step| time < step.end)
        .map(|step| step.number)
        .next()
}

pub(super) fn straggler_evidence(loaded: &HtaTrace) -> StragglerEvidence {
    let mut evidence = StragglerEvidence {
        rank: loaded.rank,
        ..StragglerEvidence::default()
    };
    if loaded.steps.is_empty() {
        return evidence;
    }
    for (start, end) in loaded.host_times() {
        if let Some(step) = step_at(loaded, start) {
            evidence.add(step, start, end);
        }
    }
    let communicates: Vec<bool> = loaded
        .trace
        .device
        .names
        .iter()
        .map(|name| name.starts_with("ncclKernel"))
        .collect();
    for row in loaded.rows.iter().filter(|row| row.stream > 0) {
        let Some(step) = row
            .call
            .and_then(|call| step_at(loaded, loaded.call(call).0))
        else {
            continue;
        };
        evidence.add(step, row.start, row.end);
        // HTA requires an iteration above 0, so step 0 is dropped together with -1, which means no
        // step.
        if step > 0 && communicates[NameId::index(row.name)] {
            let name = loaded.name(row).to_owned();
            evidence.kernels.push(StragglerKernel {
                stream: row.stream,
                step,
                name,
                start: row.start,
                end: row.end,
            });
        }
    }
    evidence
}

impl StragglerEvidence {
    fn add(&mut self, step: u64, start: i64, end: i64) {
        let (first, last) = self.steps.entry(step).or_insert((start, end));
        (*first, *last) = ((*first).min(start), (*last).max(end));
    }
}

/// Arguments of `get_potential_stragglers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StragglerQuery {
    /// `profiler_steps`; `None` for all steps.
    pub steps: Option<BTreeSet<u64>>,
    /// Number of ranks to return, `num_candidates`.
    pub candidates: usize,
}

impl Default for StragglerQuery {
    fn default() -> StragglerQuery {
        StragglerQuery {
            steps: None,
            candidates: 2,
        }
    }
}

impl StragglerQuery {
    fn is_wanted(&self, step: u64) -> bool {
        let steps = self.steps.as_ref();
        steps.is_none_or(|steps| steps.contains(&step))
    }
}

/// Minimum duration of a kernel, as a fraction of a mean step.
const LEAST: f64 = 0.01;

/// Returns the potential stragglers; none for fewer than two ranks with such kernels, for which HTA
/// fails.
pub(super) fn potential_stragglers(
    ranks: &[&StragglerEvidence],
    query: &StragglerQuery,
) -> Vec<PotentialStraggler> {
    let all_steps = || {
        let steps = ranks.iter().flat_map(|evidence| &evidence.steps);
        steps.filter(|(step, _)| query.is_wanted(**step))
    };
    let (Some(first), Some(last)) = (
        all_steps().map(|(_, window)| window.0).min(),
        all_steps().map(|(_, window)| window.1).max(),
    ) else {
        return vec![];
    };
    let steps: BTreeSet<u64> = all_steps().map(|(step, _)| *step).collect();
    // HTA divides the whole window by the number of steps, gaps included.
    let mean_step = last.saturating_sub(first) as f64 / steps.len() as f64;
    let mut lasts: BTreeMap<(i64, &str), KernelsByStep<'_>> = BTreeMap::new();
    for evidence in ranks {
        for kernel in evidence
            .kernels
            .iter()
            .filter(|kernel| query.is_wanted(kernel.step))
            .filter(|kernel| kernel.end.saturating_sub(kernel.start) as f64 >= mean_step * LEAST)
        {
            let steps = lasts.entry((kernel.stream, &kernel.name)).or_default();
            steps
                .entry(kernel.step)
                .or_default()
                .insert(evidence.rank, kernel);
        }
    }
    let mut widest: Option<(f64, &KernelsByStep<'_>)> = None;
    for steps in lasts.values() {
        let spreads: Vec<f64> = steps
            .values()
            .filter_map(|ranks| {
                duration_spread(
                    ranks
                        .values()
                        .map(|kernel| kernel.end.saturating_sub(kernel.start)),
                )
            })
            .collect();
        let mean = spreads.iter().sum::<f64>() / spreads.len() as f64;
        if mean > widest.map_or(f64::NEG_INFINITY, |widest| widest.0) {
            widest = Some((mean, steps));
        }
    }
    widest
        .map(|(_, steps)| latest_starters(steps, query.candidates.max(1)))
        .unwrap_or_default()
}

/// Returns the standard deviation of a sample; `None` if it is too small.
fn duration_spread(durations: impl Iterator<Item = i64>) -> Option<f64> {
    let mut all = crate::DurationStats::default();
    durations.for_each(|duration| all.add(duration));
    all.stddev_ns()
}

/// Returns the ranks that are most often among the last to start.
fn latest_starters(steps: &KernelsByStep<'_>, candidates: usize) -> Vec<PotentialStraggler> {
    let mut times: BTreeMap<i64, u64> = BTreeMap::new();
    for ranks in steps.values() {
        let mut starts: Vec<i64> = ranks.values().map(|kernel| kernel.start).collect();
        starts.sort_by_key(|start| std::cmp::Reverse(*start));
        let Some(late) = starts.get(candidates.min(starts.len()) - 1) else {
            continue;
        };
        ranks.iter().for_each(|(rank, kernel)| {
            *times.entry(*rank).or_default() += u64::from(kernel.start >= *late)
        });
    }
    let mut all: Vec<(i64, u64)> = times.into_iter().collect();
    all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    all.iter()
        .take(candidates)
        .map(|(rank, _)| PotentialStraggler { straggler: *rank })
        .collect()
}
