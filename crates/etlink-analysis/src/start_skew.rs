//! Waits for ranks whose recordings began later: one call of many takes seconds, which says nothing
//! about the run.

use crate::analysis::RankAnalysis;
use crate::kernels::KernelTotals;
use crate::rules::RowClass;
use etlink_link::ranks::{RankSummary, StartSkewWait};

/// Leaves waits for ranks whose recordings began later out of the means and bandwidths of the
/// waiting ranks. `analyses` and `summaries` are of the same ranks, in the order of the join.
/// O(waits · names).
pub fn leave_out_start_skew<'a>(
    analyses: impl Iterator<Item = &'a mut RankAnalysis>,
    summaries: &[RankSummary],
    waits: &[StartSkewWait],
) {
    for (place, (analysis, summary)) in analyses.zip(summaries).enumerate() {
        for wait in waits.iter().filter(|wait| wait.rank.index() == place) {
            let step = summary.steps.get(wait.communication);
            let Some(one) = summary.communications.get(wait.communication.index()) else {
                continue;
            };
            // the tables leave out work that no step launched
            if step.is_none() && !summary.steps.all.is_empty() {
                continue;
            }
            let name = summary.names.get(one.name);
            let mut kernels = analysis.kernels.iter_mut();
            let is_its = |kernel: &&mut KernelTotals| {
                kernel.class == RowClass::Communication && kernel.name == name
            };
            if let Some(kernel) = kernels.find(is_its) {
                let whole_ns = one.end_ns.since(one.start_ns);
                kernel.durations.leave_out(whole_ns, wait.waits_ns);
            }
            let mut totals = analysis.collectives.iter_mut();
            if let Some(totals) = totals.find(|totals| totals.has(one, summary)) {
                totals.leave_out(one, wait.waits_ns);
            }
        }
    }
}
